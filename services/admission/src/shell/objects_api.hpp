#pragma once
#include "qm/admission/engine.hpp"
#include "qm/rpc/access.hpp"
#include "quartermaster/v1/admission_service.pb.h"

#include <set>

namespace qm::admission {

/// A tenant sees the ClusterQueues that a LocalQueue of its namespaces leads to.
[[nodiscard]] std::set<QueueName> open_queues(const Engine& engine, const rpc::Caller& caller);

/// What was applied or read from the API server, as it was written: by kind, then by name. Of queues and namespaces a tenant sees
/// its own; flavors, cohorts, classes and checks are everybody's to see.
[[nodiscard]] Status list_objects(const Engine& engine, const quartermaster::v1::ListObjectsRequest& request,
                                  const rpc::Caller& caller, quartermaster::v1::ListObjectsResponse& out);

/// Budgets by name, as they stand. A tenant sees those of its namespaces and teams, and of the ClusterQueues that it sees.
[[nodiscard]] Status list_budgets(const Engine& engine, const quartermaster::v1::ListBudgetsRequest& request,
                                  const rpc::Caller& caller, Instant now, quartermaster::v1::ListBudgetsResponse& out);

}  // namespace qm::admission
