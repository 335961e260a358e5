#include "durable.hpp"

#include "qm/admission/api.hpp"
#include "qm/admission/codec.hpp"
#include "qm/admission/report.hpp"
#include "qm/rpc/server.hpp"
#include "quartermaster/v1/admission_service.grpc.pb.h"
#include "quartermaster/v1/events.pb.h"
#include "report.hpp"
#include "state/admission_state.pb.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace qm::bench {
namespace {

using namespace std::chrono_literals;
namespace pb = quartermaster::v1;

constexpr int kQueues = 10;
constexpr int kOutstanding = 1000;  // unanswered submissions; the service queues up to 1,024 manifests

/// A store that measures the duration of each commit.
class TimedStore final : public store::Store {
 public:
  TimedStore(std::unique_ptr<Store> inner, std::vector<double>& commits_ms)
      : inner_(std::move(inner)), commits_ms_(commits_ms) {}
  Result<store::Loaded> acquire(const std::string& holder) override { return inner_->acquire(holder); }
  Result<store::CommitOutcome> commit(const store::Commit& batch) override {
    const auto begin = Clock::now();
    auto out = inner_->commit(batch);
    commits_ms_.push_back(since(begin) * 1000);
    return out;
  }
  [[nodiscard]] store::Term term() const override { return inner_->term(); }
  Result<std::vector<store::OutboxRow>> read_outbox(std::uint64_t after, std::size_t max) override {
    return inner_->read_outbox(after, max);
  }
  Status published(std::uint64_t sequence, std::uint64_t term) override { return inner_->published(sequence, term); }
  Result<std::vector<store::OutboxRow>> snapshot(const std::string& topic, const std::string& after_key,
                                                 std::size_t max, const std::string& only_key, bool ended) override {
    return inner_->snapshot(topic, after_key, max, only_key, ended);
  }
  Result<std::vector<JournalRow>> read_journal(std::uint64_t after, std::size_t max) override {
    return inner_->read_journal(after, max);
  }

 private:
  std::unique_ptr<Store> inner_;
  std::vector<double>& commits_ms_;
};

/// Reserves capacity for every request.
class Placement final : public service::Shell {
 public:
  Status load(std::span<const store::StateRow>) override { return {}; }
  void step(std::span<const service::Input> batch, Instant, service::Effects& out,
            std::vector<std::pair<std::size_t, Error>>&) override {
    for (const auto& in : batch) {
      pb::WorkloadEvent event;
      if (in.source != service::Source::kBus || !event.ParseFromString(in.bytes)) continue;
      if (event.phase() != pb::QUOTA_RESERVED) continue;
      pb::PlacementEvent answer;
      auto& assignment = *answer.mutable_assignment();
      assignment.set_uid(event.spec().uid());
      assignment.set_attempt(event.attempt());
      assignment.set_state(pb::RESERVED);
      assignment.set_reservation_id("r-" + event.spec().uid());
      out.events.push_back({"qm.placement", fmt::format("{}/{}", event.spec().uid(), event.attempt()),
                            answer.SerializeAsString(), false});
    }
  }
  void undo() override {}
  void commit() override {}
  [[nodiscard]] std::uint64_t digest() const override { return 0; }
  void debug_state(service::StateDump&) const override {}
};

void put(service::Host& host, const service::Input& input) {
  while (!host.submit(input)) std::this_thread::sleep_for(1ms);
}

service::Input seen(const Json& job) {
  service::Input out;
  out.source = service::Source::kWatch;
  out.name = "job";
  out.key = job["metadata"]["name"].string();
  out.bytes = job.dump();
  return out;
}

/// Creates and unsuspends Jobs, and counts the unsuspended ones: an intent is executed only after its commit.
class Kubernetes final : public service::Executor {
 public:
  Result<service::Outcome> execute(const store::IntentRow& intent) override {
    quartermaster::admission::JobIntent message;
    message.ParseFromString(intent.payload);
    if (intent.kind == "job.create") {
      Json job = must(Json::parse(message.object()));
      job.set("metadata").set("uid", fmt::format("5bd1e2c4-0000-4000-8000-{:>12}", message.name().substr(1)));
      put(*host, seen(job));
    } else if (intent.kind == "job.unsuspend") {
      const std::lock_guard lock(mutex_);
      ++admitted_;
      changed_.notify_all();
    }
    quartermaster::admission::JobOutcome out;
    out.set_subject(message.uid().empty() ? message.namespace_() + "/" + message.name() : message.uid());
    out.set_attempt(message.attempt());
    out.set_ok(true);
    return service::Outcome{out.SerializeAsString()};
  }
  service::Outcome failed(const store::IntentRow&, const Error& error) override {
    std::cerr << error.to_string() << '\n';
    std::exit(1);
  }
  void wait(int admitted) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, 300s, [&] { return admitted_ >= admitted; })) return;
    std::cerr << "only " << admitted_ << " of " << admitted << " were admitted within 300 s\n";
    std::exit(1);
  }
  service::Host* host = nullptr;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int admitted_ = 0;
};

