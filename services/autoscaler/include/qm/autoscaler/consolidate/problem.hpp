#pragma once
#include "qm/autoscaler/pack/problem.hpp"
#include "qm/base/time.hpp"
#include "qm/kube_rules/pod_rules.hpp"
#include "qm/model/money.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace qm::autoscaler::consolidate {

/// The input of one consolidation: nodes in use with their pods, and what may be launched instead.
///
/// Units    CPU in milli-cores, memory in bytes, prices per hour, a hazard in interruptions per hour.
/// Threads  any, as values.

/// Pods with equal constraints.
struct PodKind {
  kube_rules::PodTemplate rules;           ///< with requests, node selector and tolerations
  std::optional<pack::Pod> on_new_node{};  ///< the same for a launch; none = such pods fit running nodes only
};

struct Pod {
  std::string name;      ///< distinct in a problem
  std::size_t kind = 0;  ///< index in Problem::kinds
  bool stays = false;    ///< of a DaemonSet, or a mirror pod: it ends with its node
  Duration lost{0};      ///< work since its last checkpoint, which it repeats after a move
  std::string budget{};  ///< the PodDisruptionBudget that selects it; empty = none
};

/// A node that runs. Every pod on it is listed.
struct Node {
  kube_rules::NodeView view;
  std::string pool, type, zone;  ///< empty pool = it is no node of a NodePool, and only takes pods
  bool spot = false;
  Money per_hour;
  std::optional<double> hazard;  ///< of its kind of spot capacity; none = not observed
  std::vector<Pod> pods;
  std::string held;     ///< why it is not removed; empty = it may be
  bool accepts = true;  ///< it takes pods of removed nodes
  bool fresh = false;   ///< a consolidation has launched it: it may be removed, but is not replaced again
  friend bool operator==(const Node& a, const Node& b) { return a.view.name == b.view.name; }
};

/// A NodePool, and what may be launched for it.
struct Pool {
  std::string name;
  std::int64_t disruptions = 0;  ///< nodes that its budgets allow now for the reason Underutilized
  pack::NodePool node;           ///< labels, taints and requirements of its nodes; its limits are `left`
  std::vector<pack::InstanceType> types;
  std::vector<std::vector<std::optional<double>>> hazards;  ///< by type and offering
  kube_rules::Amounts left;                                 ///< of its limits, and "nodes"; absent = no limit
  std::vector<kube_rules::Amounts> uses;                    ///< by type: what one node uses of them
};

/// What decides whether a move pays.
struct Rules {
  Duration horizon = std::chrono::hours(1);    ///< the saving counts for this time
  Duration restart = std::chrono::minutes(3);  ///< until a moved pod works again
  double least_share = 0.15;                   ///< of the price before: a replacement saves at least this much
  double node_price = 0;                       ///< added to each node where launches are compared, as in packing
  std::size_t most_nodes = 100;                ///< removed at once
  std::size_t spot_types = 15;                 ///< cheaper spot types that allow to replace spot by spot
  std::size_t most_trials = 400;               ///< removal sets that a search evaluates
};

struct Problem {
  Rules rules;
  std::vector<PodKind> kinds;
  std::vector<Node> nodes;                        ///< names are distinct
  std::vector<Pool> pools;                        ///< in the order in which launches prefer them
  std::vector<Pod> pending;                       ///< without a node: they get free capacity first, where they fit
  std::map<std::string, std::int64_t> evictions;  ///< by PodDisruptionBudget: how many it allows now
};

}  // namespace qm::autoscaler::consolidate
