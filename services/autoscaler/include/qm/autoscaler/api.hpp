#pragma once
#include "qm/autoscaler/shell.hpp"
#include "qm/autoscaler/what_if.hpp"
#include "qm/clock/clock.hpp"
#include "qm/rpc/access.hpp"
#include "quartermaster/v1/capacity_service.pb.h"

#include <grpcpp/impl/service_type.h>

#include <memory>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// The response of GetPlan. A tenant gets the pending gangs of its own namespaces, with their explanations. An
/// operator or auditor gets all of them, the instances that are launched, and the static NodePools.
[[nodiscard]] quartermaster::v1::CapacityPlan plan_for(const Engine& engine, Instant now, const rpc::Caller& caller);
/// A claim in ListClaims. The workload that it was launched for is named only to callers that may see it.
[[nodiscard]] quartermaster::v1::InstanceEvent claim_for(const ClaimName& name, const Claim& claim,
                                                         const Engine& engine, const rpc::Caller& caller);

/// The response of EvaluateScale: the targets in the namespaces of the caller, with their scalers.
[[nodiscard]] quartermaster::v1::EvaluateScaleResponse scale_for(const Engine& engine, Instant now,
                                                                 const quartermaster::v1::EvaluateScaleRequest& request,
                                                                 const rpc::Caller& caller);

/// The response of ExplainCapacity, for workloads that the caller may see.
///
/// Fails    kNotFound: no pending workload, pod or NodeClaim has the name. kInvalid: `candidates` is out of range.
[[nodiscard]] Result<quartermaster::v1::ExplainCapacityResponse> explanation_for(
    const Engine& engine, Instant now, const quartermaster::v1::ExplainCapacityRequest& request,
    const rpc::Caller& caller);

/// The changes of NodePools, prices and availability in a request, without those of the demand.
///
/// Fails    kInvalid: a manifest has an error or an object other than a NodePool, or a price is negative.
[[nodiscard]] Result<WhatIf> what_if_from(const quartermaster::v1::SimulateCapacityRequest& request,
                                          const Tables& tables, std::vector<std::string>& warnings);

/// The response of SimulateCapacity. Launches for workloads of others are counted, and not listed.
///
/// Fails    kInvalid: a manifest has an error or an object other than a NodePool, or see simulate() in what_if.hpp.
///          kPermissionDenied: only operators and auditors may change what all tenants share.
[[nodiscard]] Result<quartermaster::v1::SimulateCapacityResponse> simulation_for(
    const Engine& engine, Instant now, const quartermaster::v1::SimulateCapacityRequest& request,
    const rpc::Caller& caller);

/// The Capacity service: GetPlan, EvaluateScale, ExplainCapacity, SimulateCapacity, ListClaims, WatchIntents, Snapshot.
/// Must live as long as its server.
std::unique_ptr<grpc::Service> make_api(service::Host& host, const DomainClock& clock);

}  // namespace qm::autoscaler