std::string manifests() {
  std::string out = "{apiVersion: kueue.x-k8s.io/v1beta1, kind: ResourceFlavor, metadata: {name: h100}}\n";
  for (int i = 0; i < kQueues; ++i) {
    out += fmt::format(R"(---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {{name: team-{0}}}
spec:
  cohort: all
  namespaceSelector: {{}}
  resourceGroups:
  - coveredResources: [cpu, memory, nvidia.com/gpu]
    flavors:
    - name: h100
      resources:
      - {{name: cpu, nominalQuota: "100000000"}}
      - {{name: memory, nominalQuota: 100000Ti}}
      - {{name: nvidia.com/gpu, nominalQuota: "1000000"}}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {{name: team-{0}, namespace: default}}
spec: {{clusterQueue: team-{0}}}
)",
                       i);
  }
  return out;
}

Json job_of(int i) {
  return must(Json::parse(fmt::format(
      R"({{"apiVersion":"batch/v1","kind":"Job","metadata":{{"name":"j{0:012}","namespace":"default","labels":{{)"
      R"("kueue.x-k8s.io/queue-name":"team-{1}"}}}},"spec":{{"suspend":true,"parallelism":1,"completions":1,"template":{{)"
      R"("spec":{{"restartPolicy":"Never","schedulerName":"quartermaster","containers":[{{"name":"main","image":"train",)"
      R"("resources":{{"requests":{{"cpu":"8","memory":"64Gi","nvidia.com/gpu":"1"}},"limits":{{"nvidia.com/gpu":"1"}}}})"
      R"(}}]}}}}}}}})",
      i, i % kQueues)));
}

/// Sends submissions over gRPC, a fixed number at a time.
class Client {
 public:
  explicit Client(int port)
      : stub_(pb::Admission::NewStub(
            grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()))) {}
  void apply(const std::string& text) {
    pb::ApplyRequest request;
    request.set_manifest(text);
    pb::ApplyResponse response;
    grpc::ClientContext context;
    const auto status = stub_->Apply(&context, request, &response);
    if (!status.ok()) must(Status(fail(rpc::from_grpc(status, "Apply"))));
  }
  /// Returns once all are answered. A submission that is refused because the mailbox is full is retried as the answer
  /// requires.
  void submit(int from, int to) {
    for (int i = from; i < to; ++i) send(i);
    std::unique_lock lock(mutex_);
    for (;;) {
      room_.wait(lock, [&] { return outstanding_ == 0 || !refused_.empty(); });
      if (refused_.empty()) return;
      const auto again = std::exchange(refused_, {});
      lock.unlock();
      std::this_thread::sleep_for(20ms);
      for (const int i : again) send(i);
      lock.lock();
    }
  }

 private:
  struct Call {
    grpc::ClientContext context;
    pb::SubmitRequest request;
    pb::SubmitResponse response;
  };
  void send(int i) {
    {
      std::unique_lock lock(mutex_);
      room_.wait(lock, [&] { return outstanding_ < kOutstanding; });
      ++outstanding_;
    }
    auto* call = new Call;
    call->request.set_request_id(fmt::format("request-{}", i));
    call->request.set_manifest(job_of(i).dump());
    stub_->async()->Submit(&call->context, &call->request, &call->response,
                           [this, i, call](const grpc::Status& status) {
                             const bool full = status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
                             if (!status.ok() && !full) must(Status(fail(rpc::from_grpc(status, "Submit"))));
                             delete call;
                             const std::lock_guard lock(mutex_);
                             --outstanding_;
                             if (full) refused_.push_back(i);
                             room_.notify_all();
                           });
  }

  std::unique_ptr<pb::Admission::Stub> stub_;
  std::mutex mutex_;
  std::condition_variable room_;
  int outstanding_ = 0;
  std::vector<int> refused_;
};

}  // namespace

