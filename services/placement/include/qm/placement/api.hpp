#pragma once
#include "qm/placement/engine.hpp"
#include "qm/placement/gap.hpp"
#include "qm/rpc/server.hpp"
#include "quartermaster/v1/placement_service.pb.h"

#include <memory>

namespace qm::placement {

/// Replies of the Placement service as functions of the engine. The gRPC handlers call them between two
/// batches.
///
/// Pages    in key order; a page token is the last key of the page before.
/// Caller   objects that the caller may not read are left out.
/// Fails    kInvalid names the field; kNotFound: no such assignment.
[[nodiscard]] Result<quartermaster::v1::Assignment> get_assignment(
    const Engine& engine, const quartermaster::v1::GetAssignmentRequest& request,
    const rpc::Caller& caller = rpc::Caller::anyone());
[[nodiscard]] Result<quartermaster::v1::ListAssignmentsResponse> list_assignments(
    const Engine& engine, const quartermaster::v1::ListAssignmentsRequest& request,
    const rpc::Caller& caller = rpc::Caller::anyone());
[[nodiscard]] Result<quartermaster::v1::DryRunResponse> dry_run(const Engine& engine,
                                                                const quartermaster::v1::DryRunRequest& request,
                                                                const rpc::Caller& caller = rpc::Caller::anyone());
[[nodiscard]] Result<quartermaster::v1::ListNodesResponse> list_nodes(
    const Engine& engine, const quartermaster::v1::ListNodesRequest& request,
    const rpc::Caller& caller = rpc::Caller::anyone());

[[nodiscard]] Result<quartermaster::v1::ListLayoutsResponse> list_layouts(
    const Engine& engine, const quartermaster::v1::ListLayoutsRequest& request);

/// Adds the plan in progress, and the result of the last one.
void add_under_way(const Engine& engine, quartermaster::v1::DefragmentationPlan& plan);
/// The plan with names instead of numbers.
[[nodiscard]] quartermaster::v1::DefragmentationPlan defrag_plan(const DefragInput& problem,
                                                                 const plan::DefragPlan& found);
[[nodiscard]] Result<plan::Budget> defrag_budget(const quartermaster::v1::PlanDefragmentationRequest& request);

/// Fails: kUnavailable until the gap was first computed.
[[nodiscard]] Result<quartermaster::v1::Gap> get_gap(const Gap* gap);
/// The gRPC service over a host whose shell is placement's. The host must outlive it. `meter` computes the
/// gap; without one GetGap fails.
[[nodiscard]] std::unique_ptr<grpc::Service> make_api(service::Host& host, const GapMeter* meter = nullptr);

}  // namespace qm::placement
