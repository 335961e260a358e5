// An engine with very many pending workloads: the memory of their rows, and the cost of one release.
#include "qm/admission/api/copied_rows.hpp"
#include "qm/admission/codec.hpp"
#include "qm/admission/report.hpp"
#include "qm/admission/translate/translate.hpp"
#include "report.hpp"
#include "shapes.hpp"

#include <malloc.h>

#include <cstdio>
#include <fstream>
#include <queue>
#include <semaphore>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <unordered_map>

namespace qm::bench {
namespace {

using namespace admission;

constexpr int kTrees = 100;
constexpr int kQueues = 10;         // of each tree
constexpr std::int64_t kGpus = 64;  // of each queue
constexpr int kReleases = 20'000;

std::int64_t resident_bytes() {
  malloc_trim(0);
  std::ifstream statm("/proc/self/statm");
  std::int64_t all = 0, resident = 0;
  statm >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

std::string queue_of(int i) { return fmt::format("team-{:03}-{}", i % kTrees, i / kTrees % kQueues); }

/// A workload like that of a Job in a cluster: a uid of 36 characters, a queue, a class, a team, GPUs with CPUs and
/// memory.
JobUpdated job_of(int i) {
  static const std::int64_t kShapes[] = {1, 2, 4, 8, 8, 8, 16, 32};
  JobUpdated out;
  auto& spec = out.spec;
  spec.uid = WorkloadUid(fmt::format("{:08x}-5bd1-4e2c-9c1f-{:012x}", static_cast<unsigned>(i) * 2654435761U, i));
  spec.ns = Namespace(fmt::format("team-{:03}", i % kTrees));
  spec.name = fmt::format("train-resnet-{:07}", i);
  spec.queue = queue_of(i);
  spec.priority_class = i % 5 == 0 ? "high" : "batch";
  spec.team = Team(spec.ns.value());
  spec.submitted = from_micros(1'000'000 + i);
  spec.labels = {{std::string(words::kQueueLabel), spec.queue},
                 {std::string(words::kPriorityClassLabel), spec.priority_class},
                 {std::string(words::kTeamLabel), spec.team.value()},
                 {"cost-center", fmt::format("cc-{}", i % 40)}};
  const auto gpus = kShapes[i / (kTrees * kQueues) % 8];
  auto& set = spec.pod_sets.emplace_back();
  set.count = static_cast<std::int32_t>(std::max<std::int64_t>(1, gpus / 8));
  set.shape.gpu.whole = std::min<std::int64_t>(gpus, 8);
  set.shape.cpu_milli = 8000 * set.shape.gpu.whole;
  set.shape.memory_bytes = (std::int64_t{64} << 30) * set.shape.gpu.whole;
  return out;
}

ApplyObjects objects() {
  std::string yaml = R"({apiVersion: kueue.x-k8s.io/v1beta1, kind: ResourceFlavor, metadata: {name: h100}}
---
{apiVersion: kueue.x-k8s.io/v1beta1, kind: WorkloadPriorityClass, metadata: {name: high}, value: 100}
---
{apiVersion: kueue.x-k8s.io/v1beta1, kind: WorkloadPriorityClass, metadata: {name: batch}, value: 0}
)";
  for (int i = 0; i < kTrees * kQueues; ++i) {
    const auto name = queue_of(i);
    const auto ns = fmt::format("team-{:03}", i % kTrees);
    yaml += fmt::format(R"(---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {{name: {0}}}
spec:
  cohort: {1}
  namespaceSelector: {{}}
  preemption: {{withinClusterQueue: LowerPriority, reclaimWithinCohort: Any}}
  resourceGroups:
  - coveredResources: [cpu, memory, nvidia.com/gpu]
    flavors:
    - name: h100
      resources:
      - {{name: cpu, nominalQuota: "10000"}}
      - {{name: memory, nominalQuota: 100Ti}}
      - {{name: nvidia.com/gpu, nominalQuota: "{2}"}}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {{name: {0}, namespace: {1}}}
spec: {{clusterQueue: {0}}}
)",
                        name, ns, kGpus);
  }
  return must(objects_from_manifest(yaml, "bench"));
}

/// An engine with a stub of placement, and the rows that it would store.
class Service {
 public:
  using Rows = std::unordered_map<std::string, store::StateRow>;

