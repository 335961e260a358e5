#pragma once
#include "qm/placement/mig/fleet.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace qm::placement::mig {

/// One GPU before it is cut anew.
struct Sliced {
  bool mig = true;     ///< the mode; where it is off there are no instances
  bool whole = false;  ///< somebody uses the GPU as a whole; only with the mode off
  StateId layout = StateTable::empty();
  /// Instances of the layout that are in use, with what it costs to drain each; none = it stays.
  std::map<SpotId, std::optional<std::int64_t>> used;
};

/// What steps cost, in the caller's unit; not negative. A drain is priced by the instance.
struct StepCosts {
  std::int64_t destroy = 1, create = 1;
  std::int64_t enable = 10;  ///< switching the mode on, which resets the GPU
};

/// How many instances of each profile: all that mig-parted is told of a GPU.
using Counts = std::map<ProfileId, int>;

/// A GPU cut anew, step by step: drain, destroy, switch the mode on, create.
struct Reslice {
  std::size_t gpu = 0;  ///< by its place among those given
  bool enable = false;
  std::vector<SpotId> drain;             ///< those in use that go or change hands
  std::vector<SpotId> destroy;           ///< drained or idle
  std::vector<SpotId> create;            ///< in this order
  std::vector<SpotId> serve;             ///< for the request: created, idle or drained; in the order of spots
  StateId layout = StateTable::empty();  ///< afterwards
  std::int64_t cost = 0;
  /// Created one by one without a start they come to stand there, if each takes the lowest start that is free. Otherwise
  /// the starts must be named (nvidia-smi -cgi PROFILE:START, NVML's create with placement).
  bool order_reaches = false;
  Counts counts;  ///< of the layout
  /// mig-parted with the counts alone ends at this layout, under the same assumption.
  bool counts_reach = false;
  /// mig-parted clears a GPU before it cuts it, so it may only be used where nothing stays in use.
  bool nothing_stays = false;
  friend bool operator==(const Reslice&, const Reslice&) = default;
};

/// The cheapest way to have idle instances of these profiles on one of the GPUs, all on the same; none where no drain that
/// is allowed makes room. A plan without steps means that they are there.
///
/// Order    least cost, then fewest steps, then least loss of the policy, then the lower GPU, state and spots.
/// Threads  any; reads only its arguments.
/// Cost     a shortest path over the layouts that destroying and creating reach: microseconds for one instance.
std::optional<Reslice> reslice(const StateTable& table, std::span<const Sliced> gpus, std::span<const ProfileId> wanted,
                               const StepCosts& costs, const Policy& policy);

/// Where an instance of the profile comes to stand if it takes the lowest start that is free; kNoState where none is.
StateId place_lowest(const StateTable& table, StateId state, ProfileId profile);

/// The layout that mig-parted makes of counts: largest profiles first, and where that fails the next order, until one
/// works. kNoState where none does.
///
/// Source   mig-parted, pkg/mig/config: SetMigConfig and iteratePermutationsUntilSuccess.
StateId parted_layout(const StateTable& table, const Counts& counts);

}  // namespace qm::placement::mig
