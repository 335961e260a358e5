#pragma once
#include "qm/rpc/security.hpp"
#include "quartermaster/v1/admission_service.pb.h"
#include "quartermaster/v1/placement_service.pb.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace qm::admission {

/// A dry run of placement on the nodes as if no other pods ran there. `authorization` is the metadata of the caller;
/// placement authorizes the caller by it.
using PlacementQuery = std::function<Result<quartermaster::v1::DryRunResponse>(
    const quartermaster::v1::DryRunRequest& request, const std::string& authorization)>;

/// Calls placement over gRPC, at the address of the peer "placement".
///
/// Fails    kFailedPrecondition: no such peer; otherwise as the call, after at most a second.
/// Threads  any.
[[nodiscard]] PlacementQuery request_placement(const std::map<std::string, std::string>& peers,
                                               rpc::ClientSecurity security);

/// The plan of the autoscaler for each pending workload that the caller may see, one line each.
using PlanQuery = std::function<Result<std::vector<std::string>>(const std::string& authorization)>;
/// Calls the autoscaler over gRPC, at the address of the peer "autoscaler"; fails like request_placement.
[[nodiscard]] PlanQuery request_capacity(const std::map<std::string, std::string>& peers, rpc::ClientSecurity security);

/// Adds the cause CapacityPlan to an explanation with the cause InsufficientCapacity: why no nodes are launched, or when they are
/// ready. `name`: "namespace/name".
void add_capacity_plan(const std::string& name, const std::vector<std::string>& plan,
                       quartermaster::v1::Explanation& out);

/// Whether the explanation depends on the nodes: quota or nodes are among its causes.
[[nodiscard]] bool depends_on_nodes(const quartermaster::v1::Explanation& explanation, bool may_have_remedies);

/// Adds the answer of placement to an explanation. If no node can hold the pods, the first cause is Unschedulable and
/// causes of quota have no remedies. Otherwise a InsufficientCapacity cause has the remedy to wait.
///
/// Returns  whether remedies for quota help. False if no node, and no instance type that the autoscaler launches, can
///          hold the pods.
[[nodiscard]] bool add_node_fit(const quartermaster::v1::DryRunRequest& pods,
                                const quartermaster::v1::DryRunResponse& answer, bool autoscaled,
                                quartermaster::v1::Explanation& out);

}  // namespace qm::admission
