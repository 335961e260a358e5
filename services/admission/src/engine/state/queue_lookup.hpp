#pragma once
#include "qm/admission/queries/explanation.hpp"
#include "qm/admission/queries/queues.hpp"
#include "qm/admission/tables.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

/// What names resolve to: queues, priority classes and admission checks. Nothing here changes a row.
namespace qm::admission {

/// The cluster queue that a queue name resolves to, and the obstacle if it cannot be used.
struct ResolvedQueue {
  QueueName queue;
  bool direct = false;  ///< the name is that of a ClusterQueue
  bool drain = false;   ///< the LocalQueue is stopped and evicts its workloads
  std::optional<Cause> obstacle;
};
[[nodiscard]] ResolvedQueue resolve_queue(const EngineState& state, const Spec& spec);
/// Whether the namespace selector of the queue matches.
[[nodiscard]] bool selects_namespace(const Tables& tables, const ClusterQueue& queue, const Namespace& ns);
/// The priority by class, value or global default; empty if the class does not exist.
[[nodiscard]] std::optional<std::int32_t> priority_of(const Tables& tables, const Spec& spec);
/// The minimum run time by ClusterQueue and priority class, whichever is longer.
[[nodiscard]] Duration minimum_run_of(const Tables& tables, const Workload& w);
/// Quota that the workloads of a queue hold.
[[nodiscard]] Usage held_in(const EngineState& state, const QueueName& queue);
/// The checks that its queue requires for these flavors, not answered yet.
[[nodiscard]] std::map<std::string, CheckAnswer> required_checks(const EngineState& state, const Workload& w,
                                                                 const Flavors& flavors);
/// Queues that admit nothing: stopped, closing, without a controller of a required check, or without a Topology that a
/// flavor names.
[[nodiscard]] std::set<QueueName> idle_queues(const EngineState& state);

}  // namespace qm::admission
