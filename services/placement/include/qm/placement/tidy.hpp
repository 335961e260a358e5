#pragma once
#include "qm/placement/plan/consolidate.hpp"
#include "qm/placement/preference.hpp"

#include <memory>
#include <string>
#include <vector>

namespace qm::placement {

/// The fleet and who runs on it, copied from the engine, so that it can be reckoned elsewhere which whole nodes could be won back by moving work.
///
/// Who may move is admitted, runs on devices that are given as a whole or in shares, has no rules about neighbours, volumes or ports, and has had its minimum
/// run time. Nodes that take nothing new, that others use too, or of which a device is faulty, neither give nor take.
struct TidyQuestion {
  struct Gang {
    AttemptId id;
    Namespace ns;
    std::string name;
    std::vector<std::int32_t> positions;  ///< of its pod sets, as the scene numbers them; empty where it may not move
  };
  Preference preference;  ///< has the policy that the scene refers to
  std::unique_ptr<plan::Scene> scene;
  std::vector<Gang> gangs;      ///< by number
  std::vector<NodeName> nodes;  ///< by number
  plan::Terms terms;
};

/// What consolidate() finds for it, by its own numbers. Nothing is touched.
/// Threads  any. Cost: see plan::consolidate().
[[nodiscard]] plan::Tidy tidied(const TidyQuestion& question, const plan::Budget& budget);

}  // namespace qm::placement
