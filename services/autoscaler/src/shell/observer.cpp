#include "observed.hpp"
#include "pods/nominator.hpp"
#include "pods/pod_selectors.hpp"
#include "qm/autoscaler/cluster.hpp"
#include "qm/base/log.hpp"
#include "qm/config/needs.hpp"
#include "qm/kube_objects/rules.hpp"
#include "qm/kube_rules/text.hpp"
#include "rows.hpp"
#include "running_nodes.hpp"

#include <algorithm>
#include <charconv>

namespace qm::autoscaler {
namespace {

using namespace std::chrono_literals;
constexpr auto kCordonSettles = 1s;

std::int64_t number_of(const std::string& text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

const Json& scheduled_condition(const Json& pod) {
  static const Json none;
  for (const auto& c : pod["status"]["conditions"].items()) {
    if (c["type"].string() == "PodScheduled") return c;
  }
  return none;
}

std::string group_of(const Json& pod) {
  for (const char* key : {"scheduling.x-k8s.io/pod-group", "kueue.x-k8s.io/pod-group-name"}) {
    if (auto name = kube::label(pod, key); !name.empty()) return name;
  }
  return kube::annotation(pod, "scheduling.k8s.io/group-name");
}

kube::Locate group_kind(kube::Client& client, const char* group, const char* version) {
  return [&client, group, version] { return client.locate(group, "podgroups", {version}); };
}

/// ScheduleAnyway excludes no node.
bool has_hard(const kube_objects::DefaultSpread& spread) {
  return std::ranges::any_of(spread, [](const auto& one) { return one.required; });
}

service::Input seen(const char* name, std::string bytes) {
  service::Input in;
  in.source = service::Source::kWatch;
  in.name = name;
  in.bytes = std::move(bytes);
  return in;
}

}  // namespace

Result<kube_rules::NodeView> view_of_running_node(const Json& node) {
  QM_ASSIGN(auto view, kube_objects::view_of_node(node));
  std::erase_if(view.taints, [](const Taint& taint) { return taint.key == kNominatingTaint; });
  return view;
}

bool works(const Json& pod) {
  const auto& phase = pod["status"]["phase"].string();
  if (phase == "Succeeded" || phase == "Failed") return false;
  const auto& owners = pod["metadata"]["ownerReferences"].items();
  return std::none_of(owners.begin(), owners.end(), [](const Json& owner) {
    return owner["kind"].string() == "DaemonSet" || owner["kind"].string() == "Node";
  });
}

bool waits_for_capacity(const Json& pod) {
  if (!pod["spec"]["nodeName"].string().empty() || pod["spec"]["schedulingGates"].size() > 0) return false;
  if (!pod.path("metadata.deletionTimestamp").is_null() || !works(pod)) return false;
  const auto& condition = scheduled_condition(pod);
  return condition["status"].string() == "False" && condition["reason"].string() == "Unschedulable";
}

PodObserver::PodObserver(kube::Client& client, const DomainClock& clock, std::function<void()> on_new_node)
    : PodObserver(client, clock, std::move(on_new_node), Options{}) {}

PodObserver::PodObserver(kube::Client& client, const DomainClock& clock, std::function<void()> on_new_node,
                         Options options)
    : client_(client),
      clock_(clock),
      on_new_node_(std::move(on_new_node)),
      options_(std::move(options)),
      running_(std::make_unique<RunningNodes>()),
      nominator_(std::make_unique<Nominator>(client)),
      selectors_(has_hard(options_.default_spread) ? std::make_unique<PodSelectors>(client) : nullptr),
      pod_informer_(client, kube::resources::kPods, "",
                    {[this](const Json& pod, bool deleted) { on_pod(pod, deleted); }, [] {}, {}}),
      node_informer_(client, kube::resources::kNodes, "",
                     {[this](const Json& node, bool deleted) { on_node(node, deleted); }, [] {}, {}}),
      volcano_informer_(client, group_kind(client, "scheduling.volcano.sh", "v1beta1"), "",
                        {[this](const Json& group, bool deleted) { on_group(group, deleted); }, [] {}, {}}),
      group_informer_(client, group_kind(client, "scheduling.x-k8s.io", "v1alpha1"), "",
                      {[this](const Json& group, bool deleted) { on_group(group, deleted); }, [] {}, {}}) {}

PodObserver::~PodObserver() = default;

void PodObserver::start() {
  if (selectors_) selectors_->start();
  for (auto* informer : {&volcano_informer_, &group_informer_, &node_informer_, &pod_informer_}) informer->start();
}

void PodObserver::stop() {
  for (auto* informer : {&pod_informer_, &node_informer_, &group_informer_, &volcano_informer_}) informer->stop();
  if (selectors_) selectors_->stop();
}

bool PodObserver::synced() const {
  return pod_informer_.synced() && node_informer_.synced() && (!selectors_ || selectors_->synced()) &&
         (volcano_informer_.synced() || volcano_informer_.absent()) &&
         (group_informer_.synced() || group_informer_.absent());
}

void PodObserver::restore(const Tables& tables) {
  const std::scoped_lock lock(mutex_);
  for (const auto& [name, row] : tables.nodes) {
    if (row.known) nodes_[name.value()].empty_since = row.empty_since;
  }
}

void PodObserver::leave(const std::string& uid) {
  const auto known = pods_.find(uid);
  if (known == pods_.end()) return;
  if (const auto node = nodes_.find(known->second.node); node != nodes_.end()) {
    if (node->second.pods.erase(uid) > 0 && node->second.pods.empty()) node->second.empty_since = clock_.now();
  }
}

void PodObserver::on_pod(const Json& pod, bool deleted) {
  const std::scoped_lock lock(mutex_);
  const auto uid = kube::uid_of(pod);
  const auto& node = pod["spec"]["nodeName"].string();
  const auto& status = pod["status"]["phase"].string();
  if (deleted || node.empty() || status == "Succeeded" || status == "Failed") {
    running_->drop_pod(uid);
  } else {
    running_->put_pod(pod);
  }
  const bool evictable = !node.empty() && options_.system_pods == SystemPods::kEvicted && is_evictable_system_pod(pod);
  const bool holds = !deleted && works(pod) && !evictable;
  if (!holds) {
    leave(uid);
    pods_.erase(uid);
    return nominator_->drop_pod(uid);
  }
  Pod& p = pods_[uid];
  p.ns = kube::namespace_of(pod);
  p.name = kube::name_of(pod);
  p.node = node;
  p.works = true;
  // Its capacity is that of its ProvisioningRequest.
  const bool booked = !kube::annotation(pod, kConsumes).empty() || !kube::annotation(pod, kConsumesBeta).empty();
  p.waits = waits_for_capacity(pod) && !booked;
  p.group = group_of(pod);
  nominator_->put_pod(pod, p.group.empty() ? std::string() : p.ns + "/" + p.group);
  p.type = kube::label(pod, "workload-type");
  p.size = number_of(kube::annotation(pod, "kueue.x-k8s.io/pod-group-total-count"));
  if (!node.empty()) {
    auto& on = nodes_[node];
    on.pods.insert(uid);
    on.empty_since.reset();
  }
  if (!p.waits) return;
  auto shape = config::shape_from_pod(pod);
  if (!shape) {
    log::warn("a pod's requests cannot be read; nothing is launched for it",
              {{"namespace", p.ns}, {"pod", p.name}, {"error", shape.error().to_string()}});
    p.waits = false;
    return;
  }
  auto rules = kube_objects::rules_text_of_pod(pod);
  if (!rules) {
    log::warn("the scheduling constraints of a pod cannot be read; nothing is launched for it",
              {{"namespace", p.ns}, {"pod", p.name}, {"error", rules.error().to_string()}});
    p.waits = false;
    return;
  }
  p.shape = std::move(*shape);
  p.rules = std::move(*rules);
  p.labels.clear();
  if (selectors_ && pod["spec"]["topologySpreadConstraints"].size() == 0) {
    for (const auto& [key, value] : pod["metadata"]["labels"].members()) p.labels[key] = value.string();
    for (const Json& owner : pod["metadata"]["ownerReferences"].items()) {
      if (owner["controller"].boolean())
        p.controller = owner["kind"].string(), p.controller_name = owner["name"].string();
    }
  }
  p.priority = static_cast<std::int32_t>(pod["spec"]["priority"].integer());
  const auto& since = scheduled_condition(pod)["lastTransitionTime"].string();
  const auto at = from_rfc3339(since.empty() ? pod["metadata"]["creationTimestamp"].string() : since);
  p.since = at ? *at : clock_.now();
}

void PodObserver::on_node(const Json& node, bool deleted) {
  const std::scoped_lock lock(mutex_);
  Node& n = nodes_[kube::name_of(node)];
  if (!deleted && !n.there && on_new_node_) on_new_node_();
  n.there = !deleted;
  if (deleted) return running_->drop_node(kube::name_of(node));
  const auto& provider = node["spec"]["providerID"].string();
  n.instance = provider.substr(provider.rfind('/') + 1);
  const auto drain = kube::annotation(node, kDrainAnnotation);
  const bool asked = std::exchange(n.drain, drain) != drain;
  n.ready = false;
  for (const auto& c : node["status"]["conditions"].items()) {
    if (c["type"].string() == "Ready") n.ready = c["status"].string() == "True";
  }
  running_->put_node(node, n.ready);
  const bool cordoned = node["spec"]["unschedulable"].boolean();
  if (cordoned && (!n.cordoned || asked)) n.looked = std::chrono::steady_clock::now(), n.confirmed = false;
  if (!cordoned) n.confirmed = false, n.late = 0;
  n.cordoned = cordoned;
}

void PodObserver::on_group(const Json& group, bool deleted) {
  const std::scoped_lock lock(mutex_);
  const auto key = kube::namespace_of(group) + "/" + kube::name_of(group);
  if (deleted) {
    sizes_.erase(key);
  } else {
    sizes_[key] = std::max<std::int64_t>(group["spec"]["minMember"].integer(), 1);
  }
}

void PodObserver::confirm_cordons() {
  std::vector<std::string> due;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [name, n] : nodes_) {
      // Pods that the watch has not shown are read again, until it has shown them or they are gone.
      const bool open = !n.confirmed || n.late > static_cast<std::int64_t>(n.pods.size());
      if (n.there && n.cordoned && open && n.looked + kCordonSettles <= std::chrono::steady_clock::now())
        due.push_back(name);
    }
  }
  for (const auto& name : due) {
    const auto pods = working_pods(client_, name, options_.system_pods);
    if (!pods) continue;  // the next round reads again
    const std::scoped_lock lock(mutex_);
    Node& n = nodes_[name];
    if (!n.cordoned) continue;
    n.confirmed = true;
    n.late = *pods;
    n.looked = std::chrono::steady_clock::now();
  }
}

