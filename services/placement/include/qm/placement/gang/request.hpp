#pragma once
#include "qm/base/result.hpp"
#include "qm/placement/gang/fleet.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace qm::placement::gang {

/// Runs of `size` consecutive ranks, each inside one domain of the level.
struct Slices {
  std::int32_t size = 1;
  Level level = kFleet;
};

/// At most `most` pods in one domain of the level; 0 is no limit.
struct Spread {
  std::int32_t most = 0;
  Level level = kFleet;
};

/// Pods that are alike. With `min_count` the set is elastic: as many as find a place, up to `count`.
struct PodSet {
  pack::PodClass pod;
  std::int32_t count = 1;
  std::int32_t min_count = 0;  ///< 0: all of `count`
  Gates gates = kAllGates;     ///< to whose nodes it may go
  Slices slices;               ///< its size divides `count` and `min_count`
  Spread spread;
};

/// What stands together: its own sets and all below it in one domain of `required`, or in one of a deeper level down to
/// `preferred` where that can be. A leader beside its workers is a group of two sets.
struct Group {
  Level required = kFleet;
  Level preferred = kFleet;  ///< without meaning unless deeper than `required`
  std::vector<PodSet> sets;
  std::vector<Group> children;  ///< each inside the domain of this one
};

inline constexpr std::size_t kMaxSets = 64;

struct Request {
  Group gang;              ///< of at most kMaxSets sets
  bool exclusive = false;  ///< only on nodes without other pods; book() closes them
};

/// Fails    kInvalid, with what to write instead, where no fleet with these levels could ever place it.
[[nodiscard]] Status check(const Request& request, const Tree& tree);

/// Sets and groups are numbered as one meets them: a group, its sets, then its children one after the other.
struct Member {
  std::int32_t set = 0;
  std::int32_t rank = 0;  ///< in its set; consecutive ranks fill a node, then a rack, then the next
  NodeId node = 0;
  std::int32_t device_milli = 0;  ///< free, before, on the device that a share takes; without meaning for whole devices
  friend bool operator==(const Member&, const Member&) = default;
};

/// Where the gang came closest.
struct Shortfall {
  Domain domain;
  std::int32_t set = 0;               ///< that does not fit by itself; -1: each set does, but not all together
  std::int32_t takes = 0, asked = 0;  ///< pods; of all sets where `set` is -1
};

/// A smaller wish that was tried and can be placed now.
struct Relaxation {
  enum class What : std::uint8_t { kWider, kShared, kFewer };
  What what = What::kWider;
  std::int32_t of = 0;     ///< kWider: the group; kFewer: the set
  Level level = kFleet;    ///< kWider: it requires this level instead
  std::int32_t count = 0;  ///< kFewer: pods of the set that can be placed
};

struct Answer {
  std::vector<Member> members;  ///< by set and rank; empty where the gang is not placed
  std::vector<Level> levels;    ///< by group: it stands in one domain of this level
  std::int64_t cost = 0;
  /// The answer is the best there is, or there is none. False: the search hit its bound, and a longer one may know better.
  bool exact = true;
  std::optional<Shortfall> shortfall;
  std::vector<Relaxation> relaxations;
  [[nodiscard]] bool placed() const { return !members.empty(); }
};

/// A sentence for a person: "rack r17 takes 40 of 64; with block instead of rack it fits".
[[nodiscard]] std::string explain(const Tree& tree, const Answer& answer);

struct Options {
  /// Of one domain in use, by level, from 1 (widest) to the nodes. Empty: 1 for a node, and each level eight times the next.
  std::vector<std::int64_t> weights;
  /// Steps that one question to a domain may take, some nanoseconds each.
  std::int64_t effort = 4'000'000;
};

/// Places a gang as a whole or says what is in the way. Nothing is taken: book() does that.
///
/// Order    all pods before closeness; the deepest level that each group may have, group by group; then the least cost, that is
///          weight times domains in use, over all levels; then the domain with least left over; then the policy's score
///          (of single nodes, among the first 256 that take as many); then the order of nodes.
///          The same fleet and request give the same answer.
/// Threads  one: tables are brought up to date, and nodes are tried and given back.
/// Fails    kInvalid, see check(). A gang that finds no place is an answer.
/// Cost     one set: O(domains that could hold it) and a convolution over the parts of the few that may be cheapest; several
///          sets: the same by vectors of counts, as long as `effort` lasts, then set by set with a bounded number of trials.
[[nodiscard]] Result<Answer> place(Fleet& fleet, const Request& request, const Options& options = {});

/// Whether place() would place it, elastic sets at their least. Answers quicker: it looks for any place, and for no reason.
/// Requires a valid request.
[[nodiscard]] bool has_place(Fleet& fleet, const Request& request, const Options& options = {});

/// The members are on their nodes from now on; the nodes of an exclusive gang are closed.
void book(Fleet& fleet, const Request& request, const Answer& answer);

}  // namespace qm::placement::gang
