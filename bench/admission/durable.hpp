#pragma once
#include <string>

namespace qm::bench {

/// Workloads from submission to admission with everything durable: requests over gRPC (or, with `by` = "jobs", Jobs
/// from a watch of the cluster), state, outbox and intents in PostgreSQL, and a bus on the same server to a stub of
/// placement and back. Kubernetes is a stub too.
void durable(const std::string& conninfo, const std::string& by, int workloads);

}  // namespace qm::bench
