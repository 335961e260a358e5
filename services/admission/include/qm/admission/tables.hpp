#pragma once
#include "qm/admission/budgets.hpp"
#include "qm/admission/forecasts.hpp"
#include "qm/admission/proposals.hpp"
#include "qm/admission/workload_table.hpp"
#include "qm/base/table.hpp"

#include <cstdint>
#include <string>
#include <utility>

namespace qm::admission {

/// The state rows of admission. They are all that the repository stores; everything else follows from them and the time.
///
/// Threads  one.
struct Tables {
  Table<QueueName, ClusterQueue> cluster_queues;
  Table<std::pair<Namespace, std::string>, LocalQueue> local_queues;
  Table<LocalName, LocalUsage> local_usage;  ///< of cluster queues that order by usage
  Table<std::string, Cohort> cohorts;
  Table<FlavorName, Flavor> flavors;
  Table<std::pair<std::string, bool>, PriorityClass> priority_classes;  ///< (name, workload_only)
  Table<Namespace, NamespaceLabels> namespaces;
  Table<std::string, AdmissionCheck> admission_checks;
  Table<std::string, Topology> topologies;
  Table<NodeName, NodeState> nodes;  ///< without a placement service; used for flavors with a topology
  WorkloadTable workloads;
  Table<std::pair<Namespace, std::string>, Submission> submissions;
  Table<std::string, BudgetRow> budgets;
  Table<HoldKey, Hold> holds;
  // For forecasts.
  Table<forecast::JobClass, forecast::LifeTable> run_times;  ///< of finished runs, by job class; bounded
  Table<WorkloadUid, StartEstimate> estimates;               ///< estimates for pending workloads; bounded
  Table<std::string, forecast::Correction> corrections;
  Table<WorkloadUid, ProposalDecision> proposals;
  Table<int, PreemptionBudget> preemption_budget;  ///< one row, key 0

  /// Calls fn(table) for each table.
  template <class Fn>
  void each(Fn&& fn) {
    fn(cluster_queues), fn(local_queues), fn(local_usage), fn(cohorts), fn(flavors), fn(priority_classes);
    fn(namespaces), fn(admission_checks), fn(workloads), fn(submissions), fn(budgets), fn(holds);
    fn(topologies), fn(nodes);
    fn(run_times), fn(estimates), fn(corrections), fn(proposals), fn(preemption_budget);
  }
  /// As those of Table, for all tables. Cost: the changed rows.
  void seal();
  void commit_sealed();
  void commit();
  void rollback();
  /// Whether the last batch changed rows from which the quota trees are built, or which hold quota or money beyond a workload row.
  [[nodiscard]] bool objects_changed() const;
};

/// A digest of the rows: equal before and after a restart.
[[nodiscard]] std::uint64_t digest_of(const Tables& tables);

}  // namespace qm::admission
