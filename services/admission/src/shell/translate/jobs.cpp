// Reads objects that are suspended as a whole as workloads: the spec that the author submitted, and the state
// in the cluster.
#include "qm/admission/translate/translate.hpp"
#include "qm/base/digest.hpp"
#include "qm/config/runtime_class.hpp"
#include "qm/config/workload_kinds.hpp"
#include "qm/kube/client.hpp"
#include "qm/model/resources.hpp"
#include "translate/pods.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace qm::admission {

const config::WorkloadKind* suspending_kind(const Json& object) {
  const auto& kind = object["kind"].string();
  const auto* found =
      kind.empty() ? config::workload_kind("Job") : config::workload_kind(object["apiVersion"].string(), kind);
  return found != nullptr && found->suspends() ? found : nullptr;
}

bool is_managed(const Json& job) {
  const auto* kind = suspending_kind(job);
  if (kind == nullptr) return false;
  for (const auto& owner : job["metadata"]["ownerReferences"].items()) {
    if (owner["controller"].boolean() && suspending_kind(owner) != nullptr) return false;
  }
  const auto named = [](const Json& object) {
    return !kube::label(object, words::kQueueLabel).empty() || !kube::annotation(object, words::kQueueLabel).empty();
  };
  if (named(job)) return true;
  for (const auto& place : kind->places(job)) {
    const Json* pods = config::find_template(job, place);
    if (pods == nullptr) continue;
    if (named(*pods) || (*pods)["spec"]["schedulerName"].string() == words::kScheduler) return true;
  }
  return false;
}

void take_back(Json& pods, const Json& added) {
  for (const char* part : {"labels", "annotations"}) {
    for (const auto& [key, value] : added[part].members()) {
      if (pods["metadata"][part][key] == value) pods.set("metadata").set(part).erase(key);
    }
  }
  for (const auto& [key, value] : added["nodeSelector"].members()) {
    if (pods["spec"]["nodeSelector"][key] == value) pods.set("spec").set("nodeSelector").erase(key);
  }
  for (const char* list : {"tolerations", "schedulingGates"}) {
    const auto& ours = added[list].items();
    if (ours.empty()) continue;
    Json left = Json::array();
    for (const auto& has : pods["spec"][list].items()) {
      if (std::ranges::find(ours, has) == ours.end()) left.push_back(has);
    }
    pods.set("spec").set(list, std::move(left));
  }
}

Json as_submitted(const Json& job, const config::WorkloadKind& kind) {
  Json out = job;
  const auto added = Json::parse(kube::annotation(job, kAdded));
  for (const auto& place : kind.places(job)) {
    Json* pods = config::find_template(out, place);
    if (pods == nullptr) continue;
    if (added) take_back(*pods, (*added)[place.pod_set]);
    if (kube::label(*pods, kPodSetLabel) == place.pod_set) pods->set("metadata").set("labels").erase(kPodSetLabel);
  }
  return out;
}

namespace {

/// Removes empty members: they mean the same as absent ones.
void drop_empty(Json& value) {
  if (!value.is_object()) return;
  for (auto& [key, member] : value.members_mut()) drop_empty(member);
  std::erase_if(value.members_mut(), [](const Json::Member& member) {
    const bool holds = member.second.is_object() || member.second.is_array();
    return member.second.is_null() || (holds && member.second.size() == 0);
  });
}

void erase_at(Json& object, std::string_view dotted) {
  const auto dot = dotted.find('.');
  const auto first = dotted.substr(0, dot);
  if (dot == std::string_view::npos) {
    object.erase(first);
  } else if (object.contains(first)) {
    erase_at(object.set(first), dotted.substr(dot + 1));
  }
}

/// Whether as_submitted() can restore the pod templates of the author: attempts of an earlier release did not record
/// the node selectors that they added.
bool knows_additions(const Json& job, const config::WorkloadKind& kind) {
  if (attempt_of(job, kind) == 0) return true;
  const auto added = Json::parse(kube::annotation(job, kAdded));
  if (added && (*added)[kSelectorsAdded].boolean()) return true;
  return std::ranges::none_of(kind.places(job), [&](const config::TemplatePlace& place) {
    const Json* pods = config::find_template(job, place);
    return pods != nullptr && (*pods)["spec"]["nodeSelector"].size() > 0;
  });
}

/// Reads the fields that determine the phase of a job, whether its spec is valid or not.
void read_state(const Json& job, const config::WorkloadKind& kind, JobUpdated& seen) {
  seen.suspended = job.path(kind.suspend).boolean();
  seen.attempt = attempt_of(job, kind);
  seen.complete = config::is_complete(job, kind);
  seen.failed = config::is_failed(job, kind);
  seen.active = static_cast<std::int32_t>(kind.active(job));
  seen.pods_ready = config::are_pods_ready(job, kind);
  seen.external_scheduler = job[kExternalScheduler].boolean();
}

/// Number of pods of a Job that run at the same time, by its present object.
std::int64_t at_once_of(const Json& job) {
  const auto most = job.path("spec.parallelism").integer(1);
  return std::max<std::int64_t>(0, std::min(most, job.path("spec.completions").integer(most)));
}

/// Number of indexes in a list such as "1,3-5"; 0 where it cannot be parsed.
std::int64_t indexes_in(std::string_view text) {
  std::int64_t count = 0;
  while (!text.empty()) {
    const auto part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const char* end = part.data() + part.size();
    std::int64_t first = 0, last = 0;
    const auto at = std::from_chars(part.data(), end, first).ptr;
    last = first;
    if (at != end && (*at != '-' || std::from_chars(at + 1, end, last).ptr != end)) return 0;
    if (part.empty() || first < 0 || last < first) return 0;
    count += last - first + 1;
  }
  return count;
}

}  // namespace

