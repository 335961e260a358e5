#pragma once
#include "model.hpp"
#include "qm/kube_rules/rule_book.hpp"
#include "random.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace qm::autoscaler::pack {

/// The offers of the nodes in a cluster, as indices in Offers::list.
using Fleet = std::vector<std::size_t>;

/// Simulates kube-scheduler with its default configuration on nodes that are all ready and empty.
///
/// Order    pods in the order of the input; one that fits nowhere is tried again while others are bound.
/// Filters  those of RuleBook, and the resources.
/// Scores   those of RuleBook, LeastAllocated and BalancedAllocation. Ties are broken at random, from a seed.
/// Sampling from 100 nodes on, only a part of the nodes is scored, as in kube-scheduler.
/// Missing  preferred pod affinity, which a problem does not have; preemption, as pods have no priorities.
/// Threads  one at a time.
/// Cost     run: pods times nodes; about 30 ns for each pair.
/// Source   pkg/scheduler of Kubernetes 1.36: schedule_one.go, plugins/noderesources.
class StockScheduler {
 public:
  static constexpr std::uint32_t kUnbound = ~std::uint32_t{0};

  struct Outcome {
    std::vector<std::uint32_t> node_of;  ///< by pod of the problem: position in the fleet, or kUnbound
    std::vector<std::size_t> unbound;    ///< placeable pods without a node, ascending
    bool in_order = true;                ///< no pod was bound after a later one
  };

  /// The pods are those of the model's classes; both arguments must outlive the scheduler.
  StockScheduler(const Problem& problem, const Model& model);

  [[nodiscard]] Outcome run(const Fleet& fleet, std::uint64_t seed);
  /// Number of pods that each run schedules.
  [[nodiscard]] std::size_t pods() const { return pods_.size(); }

 private:
  /// A node of the fleet during a run.
  struct NodeState {
    Load room{}, used{};
    std::int64_t cpu = 0, memory = 0;  // requested, with the scheduler's defaults for pods without requests
    std::int64_t balance = 0;          // score of the node without another pod
  };
  struct Slot {
    std::size_t offer = 0;
    kube_rules::NodeIndex index = 0;
  };
  struct PodEntry {
    std::size_t pod = 0;
    std::string uid;
    Load load{};
    kube_rules::TemplateId rules = 0;
  };

  void set_nodes(const Fleet& fleet);
  void put_node(std::size_t slot, std::size_t offer);
  bool bind(const PodEntry& pod, Outcome& out);
  [[nodiscard]] std::size_t chosen(const PodEntry& pod);

  const Problem& problem_;
  const Model& model_;
  kube_rules::RuleBook book_;
  std::vector<PodEntry> pods_;
  std::vector<Slot> slots_;
  std::vector<std::size_t> slot_of_;  // by index in the book
  std::vector<std::size_t> bound_;    // entries of pods_ that are in the book
  std::vector<std::size_t> order_;    // slots in the order in which the scheduler visits them
  std::vector<NodeState> states_;     // by slot
  std::vector<std::size_t> candidates_;
  std::vector<std::int64_t> scores_;
  std::size_t start_ = 0, wanted_ = 0;
  Random random_{0};
};

}  // namespace qm::autoscaler::pack
