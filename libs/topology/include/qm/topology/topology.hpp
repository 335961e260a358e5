#pragma once
#include "qm/kube_rules/node_selector.hpp"
#include "qm/topology/resources.hpp"
#include "qm/topology/tree.hpp"

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace qm::topology {

/// The fields of a node that the topology uses.
struct Node {
  std::string name;
  Labels labels;
  std::vector<Taint> taints;
  Requests allocatable;
  bool ready = true;
  bool schedulable = true;
};

/// A flavor's part of the cluster.
struct Flavor {
  std::string topology;             ///< the Topology's name, for messages
  std::vector<std::string> levels;  ///< label keys, outermost first
  Labels node_labels;               ///< required labels of the flavor's nodes
  std::vector<Toleration> tolerations;
};

struct Matcher;

/// The nodes of a flavor as a tree, with the free capacity of each leaf.
///
/// Shape    a node counts if it is ready and schedulable, has the flavor's labels, and has a value for every
///          level; if the innermost level is not the host, the nodes of a leaf add up.
/// Units    amounts as in Requests. Free capacity may be negative.
/// Threads  one writer; any number of readers between writes. `names` must outlive it, and must not be changed by
///          other code while it is built.
/// Cost     build O(n log n); adding and removing usage O(resources of the request).
class Topology {
 public:
  Topology(const ResourceNames& names, Flavor flavor, std::span<const Node> nodes);
  ~Topology();
  Topology(Topology&&) noexcept;
  Topology& operator=(Topology&&) noexcept;

  [[nodiscard]] const Tree& tree() const { return tree_; }
  [[nodiscard]] const Flavor& flavor() const { return flavor_; }
  [[nodiscard]] const ResourceNames& names() const { return *names_; }
  /// The leaf of the node, or the leaf that contains it; kNoDomain if the node does not count.
  [[nodiscard]] DomainId leaf_of_node(std::string_view name) const;

  /// Adds pods that the topology did not place: their usage remains when an empty cluster is assumed.
  void take_outside(DomainId leaf, const Requests& usage);
  /// Adds pods that the topology placed; `usage` includes their number (usage_of).
  void take(DomainId leaf, const Requests& usage) { change(leaf, usage, -1); }
  void give_back(DomainId leaf, const Requests& usage) { change(leaf, usage, 1); }

  /// By resource id; missing entries are 0.
  [[nodiscard]] std::span<const std::int64_t> free(DomainId leaf) const { return row(free_, leaf); }
  [[nodiscard]] std::span<const std::int64_t> free_when_empty(DomainId leaf) const { return row(empty_, leaf); }

 private:
  friend class LeafMatcher;
  using Amounts = std::vector<std::int64_t>;  ///< leaf by leaf, `width_` resources each
  [[nodiscard]] std::span<const std::int64_t> row(const Amounts& amounts, DomainId leaf) const {
    return {amounts.data() + static_cast<std::size_t>(leaf - tree_.leaves().begin) * width_, width_};
  }
  void widen();  ///< to all current names
  void change(DomainId leaf, const Requests& usage, std::int64_t sign);
  void change(Amounts& amounts, DomainId leaf, const Requests& usage, std::int64_t sign);

  const ResourceNames* names_;
  Flavor flavor_;
  Tree tree_;
  std::size_t width_ = 0;
  Amounts free_, empty_;
  std::vector<std::pair<std::string, DomainId>> leaf_of_node_;  ///< by name
  std::unique_ptr<Matcher> matcher_;                            ///< labels and taints, if leaves are hosts
};

/// Whether pods may run on a leaf. Only hosts have labels and taints of their own: if leaves are larger, all match.
///
/// Order    taints are checked first, then the selector, then the affinity; the first mismatch counts.
/// Threads  any, while the topology is not written.
/// Cost     construction O(words of the rules); of() O(rules · log labels of a node), without string comparisons.
/// Source   Kubernetes: NodeSelector, PreferredSchedulingTerm, taints and tolerations.
class LeafMatcher {
 public:
  enum class Verdict : std::uint8_t { kMatches, kTaint, kSelector, kAffinity };
  LeafMatcher(const Topology& topology, const kube_rules::NodeConstraints& rules);
  ~LeafMatcher();
  LeafMatcher(const LeafMatcher&) = delete;
  LeafMatcher& operator=(const LeafMatcher&) = delete;

  [[nodiscard]] Verdict of(DomainId leaf) const;
  /// The untolerated taint, after Verdict::kTaint: "key=value:Effect".
  [[nodiscard]] std::string taint_in_the_way(DomainId leaf) const;
  /// The sum of the weights of the preferred terms that match.
  [[nodiscard]] std::int64_t preference(DomainId leaf) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> rules_;
};

}  // namespace qm::topology
