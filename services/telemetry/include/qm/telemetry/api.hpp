#pragma once
#include <grpcpp/impl/service_type.h>

#include <memory>

#include "qm/telemetry/shell.hpp"

namespace qm::telemetry {

struct ApiParts {
  service::Host& host;
  Samples& samples;
  AgentHub& hub;
  RedisMirror& redis;
  Observer& observer;
  const DomainClock& clock;
};
/// The Telemetry service: Push, Query, WatchHealth, FollowEvents, Snapshot. The parts must outlive it.
std::unique_ptr<grpc::Service> make_api(const ApiParts& parts);

}  // namespace qm::telemetry
