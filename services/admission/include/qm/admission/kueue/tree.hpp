#pragma once
#include "qm/admission/kueue/amount.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace qm::admission::kueue {

using Node = int;    ///< a cluster queue or a cohort; a parent has a smaller number than its children, the root is 0
using Cell = int;    ///< one resource of one flavor
using Flavor = int;  ///< these two as numbered by the owner of the tree
using Resource = int;

struct Quota {
  std::int64_t nominal = 0;
  std::optional<std::int64_t> borrowing_limit, lending_limit;
  friend bool operator==(const Quota&, const Quota&) = default;
};

/// An amount of one cell. A list has each cell once, in order.
struct Amount {
  Cell at = 0;
  std::int64_t amount = 0;
  friend bool operator==(const Amount&, const Amount&) = default;
};
using Amounts = std::vector<Amount>;
/// Adds to the list and keeps it in order.
void add_to(Amounts& list, Cell at, std::int64_t amount);
[[nodiscard]] std::int64_t amount_at(const Amounts& list, Cell at);

/// What a node borrows beyond its own quota, for the resource with the largest ratio to the lendable amount.
/// Source   Kueue, pkg/cache/scheduler/fair_sharing.go.
struct Share {
  double ratio = 0;   ///< thousandths of the lendable amount
  double weight = 1;  ///< of the node
  bool borrowing = false;
  std::optional<Resource> most;  ///< the resource with the largest ratio
  /// ratio over weight; infinite for a borrowing node of weight zero.
  [[nodiscard]] double weighted() const;
  /// Negative, zero or positive, as a is smaller than b. Two borrowing nodes of weight zero are compared by ratio.
  [[nodiscard]] static int compare(const Share& a, const Share& b);
};

/// One tree of cohorts and cluster queues, with the usage of each; or one cluster queue without a cohort.
///
/// For each node and cell: S, the quota of the subtree; L, the part of it that the parent does not see (beyond the
/// lending limit, zero without one); U, the usage, of which the parent sees only the part beyond L.
///
/// Units    canonical integers: cpu in thousandths, everything else in units.
/// Law      U of a cohort is the sum over its children of max(0, U - L).
/// Threads  one.
/// Cost     O(depth) for each query and change of a cell.
/// Source   Kueue, pkg/cache/scheduler/resource_node.go.
class Tree {
 public:
  struct NodeSpec {
    std::string name;
    Node parent = -1;
    bool is_queue = false;
    double weight = 1;
    std::vector<std::pair<Cell, Quota>> quotas;
  };
  /// `resource_of`: the resource of each cell; a share sums the cells of one resource.
  Tree(std::vector<NodeSpec> nodes, std::vector<Resource> resource_of);

  [[nodiscard]] int size() const { return static_cast<int>(nodes_.size()); }
  [[nodiscard]] int cells() const { return static_cast<int>(resource_of_.size()); }
  [[nodiscard]] const std::string& name(Node n) const { return nodes_[at(n)].name; }
  [[nodiscard]] Node parent(Node n) const { return nodes_[at(n)].parent; }
  [[nodiscard]] bool is_queue(Node n) const { return nodes_[at(n)].is_queue; }
  [[nodiscard]] const std::vector<Node>& children(Node n) const { return children_[at(n)]; }

  [[nodiscard]] Resource resource(Cell c) const { return resource_of_[at(c)]; }
  [[nodiscard]] const Quota& quota(Node n, Cell c) const { return cell(n, c).own; }
  [[nodiscard]] std::int64_t subtree(Node n, Cell c) const { return cell(n, c).subtree; }
  [[nodiscard]] std::int64_t used(Node n, Cell c) const { return cell(n, c).used; }
  /// The unused part of this node that its parent does not see.
  [[nodiscard]] std::int64_t local_available(Node n, Cell c) const;
  /// The available amount. Negative if usage exceeds quota, but zero for a cluster queue.
  [[nodiscard]] std::int64_t available(Node n, Cell c) const;
  /// The same, negative also for a cluster queue.
  [[nodiscard]] std::int64_t left(Node n, Cell c) const { return available_at(n, c); }
  /// The available amount if nothing were used.
  [[nodiscard]] std::int64_t potential(Node n, Cell c) const { return cell(n, c).potential; }
  /// Whether the node would use more than its own quota with this amount added: of a queue the nominal quota, of a
  /// cohort S.
  [[nodiscard]] bool borrows_with(Node n, Cell c, std::int64_t amount) const;
  /// Whether U > S for any of these cells.
  [[nodiscard]] bool beyond_own(Node n, std::span<const Cell> any_of) const;
  [[nodiscard]] bool fits(Node queue, const Amounts& amounts) const;

  /// How far up a queue has to borrow: the height of the lowest subtree with the amount, 0 without borrowing.
  struct Level {
    int height = 0;
    bool in_part = false;  ///< the subtree is not the whole tree: other parts of the tree may have victims
  };
  [[nodiscard]] Level level(Node queue, Cell c, std::int64_t amount) const;

  [[nodiscard]] Share share(Node n) const;

  /// Changes a quota that the node has; usage does not change. O(nodes · cells).
  void set_quota(Node n, Cell c, const Quota& quota);

  void add(Node n, Cell c, std::int64_t amount);
  void remove(Node n, Cell c, std::int64_t amount);
  void add(Node n, const Amounts& amounts);
  void remove(Node n, const Amounts& amounts);

 private:
  struct Held {
    Quota own;
    std::int64_t subtree = 0, local = 0, used = 0, potential = 0;
    bool offered = false;  ///< by the node or below it; otherwise it cannot be borrowed there
  };
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] const Held& cell(Node n, Cell c) const { return held_[at(n) * resource_of_.size() + at(c)]; }
  [[nodiscard]] Held& cell(Node n, Cell c) { return held_[at(n) * resource_of_.size() + at(c)]; }
  void derive();  ///< all values that follow from the quotas
  [[nodiscard]] std::int64_t available_at(Node n, Cell c) const;

  std::vector<NodeSpec> nodes_;
  std::vector<Resource> resource_of_;
  int resources_ = 0;
  std::vector<std::vector<Node>> children_;
  std::vector<int> heights_;
  std::vector<Held> held_;                           ///< node by node
  std::vector<std::vector<std::int64_t>> lendable_;  ///< of a cohort, by resource: what its children could hold
};

}  // namespace qm::admission::kueue
