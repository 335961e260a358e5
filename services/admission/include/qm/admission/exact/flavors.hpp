#pragma once
#include "qm/admission/exact/topologies.hpp"
#include "qm/admission/exact/work.hpp"

#include <span>
#include <string_view>

namespace qm::admission::exact {

/// What a flavor has for a request; the later the better.
enum class Mode : std::uint8_t {
  kNoFit,
  kNoCandidates,  ///< quota that others hold, and nobody who may be displaced
  kPreempt,       ///< somebody of the own queue has to go
  kReclaim,       ///< only borrowers of other queues have to go
  kFit,
};

/// How a request, or all requests on one flavor, would be met.
struct Fitting {
  Mode mode = Mode::kFit;
  int level = 0;  ///< to be borrowed
};

struct FlavorChoice {
  Resource resource = 0;
  Flavor flavor = 0;
  Cell cell = 0;
  Mode mode = Mode::kNoFit;
  int level = 0;   ///< to be borrowed
  int tried = -1;  ///< the last option that was looked at; -1 where that was the last of the group
};

/// Why a flavor is none, as Kueue names it; the later the more severe.
enum class NoFit : std::uint8_t {
  kNone,
  kTopologyPlacementFailed,
  kWaitingForQuota,
  kExceedsMaxQuota,
  kNoMatchingFlavor
};
[[nodiscard]] std::string_view name_of(NoFit reason);

/// One thing that was in the way of a pod set, with its numbers; to_string says it in Kueue's words.
struct Why {
  enum class Kind : std::uint8_t {
    kRefused,                  ///< `refusal`
    kNotAsBefore,              ///< another flavor was nominated
    kNotCovered,               ///< the queue has no quota for the resource
    kNotProvided,              ///< the flavor is in the resource's group, whose search ended before it
    kExceedsMax,               ///< earlier + asked > most
    kInsufficient,             ///< `asked` more are needed
    kTopologyPlacementFailed,  ///< `refusal.detail` has the reason why the pods cannot be placed
    kNoTopology,               ///< it has to be placed, and no flavor that it was given has nodes
    kNoTopologies,             ///< it has to be placed, and no flavor of the queue has nodes
    kSeveralTopologies,        ///< nodes of several flavors, `flavors`, cannot be had at once
    kElastic,  ///< `refusal.detail`, required or preferred, is not for a workload that grows and shrinks
  };
  Kind kind = Kind::kRefused;
  Flavor flavor = 0;
  Resource resource = 0;
  std::int64_t earlier = 0, asked = 0, most = 0;
  Refusal refusal{};
  std::vector<Flavor> flavors{};
};

/// How a flavor fared that was looked at.
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
    /// Where it fits nothing: the most severe of its resource groups, of each the mildest of its flavors; without a flavor that
    /// was tried, kNoMatchingFlavor.
    NoFit no_fit = NoFit::kNone;
    bool tried = false;                             ///< some flavor was
    std::vector<std::pair<Flavor, NoFit>> blocked;  ///< flavors that are none, where that may still count
    std::vector<Flavor> reached;                    ///< flavors of several resource groups that one of these came to
    std::vector<Attempt> attempts;                  ///< by flavor; these two where they were asked for
    std::vector<Why> whys;
    bool taken_to_fit =
        false;  ///< by the part that was liked least in each group; others may need victims all the same

    /// The flavor is none for this reason, or for a more severe one that is known already.
    void block(Flavor flavor, NoFit reason);
  };
  std::vector<Set> sets;
  Amounts usage;
  int borrowing = 0;  ///< the highest level of its parts
  Scan scan;
  std::vector<Placed> placed;  ///< the pod sets that have nodes
  LeafUses on_nodes;           ///< the same, as it is taken

  [[nodiscard]] bool requires_borrowing() const { return borrowing > 0; }
  /// kNoFit, kPreempt (whether or not there are victims) or kFit: the worst of its parts.
  [[nodiscard]] Mode mode() const;
  [[nodiscard]] std::optional<Flavor> flavor_of(std::size_t set, Resource resource) const;
  /// The most severe of the pod sets that fit nothing; kNone where there is none.
  [[nodiscard]] NoFit no_fit() const;
  /// The cells in which somebody has to give way.
  [[nodiscard]] std::vector<Cell> contested() const;
};

/// What would have to go for so much of one cell.
struct Oracle {
  virtual ~Oracle() = default;
  /// kNoCandidates, kPreempt or kReclaim, and the level afterwards.
  virtual Fitting simulate(const Work& work, Cell cell, std::int64_t amount) = 0;
};

/// Chooses a flavor for each resource of each pod set: pod set by pod set and group by group, from where the last search
/// stopped, without a way back. Pod sets of a group are asked for as one. Where flavors have topologies, the nodes are looked for
/// once quota is found: what fits the quota and not the nodes needs victims, and what would not fit empty nodes fits nothing.
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

  /// `counts`: pods of each set, in the place of the full number. `same_as`: no other flavors than those chosen there, and
  /// from the first on.
  [[nodiscard]] Assignment assign(const Work& work, std::span<const std::int32_t> counts = {},
                                  const Assignment* same_as = nullptr) const;
  /// The same with attempts and what was in the way.
  [[nodiscard]] Assignment explain(const Work& work, const Assignment* same_as = nullptr) const;

  /// What a workload requests in all with an assignment, which preemption has to make available. Of one that replaces a slice
  /// these are the pods that the slice lacks, whatever count was assigned.
  /// Source   Kueue, pkg/scheduler/flavorassigner/assignment.go TotalRequestsFor.
  [[nodiscard]] Amounts total_requests(const Work& work, const Assignment& assignment) const;

  /// What is to be placed on nodes, with the flavors that were chosen.
  [[nodiscard]] std::vector<Wish> wishes(const Work& work, const Assignment& assignment) const;

  /// Why a pod set that is to be placed cannot be, whichever nodes are free; nothing for others.
  [[nodiscard]] std::optional<Why> placement_fault(const Work& work, const Assignment& assignment,
                                                   std::size_t set) const;

  /// Whether option a is taken rather than b.
  [[nodiscard]] static bool preferred(Fitting a, Fitting b, bool prefers_borrowing);

 private:
  struct Requests;
  [[nodiscard]] Assignment search(const Work& work, std::span<const std::int32_t> counts, const Assignment* same_as,
                                  bool explain) const;
  void tell(const Work& work, Cell cell, Resource resource, std::int64_t earlier, std::int64_t asked, Fitting part,
            Attempt& attempt) const;
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
  void fail_placement(const Placing& placing, std::span<const Wish> wanted, bool empty, Assignment& out) const;
  [[nodiscard]] Fitting fitting(const Work& work, Cell cell, std::int64_t amount) const;
  [[nodiscard]] bool stops(Fitting value) const;

  const Tree& tree_;
  const QueueRules& rules_;
  Oracle& oracle_;
  bool fair_sharing_;
  std::optional<Resource> pods_;
  Topologies* topologies_;
};

/// The sizes to be tried when fewer pods than asked for will do: the largest i-th step between full and least counts for
/// which `fits` says yes, found by bisection; nullopt where none does.
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

}  // namespace qm::admission::exact
