#include "qm/admission/executor.hpp"

#include "pod_executor.hpp"
#include "qm/admission/workload.hpp"
#include "qm/base/digest.hpp"
#include "qm/base/log.hpp"
#include "qm/model/resources.hpp"
#include "state/admission_state.pb.h"

#include <set>

namespace qm::admission {
namespace {

namespace state = quartermaster::admission;
using kube::resources::kJobs;

bool condition(const Json& job, std::string_view type) {
  for (const auto& c : job.path("status.conditions").items()) {
    if (c["type"].string() == type) return c["status"].string() == "True";
  }
  return false;
}

state::JobOutcome done(const state::JobIntent& intent) {
  state::JobOutcome out;
  out.set_subject(intent.uid().empty() ? intent.namespace_() + "/" + intent.name() : intent.uid());
  out.set_attempt(intent.attempt());
  out.set_ok(true);
  return out;
}

// The job as it is now; none where it is gone, or where another took its name.
Result<std::optional<Json>> look(kube::Client& client, const state::JobIntent& intent) {
  auto job = client.get(kJobs, intent.namespace_(), intent.name());
  if (!job) {
    if (job.error().code == Code::kNotFound) return std::optional<Json>{};
    return fail(job.error());
  }
  if (kube::uid_of(*job) != intent.uid()) return std::optional<Json>{};
  return std::optional<Json>{std::move(*job)};
}

std::int32_t attempt_of(const Json& job) {
  const std::string text = kube::annotation(job["spec"]["template"], words::kAttempt);
  return text.empty() ? 0 : static_cast<std::int32_t>(std::strtol(text.c_str(), nullptr, 10));
}

// What is the same for suspend and un-suspend: an answer where nothing is left to do.
std::optional<state::JobOutcome> settled(const std::optional<Json>& job, const state::JobIntent& intent) {
  auto out = done(intent);
  if (!job) return out;
  out.set_complete(condition(*job, "Complete"));
  out.set_failed(condition(*job, "Failed"));
  if (out.complete() || out.failed() || attempt_of(*job) > intent.attempt()) return out;
  return std::nullopt;
}

Json toleration_json(const quartermaster::v1::Toleration& t) {
  Json out = Json::object({{"key", t.key()}, {"operator", t.operator_().empty() ? "Equal" : t.operator_()}});
  if (!t.value().empty()) out.set("value", t.value());
  if (!t.effect().empty()) out.set("effect", t.effect());
  return out;
}

Json pod_patch(const Json& pod, const state::JobIntent& intent) {
  Json patch = Json::object();
  const std::map<std::string, std::string> wanted(intent.node_selector().begin(), intent.node_selector().end());
  Json selector = Json::object();
  for (const auto& [key, value] : wanted) {
    if (pod["nodeSelector"][key].string() != value) selector.set(key, value);
  }
  // Labels of the flavor of an earlier attempt go.
  for (const auto& [key, value] : pod["nodeSelector"].members()) {
    if (!wanted.contains(key)) selector.set(key, Json());
  }
  if (selector.size() > 0) patch.set("nodeSelector", selector);
  Json tolerations = pod["tolerations"];
  bool more = false;
  for (const auto& t : intent.tolerations()) {
    const Json wants = toleration_json(t);
    bool there = false;
    for (const auto& has : tolerations.items()) there = there || has == wants;
    if (there) continue;
    tolerations.items_mut().push_back(wants);
    more = true;
  }
  if (more) patch.set("tolerations", tolerations);
  return patch;
}

Result<state::JobOutcome> unsuspend(kube::Client& client, const state::JobIntent& intent, const UrlOf& url) {
  QM_ASSIGN(auto job, look(client, intent));
  if (const auto out = settled(job, intent)) return *out;
  if (!(*job)["spec"]["suspend"].boolean()) {
    if (attempt_of(*job) == intent.attempt()) return done(intent);
    // Pods of another attempt may be about; the template can only be changed while the job is suspended.
    QM_TRY(client.merge_patch(kJobs, intent.namespace_(), intent.name(),
                              Json::object({{"spec", Json::object({{"suspend", true}})}})));
    return fail(Code::kAborted, "job {}/{} ran without being admitted", intent.namespace_(), intent.name());
  }
  if (!job->path("status.startTime").is_null()) {
    // A template is only open to change in a job that has not started; a suspended one is told that it has not.
    const Json clear = Json::object({{"metadata", Json::object({{"resourceVersion", kube::resource_version_of(*job)}})},
                                     {"status", Json::object({{"startTime", Json()}})}});
    QM_ASSIGN(job, client.merge_patch(kJobs, intent.namespace_(), intent.name(), clear, "status"));
  }
  Json annotations =
      Json::object({{std::string(words::kAttempt), std::to_string(intent.attempt())},
                    {std::string(words::kReservation), intent.reservation()},
                    {std::string(words::kResume), intent.resume_uri().empty() ? Json() : Json(intent.resume_uri())}});
  if (url && kube::annotation((*job)["spec"]["template"], words::kCheckpoint).empty()) {
    if (auto by = url(*job); !by.empty()) annotations.set(words::kCheckpoint, std::move(by));
  }
  Json pods = Json::object({{"metadata", Json::object({{"annotations", annotations}})}});
  Json pod = pod_patch((*job)["spec"]["template"]["spec"], intent);
  if (pod.size() > 0) pods.set("spec", pod);
  const Json patch = Json::object({{"metadata", Json::object({{"resourceVersion", kube::resource_version_of(*job)}})},
                                   {"spec", Json::object({{"suspend", false}, {"template", pods}})}});
  QM_TRY(client.merge_patch(kJobs, intent.namespace_(), intent.name(), patch));
  return done(intent);
}

Result<state::JobOutcome> suspend(kube::Client& client, const state::JobIntent& intent) {
  QM_ASSIGN(const auto job, look(client, intent));
  if (auto out = settled(job, intent)) {
    out->set_quiet(!job);
    return *out;
  }
  if ((*job)["spec"]["suspend"].boolean()) {
    auto out = done(intent);
    const auto& status = (*job)["status"];
    out.set_quiet(status["active"].integer() + status["terminating"].integer() == 0);
    return out;
  }
  const Json patch = Json::object({{"metadata", Json::object({{"resourceVersion", kube::resource_version_of(*job)}})},
                                   {"spec", Json::object({{"suspend", true}})}});
  QM_TRY(client.merge_patch(kJobs, intent.namespace_(), intent.name(), patch));
  return done(intent);
}

Result<state::JobOutcome> remove(kube::Client& client, const state::JobIntent& intent) {
  QM_ASSIGN(const auto job, look(client, intent));
  if (!job) return done(intent);
  kube::Client::DeleteOptions options;
  options.uid = intent.uid();
  const auto removed = client.remove(kJobs, intent.namespace_(), intent.name(), options);
  if (!removed && removed.error().code != Code::kNotFound) return fail(removed.error());
  return done(intent);
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

Result<state::JobOutcome> warn(kube::Client& client, const state::JobIntent& intent, const std::string& id) {
  const Json event = Json::object(
      {{"apiVersion", "v1"},
       {"kind", "Event"},
       {"metadata", Json::object({{"name", fmt::format("{}.{}", intent.name(), sha256_hex(id).substr(0, 16))},
                                  {"namespace", intent.namespace_()}})},
       {"involvedObject", Json::object({{"apiVersion", is_pods(intent.kind()) ? "v1" : "batch/v1"},
                                        {"kind", is_pods(intent.kind()) ? "Pod" : "Job"},
                                        {"namespace", intent.namespace_()},
                                        {"name", intent.name()},
                                        {"uid", intent.uid()}})},
       {"type", "Warning"},
       {"reason", "QueueIsCluster"},
       {"message", intent.object()},
       {"source", Json::object({{"component", "qm-admission"}})}});
  const auto written = client.create(kube::resources::kEvents, intent.namespace_(), event);
  if (!written && written.error().retryable()) return fail(written.error());
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
    if (is_pods(message.kind())) {
      if (intent.kind == "job.unsuspend") return let_go(client_, message, url_);
      if (intent.kind == "job.suspend") return evict_pods(client_, message, clock_ ? clock_->now() : Instant{});
      if (intent.kind == "job.delete") return delete_pods(client_, message);
    }
    if (intent.kind == "job.unsuspend") return unsuspend(client_, message, url_);
    if (intent.kind == "job.suspend") return suspend(client_, message);
    if (intent.kind == "job.delete") return remove(client_, message);
    if (intent.kind == "job.create") {
      if (awaited_ && !awaited_(message.namespace_(), message.name(), intent.id)) return done(message);
      return create(client_, message, intent.id);
    }
    if (intent.kind == "event.create") return warn(client_, message, intent.id);
    return fail(Code::kUnimplemented, "nothing does {}", intent.kind);
  }();
  if (result) return service::Outcome{result->SerializeAsString()};
  Error error = result.error();
  // Each of these may be done again, so not knowing whether it was done is no reason to give up.
  if (error.code == Code::kUnknown) error.code = Code::kUnavailable;
  return fail(std::move(error));
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
