#pragma once
#include "qm/placement/commands.hpp"
#include "quartermaster/v1/events.pb.h"

namespace qm::placement {

/// Model values as messages and back, field by field.
namespace pb = quartermaster::v1;

pb::Taint to_pb(const Taint& taint);
pb::DeviceRef to_pb(const DeviceRef& device);
pb::PodShape to_pb(const PodShape& shape);
pb::PodSet to_pb(const PodSet& set);
pb::WorkloadSpec to_pb(const WorkloadSpec& spec);
pb::AssignmentEvent to_pb(const AttemptId& id, const Assignment& assignment);
pb::AssignmentMember to_pb(const Member& member, const std::vector<PodSet>& pod_sets);
pb::EvictionRequested to_pb(const AttemptId& id, const EvictionAsk& ask);
pb::DemandList to_pb(const std::vector<DemandItem>& items);
pb::NodeEvent to_pb(const NodeName& name, const Node& node);
pb::AssignmentState to_pb(AssignmentState state);

Taint from_pb(const pb::Taint& taint);
DeviceRef from_pb(const pb::DeviceRef& device);
PodShape from_pb(const pb::PodShape& shape);
PodSet from_pb(const pb::PodSet& set);
WorkloadSpec from_pb(const pb::WorkloadSpec& spec);

}  // namespace qm::placement
