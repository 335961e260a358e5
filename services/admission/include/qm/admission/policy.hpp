#pragma once
#include "qm/admission/quota.hpp"
#include "qm/admission/workload.hpp"

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace qm::admission {

/// Place in a queue: higher priority first, then the longer wait since submission, then the uid.
struct QueueOrder {
  std::int64_t minus_priority = 0;
  Instant submitted{};
  WorkloadUid uid;
  static QueueOrder of(const Workload& w) { return {-std::int64_t{w.spec.priority}, w.spec.submitted, w.spec.uid}; }
  friend auto operator<=>(const QueueOrder&, const QueueOrder&) = default;
};

/// What a workload asks of quota, pod set by pod set. Two workloads of one `shape` fare alike in a queue.
struct Demand {
  struct Set {
    std::string name;
    std::map<std::string, std::int64_t> requests;  ///< of all its pods; zero requests are left out
    Labels node_selector;
    std::vector<Toleration> tolerations;
    std::int64_t pods = 0;
  };
  std::vector<Set> sets;
  std::string shape;
  static Demand of(const WorkloadSpec& spec);
};

/// One reason why a flavor was not taken, with numbers.
struct Shortfall {
  enum class Kind : std::uint8_t {
    kNotCovered,     ///< the queue has no quota for the resource
    kFlavorMissing,  ///< the queue names a flavor that does not exist
    kTaint,          ///< the flavor's nodes refuse the pods
    kSelector,       ///< the pods ask for other nodes
    kNeverFits,      ///< more than the queue could hold if it were alone
    kQuota,          ///< not enough left now
  };
  Kind kind = Kind::kQuota;
  std::string pod_set;
  FlavorName flavor;
  std::string resource;
  std::int64_t requested = 0, available = 0;
  std::string detail;
};

struct Assignment {
  std::map<std::string, std::map<std::string, FlavorName>> flavors;
  Usage usage;
};

/// Chooses flavors: for each pod set and resource group, the first flavor in the queue's order under which all
/// resources of the group fit. Earlier pod sets are counted first; there is no way back to them.
struct FirstFitFlavors {
  enum class Mode : std::uint8_t {
    kFit,          ///< within what is available now
    kWithVictims,  ///< within what the queue could hold if others gave way
  };
  struct Choice {
    bool complete = false;
    Assignment assignment;
    std::vector<Shortfall> shortfalls;  ///< of the pod set that found no flavor
  };
  const QuotaTree& tree;
  const std::map<FlavorName, Flavor>& flavors;
  /// `first` skips that many flavors of each group.
  [[nodiscard]] Choice choose(const ClusterQueue& queue, const Demand& demand, Mode mode, std::size_t first = 0) const;
};

/// One workload that holds quota, as preemption sees it.
struct Holder {
  const Workload* workload = nullptr;
  QueueName queue;
};

/// Picks whom to evict for a workload: within its queue those of lower priority, in the cohort those who borrow what
/// this queue needs to reach its own nominal quota. Victims of other queues first, then lower priority, then the later
/// reservation, then the uid; as few as make it fit, each of the earlier ones spared again if it fits without them.
///
/// Law      the tree is left as it was found.
/// Source   Kueue, pkg/scheduler/preemption, the classic strategy, without hierarchical advantage and borrow-while-reclaim.
struct ClassicPreemption {
  struct Plan {
    bool possible = false;  ///< it fits once the victims, and those already being evicted, are gone
    std::vector<WorkloadUid> victims;
    std::map<WorkloadUid, std::string> reasons;  ///< "InClusterQueue" or "InCohortReclamation"
  };
  QuotaTree& tree;
  [[nodiscard]] Plan plan(const ClusterQueue& queue, const Workload& preemptor, const Usage& usage,
                          const std::vector<Holder>& holders) const;
};

}  // namespace qm::admission
