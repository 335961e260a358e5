#pragma once
#include "qm/autoscaler/shell.hpp"
#include "qm/clock/clock.hpp"
#include "qm/rpc/access.hpp"
#include "quartermaster/v1/capacity_service.pb.h"

#include <grpcpp/impl/service_type.h>

#include <memory>

namespace qm::autoscaler {

/// What GetPlan answers. A tenant gets what is pending of its own namespaces, and the sentences about it: an operator or auditor
/// all of it, the instances that are launched, and the static NodePools too.
[[nodiscard]] quartermaster::v1::CapacityPlan plan_for(const Engine& engine, Instant now, const rpc::Caller& caller);
/// A claim as ListClaims shows it. The workload that it was launched for is named only to callers that see it.
[[nodiscard]] quartermaster::v1::InstanceEvent claim_for(const ClaimName& name, const Claim& claim,
                                                         const Engine& engine, const rpc::Caller& caller);

/// The Capacity service: GetPlan, ListClaims, WatchIntents, Snapshot. Lives as long as the server that carries it.
std::unique_ptr<grpc::Service> make_api(service::Host& host, const DomainClock& clock);

}  // namespace qm::autoscaler
