#include "qm/admission/executor.hpp"

#include "executors/pod_executor.hpp"
#include "qm/admission/translate/translate.hpp"
#include "qm/admission/translate/workload_objects.hpp"
#include "qm/admission/workload.hpp"
#include "qm/base/digest.hpp"
#include "qm/base/log.hpp"
#include "qm/kube/errors.hpp"
#include "qm/model/resources.hpp"
#include "state/admission_state.pb.h"
#include "translate/pods.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

namespace qm::admission {
namespace {

namespace state = quartermaster::admission;
using kube::resources::kJobs;

state::JobOutcome done(const state::JobIntent& intent) {
  state::JobOutcome out;
  out.set_subject(intent.uid().empty() ? intent.namespace_() + "/" + intent.name() : intent.uid());
  out.set_attempt(intent.attempt());
  out.set_ok(true);
  return out;
}

/// The object of an intent: its kind, the resource where the API server serves it, and its present state. `job` is
/// empty where the object is gone or another one has its name.
struct Subject {
  const config::WorkloadKind& kind;
  kube::Resource at;
  std::optional<Json> job;
};

/// `known`, where present, is used instead of reading the object.
Result<Subject> look(kube::Client& client, const state::JobIntent& intent, std::optional<Json> known = {}) {
  const auto* kind = config::workload_kind(intent.kind().empty() ? "Job" : intent.kind());
  if (kind == nullptr || !kind->suspends()) return fail(Code::kUnimplemented, "nothing suspends {}", intent.kind());
  Subject out{*kind, kJobs, {}};
  if (kind->kind != "Job") {
    auto found = client.find_kind(std::string(kind->group), std::string(kind->plural),
                                  {kind->versions.begin(), kind->versions.end()});
    // The CRD is deleted, and all of its objects with it.
    if (!found && found.error().code == Code::kNotFound) return out;
    QM_ASSIGN(out.at, std::move(found));
  }
  if (known) {
    out.job = std::move(known);
    return out;
  }
  auto job = client.get(out.at, intent.namespace_(), intent.name());
  if (!job && job.error().code != Code::kNotFound) return fail(job.error());
  if (job && kube::uid_of(*job) == intent.uid()) out.job = std::move(*job);
  return out;
}

/// The part that suspend and unsuspend share: an outcome where nothing is left to do.
std::optional<state::JobOutcome> settled(const Subject& subject, const state::JobIntent& intent) {
  auto out = done(intent);
  if (!subject.job) return out;
  out.set_complete(config::is_complete(*subject.job, subject.kind));
  out.set_failed(config::is_failed(*subject.job, subject.kind));
  if (out.complete() || out.failed() || attempt_of(*subject.job, subject.kind) > intent.attempt()) return out;
  return std::nullopt;
}

void put(Json& object, std::string_view dotted, Json value) {
  const auto dot = dotted.find('.');
  if (dot == std::string_view::npos) {
    object.set(dotted, std::move(value));
  } else {
    put(object.set(dotted.substr(0, dot)), dotted.substr(dot + 1), std::move(value));
  }
}

/// The merge patch that changes `from` to `to`; lists are replaced as a whole.
Json difference(const Json& from, const Json& to) {
  Json out = Json::object();
  for (const auto& [key, value] : to.members()) {
    const Json* was = from.find(key);
    if (was != nullptr && *was == value) continue;
    out.set(key, was != nullptr && was->is_object() && value.is_object() ? difference(*was, value) : value);
  }
  for (const auto& [key, value] : from.members()) {
    if (!to.contains(key)) out.set(key, Json());
  }
  return out;
}

Status write(kube::Client& client, const Subject& subject, const state::JobIntent& intent, const Json& now) {
  Json patch = difference(*subject.job, now);
  patch.set("metadata").set("resourceVersion", kube::resource_version_of(*subject.job));
  QM_TRY(client.merge_patch(subject.at, intent.namespace_(), intent.name(), patch));
  return {};
}

/// Sets the number of pods with which a Job starts: `pods`, or all that it requests where `pods` is 0. An annotation,
/// where present, has the requested number.
void set_parallelism(Json& job, std::int64_t pods) {
  const std::string asked = kube::annotation(job, config::kParallelism);
  std::int64_t noted = 0;
  std::from_chars(asked.data(), asked.data() + asked.size(), noted);
  const auto all = std::max(job.path("spec.parallelism").integer(1), noted);
  const bool fewer = pods > 0 && pods < all;
  if (!fewer && asked.empty()) return;
  job.set("spec").set("parallelism", fewer ? pods : all);
  auto& annotations = job.set("metadata").set("annotations");
  if (fewer) {
    annotations.set(config::kParallelism, std::to_string(all));
  } else {
    annotations.erase(config::kParallelism);
  }
}

Status write_suspended(kube::Client& client, const Subject& subject, const state::JobIntent& intent) {
  Json now = *subject.job;
  if (subject.kind.kind == "Job") set_parallelism(now, 0);
  put(now, subject.kind.suspend, true);
  return write(client, subject, intent, now);
}

Json toleration_json(const quartermaster::v1::Toleration& t) {
  Json out = Json::object({{"key", t.key()}, {"operator", t.operator_().empty() ? "Equal" : t.operator_()}});
  if (!t.value().empty()) out.set("value", t.value());
  if (!t.effect().empty()) out.set("effect", t.effect());
  return out;
}

/// Adds labels and annotations of admission checks. A value that the template already has is not overwritten.
template <class Effect>
Status describe(Json& pods, const Effect& effect, Json& added) {
  for (const auto& [part, wanted] :
       {std::pair("labels", &effect.labels()), std::pair("annotations", &effect.annotations())}) {
    const std::map<std::string, std::string> sorted(wanted->begin(), wanted->end());
    for (const auto& [key, value] : sorted) {
      const Json& has = pods["metadata"][part][key];
      if (has.string() == value) continue;
      if (!has.is_null()) {
        return fail({Code::kInvalid,
                     fmt::format("podSetUpdates: {} {} is {} in the template, and {} by an admission check", part, key,
                                 has.string(), value),
                     part, "remove it from one of them"});
      }
      pods.set("metadata").set(part).set(key, value);
      added.set(part).set(key, value);
    }
  }
  return {};
}

/// Keeps the pods of a template from every scheduler until they select the nodes that admission assigned.
void gate_by_topology(Json& pods, Json& added) {
  const Json gate = Json::object({{"name", std::string(kTopologyGate)}});
  auto& gates = pods.set("spec").set("schedulingGates").items_mut();
  if (std::ranges::find(gates, gate) != gates.end()) return;
  gates.push_back(gate);
  added.set("schedulingGates").push_back(gate);
}

/// Applies the effects of flavors and checks to a template. Labels of the flavor of an earlier attempt are removed:
/// the selector is written in full.
template <class Effect>
Status lead_to(Json& pods, const Effect& effect, Json& added) {
  QM_TRY(describe(pods, effect, added));
  Json selector = Json::object();
  const std::map<std::string, std::string> wanted(effect.node_selector().begin(), effect.node_selector().end());
  for (const auto& [key, value] : wanted) {
    selector.set(key, value);
    if (!(pods["spec"]["nodeSelector"][key] == Json(value))) added.set("nodeSelector").set(key, value);
  }
  Json& spec = pods.set("spec");
  if (selector.size() > 0 || spec.contains("nodeSelector")) spec.set("nodeSelector", std::move(selector));
  for (const auto& t : effect.tolerations()) {
    const Json wants = toleration_json(t);
    auto& all = spec.set("tolerations").items_mut();
    if (std::ranges::find(all, wants) != all.end()) continue;
    all.push_back(wants);
    added.set("tolerations").push_back(wants);
  }
  if (effect.domains_size() > 0) gate_by_topology(pods, added);
  return {};
}

Result<state::JobOutcome> unsuspend(kube::Client& client, const state::JobIntent& intent, const UrlOf& url,
                                    std::optional<Json> known, std::optional<service::CallLimit>& limit) {
  QM_ASSIGN(auto subject, look(client, intent, std::move(known)));
  if (const auto out = settled(subject, intent)) return *out;
  const auto& kind = subject.kind;
  if (!subject.job->path(kind.suspend).boolean()) {
    if (attempt_of(*subject.job, kind) == intent.attempt()) return done(intent);
    // Pods of another attempt may still exist; the template can only be changed while the job is suspended.
    QM_TRY(write_suspended(client, subject, intent));
    return fail(Code::kAborted, "job {}/{} ran without being admitted", intent.namespace_(), intent.name());
  }
  // The job may have changed since quota was reserved; the reservation then does not match its present request.
  if (intent.spec_print() != 0 && spec_print(*subject.job, kind) != intent.spec_print()) {
    auto out = done(intent);
    out.set_ok(false);
    out.set_error(fmt::format("{} {}/{} changed after it got quota, and is tried again with the update", kind.kind,
                              intent.namespace_(), intent.name()));
    return out;
  }
  const bool is_job = kind.kind == "Job";
  if (is_job && !subject.job->path("status.startTime").is_null()) {
    // The API server allows changes of the template only before the start, so the start time of a suspended
    // job is cleared.
    const Json clear =
        Json::object({{"metadata", Json::object({{"resourceVersion", kube::resource_version_of(*subject.job)}})},
                      {"status", Json::object({{"startTime", Json()}})}});
    QM_ASSIGN(subject.job, client.merge_patch(subject.at, intent.namespace_(), intent.name(), clear, "status"));
  }
  Json now = *subject.job;
  const auto before = Json::parse(kube::annotation(now, kAdded));
  Json added = Json::object();
  bool selects = false;
  for (const auto& place : kind.places(now)) {
    Json* pods = config::find_template(now, place);
    if (pods == nullptr) continue;
    if (before) take_back(*pods, (*before)[place.pod_set]);
    selects = selects || !(*pods)["spec"]["nodeSelector"].is_null();
    Json more = Json::object();
    Json& annotations = pods->set("metadata").set("annotations");
    annotations.set(words::kAttempt, std::to_string(intent.attempt())).set(words::kReservation, intent.reservation());
    if (intent.resume_uri().empty()) {
      annotations.erase(words::kResume);
    } else {
      annotations.set(words::kResume, intent.resume_uri());
    }
    if (url && kube::annotation(*pods, words::kCheckpoint).empty()) {
      if (auto by = url(*subject.job); !by.empty()) annotations.set(words::kCheckpoint, std::move(by));
    }
    if (is_job) {
      QM_TRY(lead_to(*pods, intent, more));
      if (more.size() > 0) added.set(place.pod_set, std::move(more));
      continue;
    }
    // An intermediate object may create the pods, so they carry the name of their workload and pod set themselves.
    annotations.set(kWorkloadAnnotation, intent.uid());
    pods->set("metadata").set("labels").set(kPodSetLabel, place.pod_set);
    for (const auto& set : intent.sets()) {
      if (set.name() == place.pod_set) QM_TRY(lead_to(*pods, set, more));
    }
    if (more.size() > 0) added.set(place.pod_set, std::move(more));
  }
  // Separates the node selector of the author from the one that an attempt added.
  if (added.size() > 0 || selects) added.set(kSelectorsAdded, true);
  if (added.size() > 0) {
    now.set("metadata").set("annotations").set(kAdded, added.dump());
  } else if (before) {
    now.set("metadata").set("annotations").erase(kAdded);
  }
  if (is_job) set_parallelism(now, intent.parallelism());
  put(now, kind.suspend, false);
  const auto begin = std::chrono::steady_clock::now();
  QM_TRY(write(client, subject, intent, now));
  const auto end = std::chrono::steady_clock::now();
  if (limit) limit->ended(end, end - begin);
  return done(intent);
}

Result<state::JobOutcome> suspend(kube::Client& client, const state::JobIntent& intent) {
  QM_ASSIGN(const auto subject, look(client, intent));
  if (auto out = settled(subject, intent)) {
    out->set_quiet(!subject.job);
    return *out;
  }
  auto out = done(intent);
  if (subject.job->path(subject.kind.suspend).boolean()) {
    out.set_quiet(subject.kind.active(*subject.job) == 0);
  } else {
    QM_TRY(write_suspended(client, subject, intent));
  }
  return out;
}

Result<state::JobOutcome> remove(kube::Client& client, const state::JobIntent& intent) {
  QM_ASSIGN(const auto subject, look(client, intent));
  if (!subject.job) return done(intent);
  kube::Client::DeleteOptions options;
  options.uid = intent.uid();
  const auto removed = client.remove(subject.at, intent.namespace_(), intent.name(), options);
  if (!removed && removed.error().code != Code::kNotFound) return fail(removed.error());
  return done(intent);
}

std::string api_version_of(const config::WorkloadKind& kind) {
  return kind.group.empty() ? std::string(kind.versions.front())
                            : fmt::format("{}/{}", kind.group, kind.versions.front());
}

Result<state::JobOutcome> create(kube::Client& client, const state::JobIntent& intent, const std::string& id) {
  QM_ASSIGN(auto job, Json::parse(intent.object()));
  job.set("metadata").set("annotations").set(kSubmissionAnnotation, Json(id));
  const auto created = client.create(kJobs, intent.namespace_(), job);
  if (created) return done(intent);
  if (created.error().code != Code::kAlreadyExists) return fail(created.error());
  QM_ASSIGN(const auto there, client.get(kJobs, intent.namespace_(), intent.name()));
  if (kube::annotation(there, kSubmissionAnnotation) == id) return done(intent);
  return fail(created.error());
}

/// The object that an Event about a workload of pods refers to: its PodGroup where that is an object, else
/// its first pod.
Json involved_pods(kube::Client& client, const state::JobIntent& intent) {
  const auto about = [&](const char* version, const char* kind, const Json& object) {
    return Json::object({{"apiVersion", version},
                         {"kind", kind},
                         {"namespace", intent.namespace_()},
                         {"name", kube::name_of(object)},
                         {"uid", kube::uid_of(object)}});
  };
  if (intent.kind() == "PodGroup") {
    if (const auto at = client.find_kind("scheduling.volcano.sh", "podgroups", {"v1beta1"})) {
      const auto group = client.get(*at, intent.namespace_(), intent.name());
      if (group) return about("scheduling.volcano.sh/v1beta1", "PodGroup", *group);
    }
  }
  const auto pods = pods_of(client, intent);
  if (pods && !pods->empty()) return about("v1", "Pod", pods->front());
  return about("v1", "Pod",
               Json::object({{"metadata", Json::object({{"name", intent.name()}, {"uid", intent.uid()}})}}));
}

Result<state::JobOutcome> warn(kube::Client& client, const state::JobIntent& intent, const std::string& id) {
  const auto* known = config::workload_kind(intent.kind());
  const auto& kind = intent.kind() == "Workload" ? workload_object_kind()
                     : known != nullptr          ? *known
                                                 : *config::workload_kind("Job");
  const Json event = Json::object(
      {{"apiVersion", "v1"},
       {"kind", "Event"},
       {"metadata", Json::object({{"name", fmt::format("{}.{}", intent.name(), sha256_hex(id).substr(0, 16))},
                                  {"namespace", intent.namespace_()}})},
       {"involvedObject", is_pods(intent.kind()) ? involved_pods(client, intent)
                                                 : Json::object({{"apiVersion", api_version_of(kind)},
                                                                 {"kind", kind.kind},
                                                                 {"namespace", intent.namespace_()},
                                                                 {"name", intent.name()},
                                                                 {"uid", intent.uid()}})},
       {"type", "Warning"},
       {"reason", intent.reason().empty() ? std::string("QueueIsCluster") : intent.reason()},
       {"message", intent.object()},
       {"source", Json::object({{"component", "qm-admission"}})}});
  const auto written = client.create(kube::resources::kEvents, intent.namespace_(), event);
  // An Event is retried while the API server is unavailable. One that a quota, a limit or missing rights refuse is
  // dropped and does not delay commands about the job.
  const auto code = written ? Code() : written.error().code;
  if (code == Code::kUnavailable || code == Code::kDeadlineExceeded) return fail(written.error());
  if (!written && written.error().code != Code::kAlreadyExists) {
    log::warn("event not written",
              {{"job", intent.namespace_() + "/" + intent.name()}, {"error", written.error().to_string()}});
  }
  return done(intent);
}

}  // namespace

Result<service::Outcome> JobExecutor::execute(const store::IntentRow& intent) {
  state::JobIntent message;
  if (!message.ParseFromString(intent.payload)) return fail(Code::kInternal, "intent {} cannot be read", intent.id);
  auto result = [&]() -> Result<state::JobOutcome> {
    // The status of a Workload object is written from the state instead (workload_mirror.hpp).
    if (message.kind() == "Workload" && intent.kind != "event.create") return done(message);
    if (is_pods(message.kind())) {
      if (intent.kind == "job.unsuspend") return ungate_pods(client_, message, url_);
      if (intent.kind == "job.suspend") return evict_pods(client_, message, clock_ ? clock_->now() : Instant{});
      if (intent.kind == "job.delete") return delete_pods(client_, message);
    }
    if (intent.kind == "job.unsuspend") {
      if (auto known = observed_ == nullptr ? std::nullopt : observed_->take(message.uid())) {
        auto out = unsuspend(client_, message, url_, std::move(known), limit_);
        // Otherwise the object may have changed since, or is deleted.
        if (out || (out.error().retryable() && out.error().code != Code::kAborted)) return out;
      }
      return unsuspend(client_, message, url_, {}, limit_);
    }
    if (intent.kind == "job.suspend") return suspend(client_, message);
    if (intent.kind == "job.delete") return remove(client_, message);
    if (intent.kind == "job.create") {
      if (awaited_ && !awaited_(message.namespace_(), message.name(), intent.id)) return done(message);
      return create(client_, message, intent.id);
    }
    if (intent.kind == "event.create") return warn(client_, message, intent.id);
    return fail(Code::kUnimplemented, "no executor for intent {}", intent.kind);
  }();
  if (result) return service::Outcome{result->SerializeAsString()};
  const Error& error = result.error();
  if (intent.kind == "job.suspend" || intent.kind == "job.delete") return fail(kube::for_release(error));
  // The submitter reads the refusal and can correct it.
  if (intent.kind == "job.create" && error.code == Code::kPermissionDenied) return fail(error);
  return fail(kube::for_start(error));
}

std::optional<service::Outcome> superseded_command(const store::IntentRow& intent, const store::IntentRow& later) {
  const bool starts = intent.kind == "job.unsuspend";
  const bool again = later.kind == intent.kind;
  if (!starts && !(again && intent.kind == "job.suspend")) return std::nullopt;
  if (!again && later.kind != "job.suspend" && later.kind != "job.delete") return std::nullopt;
  state::JobIntent message, next;
  if (!message.ParseFromString(intent.payload) || !next.ParseFromString(later.payload)) return std::nullopt;
  // The key is the name, which may be that of another job by now.
  if (message.uid() != next.uid() || (!starts && message.attempt() != next.attempt())) return std::nullopt;
  return service::Outcome{done(message).SerializeAsString()};
}

service::Outcome JobExecutor::failed(const store::IntentRow& intent, const Error& error) {
  state::JobIntent message;
  state::JobOutcome out;
  if (message.ParseFromString(intent.payload)) out = done(message);
  out.set_ok(false);
  out.set_error(error.to_string());
  log::warn("intent failed", {{"intent", intent.id}, {"error", error.to_string()}});
  return {out.SerializeAsString()};
}

}  // namespace qm::admission
