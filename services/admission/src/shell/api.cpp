#include "qm/admission/api.hpp"

#include "qm/admission/codec.hpp"
#include "qm/admission/translate.hpp"
#include "qm/base/log.hpp"
#include "qm/rpc/server.hpp"
#include "quartermaster/v1/admission_service.grpc.pb.h"
#include "snapshot_reader.hpp"
#include "workload_watch.hpp"

#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>

namespace qm::admission {
namespace {

namespace pb = quartermaster::v1;

const Engine& engine_of(const service::Shell& shell) {
  return static_cast<const AdmissionShell&>(shell).engine();
}

void put(const Workload& w, const Engine& engine, pb::Workload& out) {
  *out.mutable_state() = to_event(w, engine);
  out.set_version(w.version);
  out.set_position(engine.position(w));
}

struct Found {
  const Workload* workload = nullptr;
  const Submission* submission = nullptr;
};

// By uid, or by namespace and name; a job on its way into the cluster is found by its name.
template <class Request>
Result<Found> find(const Engine& engine, const Request& request) {
  if (!request.uid().empty()) {
    if (const auto* w = engine.find(WorkloadUid(request.uid()))) return Found{w, nullptr};
    return fail({Code::kNotFound, fmt::format("workload {} is not known", request.uid()), "uid",
                 "list the workloads"});
  }
  if (request.name().empty()) {
    return fail(
        {Code::kInvalid, "no workload is named", "uid", "give a uid, or namespace and name"});
  }
  const Namespace ns(request.namespace_().empty() ? "default" : request.namespace_());
  const auto* w = engine.find(ns, request.name());
  const auto* s = engine.tables().submissions.find({ns, request.name()});
  if (s != nullptr && (w == nullptr || w->ended())) return Found{nullptr, s};
  if (w != nullptr) return Found{w, nullptr};
  return fail({Code::kNotFound, fmt::format("workload {}/{} is not known", ns, request.name()),
               "name", "list the workloads of the namespace"});
}

void put(const Submission& s, pb::Workload& out) {
  auto& state = *out.mutable_state();
  state.mutable_spec()->set_namespace_(s.ns.value());
  state.mutable_spec()->set_name(s.name);
  state.mutable_spec()->set_kind("Job");
  state.mutable_spec()->set_submitted_us(micros(s.at));
  state.set_phase(s.failed ? pb::CANCELLED : pb::PENDING);
  state.set_reason(s.failed ? "the job could not be created: " + s.error
                            : "its job is being created");
}

pb::Explanation explain(const Engine& engine, const Found& found, Instant now) {
  pb::Explanation out;
  if (found.submission != nullptr) {
    const auto& s = *found.submission;
    auto& cause = *out.add_causes();
    cause.set_code(s.failed ? "CreateFailed" : "Creating");
    cause.set_message(s.failed ? s.error : "the job is being created in the cluster");
    cause.set_remedy(s.failed ? "correct the job and submit it again" : "");
    out.set_summary(fmt::format("{}/{}: {}", s.ns, s.name, cause.message()));
    out.set_waiting_us((now - s.at).count());
    return out;
  }
  const auto e = engine.explain(*found.workload, now);
  out.set_uid(found.workload->spec.uid.value());
  out.set_summary(e.summary);
  out.set_waiting_us(e.waiting.count());
  for (const auto& c : e.causes) {
    auto& cause = *out.add_causes();
    cause.set_code(c.code);
    cause.set_message(c.message);
    cause.set_resource(c.resource);
    cause.set_requested(c.requested);
    cause.set_available(c.available);
    cause.set_remedy(c.remedy);
  }
  return out;
}

int page_size(int asked, int fallback, int most) {
  return asked <= 0 ? fallback : std::min(asked, most);
}

Status list(const Engine& engine, const pb::ListWorkloadsRequest& r,
            pb::ListWorkloadsResponse& out) {
  if (r.page_size() < 0 || r.page_size() > 1000) {
    return fail({Code::kInvalid,
                 fmt::format("page size {} is not within 1 and 1000", r.page_size()), "page_size",
                 "ask for 1 to 1000"});
  }
  const int most = page_size(r.page_size(), 100, 1000);
  std::int64_t total = 0;
  for (const auto& [uid, w] : engine.tables().workloads) {
    const bool matches =
        (r.namespace_().empty() || w.spec.ns.value() == r.namespace_()) &&
        (r.queue().empty() || w.spec.queue == r.queue() || w.cluster_queue.value() == r.queue()) &&
        (r.team().empty() || w.spec.team.value() == r.team()) &&
        (r.phase() == pb::WORKLOAD_PHASE_UNSPECIFIED ||
         static_cast<int>(w.phase) == static_cast<int>(r.phase()));
    if (!matches) continue;
    ++total;
    if (uid.value() <= r.page_token()) continue;
    if (out.workloads_size() < most) {
      put(w, engine, *out.add_workloads());
    } else if (out.next_page_token().empty()) {
      out.set_next_page_token(out.workloads(most - 1).state().spec().uid());
    }
  }
  out.set_total(total);
  return {};
}

void list_queues(const Engine& engine, const pb::ListQueuesRequest& r,
                 pb::ListQueuesResponse& out) {
  const int most = page_size(r.page_size(), 100, 1000);
  const auto& rows = engine.tables().cluster_queues.rows();
  for (auto it = rows.upper_bound(QueueName(r.page_token())); it != rows.end(); ++it) {
    if (out.queues_size() == most) {
      out.set_next_page_token(out.queues(most - 1).name());
      return;
    }
    const auto v = engine.view(it->second);
    auto& q = *out.add_queues();
    q.set_name(it->first.value());
    q.set_cohort(it->second.cohort);
    q.set_pending(v.pending_ready + v.pending_backed_off);
    q.set_admitted(v.admitted);
    for (const auto& [resource, amount] : v.nominal)
      (*q.mutable_nominal())[resource] = amount;
    for (const auto& [resource, amount] : v.used)
      (*q.mutable_used())[resource] = amount;
    for (const auto& [resource, amount] : v.borrowed)
      (*q.mutable_borrowed())[resource] = amount;
  }
}

class AdmissionService final : public pb::Admission::CallbackService {
 public:
  AdmissionService(service::Host& host, const DomainClock& clock)
      : host_(host), clock_(clock), snapshots_(host) {}

