#include "translate/pods.hpp"

#include "qm/admission/translate/translate.hpp"
#include "qm/admission/volcano/objects.hpp"
#include "qm/base/digest.hpp"
#include "qm/config/manifest.hpp"
#include "qm/config/needs.hpp"
#include "qm/config/workload_kinds.hpp"
#include "qm/kube/client.hpp"

#include <algorithm>
#include <charconv>

namespace qm::admission {
namespace {

constexpr std::int64_t kMostMembers = 100'000;
/// Name of the pod set of a group without pods, after the field that it is read from.
constexpr const char* kNeeds = "minResources";

std::int64_t number_of(const std::string& text, std::int64_t otherwise) {
  std::int64_t value = otherwise;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty() ? value : otherwise;
}

/// Equal for pods with equal requests.
std::string print_of(const PodShape& shape) {
  std::string out = fmt::format("{}/{}/{}/{}/{}/{}", shape.cpu_milli, shape.memory_bytes, shape.gpu.whole,
                                shape.gpu.milli, shape.gpu.mig_profile, shape.gpu.mig_count);
  for (const auto& model : shape.gpu.models) out += "/m:" + model;
  for (const auto& [key, value] : shape.extended) out += fmt::format("/x:{}={}", key, value);
  return out;
}

/// The value of an object at the field of a remark; the names of annotations contain dots. Null where it is absent.
const Json& value_at(const Json& object, std::string_view field) {
  static const Json none;
  for (const auto& [key, value] : object.members()) {
    if (field == key) return value;
    if (field.starts_with(key) && field.substr(key.size()).starts_with('.')) {
      if (const auto& found = value_at(value, field.substr(key.size() + 1)); !found.is_null()) return found;
    }
  }
  return none;
}

/// The message of a rejection: field, value and remedy.
std::string rejection_of(const std::string& group, const Json& pod_group, const volcano::Remark& remark) {
  constexpr std::size_t kLongest = 100;
  auto value = value_at(pod_group, remark.field).dump();
  if (value.size() > kLongest) value = value.substr(0, kLongest) + "...";
  const char* remedy = remark.text.find("; ") == std::string::npos ? "; correct the field, or remove it" : "";
  return fmt::format("PodGroup {}: {} is {}: {}{}", group, remark.field, value, remark.text, remedy);
}

/// Fills in what the pods do not set: queue, priority class, whether they may be preempted, and the
/// longest waiting time.
void fill_in(const Json& pod_group, JobUpdated& seen) {
  if (pod_group.is_null()) return;
  const auto read = volcano::read_group(pod_group);
  const auto& fields = read.value;
  auto& spec = seen.spec;
  if (spec.queue.empty()) spec.queue = pod_group["spec"]["queue"].string();
  if (spec.priority_class.empty()) spec.priority_class = fields.priority_class;
  if (!fields.preemptable) spec.labels[std::string(volcano::kPreemptable)] = "false";
  if (fields.waiting_time) {
    const auto wait = std::chrono::ceil<std::chrono::seconds>(*fields.waiting_time).count();
    seen.waiting_time = WholeSeconds(static_cast<std::int32_t>(std::min<std::int64_t>(wait, 1'000'000'000)));
  }
  if (read.refused.empty()) return;
  seen.rejected = rejection_of(spec.name, pod_group, read.refused.front());
}

/// Represents the group as one pod that requests all of its resources.
Json as_single_pod(const Json& group) {
  const Json& pod_group = group[kPodGroup];
  Json metadata = pod_group["metadata"];
  metadata.set("namespace", kube::namespace_of(group)).set("name", kube::name_of(group));
  // A group that names no queue belongs to the queue "default".
  if (kube::label(pod_group, words::kQueueLabel).empty() && pod_group["spec"]["queue"].string().empty()) {
    metadata.set("labels").set(words::kQueueLabel, "default");
  }
  Json container = Json::object({{"name", "all"}, {"resources", Json::object({{"requests", needs_of(pod_group)}})}});
  Json spec = Json::object({{"containers", Json::array({std::move(container)})}});
  spec.set("schedulingGates", Json::array({Json::object({{"name", std::string(kGate)}})}));
  return Json::object({{"metadata", std::move(metadata)}, {"spec", std::move(spec)}});
}

/// The first pod set has the total request of the group. The second one makes up the number of pods
/// and requests nothing.
std::vector<PodSet> sets_of_needs(PodShape shape, std::int64_t pods) {
  std::vector<PodSet> out(1);
  out.front().name = kNeeds;
  out.front().shape = std::move(shape);
  if (pods > 1) {
    out.emplace_back().name = "others";
    out.back().count = static_cast<std::int32_t>(std::min<std::int64_t>(pods, kMostMembers)) - 1;
  }
  return out;
}

/// Allows pods above minMember to be missing from the largest pod set (the first of equals). Returns how many.
std::size_t reduce_to_minimum(std::size_t total, const Json& pod_group, std::vector<PodSet>& sets) {
  const auto least = pod_group["spec"]["minMember"].integer();
  const auto largest = std::ranges::max_element(sets, {}, &PodSet::count);
  if (least < 1 || largest == sets.end()) return 0;
  const auto lacks = std::min(static_cast<std::int64_t>(total) - least, std::int64_t{largest->count} - 1);
  if (lacks <= 0) return 0;
  largest->min_count = static_cast<std::int32_t>(largest->count - lacks);
  return static_cast<std::size_t>(lacks);
}

}  // namespace

bool gated(const Json& pod) {
  const auto& gates = pod["spec"]["schedulingGates"].items();
  return std::any_of(gates.begin(), gates.end(), [](const Json& gate) { return gate["name"].string() == kGate; });
}

std::string group_of(const Json& pod) {
  auto name = kube::label(pod, kGroupLabel);
  return name.empty() ? kube::annotation(pod, kVolcanoGroup) : name;
}

bool is_our_pod(const Json& pod) {
  // Pods of an object that is unsuspended as a whole name their workload too, but have no index from Quartermaster.
  return gated(pod) ||
         (!kube::annotation(pod, kWorkloadAnnotation).empty() && !kube::annotation(pod, kIndexAnnotation).empty());
}

bool ended(const Json& pod) {
  const auto& phase = pod["status"]["phase"].string();
  return phase == "Succeeded" || phase == "Failed";
}

std::int64_t total_count(const Json& pod) {
  if (group_of(pod).empty()) return 1;
  return std::clamp<std::int64_t>(number_of(kube::annotation(pod, kGroupCount), 0), 0, kMostMembers);
}

Result<std::string> pod_set_of(const Json& pod) {
  if (group_of(pod).empty()) return std::string("main");
  // An ungated pod also has the node labels of its flavor, so its pod set is read from its label.
  if (const auto set = kube::label(pod, kPodSetLabel); !set.empty()) return set;
  QM_ASSIGN(const auto shape, config::shape_from_pod(pod));
  return "role-" + sha256_hex(print_of(shape)).substr(0, 8);
}

Json needs_of(const Json& pod_group) {
  Json out;
  for (const auto& [name, amount] : pod_group["spec"]["minResources"].members()) {
    const bool counted_twice = name.starts_with("requests.") || name.starts_with("limits.");
    if (name != "pods" && !name.starts_with("count/") && !counted_twice) out.set(name, amount);
  }
  return out;
}

void read_pods_state(const Json& pods, JobUpdated& seen) {
  seen.suspended = false;
  for (const auto& pod : pods.items()) {
    const bool waits = gated(pod);
    seen.suspended = seen.suspended || (waits && !ended(pod));
    seen.active += !waits && !ended(pod) ? 1 : 0;
    seen.attempt = std::max(seen.attempt, static_cast<std::int32_t>(std::clamp<std::int64_t>(
                                              number_of(kube::annotation(pod, words::kAttempt), 0), 0, 1'000'000'000)));
  }
}

Result<JobUpdated> parse_pods(const Json& group) {
  const auto& pods = group["pods"];
  const bool expected = pods.size() == 0;
  if (expected && needs_of(group[kPodGroup]).is_null()) {
    return fail({Code::kInvalid, "a group without pods and without minResources", "pods", {}});
  }
  const Json first = expected ? as_single_pod(group) : pods.at(0);
  JobUpdated seen;
  QM_ASSIGN(seen.spec, config::workload_from_pod(first));
  seen.spec.kind = group["kind"].string();
  seen.spec.name = kube::name_of(group);
  seen.spec.ns = Namespace(kube::namespace_of(group));
  seen.spec.uid = WorkloadUid(kube::uid_of(group));
  if (seen.spec.uid.empty()) return fail({Code::kInvalid, "the pods have no uid", "metadata.uid", {}});
  if (const auto& since = group[kWaitsSince].string(); !since.empty()) {
    QM_ASSIGN(seen.spec.submitted, from_rfc3339(since));
  }
  fill_in(group[kPodGroup], seen);
  seen.max_execution = max_execution_of(seen.spec);
  seen.external_scheduler = group[kExternalScheduler].boolean();
  if (expected) {
    seen.pods_expected = true;
    auto shape = std::move(seen.spec.pod_sets.at(0).shape);
    seen.spec.pod_sets = sets_of_needs(std::move(shape), group[kPodGroup]["spec"]["minMember"].integer(1));
    return seen;
  }
  seen.spec.pod_sets.clear();
  read_pods_state(pods, seen);
  const auto total = static_cast<std::size_t>(std::max<std::int64_t>(total_count(first), 1));
  std::size_t succeeded = 0, failed = 0, counted = 0, ready = 0;
  const auto& kind = *config::workload_kind("Pod");
  for (const auto& pod : pods.items()) {
    const auto& phase = pod["status"]["phase"].string();
    succeeded += phase == "Succeeded" ? 1 : 0;
    failed += phase == "Failed" ? 1 : 0;
    ready += config::are_pods_ready(pod, kind) ? 1 : 0;
    if (counted++ >= total) continue;  // pods beyond the total count stay gated
    QM_ASSIGN(const auto name, pod_set_of(pod));
    auto& sets = seen.spec.pod_sets;
    auto set = std::find_if(sets.begin(), sets.end(), [&](const PodSet& s) { return s.name == name; });
    if (set != sets.end()) {
      ++set->count;
      continue;
    }
    QM_ASSIGN(auto fresh, config::pod_set_from_pod(pod, name));
    sets.push_back(std::move(fresh));
  }
  const auto least = total - reduce_to_minimum(total, group[kPodGroup], seen.spec.pod_sets);
  const auto over = succeeded + failed;
  // Some pods above the minimum may have been lost with their nodes, without a replacement.
  const bool all_over = over >= total || (least < total && over >= least && over == pods.size());
  seen.pods_ready = ready >= least;
  seen.as_submitted = pods.size() >= total && seen.attempt == 0 &&
                      std::ranges::all_of(pods.items(), [](const Json& pod) { return gated(pod); });
  seen.complete = succeeded >= total || (all_over && failed == 0);
  seen.failed = !seen.complete && failed > 0 && all_over && !seen.suspended && seen.active == 0;
  return seen;
}

}  // namespace qm::admission
