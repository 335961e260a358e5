#pragma once
#include "qm/autoscaler/engine.hpp"
#include "qm/service/shell.hpp"
#include "quartermaster/v1/events.pb.h"

#include <string>

namespace qm::autoscaler {

/// Changed rows of all tables as state rows, and state rows back into tables.
void append_changes(const Tables& tables, std::vector<store::StateRow>& out);
Status restore(Tables& tables, const store::StateRow& row);

/// All pools as the payload of one input.
std::string pools_bytes(const std::vector<Pool>& pools);
Result<std::vector<Pool>> pools_from_bytes(const std::string& bytes);

/// All that waits as the payload of one input.
std::string demand_bytes(const std::vector<DemandHeard::Item>& items);
Result<DemandHeard> demand_from_bytes(const std::string& bytes);

/// A claim as qm.capacity and the API tell of it.
quartermaster::v1::InstanceEvent instance_event(const ClaimName& name, const Claim& claim, const Engine& engine);
/// Whether the cloud was asked to end the machine and has not done so yet.
bool is_terminating(const quartermaster::v1::InstanceEvent& event);

}  // namespace qm::autoscaler