std::uint32_t spec_print(const Json& job, const config::WorkloadKind& kind) {
  Json own = as_submitted(job, kind);
  for (const auto& place : kind.places(job)) {
    Json* pods = config::find_template(own, place);
    if (pods == nullptr || !pods->is_object()) continue;
    auto& annotations = pods->set("metadata").set("annotations");
    for (const std::string_view written :
         {words::kAttempt, words::kReservation, words::kResume, words::kCheckpoint, kWorkloadAnnotation}) {
      annotations.erase(written);
    }
    drop_empty(*pods);
  }
  erase_at(own, kind.suspend);
  // A Job that starts with fewer pods has the requested number in an annotation.
  if (const auto asked = kube::annotation(job, config::kParallelism); kind.kind == "Job" && !asked.empty()) {
    std::int64_t pods = 0;
    std::from_chars(asked.data(), asked.data() + asked.size(), pods);
    own.set("spec").set("parallelism", std::max(pods, job.path("spec.parallelism").integer(1)));
  }
  const auto value = Digest().add(own["spec"].dump()).value();
  const auto print = static_cast<std::uint32_t>(value ^ (value >> 32U));
  return print == 0 ? 1 : print;
}

Result<JobUpdated> rejected_job(const Json& object, const Error& why) {
  const auto& metadata = object["metadata"];
  JobUpdated seen;
  auto& spec = seen.spec;
  spec.uid = WorkloadUid(kube::uid_of(object));
  if (spec.uid.empty()) return fail(why);
  spec.ns = Namespace(kube::namespace_of(object));
  spec.name = kube::name_of(object);
  spec.kind = object["kind"].string().empty() ? "Job" : object["kind"].string();
  for (const auto& [key, value] : metadata["labels"].members()) spec.labels[key] = value.string();
  spec.queue = kube::label(object, words::kQueueLabel);
  if (spec.queue.empty()) spec.queue = kube::annotation(object, words::kQueueLabel);
  if (spec.queue.empty()) spec.queue = object.path("spec.queueName").string();
  if (spec.queue.empty()) spec.queue = object[kPodGroup]["spec"]["queue"].string();
  spec.priority_class = kube::label(object, words::kPriorityClassLabel);
  const auto team = kube::label(object, words::kTeamLabel);
  spec.team = Team(team.empty() ? spec.ns.value() : team);
  if (const auto created = from_rfc3339(metadata["creationTimestamp"].string())) spec.submitted = *created;
  constexpr std::size_t kLongest = 900;  // an Event has at most 1,024 bytes
  seen.rejected = why.message + (why.remedy.empty() ? "" : "; " + why.remedy);
  if (seen.rejected.empty()) seen.rejected = "it cannot be read";
  seen.rejected = seen.rejected.substr(0, kLongest);
  seen.as_submitted = false;
  if (const auto* kind = suspending_kind(object)) {
    read_state(object, *kind, seen);
  } else if (const auto& pods = object["pods"]; pods.is_array()) {
    read_pods_state(pods, seen);
    std::size_t over = 0;
    for (const auto& pod : pods.items()) {
      const auto& phase = pod["status"]["phase"].string();
      over += phase == "Succeeded" || phase == "Failed" ? 1 : 0;
    }
    seen.failed = pods.size() > 0 && over == pods.size();
    seen.external_scheduler = object[kExternalScheduler].boolean();
  } else {
    seen.external_scheduler = true;
    seen.failed = config::has_condition(object, "Finished");
  }
  return seen;
}

