#pragma once
#include "qm/telemetry/shell.hpp"

#include <grpcpp/impl/service_type.h>

#include <memory>

namespace qm::telemetry {

struct ApiParts {
  service::Host& host;
  Samples& samples;
  AgentHub& hub;
  RedisMirror& redis;
  Observer& observer;
  const DomainClock& clock;
};
/// The maximum number of messages in the queue of a stream; one more ends the stream with RESOURCE_EXHAUSTED.
inline constexpr std::size_t kLongestQueue = 8192;

/// The Telemetry service: Push, Query, WatchHealth, FollowEvents, Snapshot. The parts must outlive it.
///
/// Push     frames are passed to the samples; a fact is submitted to the mailbox and confirmed once it is durable,
///          however often it is sent. An agent that sends its nodes gets their open orders.
/// Threads  handlers do not wait: reads of Redis and the store run on a separate thread of the API.
std::unique_ptr<grpc::Service> make_api(const ApiParts& parts);

}  // namespace qm::telemetry
