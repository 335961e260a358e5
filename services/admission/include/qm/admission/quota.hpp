#pragma once
#include "qm/admission/exact/amount.hpp"
#include "qm/model/ids.hpp"
#include "qm/model/resources.hpp"

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::admission {

using exact::kUnlimited;

/// What quota is counted in: one resource of one flavor.
struct FlavorResource {
  FlavorName flavor;
  std::string resource;
  friend auto operator<=>(const FlavorResource&, const FlavorResource&) = default;
};
using Usage = std::map<FlavorResource, std::int64_t>;

struct Quota {
  std::int64_t nominal = 0;
  std::optional<std::int64_t> borrowing_limit;
  std::optional<std::int64_t> lending_limit;
  friend bool operator==(const Quota&, const Quota&) = default;
};
struct FlavorQuotas {
  FlavorName flavor;
  std::map<std::string, Quota> resources;
};
struct ResourceGroup {
  std::vector<std::string> covered;
  std::vector<FlavorQuotas> flavors;  ///< in the order in which they are tried
};

enum class Strategy : std::uint8_t { kBestEffortFifo, kStrictFifo };
enum class PreemptPolicy : std::uint8_t { kNever, kLowerPriority, kLowerOrNewerEqualPriority, kAny };
enum class StopPolicy : std::uint8_t { kNone, kHold, kHoldAndDrain };

/// The objects that the engine reads, as plain values. `source` is the manifest that the object came from (JSON); the
/// engine only keeps it, so that what was applied reads back whole.
struct ClusterQueue {
  QueueName name;
  std::string cohort;
  std::vector<ResourceGroup> groups;
  Strategy strategy = Strategy::kBestEffortFifo;
  PreemptPolicy within_cluster_queue = PreemptPolicy::kNever;
  PreemptPolicy reclaim_within_cohort = PreemptPolicy::kNever;
  StopPolicy stop = StopPolicy::kNone;
  std::string source;
  bool from_cluster = false;  ///< read from the API server, so gone when it is gone there
  bool closing = false;       ///< deleted while workloads hold its quota: nothing new, and gone with the last of them
  /// The group that covers a resource; null where none does.
  [[nodiscard]] const ResourceGroup* group_of(std::string_view resource) const;
};
struct LocalQueue {
  Namespace ns;
  std::string name;
  QueueName cluster_queue;
  StopPolicy stop = StopPolicy::kNone;
  std::string source;
  bool from_cluster = false;
};
struct Cohort {
  std::string name, parent;
  std::vector<ResourceGroup> groups;
  std::string source;
  bool from_cluster = false;
};
struct Flavor {
  FlavorName name;
  Labels node_labels;
  std::vector<Taint> node_taints;
  std::vector<Toleration> tolerations;
  std::string source;
  bool from_cluster = false;
};
struct PriorityClass {
  std::string name;
  std::int32_t value = 0;
  bool workload_only = false;  ///< WorkloadPriorityClass: wins over a PriorityClass of the same name
  bool global_default = false;
  std::string source;
  bool from_cluster = false;
};

/// Amount of a resource for people: CPU and GPU are counted in thousandths, memory in bytes, all else in units.
[[nodiscard]] std::string show_amount(std::string_view resource, std::int64_t amount);

/// The tree of cluster queues and cohorts with what is used at each node.
///
/// Units    CPU and GPU in thousandths, memory in bytes, all else in units.
/// Law      the usage of a cohort is the sum of what its children use beyond what they keep for themselves.
/// Threads  one; it is an index of the engine and is rebuilt from the engine's tables.
/// Cost     O(depth) per flavor and resource, for a question and for a change.
/// Source   Kueue, pkg/cache/scheduler/resource_node.go: subtree quota, local quota, available, potentially available.
class QuotaTree {
 public:
  /// Forgets usage and takes the objects. Queues of a tree whose cohorts form a circle are inactive.
  void build(const std::map<QueueName, ClusterQueue>& queues, const std::map<std::string, Cohort>& cohorts);

  [[nodiscard]] bool knows(const QueueName& queue) const { return queues_.contains(queue); }
  [[nodiscard]] bool in_cycle(const QueueName& queue) const;
  /// What may still be taken by this queue, now; never negative.
  [[nodiscard]] std::int64_t available(const QueueName& queue, const FlavorResource& at) const;
  /// What could be taken if nobody else used anything: the most that the queue can ever hold.
  [[nodiscard]] std::int64_t potential(const QueueName& queue, const FlavorResource& at) const;
  [[nodiscard]] std::int64_t nominal(const QueueName& queue, const FlavorResource& at) const;
  [[nodiscard]] std::int64_t used(const QueueName& queue, const FlavorResource& at) const;
  [[nodiscard]] bool fits(const QueueName& queue, const Usage& usage) const;
  /// Whether the queue would use more than its own nominal quota somewhere in `usage`.
  [[nodiscard]] bool borrows_with(const QueueName& queue, const Usage& usage) const;
  /// Whether the queue uses more than its own nominal quota of any of these.
  [[nodiscard]] bool borrows(const QueueName& queue, const Usage& any_of) const;

  void add(const QueueName& queue, const Usage& usage);
  void remove(const QueueName& queue, const Usage& usage);

  /// A number for the tree that the queue stands in; queues of one number share quota.
  [[nodiscard]] int root_of(const QueueName& queue) const;
  [[nodiscard]] const std::vector<QueueName>& queues_of(int root) const;

  friend bool operator==(const QuotaTree& a, const QuotaTree& b);

 private:
  struct Cell {
    std::int64_t subtree = 0;  ///< quota of this node and what its children lend it
    std::int64_t local = 0;    ///< of it, what the parent never sees
    std::int64_t used = 0;
    Quota own;
    friend bool operator==(const Cell&, const Cell&) = default;
  };
  struct Node {
    int parent = -1;
    int root = -1;
    bool cycle = false;
    std::map<FlavorResource, Cell> cells;
    friend bool operator==(const Node&, const Node&) = default;
  };

  int cohort_node(const std::string& name);
  void take_quota(int node, const std::vector<ResourceGroup>& groups);
  void sum_up(int node, const std::vector<std::vector<int>>& children);
  [[nodiscard]] const Cell& cell(int node, const FlavorResource& at) const;
  [[nodiscard]] std::int64_t available_at(int node, const FlavorResource& at) const;
  [[nodiscard]] std::int64_t potential_at(int node, const FlavorResource& at) const;
  void add_at(int node, const FlavorResource& at, std::int64_t amount);
  void remove_at(int node, const FlavorResource& at, std::int64_t amount);

  std::vector<Node> nodes_;
  std::map<QueueName, int> queues_;
  std::map<std::string, int> cohorts_;
  std::map<int, std::vector<QueueName>> members_;
};

}  // namespace qm::admission
