#pragma once
#include "qm/cost/engine.hpp"
#include "qm/rpc/server.hpp"
#include "quartermaster/v1/cost_service.pb.h"

#include <memory>

namespace qm::cost {

/// The responses of the Cost service as functions of the engine, which the gRPC handlers call between two batches.
///
/// Times in a request that are 0 mean `now`. A caller without access to everything gets the costs of their own teams
/// and namespaces, and sums of these. Fails: kInvalid names the field; kOutOfRange as Engine::allocate;
/// kPermissionDenied: such a caller groups by node.
[[nodiscard]] Result<quartermaster::v1::QueryAllocationResponse> query_allocation(
    const Engine& engine, const quartermaster::v1::QueryAllocationRequest& request, Instant now,
    const rpc::Caller& caller = rpc::Caller::anyone());
[[nodiscard]] Result<quartermaster::v1::Statement> get_statement(const Engine& engine,
                                                                 const quartermaster::v1::GetStatementRequest& request,
                                                                 Instant now,
                                                                 const rpc::Caller& caller = rpc::Caller::anyone());
[[nodiscard]] quartermaster::v1::ListPricesResponse list_prices(const Engine& engine,
                                                                const quartermaster::v1::ListPricesRequest& request,
                                                                Instant now);

/// The gRPC service over a host whose shell is cost's. Host and clock must outlive it.
[[nodiscard]] std::shared_ptr<grpc::Service> make_api(service::Host& host, const DomainClock& clock);

}  // namespace qm::cost
