#pragma once
#include "qm/base/time.hpp"
#include "qm/model/resources.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace qm::placement {

/// Whether and how it is proposed to admission that some workloads give way to one that has quota and finds no place.
struct Proposing {
  bool on = false;
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
};

enum class ProposalState : std::uint8_t {
  kNone,       ///< nothing is proposed: only what was learned is kept
  kAsked,      ///< admission has not answered
  kAccepted,   ///< the victims are on their way out
  kReturning,  ///< nobody is asked to go: a gang that lost a node has its other places kept for its next attempt
};

/// Room that is kept for one pod of whoever waits, on devices that its victims may still have.
struct HeldPlace {
  std::int32_t set = 0, index = 0;  ///< as in Member
  NodeName node;
  std::vector<DeviceRef> devices;
  friend auto operator<=>(const HeldPlace&, const HeldPlace&) = default;
};

/// Who gives way to a workload that waits; and what admission said of earlier ones. While it stands nobody of the same or a lower priority gets
/// the room that it counts on.
struct Proposal {
  struct Victim {
    AttemptId id;
    std::int64_t gpu_ms = 0;  ///< GPU-milliseconds that are lost
    friend auto operator<=>(const Victim&, const Victim&) = default;
  };
  ProposalState state = ProposalState::kNone;
  std::int64_t number = 0;   ///< unique for ever
  std::int32_t attempt = 0;  ///< of whoever waits
  std::vector<Victim> victims;
  std::vector<HeldPlace> places;
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
  friend auto operator<=>(const Proposal&, const Proposal&) = default;
};

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
  friend auto operator<=>(const QuotaStanding&, const QuotaStanding&) = default;
};

[[nodiscard]] std::string_view name_of(ProposalState state);

}  // namespace qm::placement
