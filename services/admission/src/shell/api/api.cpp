#include "qm/admission/api.hpp"

#include "api/objects_api.hpp"
#include "api/submit_access.hpp"
#include "api/workload_watch.hpp"
#include "qm/admission/api/copied_rows.hpp"
#include "qm/admission/api/what_if_api.hpp"
#include "qm/admission/api/when_api.hpp"
#include "qm/admission/codec.hpp"
#include "qm/admission/queries/explanation.hpp"
#include "qm/admission/queries/queues.hpp"
#include "qm/admission/queries/remedies.hpp"
#include "qm/admission/queries/workloads.hpp"
#include "qm/admission/status.hpp"
#include "qm/admission/translate/translate.hpp"
#include "qm/base/log.hpp"
#include "qm/rpc/server.hpp"
#include "qm/rpc/worker.hpp"
#include "quartermaster/v1/admission_service.grpc.pb.h"

#include <filesystem>
#include <fstream>
#include <future>
#include <set>
#include <sstream>

namespace qm::admission {
namespace {

namespace pb = quartermaster::v1;

constexpr int kSubmitters = 8;  // concurrent calls that wait for the API server

const Engine& engine_of(const service::Shell& shell) { return static_cast<const AdmissionShell&>(shell).engine(); }

void put(const Workload& w, const Engine& engine, pb::Workload& out) {
  *out.mutable_state() = to_event(w, engine);
  out.set_version(w.version);
  out.set_position(queue_position(engine.state(), w));
  for (const auto& [name, answer] : w.checks) {
    (*out.mutable_checks())[name] = static_cast<pb::CheckState>(answer.verdict);
  }
  out.set_gated(w.gated);
  out.set_inactive(w.inactive);
}

// Whether a submission is listed: its job is not in the cluster yet or could not be created, and no unfinished
// workload has its name.
bool shown(const Engine& engine, const Submission& s) {
  const auto* w = engine.find(s.ns, s.name);
  return w == nullptr || w->ended();
}
pb::WorkloadPhase phase_of(const Submission& s) { return s.failed ? pb::FINISHED : pb::PENDING; }

// Parses "/namespace/name".
std::pair<Namespace, std::string> key_of(const std::string& token) {
  const auto slash = token.find('/', 1);
  if (slash == std::string::npos) return {Namespace(token.substr(1)), {}};
  return {Namespace(token.substr(1, slash - 1)), token.substr(slash + 1)};
}

struct Found {
  const Workload* workload = nullptr;
  const Submission* submission = nullptr;
};

/// A workload that the caller may not see is treated as absent.
bool sees(const rpc::Caller& caller, const Found& found) {
  if (found.workload != nullptr) return caller.sees(found.workload->spec.ns.value(), found.workload->spec.team.value());
  return caller.sees(found.submission->ns.value(), found.submission->team.value());
}

// Finds by uid, or by namespace and name. A job that is still being created is found by its name.
template <class Request>
Result<Found> find(const Engine& engine, const Request& request, const rpc::Caller& caller) {
  if (!request.uid().empty()) {
    const auto* w = engine.find(WorkloadUid(request.uid()));
    if (w != nullptr && sees(caller, {w, nullptr})) return Found{w, nullptr};
    return fail(
        {Code::kNotFound, fmt::format("no workload has the uid {}", request.uid()), "uid", "list the workloads"});
  }
  if (request.name().empty()) {
    return fail({Code::kInvalid, "no workload is named", "uid", "give a uid, or namespace and name"});
  }
  const Namespace ns(request.namespace_().empty() ? "default" : request.namespace_());
  const auto* w = engine.find(ns, request.name());
  const auto* s = engine.tables().submissions.find({ns, request.name()});
  if (s != nullptr && shown(engine, *s) && sees(caller, {nullptr, s})) return Found{nullptr, s};
  if (w != nullptr && sees(caller, {w, nullptr})) return Found{w, nullptr};
  return fail({Code::kNotFound, fmt::format("workload {}/{} is not known", ns, request.name()), "name",
               "list the workloads of the namespace"});
}

void put(const Submission& s, pb::Workload& out) {
  auto& state = *out.mutable_state();
  state.mutable_spec()->set_namespace_(s.ns.value());
  state.mutable_spec()->set_name(s.name);
  state.mutable_spec()->set_kind("Job");
  state.mutable_spec()->set_queue(s.queue);
  state.mutable_spec()->set_team(s.team.value());
  state.mutable_spec()->set_submitted_us(micros(s.at));
  state.set_phase(phase_of(s));
  state.set_reason(s.failed ? "the job could not be created: " + s.error : "its job is being created");
}

/// Input of an explanation: the state and, for pods that may lack nodes, a request to placement.
struct Explained {
  pb::Explanation explanation;
  pb::DryRunRequest pods;  ///< empty where placement is not queried
  bool may_have_remedies = false;
  std::string name;  ///< "namespace/name"
};

Explained explain(const Engine& engine, const Found& found, Instant now) {
  Explained all;
  auto& out = all.explanation;
  if (found.submission != nullptr) {
    const auto& s = *found.submission;
    auto& cause = *out.add_causes();
    cause.set_code(s.failed ? "CreateFailed" : "Creating");
    cause.set_message(s.failed ? s.error : "the job is being created in the cluster");
    cause.set_remedy(s.failed ? "correct the job and submit it again" : "");
    out.set_summary(fmt::format("{}/{}: {}", s.ns, s.name, cause.message()));
    out.set_waiting_us((now - s.at).count());
    return all;
  }
  const auto e = explain(engine.state(), *found.workload, now);
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
  all.may_have_remedies = e.may_have_remedies;
  if (depends_on_nodes(out, all.may_have_remedies) && !found.workload->external_scheduler) {
    all.name = fmt::format("{}/{}", found.workload->spec.ns, found.workload->spec.name);
    all.pods.set_without_pods(true);
    all.pods.set_uid(out.uid());
    *all.pods.mutable_pod_sets() = to_event(*found.workload, engine).spec().pod_sets();
  }
  return all;
}

/// Adds the results of the autoscaler and of placement. Returns whether remedies for quota can help as far as nodes
/// are concerned; true where placement does not answer.
bool query_placement(const ApiOptions& options, const std::string& authorization, Explained& all) {
  if (options.plan && !all.pods.pod_sets().empty()) {
    if (const auto plan = options.plan(authorization)) add_capacity_plan(all.name, *plan, all.explanation);
  }
  if (!options.nodes || all.pods.pod_sets().empty()) return true;
  const auto answer = options.nodes(all.pods, authorization);
  return !answer || add_node_fit(all.pods, *answer, options.autoscaled, all.explanation);
}

/// Computes the remedies on copied rows, as WhatIf does.
void add_remedies(service::Host& host, Instant now, const rpc::Caller& caller, pb::Explanation& out) {
  const WorkloadUid uid(out.uid());
  const auto taken = copied(RowsCopy(uid), host);
  for (const auto& remedy : remedies(taken.rows, taken.options, uid, now)) {
    auto& way = *out.add_remedies();
    way.set_code(remedy.code);
    way.set_message(remedy.message);
    for (const auto& other : remedy.workloads) {
      const auto* w = taken.rows.workloads.find(other);
      if (w != nullptr && sees(caller, {w, nullptr})) {
        way.add_workloads(fmt::format("{}/{}", w->spec.ns, w->spec.name));
      } else {
        way.set_hidden(way.hidden() + 1);
      }
    }
  }
}

bool asked_for(const pb::ListWorkloadsRequest& r, const rpc::Caller& caller, const Namespace& ns, const Team& team,
               int phase, const std::string& queue, const QueueName& cluster_queue) {
  return caller.sees(ns.value(), team.value()) && (r.namespace_().empty() || ns.value() == r.namespace_()) &&
         (r.team().empty() || team.value() == r.team()) &&
         (r.phase() == pb::WORKLOAD_PHASE_UNSPECIFIED || phase == static_cast<int>(r.phase())) &&
         (r.queue().empty() || queue == r.queue() || cluster_queue.value() == r.queue());
}

// Lists workloads in the order of their uids, then, by name, the jobs that are not in the cluster yet or could not be
// created. A page token is a uid or "/namespace/name": no uid begins with a slash.
Status list(const Engine& engine, const pb::ListWorkloadsRequest& r, const rpc::Caller& caller,
            pb::ListWorkloadsResponse& out) {
  QM_ASSIGN(const auto most, rpc::page_size(r.page_size(), kDefaultPage, kLargestPage));
  std::int64_t total = 0;
  std::string last;
  const auto take = [&](std::string at, bool later, const auto& fill) {
    ++total;
    if (!later) return;
    if (static_cast<std::size_t>(out.workloads_size()) < most) {
      fill(*out.add_workloads());
      last = std::move(at);
    } else {
      out.set_next_page_token(last);
    }
  };
  const std::string& after = r.page_token();
  const bool names = after.starts_with("/");
  for (const auto& [uid, w] : engine.tables().workloads) {
    if (!asked_for(r, caller, w.spec.ns, w.spec.team, static_cast<int>(w.phase), w.spec.queue, w.cluster_queue))
      continue;
    take(uid.value(), !names && uid.value() > after, [&](pb::Workload& row) { put(w, engine, row); });
  }
  for (const auto& [key, s] : engine.tables().submissions) {
    if (!shown(engine, s) || !asked_for(r, caller, s.ns, s.team, phase_of(s), s.queue, {})) continue;
    std::string at = fmt::format("/{}/{}", s.ns, s.name);
    const bool later = !names || key > key_of(after);
    take(std::move(at), later, [&](pb::Workload& row) { put(s, row); });
  }
  out.set_total(total);
  return {};
}

Status list_queues(const Engine& engine, const pb::ListQueuesRequest& r, const rpc::Caller& caller,
                   pb::ListQueuesResponse& out) {
  QM_ASSIGN(const auto most, rpc::page_size(r.page_size(), kDefaultPage, kLargestPage));
  const auto open = open_queues(engine, caller);
  const auto& rows = engine.tables().cluster_queues.rows();
  for (auto it = rows.upper_bound(QueueName(r.page_token())); it != rows.end(); ++it) {
    if (!caller.everything && !open.contains(it->first)) continue;
    if (static_cast<std::size_t>(out.queues_size()) == most) {
      out.set_next_page_token(out.queues(out.queues_size() - 1).name());
      return {};
    }
    const auto v = queue_view(engine.state(), it->second);
    auto& q = *out.add_queues();
    q.set_name(it->first.value());
    q.set_cohort(it->second.cohort);
    q.set_pending(v.pending_ready + v.pending_backed_off);
    q.set_admitted(v.admitted);
    for (const auto& [resource, amount] : v.nominal) (*q.mutable_nominal())[resource] = amount;
    for (const auto& [resource, amount] : v.used) (*q.mutable_used())[resource] = amount;
    for (const auto& [resource, amount] : v.borrowed) (*q.mutable_borrowed())[resource] = amount;
    const auto inactive = inactive_condition(engine, it->second);
    q.set_state(inactive ? inactive->code : "Active");
    if (inactive) q.set_reason(inactive->message);
  }
  return {};
}

Error foreign(const rpc::Caller& caller, const std::string& ns, const std::string& team) {
  return {Code::kPermissionDenied,
          team.empty() || team == ns ? fmt::format("{} may not change objects in namespace {}", caller.name, ns)
                                     : fmt::format("{} may not charge team {} in namespace {}", caller.name, team, ns),
          {},
          "use a namespace and a team of your own; the roles file lists them"};
}

class AdmissionService final : public pb::Admission::CallbackService {
 public:
  AdmissionService(service::Host& host, const DomainClock& clock, ApiOptions options)
      : host_(host), clock_(clock), options_(std::move(options)) {}

