#include "qm/autoscaler/nodes/node_watch.hpp"

#include "instances/node_pods.hpp"
#include "instances/node_pods_rows.hpp"
#include "json_values.hpp"
#include "observed.hpp"
#include "qm/config/manifest.hpp"
#include "qm/model/quantity.hpp"
#include "rows.hpp"

#include <algorithm>

namespace qm::autoscaler {
namespace {

using namespace std::chrono_literals;

Instant instant_of(const Json& text) {
  const auto at = from_rfc3339(text.string());
  return at ? *at : Instant{};
}

bool is_over(const Json& pod) {
  const std::string& phase = pod["status"]["phase"].string();
  return phase == "Succeeded" || phase == "Failed";
}

void read_amounts(const Json& from, bool extended, std::map<std::string, std::int64_t>& out) {
  for (const auto& [name, value] : from.members()) {
    const auto amount = Quantity::parse(value.is_string() ? value.string() : value.dump());
    if (!amount || (name.find('/') != std::string::npos) != extended) continue;
    if (extended || name == "cpu" || name == "memory") out[name] = name == "cpu" ? amount->milli() : amount->units();
  }
}

struct Sign {
  std::string_view taint;
  PlatformNotice notice;
};
constexpr Sign kSigns[] = {
    {"cloud.google.com/impending-node-termination", {NoticeKind::kSpot, 30s}},
    {"aws-node-termination-handler/spot-itn", {NoticeKind::kSpot, 2min}},
    {"aws-node-termination-handler/asg-lifecycle-termination", {NoticeKind::kLifecycle, 2min}},
    {"aws-node-termination-handler/rebalance-recommendation", {NoticeKind::kRebalance, 0s}},
};
constexpr std::string_view kShutsDown = "node is shutting down";

service::Input notice_input(const std::string& node, const PlatformNotice& notice, Instant now, bool over) {
  service::Input in;
  in.source = service::Source::kWatch;
  in.name = "cloud_notices";
  in.bytes = Json::array({Json::object({{"node", node},
                                        {"kind", static_cast<std::int64_t>(notice.kind)},
                                        {"at_us", micros(now + notice.left)},
                                        {"over", over}})})
                 .dump();
  return in;
}

}  // namespace

bool stays_on_drained_node(const Json& pod) {
  std::vector<Toleration> tolerations;
  for (const Json& t : pod["spec"]["tolerations"].items())
    tolerations.push_back({t["key"].string(), t["operator"].string(), t["value"].string(), t["effect"].string()});
  const std::vector<Taint> disrupted{{std::string(kDisruptedTaint), "", "NoSchedule"}};
  return !works(pod) || untolerated(disrupted, tolerations) == nullptr;
}

std::optional<PlatformNotice> platform_notice_of(const Json& node) {
  for (const Sign& sign : kSigns) {
    for (const Json& taint : node["spec"]["taints"].items()) {
      if (taint["key"].string() == sign.taint) return sign.notice;
    }
  }
  for (const Json& c : node["status"]["conditions"].items()) {
    const bool ends = c["type"].string() == "Ready" && c["status"].string() == "False" &&
                      c["message"].string().find(kShutsDown) != std::string::npos;
    if (ends) return PlatformNotice{NoticeKind::kSpot, 30s};
  }
  return std::nullopt;
}

std::optional<Duration> do_not_disrupt_of(const Json& object) {
  const std::string value = kube::annotation(object, kDoNotDisrupt);
  if (value.empty()) return std::nullopt;
  if (value == "true") return Duration::max();
  const auto lasts = config::parse_duration(value);
  return lasts && *lasts > Duration::zero() ? std::optional(*lasts) : std::nullopt;
}

NodeDetails details_of_node(const Json& node) {
  NodeDetails out;
  const std::string& provider = node["spec"]["providerID"].string();
  out.instance = InstanceId(provider.substr(provider.rfind('/') + 1));
  for (const Json& taint : node["spec"]["taints"].items())
    out.taints.push_back({taint["key"].string(), taint["value"].string(), taint["effect"].string()});
  std::ranges::sort(out.taints);
  read_amounts(node["status"]["capacity"], false, out.capacity);
  read_amounts(node["status"]["allocatable"], true, out.allocatable);
  out.do_not_disrupt = do_not_disrupt_of(node) == Duration::max();
  std::vector<NodeCondition> conditions;
  for (const Json& c : node["status"]["conditions"].items())
    conditions.push_back({c["type"].string(), c["status"].string(), instant_of(c["lastTransitionTime"])});
  if (auto repair = repair_of(conditions)) {
    out.unhealthy = std::move(repair->condition);
    out.repair_at = repair->at;
  }
  return out;
}

NodeWatch::NodeWatch(kube::Client& client, bool lists_pods)
    : lists_pods_(lists_pods),
      pod_informer_(client, kube::resources::kPods, "",
                    {[this](const Json& pod, bool deleted) { on_pod(pod, deleted); }, [] {}, {}}),
      node_informer_(client, kube::resources::kNodes, "",
                     {[this](const Json& node, bool deleted) { on_node(node, deleted); }, [] {}, {}}),
      budget_informer_(client, [&client] { return client.locate("policy", "poddisruptionbudgets", {"v1"}); }, "",
                       {[this](const Json& budget, bool deleted) { on_budget(budget, deleted); }, [] {}, {}}) {}

void NodeWatch::start() {
  for (auto* informer : {&node_informer_, &pod_informer_, &budget_informer_}) informer->start();
}

void NodeWatch::stop() {
  for (auto* informer : {&budget_informer_, &pod_informer_, &node_informer_}) informer->stop();
}

bool NodeWatch::synced() const {
  return node_informer_.synced() && pod_informer_.synced() && (budget_informer_.synced() || budget_informer_.absent());
}

void NodeWatch::restore(const Tables& tables) {
  const std::scoped_lock lock(mutex_);
  for (const auto& [name, details] : tables.node_details) {
    nodes_[name.value()].published = "";
    changed_.insert(name.value());
  }
  for (const auto& [name, pods] : tables.node_pods) {
    nodes_[name.value()].published_pods = "";
    changed_.insert(name.value());
  }
}

void NodeWatch::on_pod(const Json& pod, bool deleted) {
  metrics_.on_pod(pod, deleted);
  const std::scoped_lock lock(mutex_);
  const std::string uid = kube::uid_of(pod), node = pod["spec"]["nodeName"].string();
  if (const auto known = pods_.find(uid); known != pods_.end()) {
    nodes_[known->second.node].pods.erase(uid);
    changed_.insert(known->second.node);
    pods_.erase(known);
  }
  if (deleted || node.empty() || is_over(pod)) return;
  Pod p{kube::namespace_of(pod), node, {}, do_not_disrupt_of(pod), node_pod_of(pod)};
  for (const auto& [key, value] : pod["metadata"]["labels"].members()) p.labels[key] = value.string();
  pods_.emplace(uid, std::move(p));
  nodes_[node].pods.insert(uid);
  changed_.insert(node);
}

void NodeWatch::on_node(const Json& node, bool deleted) {
  metrics_.on_node(node, deleted);
  const std::scoped_lock lock(mutex_);
  const std::string name = kube::name_of(node);
  Node& n = nodes_[name];
  n.exists = !deleted;
  n.details = deleted ? NodeDetails{} : details_of_node(node);
  n.view = deleted || !lists_pods_ ? NodePods{} : node_pods_of(node);
  n.sign = deleted ? std::nullopt : platform_notice_of(node);
  changed_.insert(name);
}

void NodeWatch::on_budget(const Json& budget, bool deleted) {
  const auto key = std::pair(kube::namespace_of(budget), kube::name_of(budget));
  const auto selector = label_selector(budget["spec"]["selector"]);
  const Json& status = budget["status"];
  const std::scoped_lock lock(mutex_);
  budgets_.erase(key);
  if (!deleted && selector) {
    const std::int64_t allows = status["disruptionsAllowed"].integer();
    budgets_.emplace(key, PodBudget{*selector, allows == 0 && status["expectedPods"].integer() > 0, allows});
  }
  for (const auto& [uid, pod] : pods_) {
    if (pod.ns == key.first) changed_.insert(pod.node);
  }
}

std::vector<NodeWatch::PodBudgets::const_iterator> NodeWatch::budgets_of(const Pod& pod) const {
  std::vector<PodBudgets::const_iterator> out;
  for (auto at = budgets_.lower_bound({pod.ns, ""}); at != budgets_.end() && at->first.first == pod.ns; ++at) {
    if (at->second.pods.matches(pod.labels)) out.push_back(at);
  }
  return out;
}

// The API server refuses to evict a pod that two budgets select.
std::string NodeWatch::blocked_by(const Pod& pod) const {
  const auto budgets = budgets_of(pod);
  const auto name = [](const auto& budget) { return budget->first.first + "/" + budget->first.second; };
  for (const auto& budget : budgets) {
    if (budget->second.blocks) return name(budget);
  }
  return budgets.size() > 1 ? fmt::format("{} together with {}", name(budgets[0]), name(budgets[1])) : std::string();
}

NodePods NodeWatch::pods_of(const Node& node) const {
  NodePods out = node.view;
  for (const std::string& uid : node.pods) {
    const Pod& pod = pods_.at(uid);
    NodePod& one = out.pods.emplace_back(pod.pod);
    if (const auto budgets = budgets_of(pod); !budgets.empty()) {
      one.budget = budgets[0]->first.first + "/" + budgets[0]->first.second;
      one.budget_allows = budgets[0]->second.allows;
    }
    one.blocked_by = blocked_by(pod);
  }
  std::ranges::sort(out.pods);
  return out;
}

NodeDetails NodeWatch::details_of(const Node& node) const {
  NodeDetails out = node.details;
  for (const std::string& uid : node.pods) {
    const Pod& pod = pods_.at(uid);
    out.serves |= is_service(pod.pod.controller);
    HoldingPod holding{pod.pod.name, pod.do_not_disrupt, pod.pod.started, blocked_by(pod)};
    if (holding.do_not_disrupt || !holding.blocked_by.empty()) out.holding.push_back(std::move(holding));
  }
  std::ranges::sort(out.holding);
  return out;
}

// Without the setting the rows from before it was changed are deleted.
void NodeWatch::publish_pods(const std::string& name, Node& node, std::vector<service::Input>& out) const {
  const bool gone = !node.exists || !lists_pods_;
  if (gone && !node.published_pods) return;
  std::string bytes = node_pods_bytes({NodeName(name), gone, gone ? NodePods{} : pods_of(node)});
  if (node.published_pods == bytes) return;
  service::Input& in = out.emplace_back();
  in.source = service::Source::kWatch;
  in.name = "node.pods";
  in.bytes = bytes;
  node.published_pods = gone ? std::nullopt : std::optional(std::move(bytes));
}

std::vector<service::Input> NodeWatch::changes(Instant now) {
  std::vector<service::Input> out;
  if (!synced()) return out;
  const std::scoped_lock lock(mutex_);
  for (const std::string& name : std::exchange(changed_, {})) {
    const auto at = nodes_.find(name);
    if (at == nodes_.end()) continue;
    Node& node = at->second;
    NodeDetailsUpdated update{NodeName(name), !node.exists, {}};
    if (node.exists) update.details = details_of(node);
    std::string bytes = node_details_bytes(update);
    const bool known = node.published.has_value();
    if ((node.exists || known) && node.published != bytes) {
      service::Input in;
      in.source = service::Source::kWatch;
      in.name = "node.details";
      in.bytes = bytes;
      out.push_back(std::move(in));
      node.published = std::move(bytes);
    }
    publish_pods(name, node, out);
    if (node.exists && node.sign != node.noticed) {
      const bool over = !node.sign;
      out.push_back(notice_input(name, over ? *node.noticed : *node.sign, now, over));
      node.noticed = node.sign;
    }
    if (!node.exists && node.pods.empty()) nodes_.erase(at);
  }
  return out;
}

}  // namespace qm::autoscaler
