#pragma once
#include "qm/autoscaler/shell.hpp"
#include "qm/clock/clock.hpp"

#include <grpcpp/impl/service_type.h>

#include <memory>

namespace qm::autoscaler {

/// The Capacity service: GetPlan, ListClaims, WatchIntents, Snapshot. Lives as long as the server that carries it.
std::unique_ptr<grpc::Service> make_api(service::Host& host, const DomainClock& clock);

}  // namespace qm::autoscaler
