#include "executors/pod_executor.hpp"

#include "qm/base/log.hpp"
#include "qm/model/resources.hpp"
#include "translate/pods.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

namespace qm::admission {
namespace {

namespace state = quartermaster::admission;
using kube::resources::kPods;

state::JobOutcome pods_done(const state::JobIntent& intent) {
  state::JobOutcome out;
  out.set_subject(intent.uid());
  out.set_attempt(intent.attempt());
  out.set_ok(true);
  return out;
}

Json pod_toleration(const quartermaster::v1::Toleration& t) {
  Json out = Json::object({{"operator", t.operator_().empty() ? "Equal" : t.operator_()}});
  if (!t.key().empty()) out.set("key", t.key());
  if (!t.value().empty()) out.set("value", t.value());
  if (!t.effect().empty()) out.set("effect", t.effect());
  return out;
}

/// The node selector of the pod with this index, from the topology assignment; null where there is none.
const google::protobuf::Map<std::string, std::string>* domain_of(const state::PodSetEffect& set, int index) {
  for (const auto& domain : set.domains()) {
    if (index < domain.count()) return &domain.node_selector();
    index -= domain.count();
  }
  return nullptr;
}

Json lift(const Json& pod, const state::JobIntent& intent, const state::PodSetEffect& set, int index,
          const UrlOf& url) {
  Json gates = Json::array();
  for (const auto& gate : pod["spec"]["schedulingGates"].items()) {
    if (gate["name"].string() != kGate) gates.push_back(gate);
  }
  Json spec = Json::object({{"schedulingGates", gates.size() > 0 ? std::move(gates) : Json()}});
  Json selector = Json::object();
  // The API server only allows additions to the node selector of a gated pod.
  for (const auto& [key, value] : set.node_selector()) {
    if (!pod["spec"]["nodeSelector"].contains(key)) selector.set(key, value);
  }
  if (const auto* domain = domain_of(set, index)) {
    for (const auto& [key, value] : *domain) selector.set(key, value);
  }
  if (selector.size() > 0) spec.set("nodeSelector", std::move(selector));
  Json tolerations = pod["spec"]["tolerations"];
  if (!tolerations.is_array()) tolerations = Json::array();
  const auto before = tolerations.size();
  for (const auto& t : set.tolerations()) {
    const Json wants = pod_toleration(t);
    const auto& has = tolerations.items();
    if (std::find(has.begin(), has.end(), wants) == has.end()) tolerations.push_back(wants);
  }
  if (tolerations.size() > before) spec.set("tolerations", std::move(tolerations));
  Json annotations = Json::object({{std::string(kWorkloadAnnotation), intent.uid()},
                                   {std::string(kIndexAnnotation), std::to_string(index)},
                                   {std::string(words::kAttempt), std::to_string(intent.attempt())},
                                   {std::string(words::kReservation), intent.reservation()}});
  if (url && kube::annotation(pod, words::kCheckpoint).empty()) {
    if (auto by = url(pod); !by.empty()) annotations.set(words::kCheckpoint, std::move(by));
  }
  if (!intent.resume_uri().empty()) annotations.set(words::kResume, intent.resume_uri());
  for (const auto& [key, value] : set.annotations()) annotations.set(key, value);
  Json labels = Json::object({{std::string(kPodSetLabel), set.name()}});
  for (const auto& [key, value] : set.labels()) labels.set(key, value);
  return Json::object({{"metadata", Json::object({{"resourceVersion", kube::resource_version_of(pod)},
                                                  {"uid", kube::uid_of(pod)},
                                                  {"labels", std::move(labels)},
                                                  {"annotations", std::move(annotations)}})},
                       {"spec", std::move(spec)}});
}

/// Fails where the pod has another value for a label or annotation that admission checks add.
Status check_updates(const Json& pod, const state::PodSetEffect& set) {
  for (const auto& [part, wanted] :
       {std::pair("labels", &set.labels()), std::pair("annotations", &set.annotations())}) {
    for (const auto& [key, value] : *wanted) {
      const Json& has = pod["metadata"][part][key];
      if (has.is_null() || has.string() == value) continue;
      return fail({Code::kInvalid,
                   fmt::format("podSetUpdates: {} {} is {} in pod {}, and {} by an admission check", part, key,
                               has.string(), kube::name_of(pod), value),
                   part, "remove it from one of them"});
    }
  }
  return {};
}

int number_of(const std::string& text) {
  int value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

Status remove(kube::Client& client, const Json& pod, int grace_seconds) {
  kube::Client::DeleteOptions options;
  options.uid = kube::uid_of(pod);
  options.grace_seconds = grace_seconds;
  const auto removed = client.remove(kPods, kube::namespace_of(pod), kube::name_of(pod), options);
  // A pod of the same name with another uid is left alone.
  if (!removed && removed.error().code != Code::kNotFound && removed.error().code != Code::kAborted) return removed;
  return {};
}

}  // namespace

Result<std::vector<Json>> pods_of(kube::Client& client, const state::JobIntent& intent) {
  std::vector<Json> pods;
  if (intent.kind() == "Pod") {
    auto pod = client.get(kPods, intent.namespace_(), intent.name());
    if (!pod && pod.error().code != Code::kNotFound) return fail(pod.error());
    if (pod && kube::uid_of(*pod) == intent.uid()) pods.push_back(std::move(*pod));
    return pods;
  }
  const auto read = [&](const std::string& selector) -> Status {
    kube::ListOptions ask;
    ask.label_selector = selector;
    do {
      QM_ASSIGN(auto page, client.list(kPods, intent.namespace_(), ask));
      ask.continue_token = page.continue_token;
      for (auto& pod : page.items) {
        const auto written = kube::annotation(pod, kWorkloadAnnotation);
        const bool waits = written.empty() && gated(pod) && group_of(pod) == intent.name();
        if (written == intent.uid() || waits) pods.push_back(std::move(pod));
      }
    } while (!ask.continue_token.empty());
    return {};
  };
  QM_TRY(read(fmt::format("{}={}", kGroupLabel, intent.name())));
  // Volcano names a group in an annotation, and annotations have no selector.
  if (pods.empty()) QM_TRY(read({}));
  std::sort(pods.begin(), pods.end(), [](const Json& a, const Json& b) {
    const auto rank = [](const Json& pod) {
      return std::tuple(kube::created_of(pod), kube::name_of(pod), kube::uid_of(pod));
    };
    return rank(a) < rank(b);
  });
  return pods;
}

Result<state::JobOutcome> ungate_pods(kube::Client& client, const state::JobIntent& intent, const UrlOf& url) {
  QM_ASSIGN(const auto pods, pods_of(client, intent));
  std::map<std::string, std::set<int>> taken;  // indexes in use, by pod set
  std::map<std::string, int> live;
  std::vector<std::pair<const Json*, std::string>> waiting;
  for (const auto& pod : pods) {
    QM_ASSIGN(const auto set, pod_set_of(pod));
    if (gated(pod)) {
      if (!ended(pod)) waiting.emplace_back(&pod, set);
      continue;
    }
    const auto& phase = pod["status"]["phase"].string();
    if (phase == "Failed" || !pod.path("metadata.deletionTimestamp").is_null()) continue;  // its index is free
    taken[set].insert(number_of(kube::annotation(pod, kIndexAnnotation)));
    ++live[set];
  }
  for (const auto& [pod, name] : waiting) {
    const auto& sets = intent.sets();
    const auto set = std::find_if(sets.begin(), sets.end(), [&, &n = name](const auto& s) { return s.name() == n; });
    if (set == sets.end() || live[name] >= set->count()) {
      log::info("pod stays gated: its group is complete without it",
                {{"pod", intent.namespace_() + "/" + kube::name_of(*pod)}, {"group", intent.name()}});
      continue;
    }
    QM_TRY(check_updates(*pod, *set));
    int index = 0;
    while (taken[name].contains(index)) ++index;
    QM_TRY(client.merge_patch(kPods, intent.namespace_(), kube::name_of(*pod), lift(*pod, intent, *set, index, url)));
    taken[name].insert(index);
    ++live[name];
  }
  return pods_done(intent);
}

Result<state::JobOutcome> evict_pods(kube::Client& client, const state::JobIntent& intent, Instant now) {
  QM_ASSIGN(const auto pods, pods_of(client, intent));
  const Instant deadline = from_micros(intent.deadline_us());
  const auto left = std::chrono::duration_cast<std::chrono::seconds>(deadline - now).count();
  auto out = pods_done(intent);
  bool ungated_before = false;
  std::string refused;
  for (const auto& pod : pods) {
    if (gated(pod) || ended(pod)) continue;
    ungated_before = true;
    if (!pod.path("metadata.deletionTimestamp").is_null()) continue;
    if (deadline != Instant{} && now >= deadline) {
      QM_TRY(remove(client, pod, -1));
      continue;
    }
    // The grace period ends by the deadline; a shorter grace period of the pod itself applies.
    const auto own = pod["spec"]["terminationGracePeriodSeconds"].integer(30);
    const int grace =
        deadline == Instant{} ? -1 : static_cast<int>(std::min<std::int64_t>(own, std::max<std::int64_t>(left, 0)));
    const auto evicted = client.evict(intent.namespace_(), kube::name_of(pod), grace, kube::uid_of(pod));
    if (evicted || evicted.error().code == Code::kNotFound || evicted.error().code == Code::kAborted) continue;
    if (evicted.error().code != Code::kExhausted) return fail(evicted.error());
    refused = evicted.error().message;
  }
  // A pod that a disruption budget protects does not delay the eviction of the others.
  if (!refused.empty()) return fail(Code::kExhausted, "a disruption budget forbids it: {}", refused);
  out.set_quiet(!ungated_before);
  return out;
}

Result<state::JobOutcome> delete_pods(kube::Client& client, const state::JobIntent& intent) {
  QM_ASSIGN(const auto pods, pods_of(client, intent));
  for (const auto& pod : pods) QM_TRY(remove(client, pod, -1));
  return pods_done(intent);
}

}  // namespace qm::admission
