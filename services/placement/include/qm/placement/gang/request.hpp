#pragma once
#include "qm/base/result.hpp"
#include "qm/placement/gang/fleet.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace qm::placement::gang {

/// Slices of `size` consecutive ranks, each inside one domain of the level.
struct Slices {
  std::int32_t size = 1;
  Level level = kFleet;
};

/// At most `most` pods in one domain of the level; 0 = no limit.
struct Spread {
  std::int32_t most = 0;
  Level level = kFleet;
};

/// Equal pods. With `min_count` the set is elastic: as many pods are placed as fit, up to `count`.
struct PodSet {
  pack::PodClass pod;
  std::int32_t count = 1;
  std::int32_t min_count = 0;  ///< 0: all of `count`
  Gates gates = kAllGates;     ///< gates whose nodes it may use
  Slices slices;               ///< its size divides `count` and `min_count`
  Spread spread;
};

/// Sets that are placed together: its own sets and all below it in one domain of `required`, or of a deeper
/// level down to `preferred` if possible. A leader with its workers is a group of two sets.
struct Group {
  Level required = kFleet;
  Level preferred = kFleet;  ///< ignored unless deeper than `required`
  std::vector<PodSet> sets;
  std::vector<Group> children;  ///< each inside the domain of this one
};

inline constexpr std::size_t kMaxSets = 64;

struct Request {
  Group gang;              ///< with at most kMaxSets sets
  bool exclusive = false;  ///< only on nodes without other pods; book() closes them
};

/// Fails    kInvalid with a remedy, if no fleet with these levels could ever place the request.
[[nodiscard]] Status check(const Request& request, const Tree& tree);

/// Sets and groups are numbered in preorder: a group, its sets, then its children one after the other.
struct Member {
  std::int32_t set = 0;
  std::int32_t rank = 0;  ///< in its set; consecutive ranks fill a node, then a rack, then the next
  NodeId node = 0;
  std::int32_t device_milli = 0;  ///< free before on the device for a share; not used for whole devices
  friend bool operator==(const Member&, const Member&) = default;
};

/// The domain where the gang nearly fits.
struct Shortfall {
  Domain domain;
  std::int32_t set = 0;               ///< set that does not fit by itself; -1: each set fits, but not all together
  std::int32_t takes = 0, asked = 0;  ///< pods; of all sets if `set` is -1
};

/// A weaker request that was tried and can be placed now.
struct Relaxation {
  enum class What : std::uint8_t { kWider, kShared, kFewer };
  What what = What::kWider;
  std::int32_t of = 0;     ///< kWider: the group; kFewer: the set
  Level level = kFleet;    ///< kWider: it requires this level instead
  std::int32_t count = 0;  ///< kFewer: pods of the set that can be placed
};

struct Answer {
  std::vector<Member> members;  ///< by set and rank; empty where the gang is not placed
  std::vector<Level> levels;    ///< by group: it is in one domain of this level
  std::int64_t cost = 0;
  /// The result is optimal, or nothing fits. False: the search reached its limit, and a longer one might find
  /// more.
  bool exact = true;
  std::optional<Shortfall> shortfall;
  std::vector<Relaxation> relaxations;
  [[nodiscard]] bool placed() const { return !members.empty(); }
};

/// The result as a sentence: "rack r17 takes 40 of 64; with block instead of rack it fits".
[[nodiscard]] std::string explain(const Tree& tree, const Answer& answer);

struct Options {
  /// Weight of one domain in use, by level, from 1 (widest) to the nodes. Empty: 1 for a node, and each level
  /// eight times the next.
  std::vector<std::int64_t> weights;
  /// Limit of steps for the search of one domain, some nanoseconds each.
  std::int64_t effort = 4'000'000;
};

/// Places a gang as a whole, or reports which constraint prevents it. Nothing is booked: see book().
///
/// Order    all pods before topology; the deepest possible level of each group, group by group; then least
///          cost, the weight times domains in use, over all levels; then the domain with the least remaining
///          capacity; then the policy's score (of single nodes, among the first 256 that fit as many pods);
///          then the order of nodes. The same fleet and request give the same result.
/// Threads  one: tables are updated, and trial placements are reverted.
/// Fails    kInvalid, see check(). A gang that does not fit is a result, not a failure.
/// Cost     one set: O(domains that could hold it) and a convolution over the parts of the few that may be
///          cheapest. Several sets: the same by vectors of counts within `effort`, then set by set with a
///          bounded number of trials.
[[nodiscard]] Result<Answer> place(Fleet& fleet, const Request& request, const Options& options = {});

/// Whether place() would place it, elastic sets with their minimum. Faster: any placement is enough, and no
/// reason is computed.
/// Requires a valid request.
[[nodiscard]] bool has_place(Fleet& fleet, const Request& request, const Options& options = {});

/// Books the members on their nodes; the nodes of an exclusive gang are closed.
void book(Fleet& fleet, const Request& request, const Answer& answer);

}  // namespace qm::placement::gang