  Engine& engine() { return engine_; }
  /// Runs a step; returns placement's answers to the workloads that reserved quota, for the next step.
  std::vector<Command> step(const std::vector<Command>& batch, Rows* rows) {
    const auto out = engine_.step(batch, now_ += std::chrono::microseconds(100));
    if (rows != nullptr) {
      service::Effects effects;
      const std::vector<std::size_t> origin(batch.size());
      Codec().encode(engine_, out, origin, effects);
      for (auto& row : effects.state) (*rows)[row.kind + "/" + row.key] = std::move(row);
    }
    engine_.commit();
    std::vector<Command> answers;
    for (const auto& [what, w, at] : out.events) {
      if (what == Event::What::kQuotaReserved) {
        answers.emplace_back(PlacementUpdated{w.spec.uid, w.attempt, Answer::kReserved, "reservation", {}, {}});
      } else if (what == Event::What::kEvicting) {
        answers.emplace_back(PlacementUpdated{w.spec.uid, w.attempt, Answer::kReleased, {}, {}, {}});
      } else if (what == Event::What::kAdmitted) {
        running_.push(w.spec.uid);
      }
    }
    return answers;
  }
  void settle(std::vector<Command> batch, Rows* rows) {
    while (!batch.empty()) batch = step(batch, rows);
  }
  /// The workload that has run longest.
  WorkloadUid next() {
    for (;;) {
      const auto uid = running_.front();
      running_.pop();
      const auto* w = engine_.find(uid);
      if (w != nullptr && w->phase == Phase::kAdmitted) return uid;
    }
  }
  void find_running() {
    for (const auto& [uid, w] : engine_.tables().workloads) {
      if (w.phase == Phase::kAdmitted) running_.push(uid);
    }
  }

