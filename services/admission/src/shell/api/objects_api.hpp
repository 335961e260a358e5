#pragma once
#include "qm/admission/engine.hpp"
#include "qm/rpc/access.hpp"
#include "quartermaster/v1/admission_service.pb.h"

#include <cstdint>
#include <set>

namespace qm::admission {

/// Page sizes of lists: the default, and the maximum.
inline constexpr std::int32_t kDefaultPage = 100, kLargestPage = 1000;

/// The ClusterQueues that a tenant may see: those that a LocalQueue in one of its namespaces refers to.
[[nodiscard]] std::set<QueueName> open_queues(const Engine& engine, const rpc::Caller& caller);

/// Lists the applied or watched objects in their original form: by kind, then by name. Of queues and namespaces a
/// tenant sees only its own; every caller sees flavors, cohorts, priority classes and admission checks.
[[nodiscard]] Status list_objects(const Engine& engine, const quartermaster::v1::ListObjectsRequest& request,
                                  const rpc::Caller& caller, quartermaster::v1::ListObjectsResponse& out);

/// Lists the present budgets by name. A tenant sees those of its namespaces and teams, and of the ClusterQueues that
/// it sees.
[[nodiscard]] Status list_budgets(const Engine& engine, const quartermaster::v1::ListBudgetsRequest& request,
                                  const rpc::Caller& caller, Instant now, quartermaster::v1::ListBudgetsResponse& out);

}  // namespace qm::admission