// Services may appear after their pods, so the constraints by default are not stored.
std::string PodObserver::rules_of(const Pod& pod) const {
  if (!selectors_ || pod.labels.empty()) return pod.rules;
  const auto selected = selectors_->of(pod.ns, pod.labels, pod.controller, pod.controller_name);
  auto like = pod.rules.empty() ? kube_rules::PodTemplate{Namespace(pod.ns), pod.labels, {}}
                                : kube_rules::template_of(pod.rules).value_or(kube_rules::PodTemplate{});
  kube_objects::add_default_spread(options_.default_spread, selected, like);
  return like.rules.spread.empty() ? pod.rules : kube_rules::text_of(like);
}

std::vector<DemandUpdated::Item> PodObserver::waiting() {
  struct Gang {
    std::int64_t there = 0, size = 0;
    DemandUpdated::Item item;
  };
  std::vector<DemandUpdated::Item> out;
  std::map<std::string, Gang> gangs;
  const auto add = [this](DemandUpdated::Item& item, const Pod& p) {
    const std::string rules = rules_of(p);
    item.ns = p.ns;
    item.type = p.type;
    item.priority = item.pod_sets.empty() ? p.priority : std::max(item.priority, p.priority);
    item.since = item.pod_sets.empty() ? p.since : std::min(item.since, p.since);
    const auto same = std::find_if(item.pod_sets.begin(), item.pod_sets.end(),
                                   [&](const PodSet& s) { return s.shape == p.shape && s.rules == rules; });
    if (same != item.pod_sets.end()) {
      ++same->count;
      return;
    }
    PodSet set;
    set.name = fmt::format("set{}", item.pod_sets.size());
    set.shape = p.shape;
    set.rules = rules;
    item.pod_sets.push_back(std::move(set));
  };
  for (const auto& [uid, p] : pods_) {
    const std::string key = p.ns + "/" + p.group;
    const auto named = sizes_.find(key);
    const auto size = p.group.empty() ? 0 : named != sizes_.end() ? named->second : p.size;
    if (size > 0) {
      auto& gang = gangs[key];
      gang.size = size;
      ++gang.there;
      if (p.waits) add(gang.item, p);
    } else if (p.waits) {
      DemandUpdated::Item item;
      item.id = {WorkloadUid(uid), 1};
      add(item, p);
      out.push_back(std::move(item));
    }
  }
  for (auto& [key, gang] : gangs) {
    if (gang.item.pod_sets.empty() || gang.there < gang.size) continue;  // further pods are expected
    gang.item.id = {WorkloadUid(key), 1};
    out.push_back(std::move(gang.item));
  }
  running_->find_room(out);
  return out;
}

