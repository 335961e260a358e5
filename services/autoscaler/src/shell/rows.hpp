#pragma once
#include "qm/autoscaler/engine.hpp"
#include "qm/service/shell.hpp"
#include "quartermaster/v1/events.pb.h"

#include <string>

namespace qm::autoscaler {

/// Converts changed rows of all tables to state rows, and state rows back to tables.
void append_changes(const Tables& tables, std::vector<store::StateRow>& out);
Status restore(Tables& tables, const store::StateRow& row);

/// All pools as the payload of one input.
std::string pools_bytes(const std::vector<Pool>& pools);
Result<std::vector<Pool>> pools_from_bytes(const std::string& bytes);

/// All DaemonSets as the payload of one input.
std::string daemon_sets_bytes(const std::vector<PodSet>& sets);
Result<std::vector<PodSet>> daemon_sets_from_bytes(const std::string& bytes);

/// The complete demand as the payload of one input.
std::string demand_bytes(const std::vector<DemandUpdated::Item>& items);
Result<DemandUpdated> demand_from_bytes(const std::string& bytes);

/// The details of a node as the payload of one input.
std::string node_details_bytes(const NodeDetailsUpdated& update);
Result<NodeDetailsUpdated> node_details_from_bytes(const std::string& bytes);

/// All NodeOverlays that apply as the payload of one input.
std::string overlays_bytes(const std::vector<Overlay>& overlays);
Result<OverlaysApplied> overlays_from_bytes(const std::string& bytes);
/// All Auto Scaling groups of pools as the payload of one input.
std::string groups_bytes(const std::map<std::string, ScalingGroup>& groups);
Result<GroupsListed> groups_from_bytes(const std::string& bytes);

/// A claim as published in qm.capacity and the API.
quartermaster::v1::InstanceEvent instance_event(const ClaimName& name, const Claim& claim, const Engine& engine);
/// Whether the termination of the instance was requested and is not complete.
bool is_terminating(const quartermaster::v1::InstanceEvent& event);

}  // namespace qm::autoscaler
