#pragma once
#include "qm/rpc/security.hpp"
#include "quartermaster/v1/admission_service.pb.h"
#include "quartermaster/v1/placement_service.pb.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace qm::admission {

/// A dry run of placement on the nodes as if no other pod ran there. `authorization` is the metadata of the caller, so that placement answers
/// what the caller may ask.
using AskNodes = std::function<Result<quartermaster::v1::DryRunResponse>(
    const quartermaster::v1::DryRunRequest& request, const std::string& authorization)>;

/// Over gRPC, by the address of the peer "placement".
///
/// Fails    kFailedPrecondition: no such peer; else as the call, after a second at most.
/// Threads  any.
[[nodiscard]] AskNodes ask_placement(const std::map<std::string, std::string>& peers, rpc::ClientSecurity security);

/// What the autoscaler says of each pending workload that the caller sees, one line each.
using AskPlan = std::function<Result<std::vector<std::string>>(const std::string& authorization)>;
/// Over gRPC, by the address of the peer "autoscaler"; fails as ask_placement.
[[nodiscard]] AskPlan ask_autoscaler(const std::map<std::string, std::string>& peers, rpc::ClientSecurity security);

/// Adds to an explanation with the cause NoRoom why no nodes are launched, or when they come: cause CapacityPlan. `name`: "namespace/name".
void add_capacity_plan(const std::string& name, const std::vector<std::string>& plan,
                       quartermaster::v1::Explanation& out);

/// Whether the explanation depends on the nodes: something of quota or of nodes is in the way.
[[nodiscard]] bool depends_on_nodes(const quartermaster::v1::Explanation& explanation, bool may_have_remedies);

/// Adds to an explanation what placement answered. Where no node can hold the pods, the first cause is Unschedulable and causes of quota have no
/// remedies. Otherwise a NoRoom cause has the remedy to wait.
///
/// Returns  whether remedies for quota help: no node can hold the pods, and no instance type that the autoscaler launches can, is false.
[[nodiscard]] bool add_node_fit(const quartermaster::v1::DryRunRequest& pods,
                                const quartermaster::v1::DryRunResponse& answer, bool autoscaled,
                                quartermaster::v1::Explanation& out);

}  // namespace qm::admission
