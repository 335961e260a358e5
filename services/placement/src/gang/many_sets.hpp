#pragma once
#include "one_set.hpp"
#include "qm/base/lookup.hpp"

#include <array>
#include <map>
#include <optional>
#include <vector>

namespace qm::placement::gang {

/// Places sets of several kinds together. While the effort lasts the result is exact: for each
/// vector of counts it computes the least cost at which a domain fits them, part by part. Groups,
/// slices and spread determine which vectors a domain of a level may have. Otherwise it places set by
/// set on the fleet itself, with a bounded number of trials, and reverts everything.
class ManySets final : public Finder {
 public:
  /// `levels` by team, `counts` by set; with `any` the first placement found is returned, at any
  /// cost.
  ManySets(Fleet& fleet, const Shape& shape, std::span<const Level> levels, std::span<const std::int32_t> counts,
           std::span<const std::int64_t> weights, std::int64_t effort, bool any = false);

  [[nodiscard]] bool may_hold(Domain domain) const override;
  [[nodiscard]] bool certain() const override { return false; }
  [[nodiscard]] std::int64_t leftover(Domain domain) const override;
  [[nodiscard]] std::int64_t bound(Domain domain) const override;
  [[nodiscard]] std::optional<std::int64_t> cost(Domain domain, std::int64_t below) override;
  [[nodiscard]] std::optional<NodeId> best_node(Domain) override { return std::nullopt; }
  /// The plan of a domain for which the last cost() returned a value.
  [[nodiscard]] const std::vector<Load>& plan(Domain domain) const { return plans_.at(domain); }
  [[nodiscard]] bool exact() const { return exact_; }
  /// Counts the pods that fit in the domain if the sets are placed one after another, the largest
  /// first, each with as many pods as still fit.
  [[nodiscard]] std::int32_t one_after_another(Domain domain);

 private:
  using Index = std::uint32_t;  // of a vector of counts, as a number whose digits are the counts
  struct Entry {
    Index index;
    std::int64_t cost;
  };
  struct Table {  // the vectors that fit in a domain
    Domain domain;
    std::vector<Entry> entries;
    std::vector<std::vector<std::uint32_t>> pick;  // by part and vector: the part's entry, from 1
    std::vector<Table> parts;
  };
  [[nodiscard]] std::int32_t digit(Index index, std::size_t set) const {
    return static_cast<std::int32_t>(index / stride_[set] % (static_cast<Index>(counts_[set]) + 1));
  }
  [[nodiscard]] bool allowed(Level level, Index index) const;
  [[nodiscard]] const std::vector<Entry>& on_node(NodeId node);
  void enumerate(std::size_t step, std::uint8_t gate, const std::vector<pack::NodeState>& states, Index index,
                 std::vector<Entry>& out);
  [[nodiscard]] std::vector<pack::NodeState> one_more(const std::vector<pack::NodeState>& states,
                                                      const pack::PodClass& pod);
  [[nodiscard]] bool build(Table& table, std::int64_t most);
  void unfold(const Table& table, Index index, std::vector<Load>& out) const;

  [[nodiscard]] std::int64_t inner_cost(Domain domain, std::span<const Load> loads) const;
  std::optional<std::int64_t> keep(Domain domain, std::int64_t cost, std::int64_t below, std::vector<Load> loads);
  [[nodiscard]] std::optional<std::vector<Load>> by_trial(Domain domain);
  bool fill(std::size_t team, Domain domain);
  bool seat(std::size_t team, Domain inside);
  bool put(std::size_t set, std::int32_t count, Domain domain);
  bool put_on_used_nodes(std::size_t set, std::int32_t count, Domain domain);
  void put_on(std::size_t set, std::int32_t pods, NodeId node);
  void refresh();
  void give_back(std::size_t mark);
  [[nodiscard]] std::vector<std::size_t> largest_first(std::int32_t first, std::int32_t end) const;

  Fleet& fleet_;
  const Tree& tree_;
  const Shape& shape_;
  std::span<const Level> levels_;
  std::span<const std::int32_t> counts_;
  std::span<const std::int64_t> weights_;
  std::int64_t effort_;
  std::int32_t trials_, fills_;
  Level trials_at_ = -1;
  bool any_;
  bool exact_ = true;
  bool by_vectors_ = true;
  std::vector<OneSet> alone_;         // by set
  std::array<Shape::Set, 2> totals_;  // whole devices and cores of all sets, as if they were pods
  std::vector<OneSet> total_;         // those of `totals_` that are requested
  std::vector<std::size_t> order_;    // sets of whole devices before shares
  std::vector<Index> stride_;         // by set
  Index all_ = 1;                     // number of vectors
  std::map<std::uint8_t, Lookup<pack::NodeState, std::vector<Entry>, pack::StateHash>> on_node_;  // by gate
  std::map<Domain, std::vector<Load>> plans_;
  struct Tried {
    NodeId node;
    pack::NodeState before;
    std::size_t set;
    std::int32_t pods;
  };
  std::vector<Tried> tried_;
};

/// Chooses the devices of the pods on one node, set by set: the free milli of each device before
/// the pod, as pack::with() requires it. Returns nothing if the pods do not fit.
[[nodiscard]] std::optional<std::vector<std::vector<std::int32_t>>> devices_for(const pack::Policy& policy,
                                                                                const Shape& shape,
                                                                                const pack::NodeState& state,
                                                                                std::span<const std::int32_t> pods);

/// Adds up the weights of all domains in use.
[[nodiscard]] std::int64_t cost_of(const Tree& tree, std::span<const std::int64_t> weights,
                                   std::span<const Load> loads);

}  // namespace qm::placement::gang
