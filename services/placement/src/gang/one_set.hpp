#pragma once
#include "finder.hpp"

#include <utility>
#include <vector>

namespace qm::placement::gang {

/// Places one set of pods, exactly. In a domain of nodes, the nodes with most free capacity come
/// first and the last node is chosen by best fit. Above that level it computes how many pods a
/// domain fits at each cost, part by part.
///
/// Valid until the fleet changes; refresh() makes it valid again.
class OneSet final : public Finder {
 public:
  using Pods = std::vector<std::pair<NodeId, std::int32_t>>;

  OneSet(Fleet& fleet, const Shape::Set& set, std::int32_t count, std::span<const std::int64_t> weights,
         std::int64_t effort);
  void refresh();

  /// Pods that fit in the domain, with slices and spread applied.
  [[nodiscard]] std::int32_t takes(Domain domain) const {
    return domain.level <= deepest_ ? counted_[at(domain.level)][domain.index] : capacity_->takes(domain);
  }
  /// The same, limited by what the enclosing domains may hold.
  [[nodiscard]] std::int32_t takes_alone(Domain domain) const {
    auto pods = takes(domain);
    for (; domain.level > kFleet; pods = std::min(pods, takes(domain))) domain = tree_.above(domain, domain.level - 1);
    return pods;
  }

  [[nodiscard]] bool may_hold(Domain domain) const override { return takes(domain) >= count_; }
  [[nodiscard]] bool certain() const override { return true; }
  [[nodiscard]] std::int64_t leftover(Domain domain) const override { return takes(domain) - count_; }
  [[nodiscard]] std::int64_t bound(Domain domain) const override;
  [[nodiscard]] std::optional<std::int64_t> cost(Domain domain, std::int64_t below) override;
  /// The node with the least left over; among the first kAlike such nodes the one with the best
  /// policy score.
  [[nodiscard]] std::optional<NodeId> best_node(Domain within) override;
  /// The nodes of a domain that holds the set, at the cost that cost() returned.
  [[nodiscard]] Pods plan(Domain domain, std::int64_t inner);
  /// True if all results were optimal.
  [[nodiscard]] bool exact() const { return exact_; }

 private:
  struct Point {  // more pods for more cost
    std::int64_t cost;
    std::int32_t pods;
  };
  using Curve = std::vector<Point>;
  static constexpr std::size_t kAlike = 256;
  [[nodiscard]] std::int64_t score(NodeId node);
  void nodes_with(Domain domain, std::uint64_t bit, std::vector<NodeId>& out) const;
  [[nodiscard]] std::int32_t rule(Level level, std::int32_t pods) const;
  [[nodiscard]] Curve of_nodes(Domain domain) const;
  [[nodiscard]] std::optional<Curve> of_parts(Domain domain, std::int64_t most, std::vector<std::int32_t>* split);
  [[nodiscard]] std::optional<Curve> curve(Domain domain, std::int64_t most);
  void roomiest_first(Domain domain);
  void put_on_nodes(Domain domain, std::int32_t pods, Pods& out);
  bool put_on_parts(Domain domain, std::int32_t pods, std::int64_t inner, Pods& out);
  std::int64_t fill(Domain domain, std::int32_t pods, Pods* out);

  Fleet& fleet_;
  const Tree& tree_;
  const Shape::Set& set_;
  std::int32_t count_;
  std::span<const std::int64_t> weights_;
  std::int64_t effort_, reserve_;
  bool exact_ = true;
  const DomainCapacity* capacity_ = nullptr;
  Level deepest_ = -1;  // the deepest level at which slices or spread change the sums
  std::vector<std::vector<std::int32_t>> counted_;
  std::vector<std::pair<pack::NodeState, std::int64_t>> scores_;  // of the most recently scored states
};

}  // namespace qm::placement::gang