  grpc::ServerUnaryReactor* Submit(grpc::CallbackServerContext* context, const pb::SubmitRequest* request,
                                   pb::SubmitResponse* response) override {
    auto* reactor = context->DefaultReactor();
    const auto caller = rpc::caller_of(*context);
    auto input = rpc::input_of(*context, caller, "Submit", *request, request->request_id(), {});
    // The manifest is parsed to find its namespace and team, and the rights of the caller are checked with the API
    // server. Both take too long for the threads of gRPC.
    const auto checked = [this, reactor, caller, input, request, response]() mutable {
      const auto job = submit_from(*request);
      if (job) input.object = fmt::format("{}/{}", job->ns, job->name);
      if (job && !caller.changes(job->ns.value(), job->team.value() == job->ns.value() ? "" : job->team.value())) {
        return rpc::refuse(host_, reactor, std::move(input), foreign(caller, job->ns.value(), job->team.value()));
      }
      const auto content = job ? Json::parse(job->job) : fail(job.error());
      if (content && options_.reviews) {
        if (const auto may = may_submit(caller, *job, *content, *options_.reviews); !may) {
          if (may.error().code == Code::kPermissionDenied)
            return rpc::refuse(host_, reactor, std::move(input), may.error());
          return reactor->Finish(rpc::to_grpc(may.error()));
        }
      }
      if (content && options_.rules) {
        if (const auto ruled = options_.rules(*content, caller, !request->manifest().empty()); !ruled)
          return rpc::refuse(host_, reactor, std::move(input), ruled.error());
      }
      if (content && options_.jobs) {
        if (const auto created = would_create(*job, *content, *options_.jobs); !created)
          return rpc::refuse(host_, reactor, std::move(input), created.error());
      }
      rpc::submit(host_, reactor, std::move(input), response);
    };
    if (caller.everywhere && request->manifest().empty() && !options_.reviews && !options_.rules && !options_.jobs) {
      const auto& spec = request->spec();
      input.object = fmt::format("{}/{}", spec.namespace_().empty() ? "default" : spec.namespace_(), spec.name());
      rpc::submit(host_, reactor, std::move(input), response);
    } else if (!submitter_.post(checked)) {
      reactor->Finish(
          rpc::to_grpc({Code::kExhausted, "too many Submit requests are being checked", {}, "try again in a second"}));
    }
    return reactor;
  }
  grpc::ServerUnaryReactor* Cancel(grpc::CallbackServerContext* context, const pb::CancelRequest* request,
                                   pb::CancelResponse* response) override {
    return change(context, "Cancel", *request, response);
  }
  grpc::ServerUnaryReactor* SetActive(grpc::CallbackServerContext* context, const pb::SetActiveRequest* request,
                                      pb::ChangeResponse* response) override {
    return change(context, "SetActive", *request, response);
  }
  grpc::ServerUnaryReactor* AnswerCheck(grpc::CallbackServerContext* context, const pb::AnswerCheckRequest* request,
                                        pb::ChangeResponse* response) override {
    return change(context, "AnswerCheck", *request, response);
  }
  grpc::ServerUnaryReactor* Apply(grpc::CallbackServerContext* context, const pb::ApplyRequest* request,
                                  pb::ApplyResponse* response) override {
    return rpc::mutate(host_, context, "Apply", *request, request->request_id(), response,
                       request->source() + (request->dry_run() ? " (dry run)" : ""));
  }
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context, const pb::GetWorkloadRequest* request,
                                pb::Workload* response) override {
    return rpc::answer(host_, context, *request,
                       [request, response, caller = rpc::caller_of(*context)](const service::Shell& shell) -> Status {
                         const Engine& engine = engine_of(shell);
                         QM_ASSIGN(const auto found, find(engine, *request, caller));
                         if (found.workload != nullptr) {
                           put(*found.workload, engine, *response);
                         } else {
                           put(*found.submission, *response);
                         }
                         return {};
                       });
  }
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context, const pb::ListWorkloadsRequest* request,
                                 pb::ListWorkloadsResponse* response) override {
    return rpc::answer(
        host_, context, *request,
        [this, request, response, caller = rpc::caller_of(*context)](const service::Shell& shell) -> Status {
          response->set_resume_version(host_.feed_position());
          return list(engine_of(shell), *request, caller, *response);
        });
  }
  grpc::ServerWriteReactor<pb::WorkloadUpdate>* Watch(grpc::CallbackServerContext* context,
                                                      const pb::WatchWorkloadsRequest* request) override {
    return watch_workloads(host_, *request, rpc::caller_of(*context));
  }
  grpc::ServerUnaryReactor* Explain(grpc::CallbackServerContext* context, const pb::ExplainRequest* request,
                                    pb::Explanation* response) override {
    const auto& metadata = context->client_metadata();
    const auto shown = metadata.find("authorization");
    auto authorization =
        shown == metadata.end() ? std::string() : std::string(shown->second.data(), shown->second.size());
    return explainer_.answer(context, *request,
                             [this, request, response, caller = rpc::caller_of(*context),
                              authorization = std::move(authorization)]() -> Status {
                               QM_TRY(host_.can_answer());
                               const Instant now = clock_.now();
                               Status done;
                               Explained all;
                               host_.read([&](const service::Shell& shell) {
                                 if (const auto found = find(engine_of(shell), *request, caller)) {
                                   all = explain(engine_of(shell), *found, now);
                                 } else {
                                   done = fail(found.error());
                                 }
                               });
                               QM_TRY(done);
                               const bool helps = query_placement(options_, authorization, all);
                               *response = std::move(all.explanation);
                               if (all.may_have_remedies && helps) add_remedies(host_, now, caller, *response);
                               return {};
                             });
  }
  grpc::ServerUnaryReactor* WhatIf(grpc::CallbackServerContext* context, const pb::WhatIfRequest* request,
                                   pb::WhatIfResponse* response) override {
    return worker_.answer(context, *request, [this, request, response, caller = rpc::caller_of(*context)]() -> Status {
      QM_TRY(host_.can_answer());
      return answer_what_if(host_, *request, caller, clock_.now(), *response);
    });
  }
  grpc::ServerUnaryReactor* When(grpc::CallbackServerContext* context, const pb::WhenRequest* request,
                                 pb::WhenResponse* response) override {
    return forecaster_.answer(context, *request,
                              [this, request, response, caller = rpc::caller_of(*context)]() -> Status {
                                QM_TRY(host_.can_answer());
                                Result<WorkloadUid> uid = WorkloadUid();
                                host_.read([&](const service::Shell& shell) {
                                  const auto found = find(engine_of(shell), *request, caller);
                                  if (!found) {
                                    uid = fail(found.error());
                                  } else if (found->workload != nullptr) {
                                    uid = found->workload->spec.uid;
                                  } else {
                                    const auto answer = explain(engine_of(shell), *found, clock_.now()).explanation;
                                    *response->mutable_unknown() = answer.causes(0);
                                    response->set_summary(answer.summary());
                                  }
                                });
                                if (!uid) return fail(uid.error());
                                if (uid->empty()) return {};
                                return answer_when(host_, *uid, caller, clock_.now(), *response);
                              });
  }
  grpc::ServerUnaryReactor* ListQueues(grpc::CallbackServerContext* context, const pb::ListQueuesRequest* request,
                                       pb::ListQueuesResponse* response) override {
    return rpc::answer(host_, context, *request,
                       [request, response, caller = rpc::caller_of(*context)](const service::Shell& shell) -> Status {
                         return list_queues(engine_of(shell), *request, caller, *response);
                       });
  }
  grpc::ServerUnaryReactor* ListBudgets(grpc::CallbackServerContext* context, const pb::ListBudgetsRequest* request,
                                        pb::ListBudgetsResponse* response) override {
    return rpc::answer(
        host_, context, *request,
        [this, request, response, caller = rpc::caller_of(*context)](const service::Shell& shell) -> Status {
          return list_budgets(engine_of(shell), *request, caller, clock_.now(), *response);
        });
  }
  grpc::ServerUnaryReactor* ListObjects(grpc::CallbackServerContext* context, const pb::ListObjectsRequest* request,
                                        pb::ListObjectsResponse* response) override {
    return rpc::answer(host_, context, *request,
                       [request, response, caller = rpc::caller_of(*context)](const service::Shell& shell) -> Status {
                         return list_objects(engine_of(shell), *request, caller, *response);
                       });
  }
  grpc::ServerUnaryReactor* Snapshot(grpc::CallbackServerContext* context, const pb::SnapshotRequest* request,
                                     pb::SnapshotResponse* response) override {
    return worker_.answer_snapshot(host_, context, request, response);
  }

