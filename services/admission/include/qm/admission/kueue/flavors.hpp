#pragma once
#include "qm/admission/kueue/names.hpp"
#include "qm/admission/kueue/topologies.hpp"
#include "qm/admission/kueue/work.hpp"

#include <span>
#include <string_view>

namespace qm::admission::kueue {

/// How a flavor can satisfy a request; later values are better.
enum class Mode : std::uint8_t {
  kNoFit,
  kNoCandidates,  ///< quota that others hold, without preemption candidates
  kPreempt,       ///< needs victims in its own queue
  kReclaim,       ///< needs only borrowing victims of other queues
  kFit,
};

/// How a request, or all requests on one flavor, would be satisfied.
struct Fitting {
  Mode mode = Mode::kFit;
  int level = 0;  ///< of borrowing
};

struct FlavorChoice {
  Resource resource = 0;
  Flavor flavor = 0;
  Cell cell = 0;
  Mode mode = Mode::kNoFit;
  int level = 0;   ///< of borrowing
  int tried = -1;  ///< the last option that was tried; -1 if it was the last of the group
};

/// Why a flavor is not assigned, with Kueue's names; later values are more severe.
enum class NoFit : std::uint8_t {
  kNone,
  kTopologyPlacementFailed,
  kWaitingForQuota,
  kExceedsMaxQuota,
  kNoMatchingFlavor
};
[[nodiscard]] std::string_view name_of(NoFit reason);

/// One obstacle of a pod set, with its numbers; to_string() has Kueue's words.
struct Why {
  enum class Kind : std::uint8_t {
    kRefused,                  ///< `refusal`
    kNotAsBefore,              ///< another flavor was nominated
    kNotCovered,               ///< the queue has no quota for the resource
    kNotProvided,              ///< the flavor is in the resource group, whose search ended before it
    kExceedsMax,               ///< earlier + asked > most
    kInsufficient,             ///< `asked` more are needed
    kTopologyPlacementFailed,  ///< `refusal.detail` has the reason
    kNoTopology,               ///< a topology is required, and no assigned flavor has nodes
    kNoTopologies,             ///< a topology is required, and no flavor of the queue has nodes
    kSeveralTopologies,        ///< nodes of several flavors, `flavors`, are not supported together
    kElastic,                  ///< `refusal.detail`, required or preferred, is not supported for an elastic workload
  };
  Kind kind = Kind::kRefused;
  Flavor flavor = 0;
  Resource resource = 0;
  std::int64_t earlier = 0, asked = 0, most = 0;
  Refusal refusal{};
  std::vector<Flavor> flavors{};
};

/// The obstacle in Kueue's words.
[[nodiscard]] std::string to_string(const Why& why, const Names& flavors, const Names& resources);

/// The result for a flavor that was tried.
struct Attempt {
  Flavor flavor = 0;
  Fitting value;
  NoFit no_fit = NoFit::kNone;
  std::vector<Why> whys;
};

struct Assignment {
  struct Set {
    std::int32_t count = 0;
    std::vector<FlavorChoice> flavors;
    bool fits_nothing = false;
    /// If the set does not fit: the most severe reason of its resource groups, each with the mildest reason of its
    /// flavors; kNoMatchingFlavor if no flavor was tried.
    NoFit no_fit = NoFit::kNone;
    bool tried = false;                             ///< a flavor was tried
    std::vector<std::pair<Flavor, NoFit>> blocked;  ///< flavors that do not fit, while the reason may still matter
    std::vector<Flavor> reached;                    ///< flavors of several groups that one of their searches reached
    std::vector<Attempt> attempts;                  ///< by flavor; these two on request
    std::vector<Why> whys;
    /// By the least preferred part of each group; others may need victims nevertheless.
    bool taken_to_fit = false;

    /// Sets the reason of a flavor that does not fit, unless a more severe one is known.
    void block(Flavor flavor, NoFit reason);
  };
  std::vector<Set> sets;
  Amounts usage;
  int borrowing = 0;  ///< the highest level of its parts
  Scan scan;
  std::vector<Placed> placed;  ///< the pod sets with nodes
  LeafUses on_nodes;           ///< the same, as leaf usage

  [[nodiscard]] bool requires_borrowing() const { return borrowing > 0; }
  /// kNoFit, kPreempt (with or without victims) or kFit: the worst of its parts.
  [[nodiscard]] Mode mode() const;
  [[nodiscard]] std::optional<Flavor> flavor_of(std::size_t set, Resource resource) const;
  /// The most severe reason of the pod sets that do not fit; kNone if all fit.
  [[nodiscard]] NoFit no_fit() const;
  /// The cells that need preemption.
  [[nodiscard]] std::vector<Cell> contested() const;
};

/// Simulates preemption for an amount of one cell.
struct Oracle {
  virtual ~Oracle() = default;
  /// kNoCandidates, kPreempt or kReclaim, and the borrowing level afterwards.
  virtual Fitting simulate(const Work& work, Cell cell, std::int64_t amount) = 0;
};

/// Assigns a flavor to each resource of each pod set: pod set by pod set and group by group, from where the last search
/// stopped, without backtracking. Pod sets of a group are one request. For flavors with topologies, nodes are searched
/// after quota: a set that fits the quota and not the nodes needs victims, and one that does not fit empty nodes
/// does not fit.
///
/// Source   Kueue, pkg/scheduler/flavorassigner/flavorassigner.go, tas_flavorassigner.go.
class FlavorAssigner {
 public:
  FlavorAssigner(const Tree& tree, const QueueRules& rules, Oracle& oracle, bool fair_sharing,
                 std::optional<Resource> pods = {}, Topologies* topologies = nullptr)
      : tree_(tree),
        rules_(rules),
        oracle_(oracle),
        fair_sharing_(fair_sharing),
        pods_(pods),
        topologies_(topologies) {}