  grpc::ServerUnaryReactor* Submit(grpc::CallbackServerContext* context,
                                   const pb::SubmitRequest* request,
                                   pb::SubmitResponse* response) override {
    return rpc::mutate(host_, context, "Submit", *request, request->request_id(), response);
  }
  grpc::ServerUnaryReactor* Cancel(grpc::CallbackServerContext* context,
                                   const pb::CancelRequest* request,
                                   pb::CancelResponse* response) override {
    return rpc::mutate(host_, context, "Cancel", *request, request->request_id(), response);
  }
  grpc::ServerUnaryReactor* Apply(grpc::CallbackServerContext* context,
                                  const pb::ApplyRequest* request,
                                  pb::ApplyResponse* response) override {
    return rpc::mutate(host_, context, "Apply", *request, request->request_id(), response);
  }
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context,
                                const pb::GetWorkloadRequest* request,
                                pb::Workload* response) override {
    return rpc::answer(host_, context, [request, response](const service::Shell& shell) -> Status {
      const Engine& engine = engine_of(shell);
      QM_ASSIGN(const auto found, find(engine, *request));
      if (found.workload != nullptr) {
        put(*found.workload, engine, *response);
      } else {
        put(*found.submission, *response);
      }
      return {};
    });
  }
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context,
                                 const pb::ListWorkloadsRequest* request,
                                 pb::ListWorkloadsResponse* response) override {
    return rpc::answer(host_, context,
                       [this, request, response](const service::Shell& shell) -> Status {
                         response->set_resume_version(host_.feed_position());
                         return list(engine_of(shell), *request, *response);
                       });
  }
  grpc::ServerWriteReactor<pb::WorkloadUpdate>* Watch(
      grpc::CallbackServerContext*, const pb::WatchWorkloadsRequest* request) override {
    return watch_workloads(host_, *request);
  }
  grpc::ServerUnaryReactor* Explain(grpc::CallbackServerContext* context,
                                    const pb::ExplainRequest* request,
                                    pb::Explanation* response) override {
    return rpc::answer(host_, context,
                       [this, request, response](const service::Shell& shell) -> Status {
                         QM_ASSIGN(const auto found, find(engine_of(shell), *request));
                         *response = explain(engine_of(shell), found, clock_.now());
                         return {};
                       });
  }
  grpc::ServerUnaryReactor* ListQueues(grpc::CallbackServerContext* context,
                                       const pb::ListQueuesRequest* request,
                                       pb::ListQueuesResponse* response) override {
    return rpc::answer(host_, context, [request, response](const service::Shell& shell) -> Status {
      list_queues(engine_of(shell), *request, *response);
      return {};
    });
  }
  grpc::ServerUnaryReactor* Snapshot(grpc::CallbackServerContext* context,
                                     const pb::SnapshotRequest* request,
                                     pb::SnapshotResponse* response) override {
    return snapshots_.answer(context, *request, response);
  }