 private:
  Engine engine_;
  Instant now_ = from_micros(10'000'000'000);
  std::queue<WorkloadUid> running_;
};

/// Created by a separate process, so that none of its memory is included in the measurement.
std::vector<store::StateRow> rows_of(int pending) {
  std::FILE* file = std::tmpfile();
  const auto write = [&](const std::string& text) {
    const auto size = static_cast<std::uint32_t>(text.size());
    std::fwrite(&size, sizeof size, 1, file);
    std::fwrite(text.data(), 1, size, file);
  };
  const pid_t child = fork();
  if (child == 0) {
    Service made;
    Service::Rows rows;
    made.settle({objects()}, &rows);
    std::vector<Command> batch;
    const int all = pending + static_cast<int>(kTrees * kQueues * kGpus / 8);
    for (int i = 0; i < all; ++i) {
      batch.emplace_back(job_of(i));
      if (batch.size() == 512 || i + 1 == all) made.settle(std::exchange(batch, {}), &rows);
    }
    for (const auto& [key, row] : rows) {
      write(row.kind);
      write(row.key);
      write(*row.value);
    }
    std::fflush(file);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) must(Status(fail(Code::kInternal, "the rows were not made")));
  std::rewind(file);
  std::vector<store::StateRow> out;
  const auto read = [&](std::string& text) {
    std::uint32_t size = 0;
    if (std::fread(&size, sizeof size, 1, file) != 1) return false;
    text.resize(size);
    return std::fread(text.data(), 1, size, file) == size;
  };
  for (store::StateRow row; read(row.kind);) {
    row.value.emplace();
    if (!read(row.key) || !read(*row.value)) break;
    out.push_back(std::move(row));
  }
  std::fclose(file);
  return out;
}

}  // namespace

void million(int pending) {
  auto rows = rows_of(pending);
  std::int64_t bytes = 0;
  for (const auto& row : rows) bytes += static_cast<std::int64_t>(row.value->size());

  Report report("admission.million", {{"pending", pending}});
  Service loaded;
  const auto before = resident_bytes();
  const double start = processor_seconds();
  must(Codec().load(loaded.engine(), rows));
  report.add("load_s", processor_seconds() - start);
  const auto n = static_cast<double>(loaded.engine().tables().workloads.size());
  report.add("workloads", n);
  report.add("memory_bytes_each", static_cast<double>(resident_bytes() - before) / n);
  report.add("row_bytes_each", static_cast<double>(bytes) / n);
  rows.clear();
  loaded.find_running();

  const auto release = [&](const char* measure, int times) {
    for (int i = 0; i < times; ++i) {
      JobUpdated done;
      done.spec.uid = loaded.next();
      done.complete = true;
      const double begin = processor_seconds();
      auto answers = loaded.step({done}, nullptr);
      report.add(measure, (processor_seconds() - begin) * 1e6);
      report.add("admitted_by_release", static_cast<double>(answers.size()));
      const double answered = processor_seconds();
      loaded.settle(std::move(answers), nullptr);
      report.add("answers_us", (processor_seconds() - answered) * 1e6);
    }
  };
  release("release_us", kReleases);
  // The engine-thread time of a `when` or `what if` request: for the largest tree, and for all. The caller is another
  // thread, as in the service: it takes over the result of each slice, and frees all in the end.
  for (const bool all : {false, true, true}) {
    auto copy = std::make_unique<RowsCopy>(all ? RowsCopy() : RowsCopy(loaded.next(), Instant{}));
    std::binary_semaphore asked{0}, given{0};
    bool more = true;
    std::jthread asker([&] {
      for (; more; copy->put()) {
        asked.release();
        given.acquire();
      }
      copy.reset();
    });
    for (bool another = true; another;) {
      asked.acquire();
      const double begin = processor_seconds();
      another = more = copy->slice(loaded.engine());
      report.add(all ? "what_if_slice_us" : "when_slice_us", (processor_seconds() - begin) * 1e6);
      given.release();
    }
  }
  release("release_after_questions_us", 1000);
  report.print();
}

namespace {

/// Stores the rows as the service would have, with the newest event of each workload.
void fill(store::Store& store, const std::vector<store::StateRow>& rows) {
  constexpr std::size_t kBatch = 2000;
  const auto loaded = must(store.acquire("fill"));
  std::uint64_t sequence = loaded.outbox_sequence;
  for (std::size_t i = 0; i < rows.size();) {
    store::Commit commit;
    for (; i < rows.size() && commit.state.size() < kBatch; ++i) {
      commit.state.push_back(rows[i]);
      if (rows[i].kind != "workload") continue;
      commit.outbox.push_back({++sequence, kTopic, rows[i].key, 1, false, *rows[i].value});
    }
    const bool written = must(store.commit(commit)) == store::CommitOutcome::kCommitted;
    if (!written) must(Status(fail(Code::kInternal, "the rows were not written")));
    must(store.published(sequence, loaded.epoch));
  }
}

}  // namespace

void restart(const std::string& conninfo, int pending) {
  const store::PgOptions options{.conninfo = conninfo, .service = "admission", .migrations = migrations()};
  fill(*must(store::open_postgres(options)), rows_of(pending));
  Report report("admission.restart", {{"pending", pending}});
  const SystemClock clock;
  service::HostOptions host_options;
  host_options.service = "admission";
  host_options.produces = {kTopic};
  service::Host host(host_options, std::make_unique<AdmissionShell>(std::make_unique<Engine>(), Codec{}),
                     must(store::open_postgres(options)), must(bus::make_bus("memory:restart")), clock, nullptr);
  const double processor = processor_seconds();
  const auto start = Clock::now();
  must(host.open());
  report.add("open_s", since(start));
  report.add("processor_s", processor_seconds() - processor);
  std::size_t workloads = 0;
  host.read([&](const service::Shell& shell) {
    workloads = static_cast<const AdmissionShell&>(shell).engine().tables().workloads.size();
  });
  report.add("workloads", static_cast<double>(workloads));
  report.print();
}

}  // namespace qm::bench