Status with_runtime_classes(Json& object, const config::WorkloadKind& kind) {
  if (object[kRuntimeClasses].size() == 0) return {};
  const Json classes = object[kRuntimeClasses];
  for (const auto& place : kind.places(object)) {
    Json* pods = config::find_template(object, place);
    if (pods == nullptr || !(*pods)["spec"].is_object()) continue;
    const auto name = (*pods)["spec"]["runtimeClassName"].string();
    const Json* scheduling = classes.find(name);
    if (scheduling == nullptr) continue;
    std::string path;
    for (const auto& part : place.path) {
      const bool position = std::ranges::all_of(part, [](unsigned char c) { return std::isdigit(c) != 0; });
      path += position ? fmt::format("[{}]", part) : (path.empty() ? "" : ".") + part;
    }
    QM_TRY(config::merge_scheduling(pods->set("spec"), *scheduling, name, path + ".spec"));
  }
  return {};
}

Result<JobUpdated> parse_job(const Json& job) {
  const auto* kind = suspending_kind(job);
  if (kind == nullptr) {
    return fail({Code::kInvalid, fmt::format("{} is not suspended as a whole", job["kind"].string()), "kind", {}});
  }
  JobUpdated seen;
  Json own = as_submitted(job, *kind);
  QM_TRY(with_runtime_classes(own, *kind));
  QM_ASSIGN(seen.spec, kind->kind == "Job" ? config::workload_from_job(own) : config::workload_from_object(own));
  if (seen.spec.uid.empty()) seen.spec.uid = WorkloadUid(kube::uid_of(job));
  if (seen.spec.uid.empty()) {
    return fail({Code::kInvalid, "the job has no uid", "metadata.uid", "only jobs from the API server are accepted"});
  }
  read_state(job, *kind, seen);
  seen.max_execution = max_execution_of(seen.spec);
  seen.refused = job[kRefused].string();
  seen.ended = ended_pods(job, *kind);
  seen.as_submitted = knows_additions(job, *kind);
  seen.spec_print = static_cast<std::uint32_t>(job[kSpecPrint].integer());
  if (kind->kind == "Job") {
    seen.elastic = config::is_elastic_job(job);
    seen.ready = static_cast<std::int32_t>(std::min<std::int64_t>(config::ready_pods(job), 1'000'000));
  }
  if (kind->kind == "Job") seen.at_once = static_cast<std::int32_t>(std::min<std::int64_t>(at_once_of(job), 1'000'000));
  return seen;
}

std::int32_t ended_pods(const Json& job, const config::WorkloadKind& kind) {
  if (kind.kind != "Job" || job.path(kind.suspend).boolean()) return 0;
  const auto at_once = at_once_of(job);
  // A failed index is not retried, so it counts as done too.
  const auto over = job.path("status.succeeded").integer() + indexes_in(job.path("status.failedIndexes").string());
  const auto left = job.path("spec.completions").integer(at_once) - over;
  if (at_once <= 1 || over == 0 || left >= at_once) return 0;
  return static_cast<std::int32_t>(at_once - std::max<std::int64_t>(left, 0));
}

Duration max_execution_of(const WorkloadSpec& spec) {
  const auto found = spec.labels.find(std::string(kMaxExecution));
  if (found == spec.labels.end()) return Duration{0};
  const auto& text = found->second;
  std::int32_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && seconds > 0 ? std::chrono::seconds(seconds) : Duration{0};
}

std::int32_t attempt_of(const Json& job, const config::WorkloadKind& kind) {
  for (const auto& place : kind.places(job)) {
    const Json* pods = config::find_template(job, place);
    const std::string attempt = pods == nullptr ? std::string() : kube::annotation(*pods, words::kAttempt);
    if (!attempt.empty() && attempt.size() < 10 &&
        std::all_of(attempt.begin(), attempt.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      return std::stoi(attempt);
    }
  }
  return 0;
}

std::string trace_of(const Json& job) {
  constexpr std::size_t kLongest = 128;  // version 00 has 55; later ones may be longer
  const std::string trace = kube::annotation(job, kTraceAnnotation);
  return trace.size() <= kLongest ? trace : std::string();
}

}  // namespace qm::admission