 private:
  service::Host& host_;
  const DomainClock& clock_;
  SnapshotReader snapshots_;
};

}  // namespace

std::shared_ptr<grpc::Service> make_service(service::Host& host, const DomainClock& clock) {
  return std::make_shared<AdmissionService>(host, clock);
}

Status apply_file(service::Host& host, const std::string& path) {
  std::vector<std::filesystem::path> files;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path, ignored)) {
      const auto kind = entry.path().extension();
      if (kind == ".yaml" || kind == ".yml" || kind == ".json") files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
  } else {
    files.emplace_back(path);
  }
  pb::ApplyRequest request;
  request.set_source(path);
  for (const auto& file : files) {
    std::ifstream in(file);
    if (!in)
      return fail({Code::kNotFound, fmt::format("{} cannot be read", file.string()), "--config",
                   "name a file that exists"});
    std::stringstream text;
    text << in.rdbuf();
    // One call for a file, so that an error names its own lines.
    request.set_source(file.string());
    request.set_manifest(text.str());
    service::Input input;
    input.source = service::Source::kRequest;
    input.name = "Apply";
    input.bytes = request.SerializeAsString();
    auto answered = std::make_shared<std::promise<Result<std::string>>>();
    auto answer = answered->get_future();
    QM_TRY(host.submit(std::move(input), [answered](Result<std::string> reply) {
      answered->set_value(std::move(reply));
    }));
    const auto reply = answer.get();
    if (!reply) return fail(reply.error());
    pb::ApplyResponse response;
    response.ParseFromString(*reply);
    for (const auto& warning : response.warnings())
      log::warn("manifest", {{"warning", warning}});
    log::info("manifest applied", {{"file", file.string()}, {"objects", response.applied_size()}});
  }
  return {};
}

Result<Json> explain_json(service::Host& host, const DomainClock& clock, const std::string& uid) {
  Result<Json> answer = fail(Code::kNotFound, "workload {} is not known", uid);
  host.read([&](const service::Shell& shell) {
    const Engine& engine = engine_of(shell);
    const auto* w = engine.find(WorkloadUid(uid));
    if (w == nullptr) return;
    const auto e = engine.explain(*w, clock.now());
    Json causes = Json::array();
    for (const auto& c : e.causes) {
      causes.push_back(
          Json::object({{"code", c.code}, {"message", c.message}, {"remedy", c.remedy}}));
    }
    answer = Json::object({{"uid", uid},
                           {"phase", name_of(w->phase)},
                           {"attempt", w->attempt},
                           {"position", engine.position(*w)},
                           {"summary", e.summary},
                           {"waiting_seconds", seconds(e.waiting)},
                           {"causes", causes}});
  });
  return answer;
}

}  // namespace qm::admission
