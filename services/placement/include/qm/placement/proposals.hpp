#pragma once
#include "qm/base/time.hpp"
#include "qm/model/resources.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace qm::placement {

/// Whether and how it is proposed to admission that some workloads give way to one that has quota and finds no place: they are evicted, or
/// moved to a place that is kept for them.
struct Proposing {
  bool on = false;
  bool evicting = true;                        ///< false: only who finds a place elsewhere is named
  bool moving = true;                          ///< false: nobody is put elsewhere
  Duration after = std::chrono::seconds(30);   ///< on the demand list for so long: until then capacity may be announced
  Duration every = std::chrono::seconds(1);    ///< between two searches
  Duration answer = std::chrono::seconds(30);  ///< then an unanswered proposal is looked at again, and said again
  Duration again = std::chrono::minutes(10);   ///< whom admission lets stay is not named again for so long
  std::int32_t most_said = 3;                  ///< times that one is said
  std::size_t most_standing = 16;
  std::size_t most_searches = 4;               ///< in one step
  std::int64_t effort = 60'000;                ///< of one search, see plan::Terms
  std::int64_t micro_usd_gpu_second = 3'400;   ///< of a GPU whose work is lost
  Duration restart = std::chrono::minutes(2);  ///< until a workload is where it was when it went
  Duration requeue =
      std::chrono::minutes(5);   ///< that who is evicted is thought to wait; its GPUs' time counts as lost
  std::int64_t most_lost = 900;  ///< GPU-seconds of those who could not be evicted, for each GPU of whom they move for
};

enum class ProposalState : std::uint8_t {
  kNone,       ///< nothing is proposed: only what was learned is kept
  kAsked,      ///< admission has not answered
  kAccepted,   ///< the victims are on their way out
  kReturning,  ///< nobody is asked to go: a gang that lost a node has its other places kept for its next attempt
};

/// Whether and how whole nodes are won back by moving work to nodes that are in use.
struct Tidying {
  bool on = false;
  Duration every =
      std::chrono::minutes(10);  ///< from a look that found nothing, or the end of a plan, to the next look
  std::int64_t hourly = 12;      ///< workloads that may be asked to move
  std::int64_t least_gpus = 4;   ///< of the nodes won, for each workload that moves
  std::int64_t most_lost = 300;  ///< GPU-seconds of work, for each GPU of the nodes won
  Duration settle =
      std::chrono::minutes(10);   ///< from the word that it goes until it has its place, else that is kept no more
  std::size_t most_nodes = 1000;  ///< in a larger fleet nothing is looked for: a look is a part of a step
};

/// Room that is kept for one pod of whoever waits, on devices that its victims may still have.
struct HeldPlace {
  std::int32_t set = 0, index = 0;  ///< as in Member
  NodeName node;
  std::vector<DeviceRef> devices;
  friend auto operator<=>(const HeldPlace&, const HeldPlace&) = default;
};

/// Nodes, and the layout that each is to be cut to.
using Cuts = std::map<NodeName, std::string>;

/// Who gives way to a workload that waits; and what admission said of earlier ones. While it stands nobody of the same or a lower priority gets
/// the room that it counts on.
struct Proposal {
  struct Victim {
    AttemptId id;
    std::int64_t gpu_ms = 0;  ///< GPU-milliseconds that are lost
    std::vector<HeldPlace>
        to;  ///< where its next attempt goes, kept for it; none: it is evicted, or has a row of its own by now
    friend auto operator<=>(const Victim&, const Victim&) = default;
  };
  ProposalState state = ProposalState::kNone;
  bool move = false;         ///< whoever it is for runs, and is its own victim: the room is for its next attempt
  std::int64_t number = 0;   ///< unique for ever
  std::int32_t attempt = 0;  ///< of whoever waits
  std::vector<Victim> victims;
  std::vector<HeldPlace> places;
  Cuts cuts;                        ///< ordered when the victims have gone; until then the nodes are nobody else's
  std::int64_t micro_usd = 0;       ///< what it is weighed with, see plan::Costs
  std::int64_t lost_micro_usd = 0;  ///< of that, work that is lost: what it costs
  Instant made{}, said{};
  std::int32_t said_times = 0;
  // What was learned.
  std::map<WorkloadUid, Instant> kept;  ///< that admission lets stay, and until when they are not named again
  std::int32_t refusals = 0;            ///< in a row
  Instant next{};                       ///< no search before
  std::string last;                     ///< why the last one came to nothing
  Instant until{};                      ///< kReturning: its places are kept so long
  [[nodiscard]] bool stands() const { return state != ProposalState::kNone; }
  /// On which room is kept, for whoever waits and for who moves for it.
  [[nodiscard]] std::set<NodeName> nodes() const;
  friend auto operator<=>(const Proposal&, const Proposal&) = default;
};

/// Nodes that are won together, and who moves for that.
struct Winning {
  struct Move {
    AttemptId id;
    std::vector<HeldPlace> places;  ///< of all its pods
    std::int64_t gpu_ms = 0, lost_micro_usd = 0;
    friend auto operator<=>(const Move&, const Move&) = default;
  };
  std::vector<NodeName> nodes;
  std::int64_t gpus = 0;
  std::vector<Move> moves;  ///< that are left; the first may be under way
  friend auto operator<=>(const Winning&, const Winning&) = default;
};

/// The plan that is carried out, whose gain and cost were known before anybody was asked; and what was learned.
struct TidyRun {
  std::vector<Winning> steps;  ///< that are left, in order. None: nothing is under way
  Instant made{};
  // What it was to win and to cost, as it was made.
  std::int64_t nodes = 0, gpus = 0, moves = 0, gpu_ms = 0, lost_micro_usd = 0;
  std::int64_t won = 0;                 ///< nodes, so far
  Instant next{};                       ///< no look before
  Instant hour{};                       ///< when the hour began of which the moves are counted
  std::int64_t asked = 0;               ///< moves in it
  std::map<WorkloadUid, Instant> kept;  ///< that admission lets stay, and until when they are left alone
  std::string last;                     ///< how the last one ended
  [[nodiscard]] bool stands() const { return !steps.empty(); }
  friend auto operator<=>(const TidyRun&, const TidyRun&) = default;
};

/// That the step under way empties, and where those go who move in it.
[[nodiscard]] std::set<NodeName> kept_for(const TidyRun& run);

/// What admission says of a proposal, by its number.
struct ProposalAnswer {
  std::int64_t number = 0;
  bool accepted = false;
  std::string reason;
  std::vector<WorkloadUid> kept;
};

/// What admission told of a workload for the sake of proposals.
struct QuotaStanding {
  std::string queue, quota_tree;  ///< queues of one tree share quota
  bool own_queue = false;         ///< it may displace lower priorities there
  bool in_tree = false;           ///< and in other queues of the tree
  Instant admitted{}, saved{}, kept_until{};
  std::int32_t ended_pods = 0;  ///< of the pods that run at once, those that have nothing left to do
  std::int32_t turn = 0;        ///< 1, 2, ... of those that got quota at the same instant; 0 = admission did not say
  friend auto operator<=>(const QuotaStanding&, const QuotaStanding&) = default;
};

[[nodiscard]] std::string_view name_of(ProposalState state);

}  // namespace qm::placement
