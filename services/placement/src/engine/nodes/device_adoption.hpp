#pragma once
#include "engine/nodes/capacities.hpp"
#include "engine/rows.hpp"
#include "engine/state.hpp"

namespace qm::placement {

/// Moves members to the devices that the kubelet allocated: its allocation is authoritative.
class DeviceAdoption {
 public:
  DeviceAdoption(State& state, const Capacities& capacities, Rows& rows)
      : tables_(state.tables), index_(state.index), scratch_(state.scratch), capacities_(capacities), rows_(rows) {}

  /// Updates the devices of the node's members from the last observation.
  void adopt(const NodeName& name);

 private:
  Tables& tables_;
  Index& index_;
  Scratch& scratch_;
  const Capacities& capacities_;
  Rows& rows_;
};

}  // namespace qm::placement