 private:
  /// Submits a change of one workload, for a caller that may change it.
  template <class Request, class Response>
  grpc::ServerUnaryReactor* change(grpc::CallbackServerContext* context, const char* method, const Request& request,
                                   Response* response) {
    auto* reactor = context->DefaultReactor();
    const auto caller = rpc::caller_of(*context);
    const auto object =
        request.uid().empty()
            ? fmt::format("{}/{}", request.namespace_().empty() ? "default" : request.namespace_(), request.name())
            : request.uid();
    auto input = rpc::input_of(*context, caller, method, request, request.request_id(), object);
    if (caller.everywhere) {
      rpc::submit(host_, reactor, std::move(input), response);
      return reactor;
    }
    // The owner of a workload never changes, so it may be checked before the change is submitted.
    const auto accepted =
        host_.read_async([this, reactor, caller, input, &request, response](const service::Shell& shell) mutable {
          const auto found = find(engine_of(shell), request, caller);
          if (!found) return rpc::refuse(host_, reactor, std::move(input), found.error());
          const auto& ns = found->workload != nullptr ? *found->workload->spec.ns : found->submission->ns;
          if (!caller.changes(ns.value()))
            return rpc::refuse(host_, reactor, std::move(input), foreign(caller, ns.value(), {}));
          rpc::submit(host_, reactor, std::move(input), response);
        });
    if (!accepted) reactor->Finish(rpc::to_grpc(accepted.error()));
    return reactor;
  }

