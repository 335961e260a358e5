// Evaluation of a node: whether it is usable, cordoned or lost, and its free capacity.
#include "engine/nodes/nodes.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>

namespace qm::placement {

void Nodes::evaluate_node(const NodeName& name) {
  const Node* row = tables_.nodes.find(name);
  if (row == nullptr) {
    rows_.refresh_capacity(name);
    return;
  }
  Node next = *row;
  if (next.facts.ready) {
    next.not_ready_since = {};
  } else {
    if (next.not_ready_since == Instant{}) next.not_ready_since = scratch_.now;
    const auto lasts = static_cast<std::int64_t>(seconds(scratch_.now - next.not_ready_since));
    lose_members(name, fmt::format("node {} has not been ready for {} s, longer than its pods tolerate", name, lasts),
                 -1, &next);
  }
  orders_.reconcile(name);
  const bool uncordoned = scratch_.uncordoned.erase(name) > 0;
  if (uncordoned) override_verdicts(name);
  const std::string causes = capacities_.own_causes(name);
  if (uncordoned && !causes.empty()) next.cordon_sent = false;  // causes of ours remain: cordon it again
  if (causes.empty() == next.cordon_sent) {
    next.cordon_sent = !causes.empty();
    state_.send(CordonNode{name, causes});
  }
  keep_for_launch(name, next);
  if (next != *row) {
    rows_.index_kept(name, *row, false);
    rows_.index_kept(name, tables_.nodes.insert(name, next), true);
  }
  const NodeCordonCauses* mark = tables_.cordon_causes.find(name);
  if (const auto verdict = mark == nullptr ? std::nullopt : mark->verdict()) evict_faulty(name, *verdict);
  adoption_.adopt(name);
  rows_.refresh_capacity(name);
}

// Until its workloads have nodes or the time is over, which counts from when the autoscaler has initialized it: its GPUs
// are registered then. A node that is not kept any more is not kept again.
void Nodes::keep_for_launch(const NodeName& name, Node& node) const {
  const auto awaits = [this](const WorkloadUid& uid) { return attempts_.awaits_nodes(uid); };
  if (!node.kept || std::ranges::none_of(node.facts.launched_for, awaits)) {
    node.kept = false;
    return;
  }
  const auto initialized = node.facts.labels.find(std::string(kInitializedLabel));
  if (node.kept_since == Instant{} && initialized != node.facts.labels.end() && initialized->second == "true")
    node.kept_since = scratch_.now;
  if (node.kept_since == Instant{} || scratch_.now < node.kept_since + options_.launch_hold) return;
  // A gang starts when its last node is there: it has as much time as that one.
  Instant latest{};
  for (const WorkloadUid& uid : node.facts.launched_for) {
    const auto nodes = index_.kept_for.find(uid);
    if (!awaits(uid) || nodes == index_.kept_for.end()) continue;
    for (const NodeName& other : nodes->second) {
      if (other == name) continue;
      const Instant since = tables_.nodes.find(other)->kept_since;
      latest = std::max(latest, since == Instant{} ? scratch_.now : since);
    }
  }
  if (latest + options_.launch_hold > scratch_.now) {
    node.kept_since = latest;
  } else {
    node.kept = false;
  }
}

void Nodes::remove_node(const NodeName& name) {
  const Node* row = tables_.nodes.find(name);
  if (row == nullptr) return;
  Node last = *row;
  last.state = NodeState::kGone;
  last.since = scratch_.now;
  last.reason = "the node object is gone";
  last.pods = 0;
  lose_members(name, fmt::format("node {} is gone", name), 0);
  rows_.index_kept(name, *row, false);
  tables_.nodes.erase(name);
  if (tables_.cordon_causes.contains(name)) tables_.cordon_causes.erase(name);
  if (tables_.observations.contains(name)) tables_.observations.erase(name);
  rows_.store_repartition(name, {});
  rows_.refresh_capacity(name);
  scratch_.node_changed.erase(name);
  scratch_.out.events.push_back(NodeChanged{name, std::move(last), true});
}

/// An operator ended the cordon. This overrides the verdicts from before this step.
void Nodes::override_verdicts(const NodeName& name) {
  const NodeCordonCauses* mark = tables_.cordon_causes.find(name);
  if (mark == nullptr || !mark->health) return;
  const auto before = scratch_.health_before.find(name);
  const auto past = before == scratch_.health_before.end() ? mark->health : before->second;
  if (past) tables_.cordon_causes.edit(name).overridden = past;
}

/// `grace_s`: grace period of the pods if their gang continues to run. On a node that is gone no kubelet
/// confirms the end of a pod. `not_ready`: the node exists, and only members whose time is over are lost.
void Nodes::lose_members(const NodeName& name, const std::string& message, std::int64_t grace_s,
                         const Node* not_ready) {
  const auto on_node = index_.members.find(name);
  if (on_node == index_.members.end()) return;
  std::map<AttemptId, std::vector<std::size_t>> lost;
  for (const auto& [id, position] : on_node->second) {
    const Member& member = tables_.assignments.find(id)->members[position];
    if (not_ready == nullptr || capacities_.lost_at(*not_ready, member) <= scratch_.now) lost[id].push_back(position);
  }
  for (const auto& [id, positions] : lost) {
    Assignment next = *tables_.assignments.find(id);
    for (const auto position : positions) {
      next.members[position].released = scratch_.now;
      next.members[position].lost = true;
    }
    Assignment fewer = next;
    std::erase_if(fewer.members, [](const Member& m) { return m.lost && m.bound == Instant{}; });
    if (is_elastic(next.pod_sets) && attempts_.has_minimum(id, fewer)) {
      // The gang continues to run. Its controller recreates the pods after their deletion; they then get
      // other nodes.
      for (const auto position : positions) delete_lost(next.members[position].pod_uid, grace_s);
      next = std::move(fewer);
    } else {
      rows_.request_eviction(id, next, {"NodeFailure", message, scratch_.now, name, true});
    }
    rows_.store(id, std::move(next));
    scratch_.attempts.insert(id);
  }
}

void Nodes::delete_lost(const std::string& pod_uid, std::int64_t grace_s) {
  const Pod* pod = tables_.pods.find(pod_uid);
  if (pod == nullptr || pod->delete_sent || pod->facts.deleting || pod->facts.terminal()) return;
  tables_.pods.edit(pod_uid).delete_sent = true;
  state_.send(DeletePod{pod->facts.ns, pod->facts.name, pod_uid, grace_s, {}});
}

void Nodes::evict_faulty(const NodeName& name, const HealthVerdict& health) {
  const auto on_node = index_.members.find(name);
  if (on_node == index_.members.end()) return;
  const std::set<MemberRef> members = on_node->second;
  for (const auto& [id, position] : members) {
    Assignment next = *tables_.assignments.find(id);
    const auto& devices = next.members[position].devices;
    const auto shares = shares_of(tables_.nodes.find(name)->facts);
    std::string what;
    if (health.cordon && health.gpu < 0) what = fmt::format("node {} is faulty: {}", name, health.reason);
    for (const DeviceRef& device : devices) {
      const auto gpu = health.gpus.find(gpu_of(device, shares));
      if (what.empty() && gpu != health.gpus.end())
        what = fmt::format("GPU {} of node {} is faulty: {}", gpu->first, name, gpu->second.reason);
    }
    if (what.empty()) continue;
    rows_.request_eviction(id, next, {"GpuFault", what, scratch_.now + options_.health_grace, name, false});
    rows_.store(id, std::move(next));
  }
}

void Nodes::publish_status(const NodeName& name) {
  const Node* row = tables_.nodes.find(name);
  if (row == nullptr) return;
  Node next = *row;
  const std::string causes = capacities_.own_causes(name);
  NodeState state = NodeState::kReady;
  std::string reason;
  if (!next.facts.ready) {
    state = NodeState::kNotReady;
    reason = "not ready";
  } else if (!causes.empty()) {
    state = NodeState::kCordoned;
    const NodeCordonCauses* mark = tables_.cordon_causes.find(name);
    const auto add = [&](std::string_view cause, const std::string& why) {
      reason += fmt::format("{}{}: {}", reason.empty() ? "" : "; ", cause, why);
    };
    if (const auto verdict = mark == nullptr ? std::nullopt : mark->verdict(); cordons(&next, verdict))
      add("health", verdict->reason);
    if (mark != nullptr && mark->drain) add("drain", mark->drain->reason);
    if (layouts_.is_repartitioning(name)) {
      const relayout::Row& order = *tables_.repartitions.find(name)->order;
      add("layout", order.reason.empty() ? order.order.layout : order.order.layout + ": " + order.reason);
    }
  } else if (next.facts.unschedulable) {
    state = NodeState::kCordoned;
    reason = next.facts.cordoned_by.empty() ? "cordoned manually" : "being uncordoned";
  } else {
    reason = layouts_.layout_finding(name);
    const NodeCordonCauses* mark = tables_.cordon_causes.find(name);
    const auto add = [&](const std::string& what) { reason += (reason.empty() ? "" : "; ") + what; };
    const auto verdict = mark == nullptr ? std::nullopt : mark->verdict();
    for (const auto& [gpu, why] : verdict ? verdict->gpus : std::map<std::int32_t, GpuVerdict>())
      add(fmt::format("GPU {} is out of service: {}", gpu, why.reason));
    if (mark != nullptr && mark->overridden)
      add(fmt::format("health verdict overridden by a manual uncordon: {}", mark->overridden->reason));
  }
  if (state != next.state || next.since == Instant{}) next.since = scratch_.now;
  next.state = state;
  next.reason = std::move(reason);
  std::int32_t pods = 0;
  if (const auto members = index_.members.find(name); members != index_.members.end()) {
    pods = static_cast<std::int32_t>(members->second.size());
  }
  for (const Pod* pod : pods_.non_member_pods(name)) pods += pod->facts.daemon ? 0 : 1;
  next.pods = pods;
  if (pods > 0) {
    next.empty_since = {};
  } else if (next.empty_since == Instant{}) {
    next.empty_since = scratch_.now;
  }
  if (next == *row) return;
  tables_.nodes.insert(name, std::move(next));
  scratch_.node_changed.insert(name);
}

}  // namespace qm::placement
