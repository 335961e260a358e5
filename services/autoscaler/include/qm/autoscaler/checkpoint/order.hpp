#pragma once
#include "qm/base/time.hpp"
#include "qm/model/checkpoint.hpp"
#include "qm/model/ids.hpp"

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace qm::autoscaler::checkpoint {

/// Life of a checkpoint order: Signaled -> Saving -> Acked, Late or Failed -> Released.
enum class State {
  kSignaled,  ///< sent, no answer yet
  kSaving,    ///< some nodes have answered
  kAcked,     ///< the quorum of ranks has saved the same step
  kLate,      ///< the deadline passed first
  kFailed,    ///< a rank refused, or the ranks saved different steps
  kReleased,  ///< the attempt ended: no rank is left to save
};
[[nodiscard]] std::string_view name_of(State state);
/// Whether no answer changes the state any more.
[[nodiscard]] constexpr bool is_closed(State state) { return state != State::kSignaled && state != State::kSaving; }

/// Identifies one order of one incarnation of a gang. An answer is valid only for the order with the same fence.
struct Fence {
  std::int32_t attempt = 0;  ///< of the workload; grows with each release of its quota
  std::int64_t number = 0;   ///< of the order, unique in a shard and growing; 0 = the sender does not know it
  friend auto operator<=>(const Fence&, const Fence&) = default;
};

/// The answer of one node.
struct Answer {
  NodeName node;
  Fence fence;
  std::int32_t ranks = 0;       ///< of the gang on this node
  std::vector<StepSave> saves;  ///< one for each step, distinct steps
  std::string refusal;          ///< why some rank did not save; empty = every rank saved
  friend auto operator<=>(const Answer&, const Answer&) = default;
};

/// A checkpoint order of a gang, with its answers.
struct GangSave {
  Fence fence;
  std::int32_t quorum = 0;  ///< ranks that have to save the same step; 0 = all
  std::vector<NodeName> nodes;
  Instant deadline{};
  std::vector<Answer> answers;
  friend auto operator<=>(const GangSave&, const GangSave&) = default;
};

/// What an answer was used for.
enum class Reception {
  kAccepted,
  kStale,      ///< of another incarnation of the gang, or of another order
  kForeign,    ///< from a node that the order does not name
  kDuplicate,  ///< the node has answered; its first answer counts
};
/// Adds an answer to an open order, with the fence of the order.
///
/// Fence    an answer whose attempt differs is stale, and so is one with another number. A number of 0 is that of an
///          agent of an earlier release, which names the order by its id alone.
/// Cost     linear in the nodes of the order.
[[nodiscard]] Reception receive(GangSave& order, Answer answer);

/// The state of an order at a time, and the checkpoint if it is Acked.
struct Verdict {
  State state = State::kSignaled;
  StepSave saved;      ///< ranks, bytes and the slowest duration of the whole gang
  std::string reason;  ///< why it is Late, Failed or Released, with numbers; empty otherwise
  friend auto operator<=>(const Verdict&, const Verdict&) = default;
};
/// Judges an open order.
///
/// Acked     the highest step that the quorum has saved. Without a quorum every node must have answered, and every rank
///           must have saved the same step.
/// Failed    at once where a rank refused and no quorum is declared; otherwise when every node has answered.
/// Late      `now` is at or past the deadline.
/// Released  `attempt_over`: an order that is not Acked by then has no rank left to save.
/// URI       of the first node, by name, that has one for the step.
/// Cost      linear in the answers and their steps.
/// Source    the cooperative rule of data-parallel trainers: a checkpoint is usable only if its shards are of one step.
[[nodiscard]] Verdict judge(const GangSave& order, Instant now, bool attempt_over);

}  // namespace qm::autoscaler::checkpoint