  service::Host& host_;
  const DomainClock& clock_;
  const ApiOptions options_;
  rpc::Worker worker_;
  rpc::Worker submitter_{kSubmitters};  ///< calls that wait for the API server
  rpc::Worker explainer_;               ///< evaluates changes on copied rows
  rpc::Worker forecaster_;              ///< simulates futures; a call takes seconds
};

}  // namespace

std::shared_ptr<grpc::Service> make_service(service::Host& host, const DomainClock& clock, ApiOptions options) {
  return std::make_shared<AdmissionService>(host, clock, std::move(options));
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
      return fail(
          {Code::kNotFound, fmt::format("{} cannot be read", file.string()), "--config", "name a file that exists"});
    std::stringstream text;
    text << in.rdbuf();
    // One Apply for each file, so that an error reports lines of that file.
    request.set_source(file.string());
    request.set_manifest(text.str());
    service::Input input;
    input.source = service::Source::kRequest;
    input.name = "Apply";
    input.caller = "start-up";
    input.object = file.string();
    input.bytes = request.SerializeAsString();
    auto answered = std::make_shared<std::promise<Result<std::string>>>();
    auto answer = answered->get_future();
    QM_TRY(host.submit(std::move(input),
                       [answered](Result<std::string> reply) { answered->set_value(std::move(reply)); }));
    const auto reply = answer.get();
    if (!reply) return fail(reply.error());
    pb::ApplyResponse response;
    response.ParseFromString(*reply);
    for (const auto& warning : response.warnings()) log::warn("manifest", {{"warning", warning}});
    log::info("manifest applied", {{"file", file.string()}, {"objects", response.applied_size()}});
  }
  return {};
}