void PodObserver::find_room(std::vector<DemandUpdated::Item>& items) {
  const std::scoped_lock lock(mutex_);
  running_->find_room(items);
}

std::vector<service::Input> PodObserver::changes() {
  std::vector<service::Input> out;
  if (!synced()) return out;
  confirm_cordons();
  const std::scoped_lock lock(mutex_);
  for (auto it = nodes_.begin(); it != nodes_.end();) {
    auto& [name, n] = *it;
    if (!n.there) {
      // A node that only a pod has named is not known yet.
      const bool gone = !n.published.empty() || (n.pods.empty() && n.instance.empty());
      if (gone) out.push_back(seen("node", Json::object({{"node", name}, {"gone", true}}).dump()));
      it = gone ? nodes_.erase(it) : std::next(it);
      continue;
    }
    const auto pods = std::max<std::int64_t>(static_cast<std::int64_t>(n.pods.size()), n.late);
    if (pods == 0 && !n.empty_since) n.empty_since = clock_.now();
    const bool cordoned = n.cordoned && n.confirmed;
    auto bytes = Json::object({{"node", name},
                               {"ready", n.ready && !n.cordoned},
                               {"cordoned", cordoned},
                               {"pods", pods},
                               {"empty_since_us", pods == 0 ? micros(*n.empty_since) : 0},
                               {"instance", n.instance},
                               {"drain", n.drain}})  // an existing cordon is published again
                     .dump();
    ++it;
    // Between a cordon and its second read the node is published unchanged.
    if (n.published == bytes || (n.cordoned && !n.confirmed && !n.published.empty())) continue;
    n.published = bytes;
    out.push_back(seen("node", std::move(bytes)));
  }
  auto bytes = demand_bytes(waiting());
  if (published_ == bytes) return out;
  published_ = bytes;
  out.push_back(seen("pods.waiting", std::move(bytes)));
  return out;
}

std::string PodObserver::subject(const std::string& uid) const {
  const std::scoped_lock lock(mutex_);
  if (const auto pod = pods_.find(uid); pod != pods_.end())
    return fmt::format("pod {}/{}", pod->second.ns, pod->second.name);
  return uid.find('/') == std::string::npos ? std::string() : "pods of group " + uid;
}

}  // namespace qm::autoscaler