void durable(const std::string& conninfo, const std::string& by, int workloads) {
  const int warm = workloads / 10;
  Report report("admission.durable", {{"by", by}, {"workloads", workloads}});
  for (int repeat = 0; repeat < 3; ++repeat) {
    const auto shard = fmt::format("bench{}{}", repeat, by);
    SystemClock clock;
    const std::shared_ptr<bus::Bus> bus = must(bus::make_bus("postgres:" + conninfo));
    service::HostOptions reserving;
    reserving.service = "placement";
    reserving.shard = shard;
    reserving.consumes = {admission::kTopic};
    reserving.produces = {"qm.placement"};
    service::Host placement(reserving, std::make_unique<Placement>(), store::open_memory(store::make_memory_disk()),
                            bus, clock, nullptr);
    must(placement.open());

    std::vector<double> commits_ms;
    Kubernetes kubernetes;
    service::HostOptions options;
    options.service = "admission";
    options.shard = shard;
    options.consumes = {"qm.placement", "qm.capacity"};
    options.produces = {admission::kTopic};
    auto store = must(store::open_postgres(
        {.conninfo = conninfo, .service = "admission", .shard = shard, .migrations = admission::migrations()}));
    service::Host host(
        options, std::make_unique<admission::AdmissionShell>(std::make_unique<admission::Engine>(), admission::Codec{}),
        std::make_unique<TimedStore>(std::move(store), commits_ms), bus, clock, &kubernetes);
    kubernetes.host = &host;
    must(host.open());
    host.start();
    placement.start();
    const auto api = admission::make_service(host, clock);
    rpc::Server server({}, {api.get()});
    must(server.start());
    Client client(server.port());
    client.apply(manifests());

    const auto send = [&](int from, int to) {
      if (by == "grpc") return client.submit(from, to);
      for (int i = from; i < to; ++i) {
        Json job = job_of(i);
        job.set("metadata").set("uid", fmt::format("5bd1e2c4-0000-4000-8000-{:012}", i));
        put(host, seen(job));
      }
    };
    send(0, warm);
    kubernetes.wait(warm);
    const auto before = host.counters();
    const auto start = Clock::now();
    send(warm, warm + workloads);
    kubernetes.wait(warm + workloads);
    const double took = since(start);
    const auto after = host.counters();
    server.stop();
    host.stop();
    placement.stop();
    report.add("admissions_per_s", workloads / took);
    report.add("inputs_per_batch",
               static_cast<double>(after.inputs - before.inputs) / static_cast<double>(after.batches - before.batches));
    report.add("inputs_per_admission", static_cast<double>(after.inputs - before.inputs) / workloads);
    report.add("commit_p50_ms", at_share(commits_ms, 0.5));
    report.add("commit_p99_ms", at_share(commits_ms, 0.99));
  }
  report.print();
}

}  // namespace qm::bench