Result<Json> explain_json(service::Host& host, const DomainClock& clock, const std::string& uid,
                          const ApiOptions& options, const std::string& authorization) {
  Result<Json> answer = fail(Code::kNotFound, "no workload has the uid {}", uid);
  Explained all;
  host.read([&](const service::Shell& shell) {
    const Engine& engine = engine_of(shell);
    const auto* w = engine.find(WorkloadUid(uid));
    if (w == nullptr) return;
    all = explain(engine, {w, nullptr}, clock.now());
    answer = Json::object({{"uid", uid},
                           {"phase", name_of(w->phase)},
                           {"attempt", w->attempt},
                           {"position", queue_position(engine.state(), *w)},
                           {"waiting_seconds", seconds(Duration(all.explanation.waiting_us()))}});
  });
  if (!answer) return answer;
  Json ways = Json::array();
  if (query_placement(options, authorization, all) && all.may_have_remedies) {
    const auto taken = copied(RowsCopy(WorkloadUid(uid)), host);
    for (const auto& remedy : remedies(taken.rows, taken.options, WorkloadUid(uid), clock.now())) {
      Json workloads = Json::array();
      for (const auto& other : remedy.workloads) workloads.push_back(other.value());
      ways.push_back(
          Json::object({{"code", remedy.code}, {"message", remedy.message}, {"workloads", std::move(workloads)}}));
    }
  }
  Json causes = Json::array();
  for (const auto& c : all.explanation.causes())
    causes.push_back(Json::object({{"code", c.code()}, {"message", c.message()}, {"remedy", c.remedy()}}));
  answer->set("summary", all.explanation.summary());
  answer->set("causes", std::move(causes));
  answer->set("remedies", std::move(ways));
  return answer;
}

}  // namespace qm::admission
