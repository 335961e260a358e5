#pragma once
#include "qm/admission/exact/amount.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace qm::admission::exact {

using Node = int;    ///< a cluster queue or a cohort; a parent's number is smaller than its children's, the root's is 0
using Cell = int;    ///< one resource of one flavor
using Flavor = int;  ///< these two as the owner of the tree numbers them
using Resource = int;

struct Quota {
  std::int64_t nominal = 0;
  std::optional<std::int64_t> borrowing_limit, lending_limit;
  friend bool operator==(const Quota&, const Quota&) = default;
};

/// So much of one cell. A list of them has each cell once, in order.
struct Amount {
  Cell at = 0;
  std::int64_t amount = 0;
  friend bool operator==(const Amount&, const Amount&) = default;
};
using Amounts = std::vector<Amount>;
/// Adds to the list, keeping it in order.
void add_to(Amounts& list, Cell at, std::int64_t amount);
[[nodiscard]] std::int64_t amount_at(const Amounts& list, Cell at);

/// How much a node takes beyond its own, by the resource of which it takes most in relation to what can be lent.
/// Source   Kueue, pkg/cache/scheduler/fair_sharing.go.
struct Share {
  double ratio = 0;   ///< thousandths of what can be lent
  double weight = 1;  ///< of the node
  bool borrowing = false;
  std::optional<Resource> most;  ///< the resource of which it takes most
  /// ratio over weight; infinite for a node without weight that borrows.
  [[nodiscard]] double weighted() const;
  /// Negative, zero or positive, as a is smaller than b. Of two without weight that borrow the ratios are compared.
  [[nodiscard]] static int compare(const Share& a, const Share& b);
};

/// One tree of cohorts and cluster queues, with what each uses; or one cluster queue without a cohort.
///
/// For each node and cell: S, the quota of the subtree; L, what the parent never sees of it (all beyond the lending limit,
/// nothing where none is set); U, the usage, which climbs to the parent only beyond L.
///
/// Units    canonical integers: cpu in thousandths, all else in units.
/// Law      U of a cohort is the sum over its children of max(0, U - L).
/// Threads  one.
/// Cost     O(depth) for each question and change of a cell.
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
  /// `resource_of` says for each cell whose amounts are summed up in a share.
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
  /// What this node has left that its parent does not know of.
  [[nodiscard]] std::int64_t local_available(Node n, Cell c) const;
  /// What may still be taken here. Negative where more is used than there is, except of a cluster queue.
  [[nodiscard]] std::int64_t available(Node n, Cell c) const;
  /// The same, negative also of a cluster queue.
  [[nodiscard]] std::int64_t left(Node n, Cell c) const { return available_at(n, c); }
  /// What could be taken if nobody used anything.
  [[nodiscard]] std::int64_t potential(Node n, Cell c) const { return cell(n, c).potential; }
  /// Whether it would use more than its own with so much on top: of a queue its nominal quota, of a cohort S.
  [[nodiscard]] bool borrows_with(Node n, Cell c, std::int64_t amount) const;
  /// Whether U > S for any of these.
  [[nodiscard]] bool beyond_own(Node n, std::span<const Cell> any_of) const;
  [[nodiscard]] bool fits(Node queue, const Amounts& amounts) const;

  /// How far up a queue has to borrow: the height of the lowest subtree that has the amount, 0 where it need not borrow.
  struct Level {
    int height = 0;
    bool in_part = false;  ///< the subtree is not the whole tree: others in the tree may have to give way
  };
  [[nodiscard]] Level level(Node queue, Cell c, std::int64_t amount) const;

  [[nodiscard]] Share share(Node n) const;

  /// Another quota for what the node has one of; usage stays. O(nodes · cells).
  void set_quota(Node n, Cell c, const Quota& quota);

  void add(Node n, Cell c, std::int64_t amount);
  void remove(Node n, Cell c, std::int64_t amount);
  void add(Node n, const Amounts& amounts);
  void remove(Node n, const Amounts& amounts);

 private:
  struct Held {
    Quota own;
    std::int64_t subtree = 0, local = 0, used = 0, potential = 0;
    bool offered = false;  ///< by the node or below it; else it cannot be borrowed there
  };
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] const Held& cell(Node n, Cell c) const { return held_[at(n) * resource_of_.size() + at(c)]; }
  [[nodiscard]] Held& cell(Node n, Cell c) { return held_[at(n) * resource_of_.size() + at(c)]; }
  void derive();  ///< all that follows from the quotas
  [[nodiscard]] std::int64_t available_at(Node n, Cell c) const;

  std::vector<NodeSpec> nodes_;
  std::vector<Resource> resource_of_;
  int resources_ = 0;
  std::vector<std::vector<Node>> children_;
  std::vector<int> heights_;
  std::vector<Held> held_;                           ///< node by node
  std::vector<std::vector<std::int64_t>> lendable_;  ///< of a cohort, by resource: what its children could hold
};

}  // namespace qm::admission::exact
