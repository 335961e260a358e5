#pragma once
#include "qm/base/time.hpp"
#include "qm/model/ids.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace qm::admission {

/// How a victim leaves its placement.
enum class Leaving : std::uint8_t {
  kGone,      ///< evicted for another workload
  kMoves,     ///< migrates: placement is reserved for its next attempt
  kMovesFor,  ///< migrates, and another workload gets its placement
};

/// A proposal of placement: victims of a workload that has quota and does not fit any nodes, or the migration of one
/// workload. Only admission evicts victims. It checks each victim by the rules of its queue, or by those for migration:
/// see judge() in proposals.cpp for the reasons to refuse.
struct ProposalUpdated {
  struct Victim {
    WorkloadUid uid;
    std::int32_t attempt = 0;
    bool moves = false;  ///< placement is reserved for its next attempt
  };
  std::int64_t number = 0;  ///< increases with each proposal
  WorkloadUid uid;          ///< the preemptor; of a migration, the workload that migrates
  std::int32_t attempt = 0;
  bool move = false;  ///< the workload is its own victim, with placement reserved for it
  std::vector<Victim> victims;
  std::int64_t micro_usd = 0;
  bool withdrawn = false;
};

/// The decision on the newest proposal for a workload. The row exists while the workload holds unplaced quota, or is
/// being evicted, in that attempt.
struct ProposalDecision {
  std::int32_t attempt = 0;
  std::int64_t number = 0;
  bool accepted = false, move = false;
  std::string reason;             ///< of a refusal
  std::vector<WorkloadUid> kept;  ///< refused victims
  std::vector<WorkloadUid> victims;
  std::int64_t micro_usd = 0;
  Instant until{};  ///< quota is kept until then, while the victims terminate
  friend bool operator==(const ProposalDecision&, const ProposalDecision&) = default;
};

/// Usage of the hourly budget of proposals: workloads evicted since the hour began.
struct PreemptionBudget {
  Instant since{};
  std::int64_t workloads = 0;
  friend bool operator==(const PreemptionBudget&, const PreemptionBudget&) = default;
};

}  // namespace qm::admission
