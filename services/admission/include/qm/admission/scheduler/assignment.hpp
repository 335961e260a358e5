#pragma once
#include "qm/admission/workload.hpp"

#include <cstdint>
#include <map>
#include <string>

namespace qm::admission {

/// What a workload gets: a flavor for each pod set and resource, the quota, and the number of pods of each pod set if
/// it starts with fewer.
struct Assignment {
  Shared<Flavors> flavors;
  Shared<Usage> usage;
  Shared<Counts> counts;
  Shared<TopologyAssignments> nodes;  ///< of pod sets whose flavor has a topology
};

/// Quota requests of all pods of a workload, by resource; zero requests are omitted.
[[nodiscard]] std::map<std::string, std::int64_t> requests_of(const WorkloadSpec& spec);

}  // namespace qm::admission
