#include "qm/admission/watch/node_watch.hpp"

#include "qm/admission/codec.hpp"
#include "qm/config/requests.hpp"
#include "qm/model/quantity.hpp"
#include "rows/rows.hpp"
#include "translate/pods.hpp"

#include <algorithm>

namespace qm::admission {
namespace {

std::int64_t canonical(const std::string& resource, const Quantity& quantity) {
  return resource == "cpu" ? quantity.milli() : quantity.units();
}

NodeState state_of(const Json& node) {
  NodeState out;
  for (const auto& [key, value] : node.path("metadata.labels").members()) out.labels[key] = value.string();
  for (const auto& taint : node.path("spec.taints").items()) {
    out.taints.push_back({taint["key"].string(), taint["value"].string(), taint["effect"].string()});
  }
  for (const auto& [resource, amount] : node.path("status.allocatable").members()) {
    if (const auto quantity = Quantity::parse(amount.string()))
      out.allocatable[resource] = canonical(resource, *quantity);
  }
  out.schedulable = !node.path("spec.unschedulable").boolean();
  out.ready = config::has_condition(node, "Ready");
  return out;
}

/// Since when its Ready condition has its status; zero where it has none.
Instant ready_since(const Json& node) {
  for (const auto& condition : node.path("status.conditions").items()) {
    if (condition["type"].string() != "Ready") continue;
    return from_rfc3339(condition["lastTransitionTime"].string()).value_or(Instant{});
  }
  return {};
}

/// Whether the pod uses its node, and no workload with a topology assignment counts it.
bool is_counted(const Json& pod) {
  return !pod.path("spec.nodeName").string().empty() && !ended(pod) && kube::label(pod, kTopologyLabel).empty();
}

void add(NodeAmounts& to, const NodeAmounts& what, std::int64_t sign) {
  for (const auto& [resource, amount] : what) to[resource] += sign * amount;
  std::erase_if(to, [](const auto& one) { return one.second == 0; });
}

bool flavors_name_topologies(service::Host& host) {
  bool out = false;
  host.read([&](const service::Shell& shell) {
    const auto& flavors = static_cast<const AdmissionShell&>(shell).engine().tables().flavors;
    out = std::ranges::any_of(flavors, [](const auto& row) { return !row.second.topology.empty(); });
  });
  return out;
}

}  // namespace

NodeWatch::NodeWatch(kube::Client& client, service::Host& host, const DomainClock& clock, NodeWatchOptions options)
    : clock_(clock),
      options_(options),
      mailbox_(host),
      node_informer_(client, kube::resources::kNodes, "",
                     {[this](const Json& node, bool deleted) { node_changed(node, deleted); }, [] {}}),
      pod_informer_(client, kube::resources::kPods, "",
                    {[this](const Json& pod, bool deleted) { pod_changed(pod, deleted); }, [] {}, is_counted}) {}

NodeWatch::~NodeWatch() { stop(); }

void NodeWatch::start() {
  thread_ = std::thread([this] { run(); });
}

void NodeWatch::stop() {
  mailbox_.stop();
  {
    const std::scoped_lock lock(sleep_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (!std::exchange(watching_, false)) return;
  pod_informer_.stop();
  node_informer_.stop();
}

void NodeWatch::node_changed(const Json& node, bool deleted) {
  const std::scoped_lock lock(mutex_);
  const NodeName name(kube::name_of(node));
  if (deleted) {
    nodes_.erase(name);
  } else {
    nodes_[name] = {state_of(node), ready_since(node)};
  }
}

void NodeWatch::pod_changed(const Json& pod, bool deleted) {
  const std::scoped_lock lock(mutex_);
  const auto uid = kube::uid_of(pod);
  if (const auto known = pods_.find(uid); known != pods_.end()) {
    add(used_[known->second.node], known->second.amounts, -1);
    pods_.erase(known);
  }
  if (deleted) return;
  Pod seen{NodeName(pod.path("spec.nodeName").string()), {{"pods", 1}}};
  if (const auto requests = config::requests_from_pod(pod)) {
    for (const auto& [resource, quantity] : *requests) seen.amounts[resource] = canonical(resource, quantity);
  }
  add(used_[seen.node], seen.amounts, 1);
  pods_.emplace(uid, std::move(seen));
}

std::map<NodeName, NodeState> NodeWatch::present() {
  const std::scoped_lock lock(mutex_);
  std::map<NodeName, NodeState> out;
  for (const auto& [name, seen] : nodes_) {
    auto& node = out[name] = seen.state;
    if (const auto used = used_.find(name); used != used_.end()) node.used = used->second;
    node.failed = !node.ready && clock_.now() - seen.since >= options_.failed_after;
  }
  return out;
}

int NodeWatch::report() {
  if (!mailbox_.host().ready()) return 0;
  if (!flavors_name_topologies(mailbox_.host())) {
    reported_.reset();
    return 0;
  }
  if (!std::exchange(watching_, true)) {
    node_informer_.start();
    pod_informer_.start();
  }
  if (!node_informer_.synced() || !pod_informer_.synced()) return 0;
  auto now = present();
  NodesUpdated updated;
  updated.complete = !reported_;
  const auto before = reported_.value_or(std::map<NodeName, NodeState>());
  for (const auto& [name, node] : now) {
    const auto known = before.find(name);
    if (known == before.end() || !(known->second == node)) updated.nodes.emplace(name, node);
  }
  for (const auto& [name, node] : before) {
    if (!now.contains(name)) updated.gone.push_back(name);
  }
  reported_ = std::move(now);
  const auto count = updated.nodes.size() + updated.gone.size();
  if (count > 0 || updated.complete) mailbox_.send(kNodesInput, to_input(updated).SerializeAsString(), kNodesInput);
  return static_cast<int>(count);
}

void NodeWatch::run() {
  std::unique_lock lock(sleep_);
  while (!wake_.wait_for(lock, options_.period, [this] { return stopping_; })) {
    lock.unlock();
    report();
    lock.lock();
  }
}

}  // namespace qm::admission
