#pragma once
#include "qm/placement/commands.hpp"
#include "qm/wire/model.hpp"
#include "quartermaster/v1/events.pb.h"
#include "quartermaster/v1/placement_service.pb.h"

namespace qm::placement {

/// Conversions of placement's own values to messages, in addition to those of the model.
namespace pb = quartermaster::v1;
using wire::from_pb;
using wire::to_pb;

/// Rows of a page: the default, and the maximum.
inline constexpr int kDefaultPage = 500, kLargestPage = 5000;

pb::AssignmentEvent to_pb(const AttemptId& id, const Assignment& assignment);
pb::AssignmentMember to_pb(const Member& member, const std::vector<PodSet>& pod_sets);
pb::EvictionRequested to_pb(const AttemptId& id, const EvictionRequest& ask);
pb::DemandList to_pb(const std::vector<DemandItem>& items);
pb::RequeueList to_pb(const std::vector<RequeueItem>& items);
pb::Proposal to_pb(const WorkloadUid& uid, const Proposal& proposal, bool withdrawn);
pb::NodeEvent to_pb(const NodeName& name, const Node& node);
pb::AssignmentState to_pb(AssignmentState state);
pb::LayoutOrder to_pb(const relayout::Row& row);

}  // namespace qm::placement
