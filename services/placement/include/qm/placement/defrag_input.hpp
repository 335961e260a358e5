#pragma once
#include "qm/placement/plan/consolidate.hpp"
#include "qm/placement/preference.hpp"

#include <memory>
#include <string>
#include <vector>

namespace qm::placement {

/// Input of a defragmentation plan, copied from the engine: the fleet and its running gangs.
///
/// A gang may move if all of these are true:
///   - it is admitted, and has had its minimum run time;
///   - it uses whole devices or shares;
///   - it has no rules about other pods, volumes or ports.
///
/// Unschedulable nodes, nodes with GPUs in other use, and nodes with a faulty device are neither emptied nor targets.
struct DefragInput {
  struct Gang {
    AttemptId id;
    Namespace ns;
    std::string name;
    std::vector<std::int32_t> positions;  ///< of its pod sets, in the numbering of the model; empty if it may not move
  };
  Preference preference;  ///< owns the policy that the model refers to
  std::unique_ptr<plan::ClusterModel> model;
  std::vector<Gang> gangs;      ///< by number
  std::vector<NodeName> nodes;  ///< by number
  plan::CostModel terms;
};

/// Computes a plan with consolidate(). The input is not changed.
/// Threads  any. Cost: see plan::consolidate().
[[nodiscard]] plan::DefragPlan defrag_nodes(const DefragInput& problem, const plan::Budget& budget);

}  // namespace qm::placement