  /// `counts`: pods of each set, instead of the full number. `same_as`: only the flavors assigned there, from the first
  /// option on.
  [[nodiscard]] Assignment assign(const Work& work, std::span<const std::int32_t> counts = {},
                                  const Assignment* same_as = nullptr) const;
  /// The same with attempts and obstacles.
  [[nodiscard]] Assignment explain(const Work& work, const Assignment* same_as = nullptr) const;

  /// The total requests of a workload with an assignment, which preemption has to free. For a replacement of a
  /// slice these are the pods that the slice lacks, regardless of the assigned count.
  /// Source   Kueue, pkg/scheduler/flavorassigner/assignment.go TotalRequestsFor.
  [[nodiscard]] Amounts total_requests(const Work& work, const Assignment& assignment) const;

  /// The pod sets to place on nodes, with their assigned flavors.
  [[nodiscard]] std::vector<NodeRequest> node_requests(const Work& work, const Assignment& assignment) const;

  /// Why a pod set cannot be placed, regardless of free nodes; empty for others.
  [[nodiscard]] std::optional<Why> placement_fault(const Work& work, const Assignment& assignment,
                                                   std::size_t set) const;

  /// Whether option a is preferred to b.
  [[nodiscard]] static bool preferred(Fitting a, Fitting b, bool prefers_borrowing);

 private:
  struct Requests;
  [[nodiscard]] Assignment search(const Work& work, std::span<const std::int32_t> counts, const Assignment* same_as,
                                  bool explain) const;
  void add_refusal(const Work& work, Cell cell, Resource resource, std::int64_t earlier, std::int64_t asked,
                   Fitting part, Attempt& attempt) const;
  [[nodiscard]] Mode choose(const Work& work, std::span<const std::size_t> sets, const Requests& requests,
                            Resource resource, const Assignment* same_as, bool explain, Assignment& out) const;
  [[nodiscard]] bool assign_group(const Work& work, std::span<const std::size_t> sets,
                                  std::span<const std::int32_t> counts, const Assignment* same_as, bool explain,
                                  Assignment& out) const;
  [[nodiscard]] bool asks(const PodSet& set, Resource resource) const;
  [[nodiscard]] std::optional<Refusal> refusal(const Work& work, std::span<const std::size_t> sets,
                                               const QueueRules::Group& group, Flavor flavor) const;
  void inherit_group_tas_flavors(const Work& work, std::span<const std::size_t> sets, Assignment& out) const;
  [[nodiscard]] std::optional<Refusal::Why> against_topology(const PodSet& set, Flavor flavor) const;
  [[nodiscard]] bool to_be_placed(const PodSet& set, const Assignment::Set& made) const;
  void place(const Work& work, Assignment& out) const;
  void resolve_reasons(Assignment& out) const;
  void fail_placement(const Placing& placing, std::span<const NodeRequest> wanted, bool empty, Assignment& out) const;
  [[nodiscard]] Fitting fitting(const Work& work, Cell cell, std::int64_t amount) const;
  [[nodiscard]] bool stops(Fitting value) const;

  const Tree& tree_;
  const QueueRules& rules_;
  Oracle& oracle_;
  bool fair_sharing_;
  std::optional<Resource> pods_;
  Topologies* topologies_;
};

/// Partial admission: the largest i-th step between full and minimum counts for which `fits` returns true, found by
/// bisection. Returns false if there is none.
/// Source   Kueue, pkg/scheduler/flavorassigner/podset_reducer.go.
template <class Fits>
[[nodiscard]] bool reduce(const std::vector<PodSet>& sets, Fits&& fits) {
  std::vector<std::int64_t> deltas;
  std::int64_t total = 0;
  for (const auto& set : sets) {
    deltas.push_back(set.min_count ? set.count - *set.min_count : 0);
    total += deltas.back();
  }
  if (total == 0) return false;
  std::vector<std::int32_t> counts(sets.size());
  const auto fits_at = [&](std::int64_t step) {
    for (std::size_t i = 0; i < sets.size(); ++i) {
      counts[i] = sets[i].count - static_cast<std::int32_t>(deltas[i] * step / total);
    }
    return fits(std::span<const std::int32_t>(counts));
  };
  std::int64_t low = 0, high = total + 1, last = -1;
  while (low < high) {
    const auto middle = low + (high - low) / 2;
    if (fits_at(middle)) {
      last = middle;
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low == last;
}

}  // namespace qm::admission::kueue
