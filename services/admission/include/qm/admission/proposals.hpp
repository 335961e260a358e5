#pragma once
#include "qm/base/time.hpp"
#include "qm/model/ids.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace qm::admission {

/// How somebody leaves his place.
enum class Leaving : std::uint8_t {
  kGone,      ///< evicted for another
  kMoves,     ///< by himself, to a place that is kept for him
  kMovesFor,  ///< likewise, and another gets his
};

/// Placement's proposal that some workloads give way to one that has quota and finds no place, or that one moves. Whoever goes is told
/// so by admission alone, which judges each victim by the rules of its queue, or if it moves by those for movers: see judge() in proposals.cpp for the reasons to refuse.
struct ProposalHeard {
  struct Victim {
    WorkloadUid uid;
    std::int32_t attempt = 0;
    bool moves = false;  ///< a place is kept for its next attempt
  };
  std::int64_t number = 0;  ///< grows with each proposal
  WorkloadUid uid;          ///< who waits; of a move, who moves
  std::int32_t attempt = 0;
  bool move = false;  ///< the workload is its own victim, and has a place kept for it
  std::vector<Victim> victims;
  std::int64_t micro_usd = 0;
  bool withdrawn = false;
};

/// What was made of the newest proposal for a workload. The row is there as long as it waits, or leaves, in that attempt.
struct Judged {
  std::int32_t attempt = 0;
  std::int64_t number = 0;
  bool accepted = false, move = false;
  std::string reason;             ///< of a refusal
  std::vector<WorkloadUid> kept;  ///< victims that stay
  std::vector<WorkloadUid> victims;
  std::int64_t micro_usd = 0;
  Instant until{};  ///< quota is kept so long for the room that is being made
  friend bool operator==(const Judged&, const Judged&) = default;
};

/// The budget of proposals: workloads that were told to go since the hour began.
struct GaveWay {
  Instant since{};
  std::int64_t workloads = 0;
  friend bool operator==(const GaveWay&, const GaveWay&) = default;
};

}  // namespace qm::admission
