#include "shell/wire.hpp"

#include <algorithm>

namespace qm::placement {
pb::AssignmentState to_pb(AssignmentState state) {
  switch (state) {
    case AssignmentState::kReserved:
      return pb::RESERVED;
    case AssignmentState::kShort:
      return pb::SHORT;
    case AssignmentState::kBound:
      return pb::BOUND;
    case AssignmentState::kReleased:
      return pb::RELEASED;
    case AssignmentState::kExpired:
      return pb::EXPIRED;
  }
  return pb::ASSIGNMENT_STATE_UNSPECIFIED;
}

pb::AssignmentMember to_pb(const Member& member, const std::vector<PodSet>& pod_sets) {
  pb::AssignmentMember out;
  out.set_pod_set(pod_sets.at(static_cast<std::size_t>(member.set)).name);
  out.set_index(member.index);
  out.set_node(member.node.value());
  for (const auto& device : member.devices) *out.add_devices() = to_pb(device);
  out.set_pod(member.pod);
  out.set_pod_uid(member.pod_uid);
  out.set_bound_us(micros(member.bound));
  out.set_released_us(micros(member.released));
  return out;
}

pb::AssignmentEvent to_pb(const AttemptId& id, const Assignment& assignment) {
  pb::AssignmentEvent out;
  out.set_uid(id.uid.value());
  out.set_attempt(id.attempt);
  out.set_state(to_pb(assignment.state));
  if (!assignment.members.empty()) out.set_reservation_id(id.to_string());
  out.set_expires_us(micros(assignment.expires));
  for (const auto& member : assignment.members) *out.add_members() = to_pb(member, assignment.pod_sets);
  out.set_short_reason(assignment.short_reason);
  out.set_decided_us(micros(assignment.decided));
  out.set_team(assignment.team.value());
  out.set_namespace_(assignment.ns.value());
  out.set_workload(assignment.workload);
  for (const auto& [key, value] : assignment.labels) (*out.mutable_labels())[key] = value;
  return out;
}

pb::EvictionRequested to_pb(const AttemptId& id, const EvictionRequest& ask) {
  pb::EvictionRequested out;
  out.set_uid(id.uid.value());
  out.set_attempt(id.attempt);
  out.set_reason(ask.reason);
  out.set_message(ask.message);
  out.set_deadline_us(micros(ask.deadline));
  out.set_node(ask.node.value());
  out.set_pods_lost(ask.pods_lost);
  out.set_save_until_us(micros(ask.save_until));
  return out;
}

pb::RequeueList to_pb(const std::vector<RequeueItem>& items) {
  pb::RequeueList out;
  for (const auto& item : items) {
    auto* i = out.add_items();
    i->set_uid(item.id.uid.value());
    i->set_attempt(item.id.attempt);
    i->set_since_us(micros(item.since));
  }
  return out;
}

pb::DemandList to_pb(const std::vector<DemandItem>& items) {
  pb::DemandList out;
  for (const auto& item : items) {
    auto* i = out.add_items();
    i->set_uid(item.id.uid.value());
    i->set_attempt(item.id.attempt);
    for (const auto& set : item.pod_sets) {
      auto* made = i->add_pod_sets();
      *made = to_pb(set);
      made->clear_rules();  // its form is a Pod's JSON
      i->add_rules(set.rules);
    }
    i->set_priority(item.priority);
    i->set_since_us(micros(item.since));
    i->set_checkpoints(item.checkpoints);
    i->set_runs(item.runs);
    i->mutable_room()->Assign(item.room.begin(), item.room.end());
    i->set_room_zone(item.room_zone);
  }
  return out;
}

pb::Proposal to_pb(const WorkloadUid& uid, const Proposal& proposal, bool withdrawn) {
  pb::Proposal out;
  out.set_number(proposal.number);
  out.set_uid(uid.value());
  out.set_attempt(proposal.attempt);
  out.set_reason(proposal.move ? "Consolidation" : "Preemption");
  for (const auto& victim : proposal.victims) {
    auto* v = out.add_victims();
    v->set_uid(victim.id.uid.value());
    v->set_attempt(victim.id.attempt);
    v->set_gpu_milliseconds(victim.gpu_ms);
    v->set_moves(!victim.to.empty());
  }
  out.set_micro_usd(proposal.lost_micro_usd);
  out.set_made_us(micros(proposal.made));
  out.set_withdrawn(withdrawn);
  return out;
}

pb::NodeEvent to_pb(const NodeName& name, const Node& node) {
  pb::NodeEvent out;
  out.set_node(name.value());
  switch (node.state) {
    case NodeState::kReady:
      out.set_state(pb::NODE_READY);
      break;
    case NodeState::kNotReady:
      out.set_state(pb::NODE_NOT_READY);
      break;
    case NodeState::kCordoned:
      out.set_state(pb::NODE_CORDONED);
      break;
    case NodeState::kGone:
      out.set_state(pb::NODE_GONE);
      break;
  }
  out.set_provider_id(node.facts.provider_id);
  out.set_instance_type(node.facts.instance_type);
  out.set_zone(node.facts.zone);
  out.set_capacity_type(node.facts.capacity_type);
  // On a node with MIG instances all GPUs count, including those that are partitioned.
  const bool repartition = std::ranges::any_of(node.facts.extended, [](const auto& resource) {
    return resource.first.starts_with(words::kMigPrefix) && resource.second > 0;
  });
  out.set_gpus(repartition ? node.facts.gpus_installed : node.facts.gpus);
  out.set_gpu_model(node.facts.model);
  out.set_cpu_milli(node.facts.cpu_milli);
  out.set_memory_bytes(node.facts.memory_bytes);
  for (const auto& [key, value] : node.facts.labels) (*out.mutable_labels())[key] = value;
  for (const auto& taint : node.facts.taints) *out.add_taints() = to_pb(taint);
  out.set_since_us(micros(node.since));
  out.set_reason(node.reason);
  out.set_pods(node.pods);
  out.set_empty_since_us(micros(node.empty_since));
  return out;
}

pb::LayoutOrder to_pb(const relayout::Row& row) {
  pb::LayoutOrder out;
  out.set_node(row.order.node.value());
  out.set_layout(row.order.layout);
  out.mutable_capacity()->insert(row.order.capacity.begin(), row.order.capacity.end());
  out.set_phase(std::string(name_of(row.phase)));
  out.set_since_us(micros(row.since));
  out.set_reason(row.reason);
  out.set_from_us(micros(row.order.from));
  out.set_until_us(micros(row.order.until));
  return out;
}

}  // namespace qm::placement
