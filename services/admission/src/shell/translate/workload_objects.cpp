#include "qm/admission/translate/workload_objects.hpp"

#include "qm/admission/scheduler/assignment.hpp"
#include "qm/admission/translate/translate.hpp"
#include "qm/base/digest.hpp"
#include "qm/config/manifest.hpp"
#include "qm/config/needs.hpp"
#include "qm/config/workload_kinds.hpp"
#include "qm/kube/client.hpp"

#include <algorithm>
#include <cctype>

namespace qm::admission {
namespace {

constexpr std::int64_t kMostPods = 100'000;

const Json& condition(const Json& object, std::string_view type) {
  static const Json none;
  for (const auto& c : object.path("status.conditions").items()) {
    if (c["type"].string() == type) return c;
  }
  return none;
}
bool holds(const Json& object, std::string_view type) { return condition(object, type)["status"].string() == "True"; }

std::int32_t attempt_on(const Json& object) {
  const auto text = kube::annotation(object, words::kAttempt);
  const bool digits = !text.empty() && text.size() < 10 &&
                      std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
  return digits ? std::stoi(text) : 0;
}

Error wrong(std::string field, std::string what, std::string remedy) {
  return {Code::kInvalid, std::move(what), std::move(field), std::move(remedy)};
}

std::optional<Verdict> verdict_of(const std::string& state) {
  for (const auto verdict : {Verdict::kPending, Verdict::kReady, Verdict::kRetry, Verdict::kRejected}) {
    if (state == name_of(verdict)) return verdict;
  }
  return std::nullopt;
}

/// Kueue's podSetUpdates of an admission check that is Ready.
std::map<std::string, PodSetUpdate> updates_of(const Json& check) {
  std::map<std::string, PodSetUpdate> out;
  const auto read = [](const Json& from, Labels& into) {
    for (const auto& [key, value] : from.members()) into[key] = value.string();
  };
  for (const auto& one : check["podSetUpdates"].items()) {
    auto& update = out[one["name"].string()];
    read(one["labels"], update.labels);
    read(one["annotations"], update.annotations);
    read(one["nodeSelector"], update.node_selector);
    for (const auto& t : one["tolerations"].items()) {
      update.tolerations.push_back(
          {t["key"].string(), t["operator"].string(), t["value"].string(), t["effect"].string()});
    }
  }
  return out;
}

std::string amount_text(const std::string& resource, std::int64_t amount) {
  const bool milli = resource == "cpu" || resource == words::kGpuResource;
  if (milli) return Quantity::of_milli(amount).to_string();
  return Quantity::of(amount, resource == "memory" ? Quantity::Format::kBinarySi : Quantity::Format::kDecimalSi)
      .to_string();
}

}  // namespace

bool is_mirror(const Json& object) { return !kube::label(object, kMirrors).empty(); }

const config::WorkloadKind& workload_object_kind() {
  static const config::WorkloadKind kind = [] {
    config::WorkloadKind out;
    out.group = "kueue.x-k8s.io";
    out.versions = {"v1beta2", "v1beta1"};
    out.kind = "Workload";
    out.plural = "workloads";
    out.complete = "Finished";
    out.places = [](const Json& object) {
      std::vector<config::TemplatePlace> places;
      const auto& sets = object.path("spec.podSets").items();
      for (std::size_t i = 0; i < sets.size(); ++i) {
        places.push_back({sets[i]["name"].string(),
                          {"spec", "podSets", std::to_string(i), "template"},
                          sets[i]["count"].integer(1)});
      }
      return places;
    };
    return out;
  }();
  return kind;
}

namespace {

/// The topologyRequest of a pod set. Of several layers of slices none is read.
PodSetTopology requested_topology(const Json& request) {
  PodSetTopology out;
  out.required = request["required"].string();
  out.preferred = request["preferred"].string();
  out.unconstrained = request["unconstrained"].boolean();
  out.slice = request["podSetSliceRequiredTopology"].string();
  out.slice_size =
      static_cast<std::int32_t>(std::clamp<std::int64_t>(request["podSetSliceSize"].integer(0), 0, kMostPods));
  out.group = request["podSetGroupName"].string();
  return out;
}

}  // namespace

Result<JobUpdated> parse_workload_object(const Json& given) {
  Json object = given;
  QM_TRY(with_runtime_classes(object, workload_object_kind()));
  JobUpdated seen;
  auto& spec = seen.spec;
  const auto& from = object["spec"];
  spec.uid = WorkloadUid(kube::uid_of(object));
  if (spec.uid.empty())
    return fail(wrong("metadata.uid", "the workload has no uid", "only objects from the API server are accepted"));
  spec.ns = Namespace(kube::namespace_of(object));
  spec.name = kube::name_of(object);
  spec.kind = "Workload";
  spec.queue = from["queueName"].string();
  // The priority value takes precedence; a class is used only where the value is absent.
  if (from["priority"].is_int()) {
    spec.priority = static_cast<std::int32_t>(from["priority"].integer());
  } else {
    spec.priority_class = from["priorityClassName"].string();
    if (spec.priority_class.empty()) spec.priority_class = from["priorityClassRef"]["name"].string();
  }
  for (const auto& [key, value] : object["metadata"]["labels"].members()) spec.labels[key] = value.string();
  const auto team = kube::label(object, words::kTeamLabel);
  spec.team = Team(team.empty() ? spec.ns.value() : team);
  if (const auto& created = object["metadata"]["creationTimestamp"].string(); !created.empty()) {
    QM_ASSIGN(spec.submitted, from_rfc3339(created));
  }
  if (const auto& most = from["maximumExecutionTimeSeconds"]; most.is_int()) {
    seen.max_execution = std::chrono::seconds(std::clamp<std::int64_t>(most.integer(), 0, 1'000'000'000));
  }
  const auto& sets = from["podSets"].items();
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const auto at = fmt::format("spec.podSets[{}]", i);
    PodSet set;
    if (const auto& name = sets[i]["name"].string(); !name.empty()) set.name = name;
    const auto count = sets[i]["count"].integer(1);
    if (count < 0 || count > kMostPods) {
      return fail(wrong(at + ".count", fmt::format("{}.count {} is out of range", at, count), "use 0 to 100000"));
    }
    const auto least = sets[i]["minCount"].integer(0);
    set.count = static_cast<std::int32_t>(count);
    if (least > 0 && least < count) set.min_count = static_cast<std::int32_t>(least);
    auto shape = config::shape_from_pod(sets[i]["template"]);
    if (!shape) {
      auto error = shape.error();
      error.field = fmt::format("{}.template.{}", at, error.field);
      error.message = fmt::format("{}.template: {}", at, error.message);
      return fail(std::move(error));
    }
    set.shape = std::move(*shape);
    set.topology = requested_topology(sets[i]["topologyRequest"]);
    if (set.count > 0) spec.pod_sets.push_back(std::move(set));
  }
  if (sets.empty()) return fail(wrong("spec.podSets", "spec.podSets has no pods", "give it at least one pod set"));
  // The controller that creates the pods reports that they are gone: it sets QuotaReserved = False, which releases
  // the quota.
  seen.suspended = !holds(object, "Admitted") || holds(object, "Evicted");
  seen.active = holds(object, "QuotaReserved") ? spec.total_pods() : 0;
  seen.attempt = attempt_on(object);
  const auto& finished = condition(object, "Finished");
  seen.failed = finished["status"].string() == "True" && finished["reason"].string() == "Failed";
  seen.complete = finished["status"].string() == "True" && !seen.failed;
  seen.pods_ready = holds(object, "PodsReady");
  seen.spec_active = from["active"].is_null() || from["active"].boolean();
  seen.external_scheduler = true;
  seen.refused = object[kRefused].string();
  return seen;
}

std::vector<Command> words_of(const Json& object) {
  std::vector<Command> out;
  const bool mirror = is_mirror(object);
  const WorkloadUid uid(mirror ? kube::label(object, kMirrors) : kube::uid_of(object));
  const auto attempt = attempt_on(object);
  if (mirror)
    out.emplace_back(ActiveUpdated{uid, object["spec"]["active"].is_null() || object["spec"]["active"].boolean()});
  for (const auto& one : object.path("status.admissionChecks").items()) {
    const auto verdict = verdict_of(one["state"].string());
    if (!verdict || *verdict == Verdict::kPending || attempt == 0) continue;
    AnswerCheck answer;
    answer.uid = uid;
    answer.check = one["name"].string();
    answer.verdict = *verdict;
    answer.message = one["message"].string().substr(0, 1000);
    answer.retry_after =
        std::chrono::seconds(std::clamp<std::int64_t>(one["requeueAfterSeconds"].integer(0), 0, 1'000'000));
    answer.attempt = attempt;
    if (*verdict == Verdict::kReady) answer.updates = updates_of(one);
    out.emplace_back(std::move(answer));
  }
  return out;
}

std::string mirror_name(const WorkloadSpec& spec) {
  std::string kind = spec.kind;
  std::ranges::transform(kind, kind.begin(), [](unsigned char c) { return std::tolower(c); });
  constexpr std::size_t kLongest = 253 - 7;
  return fmt::format("{}-{}", fmt::format("{}-{}", kind, spec.name).substr(0, kLongest),
                     sha256_hex(spec.uid.value()).substr(0, 5));
}

Json mirror_spec(const Workload& w, const Json& object) {
  const auto* kind = config::workload_kind(w.spec.kind);
  const Json own = kind == nullptr ? object : as_submitted(object, *kind);
  const auto with_template = [&](Json one, const std::string& name) {
    if (kind == nullptr) return one;
    for (const auto& place : kind->places(own)) {
      const Json* pods = place.pod_set == name ? config::find_template(own, place) : nullptr;
      if (pods != nullptr) one.set("template", *pods);
    }
    return one;
  };
  Json sets = Json::array();
  for (const auto& set : w.spec.pod_sets) {
    Json one = Json::object({{"name", set.name}, {"count", set.count}});
    // For a group of pods the minimum describes which pods run together, and quota is reserved for all of them.
    if (set.min_count > 0 && w.spec.kind == "Job") one.set("minCount", set.min_count);
    sets.push_back(with_template(std::move(one), set.name));
  }
  // The API server requires a pod set: a workload that requests no pods, or that is Rejected, gets the pod sets of
  // its object with a count of zero.
  if (sets.size() == 0 && kind != nullptr) {
    for (const auto& place : kind->places(own)) {
      sets.push_back(with_template(Json::object({{"name", place.pod_set}, {"count", 0}}), place.pod_set));
    }
  }
  Json spec = Json::object({{"queueName", *w.spec.queue}, {"priority", w.spec.priority}});
  spec.set("podSets", std::move(sets));
  if (w.max_execution > Duration{0}) {
    spec.set("maximumExecutionTimeSeconds", static_cast<std::int64_t>(seconds(w.max_execution)));
  }
  return spec;
}

Json mirror_of(const Workload& w, const Json& object, const std::string& version) {
  Json spec = mirror_spec(w, object);
  spec.set("active", w.inactive.empty());
  const Json owner = Json::object({{"apiVersion", object["apiVersion"].string()},
                                   {"kind", *w.spec.kind},
                                   {"name", w.spec.name},
                                   {"uid", w.spec.uid.value()},
                                   {"controller", true},
                                   {"blockOwnerDeletion", true}});
  Json metadata = Json::object({{"name", mirror_name(w.spec)}, {"namespace", w.spec.ns.value()}});
  metadata.set("labels").set(kMirrors, w.spec.uid.value()).set("kueue.x-k8s.io/job-uid", w.spec.uid.value());
  metadata.set("annotations").set(words::kAttempt, std::to_string(w.attempt));
  metadata.set("ownerReferences", Json::array({owner}));
  return Json::object({{"apiVersion", "kueue.x-k8s.io/" + version}, {"kind", "Workload"}})
      .set("metadata", std::move(metadata))
      .set("spec", std::move(spec));
}

namespace {

/// Builds the list of conditions, each with the time of its last transition.
class Conditions {
 public:
  Conditions(const Json& before, std::string instant) : before_(before), instant_(std::move(instant)) {}
  void set(const char* type, bool value, std::string_view reason, std::string message) {
    const char* status = value ? "True" : "False";
    std::string since = instant_;
    for (const auto& old : before_.items()) {
      if (old["type"].string() == type && old["status"].string() == status &&
          !old["lastTransitionTime"].string().empty()) {
        since = old["lastTransitionTime"].string();
      }
    }
    ours_.push_back(type);
    out_.push_back(Json::object({{"type", type},
                                 {"status", status},
                                 {"reason", std::string(reason)},
                                 {"message", std::move(message)},
                                 {"lastTransitionTime", std::move(since)}}));
  }
  /// Conditions of other writers are kept.
  Json done() && {
    for (const auto& old : before_.items()) {
      if (std::ranges::find(ours_, old["type"].string()) == ours_.end()) out_.push_back(old);
    }
    return std::move(out_);
  }

 private:
  const Json& before_;
  std::string instant_;
  std::vector<std::string> ours_;
  Json out_ = Json::array();
};

/// The nodes of a pod set: a list of domains in v1beta1, and one slice of all domains from v1beta2 on.
Json assignment_of(const topology::Assignment& assignment, bool listed) {
  const auto array = [](const std::vector<std::string>& texts) {
    Json out = Json::array();
    for (const auto& text : texts) out.push_back(text);
    return out;
  };
  Json out = Json::object({{"levels", array(assignment.levels)}});
  if (listed) {
    Json& domains = out.set("domains");
    for (const auto& domain : assignment.domains)
      domains.push_back(Json::object({{"values", array(domain.values)}, {"count", domain.count}}));
    return out;
  }
  Json counts = Json::array(), levels = Json::array();
  for (const auto& domain : assignment.domains) counts.push_back(domain.count);
  for (std::size_t i = 0; i < assignment.levels.size(); ++i) {
    Json roots = Json::array();
    for (const auto& domain : assignment.domains) roots.push_back(domain.values[i]);
    levels.push_back(Json::object({{"individual", Json::object({{"roots", std::move(roots)}})}}));
  }
  Json slice = Json::object({{"domainCount", static_cast<std::int64_t>(assignment.domains.size())},
                             {"podCounts", Json::object({{"individual", std::move(counts)}})},
                             {"valuesPerLevel", std::move(levels)}});
  out.set("slices", Json::array({std::move(slice)}));
  return out;
}

Json admission_of(const Workload& w, bool lists_domains) {
  Json sets = Json::array();
  const auto running = w.running();
  for (const auto& set : running.pod_sets) {
    Json flavors = Json::object(), usage = Json::object();
    if (const auto chosen = w.flavors.find(set.name); chosen != w.flavors.end()) {
      for (const auto& [resource, flavor] : chosen->second) flavors.set(resource, flavor.value());
    }
    WorkloadSpec alone;
    alone.pod_sets.push_back(set);
    for (const auto& [resource, amount] : requests_of(alone)) {
      if (flavors.contains(resource)) usage.set(resource, amount_text(resource, amount));
    }
    Json assigned = Json::object({{"name", set.name}, {"count", set.count}});
    assigned.set("flavors", std::move(flavors));
    assigned.set("resourceUsage", std::move(usage));
    if (const auto nodes = w.nodes().find(set.name); nodes != w.nodes().end()) {
      assigned.set("topologyAssignment", assignment_of(nodes->second, lists_domains));
    }
    sets.push_back(std::move(assigned));
  }
  return Json::object({{"clusterQueue", w.cluster_queue.value()}}).set("podSetAssignments", std::move(sets));
}

/// Check states of this attempt: a newer state in the object that is not handled yet is kept. A new attempt requires
/// all checks again.
Json checks_of(const Workload& w, const Json& now, const std::string& instant) {
  const bool same = attempt_on(now) == w.attempt;
  Json out = Json::array();
  for (const auto& [name, answer] : w.checks) {
    const Json* old = nullptr;
    for (const auto& one : now.path("status.admissionChecks").items()) {
      if (one["name"].string() == name) old = &one;
    }
    if (same && old != nullptr &&
        (answer.verdict == Verdict::kPending || (*old)["state"].string() == name_of(answer.verdict))) {
      out.push_back(*old);
      continue;
    }
    out.push_back(Json::object({{"name", name},
                                {"state", std::string(name_of(answer.verdict))},
                                {"message", answer.message},
                                {"lastTransitionTime", instant}}));
  }
  return out;
}

/// Reason and message of a workload without quota: the reason of `qmctl list` where the scheduler does not consider
/// the workload at all.
std::pair<std::string, std::string> why_pending(const Workload& w) {
  if (w.ended()) return {"Pending", "The workload has ended"};
  if (w.phase == Phase::kRejected) return {"Rejected", w.rejected()};
  if (!w.inactive.empty()) return {"Deactivated", "The workload is not active: " + *w.inactive};
  const bool is_tried = !w.priority_unknown && !w.cluster_queue.empty() && !w.spec.pod_sets.empty() &&
                        w.refused().empty() && w.budget.empty();
  if (is_tried) return {"Pending", "The workload is pending for quota"};
  if (*w.reason == "NoPods") return {"NoPods", "It requests no pods: parallelism, completions or all replicas are 0"};
  if (*w.reason == "Misconfigured") return {"Misconfigured", w.refused()};
  return {*w.reason,
          fmt::format("The workload is not tried; qmctl why {}/{} lists the causes", w.spec.ns, w.spec.name)};
}

}  // namespace

Json workload_status(const Workload& w, const Json& now, Instant instant) {
  const auto when = to_rfc3339(from_micros(micros(instant) / 1'000'000 * 1'000'000));
  const auto& before = now.path("status.conditions");
  Conditions conditions(before, when);
  const auto has_condition = [&](const char* type) {
    return std::ranges::any_of(before.items(), [&](const Json& c) { return c["type"].string() == type; });
  };
  Json status = Json::object();
  const bool reserved = w.holds_quota();
  const bool admitted = w.phase == Phase::kAdmitted || w.phase == Phase::kEvicting;
  if (reserved) {
    conditions.set("QuotaReserved", true, "QuotaReserved",
                   fmt::format("Quota reserved in ClusterQueue {}", w.cluster_queue));
    status.set("admission", admission_of(w, now["apiVersion"].string().ends_with("/v1beta1")));
  } else {
    const auto [reason, message] = why_pending(w);
    conditions.set("QuotaReserved", false, reason, message);
    status.set("admission", Json());
  }
  const bool behind = reserved && (!w.rejected().empty() || w.next() != nullptr || w.scale_up_to() > 0);
  if (behind) {
    const bool grows = w.scale_up_pending();
    conditions.set("UpdateFollowed", false,
                   !w.rejected().empty() ? "Rejected"
                   : grows               ? "ScaleUpPending"
                                         : "AlreadyAdmitted",
                   !w.rejected().empty() ? w.rejected()
                   : grows ? fmt::format("{} of {} pods are admitted, and quota of {} more is lacking; qmctl why {}/{} "
                                         "lists the causes",
                                         w.counted_pods(), w.scale_up_to(), w.scale_up_to() - w.counted_pods(),
                                         w.spec.ns, w.spec.name)
                           : "Its object changed since it got quota; the update is used at its next attempt");
  } else if (has_condition("UpdateFollowed")) {
    conditions.set("UpdateFollowed", true, "Followed", "The workload matches its object");
  }
  if (admitted) {
    conditions.set("Admitted", true, "Admitted", "The workload is admitted");
  } else if (reserved) {
    conditions.set("Admitted", false, w.checks.empty() ? "InsufficientCapacity" : "UnsatisfiedChecks",
                   w.checks.empty() ? "No node assignment for its pods yet" : "Not all admission checks are ready");
  } else if (has_condition("Admitted")) {
    conditions.set("Admitted", false, "NoReservation", "The workload has no reservation");
  }
  if (w.phase == Phase::kEvicting) {
    const auto reason = w.inactive.empty() || w.eviction->reason == "Deactivated"
                            ? w.eviction->reason
                            : "DeactivatedDueTo" + w.eviction->reason;
    conditions.set("Evicted", true, reason, w.eviction->message);
    if (w.eviction->reason == "Preempted") conditions.set("Preempted", true, "Preempted", w.eviction->message);
  } else if (has_condition("Evicted") && reserved) {
    conditions.set("Evicted", false, "QuotaReserved", "Quota is reserved again");
    if (has_condition("Preempted")) conditions.set("Preempted", false, "QuotaReserved", "Quota is reserved again");
  }
  if (w.ended()) {
    conditions.set("Finished", true,
                   w.phase == Phase::kCancelled ? "Cancelled"
                   : w.succeeded                ? "Succeeded"
                                                : "Failed",
                   w.reason);
  }
  status.set("conditions", std::move(conditions).done());
  status.set("admissionChecks", w.checks.empty() ? Json() : checks_of(w, now, when));
  if (w.requeues > 0 || w.not_before != Instant{}) {
    auto& state = status.set("requeueState");
    state.set("count", w.requeues);
    state.set("requeueAt", w.not_before == Instant{} ? Json() : Json(to_rfc3339(w.not_before)));
  } else {
    status.set("requeueState", Json());
  }
  status.set("accumulatedPastExecutionTimeSeconds",
             w.ran == Duration{0} ? Json() : Json(static_cast<std::int64_t>(seconds(w.ran))));
  return status;
}

}  // namespace qm::admission
