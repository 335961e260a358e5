#include "shell/solo.hpp"

#include "qm/base/digest.hpp"
#include "qm/config/manifest.hpp"
#include "qm/config/needs.hpp"
#include "qm/kube_objects/rules.hpp"
#include "qm/kube_rules/text.hpp"
#include "qm/placement/ownership.hpp"
#include "qm/placement/shell.hpp"

#include <algorithm>
#include <charconv>

namespace qm::placement {
namespace {

std::int64_t number_of(const std::string& text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string group_of(const Json& pod) {
  for (const char* key : {"scheduling.x-k8s.io/pod-group", "kueue.x-k8s.io/pod-group-name"}) {
    if (auto name = kube::label(pod, key); !name.empty()) return name;
  }
  return kube::annotation(pod, "scheduling.k8s.io/group-name");
}

bool is_daemon(const Json& pod) {
  const auto& owners = pod["metadata"]["ownerReferences"].items();
  return std::any_of(owners.begin(), owners.end(), [](const Json& owner) {
    return owner["kind"].string() == "DaemonSet" || owner["kind"].string() == "Node";
  });
}

bool ended(const Json& pod) {
  const auto& phase = pod["status"]["phase"].string();
  return phase == "Succeeded" || phase == "Failed";
}

bool bound(const Json& pod) { return !pod["spec"]["nodeName"].string().empty(); }

Result<std::string> set_of(const Json& pod) {
  QM_ASSIGN(const auto shape, config::shape_from_pod(pod));
  std::string print = fmt::format("{}/{}/{}/{}/{}/{}", shape.cpu_milli, shape.memory_bytes, shape.gpu.whole,
                                  shape.gpu.milli, shape.gpu.mig_profile, shape.gpu.mig_count);
  for (const auto& [key, value] : shape.extended) print += fmt::format("/{}={}", key, value);
  for (const auto& [key, value] : shape.node_selector) print += fmt::format("/{}={}", key, value);
  // Adds the rules that the shape does not cover; labels differ from pod to pod.
  QM_ASSIGN(auto like, kube_objects::template_from_pod(pod));
  like.labels.clear();
  like.rules.node_selector.clear();
  like.rules.tolerations.clear();
  like.rules.requests.clear();
  if (const auto text = rules::text_of(like); text != rules::text_of({like.ns, {}, {}})) print += "/" + text;
  return "role-" + sha256_hex(print).substr(0, 8);
}

}  // namespace

bool ours_to_bind(const Json& pod, const kube::Ownership* binding) {
  if (pod["spec"]["schedulingGates"].size() > 0) return false;
  const bool named = pod["spec"]["schedulerName"].string() == words::kScheduler;
  if (binding == nullptr) return named;
  const auto owner = binding->of(kube::namespace_of(pod));
  if (owner.owner == "unknown" || (owner.explicit_owner && !owner.ours)) return false;
  return named || (owner.explicit_owner && !is_daemon(pod));
}

Solo::Solo(service::Host& host, const kube::Ownership* quota, const kube::Ownership* binding, Send send)
    : host_(host), quota_(quota), binding_(binding), send_(std::move(send)) {}

void Solo::restore() {
  const std::scoped_lock lock(mutex_);
  host_.read([this](const service::Shell& shell) {
    const auto& tables = engine_of(shell).tables();
    for (const auto& [uid, pod] : tables.pods) {
      const auto* workload = tables.workloads.find(pod.facts.owner);
      if (workload == nullptr || !workload->spec.labels.contains(kUnadmitted)) continue;
      if (ownership_of(tables, pod.facts, pod.facts.owner) != PodOwnership::kOwned) continue;
      places_[uid] = {pod.facts.owner.value(), pod.facts.pod_set, pod.facts.index};
      if (!pod.facts.terminal()) alive_[pod.facts.owner.value()].insert(uid);
    }
  });
}

std::int64_t Solo::size_of(const Json& pod, const std::string& group) const {
  const auto known = sizes_.find(kube::namespace_of(pod) + "/" + group);
  if (known != sizes_.end()) return known->second;
  return number_of(kube::annotation(pod, "kueue.x-k8s.io/pod-group-total-count"));
}

void Solo::pass_on(Json pod, const Place* place) {
  Json hint = Json::object({{"ours", place != nullptr || ours_to_bind(pod, binding_)}});
  if (place != nullptr) {
    hint.set("owner", place->owner);
    hint.set("attempt", 1);
    hint.set("index", place->index);
    hint.set("set", place->set);
  }
  pod.set("metadata").erase("managedFields");
  pod.set(kHint, std::move(hint));
  send_("pod", pod.dump(), urgency_of_pod(pod));
}

void Solo::see(Json pod, bool deleted) {
  const std::scoped_lock lock(mutex_);
  const auto uid = kube::uid_of(pod);
  if (deleted) {
    unbound_.erase(uid);
    for (auto it = gangs_.begin(); it != gangs_.end();) {
      it->second.waiting.erase(uid);
      it = it->second.waiting.empty() ? gangs_.erase(it) : std::next(it);
    }
    pod.set("deleted", true);
    send_("pod", pod.dump(), urgency_of_pod(pod));
    leave(uid);
    places_.erase(uid);
    return;
  }
  if (const auto place = places_.find(uid); place != places_.end()) {
    const bool over = ended(pod);
    pass_on(std::move(pod), &place->second);
    if (over) leave(uid);
    return;
  }
  offer(std::move(pod));
}

void Solo::offer(Json pod) {
  const auto uid = kube::uid_of(pod), ns = kube::namespace_of(pod);
  const bool waits = !bound(pod) && !ended(pod) && pod.path("metadata.deletionTimestamp").is_null();
  const bool admitted = !kube::annotation(pod, words::kAttempt).empty();
  bool alone = waits && !admitted && quota_ != nullptr && ours_to_bind(pod, binding_);
  if (alone) {
    const auto owner = quota_->of(ns);
    alone = !owner.ours && owner.owner != "unknown";
  }
  if (!alone) {
    if (waits && !admitted) {
      unbound_.insert_or_assign(uid, pod);
    } else {
      unbound_.erase(uid);
    }
    return pass_on(std::move(pod), nullptr);
  }
  unbound_.erase(uid);
  const auto group = group_of(pod);
  if (group.empty()) {
    const auto name = kube::name_of(pod);
    std::vector<Json> one;
    one.push_back(std::move(pod));
    return start(uid, name, "Pod", std::move(one));
  }
  pass_on(pod, nullptr);
  auto& gang = gangs_[ns + "/" + group];
  gang.waiting.insert_or_assign(uid, pod);
  const auto size = size_of(pod, group);
  if (size == 0 || static_cast<std::int64_t>(gang.waiting.size()) < size) return;
  std::vector<Json> pods;
  for (auto& [key, waiting] : gang.waiting) pods.push_back(std::move(waiting));
  gangs_.erase(ns + "/" + group);
  std::sort(pods.begin(), pods.end(), [](const Json& a, const Json& b) {
    const auto rank = [](const Json& p) { return std::tuple(kube::created_of(p), kube::name_of(p), kube::uid_of(p)); };
    return rank(a) < rank(b);
  });
  const auto first = kube::uid_of(pods.front());
  start(first, group, "PodGroup", std::move(pods));
}

void Solo::start(const std::string& uid, const std::string& name, const std::string& kind, std::vector<Json> pods) {
  std::map<std::string, int> next;
  std::vector<std::pair<Json, Place>> placed;
  Json list = Json::array();
  for (auto& pod : pods) {
    auto set = kind == "Pod" ? Result<std::string>("main") : set_of(pod);
    if (!set) return;  // its requests cannot be parsed, which the codec logs
    pod.set("metadata").erase("managedFields");
    list.push_back(Json::object({{"metadata", pod["metadata"]}, {"spec", pod["spec"]}, {"set", *set}}));
    placed.emplace_back(std::move(pod), Place{uid, *set, next[*set]++});
  }
  const auto ns = kube::namespace_of(placed.front().first);
  // The pods go first: decisions about the workload are reported on them.
  for (auto& [pod, place] : placed) {
    const auto pod_uid = kube::uid_of(pod);
    alive_[uid].insert(pod_uid);
    places_[pod_uid] = place;
    pass_on(std::move(pod), &place);
  }
  send_(
      "solo",
      Json::object({{"uid", uid}, {"namespace", ns}, {"name", name}, {"kind", kind}, {"pods", std::move(list)}}).dump(),
      service::Urgency::kNow);
}

void Solo::leave(const std::string& pod_uid) {
  const auto place = places_.find(pod_uid);
  if (place == places_.end()) return;
  const auto owner = place->second.owner;
  const auto alive = alive_.find(owner);
  if (alive == alive_.end() || alive->second.erase(pod_uid) == 0 || !alive->second.empty()) return;
  alive_.erase(alive);
  send_("solo", Json::object({{"uid", owner}, {"ended", true}}).dump(), service::Urgency::kDeferred);
}

void Solo::see_group(const Json& group, bool deleted) {
  const std::scoped_lock lock(mutex_);
  const auto key = kube::namespace_of(group) + "/" + kube::name_of(group);
  if (deleted) {
    sizes_.erase(key);
    return;
  }
  sizes_[key] = std::max<std::int64_t>(group["spec"]["minMember"].integer(), 1);
  const auto gang = gangs_.find(key);
  if (gang == gangs_.end()) return;
  Json pod = gang->second.waiting.begin()->second;
  offer(std::move(pod));
}

void Solo::owners_changed() {
  const std::scoped_lock lock(mutex_);
  auto again = std::exchange(unbound_, {});
  for (auto& [uid, pod] : again) offer(std::move(pod));
}

Result<WorkloadSpec> solo_workload(const Json& input) {
  const auto& pods = input["pods"];
  if (pods.size() == 0) return fail({Code::kInvalid, "a workload without pods", "pods", {}});
  QM_ASSIGN(auto spec, config::workload_from_pod(pods.at(0)));
  spec.uid = WorkloadUid(input["uid"].string());
  spec.ns = Namespace(input["namespace"].string());
  spec.name = input["name"].string();
  spec.kind = input["kind"].string();
  spec.priority = static_cast<std::int32_t>(pods.at(0)["spec"]["priority"].integer());
  spec.labels[kUnadmitted] = "true";
  spec.pod_sets.clear();
  for (const auto& pod : pods.items()) {
    const auto& name = pod["set"].string();
    auto set =
        std::find_if(spec.pod_sets.begin(), spec.pod_sets.end(), [&](const PodSet& s) { return s.name == name; });
    if (set != spec.pod_sets.end()) {
      ++set->count;
      continue;
    }
    QM_ASSIGN(auto fresh, config::pod_set_from_pod(pod, name));
    spec.pod_sets.push_back(std::move(fresh));
  }
  return spec;
}

}  // namespace qm::placement
