#pragma once
#include "qm/rpc/security.hpp"

#include <grpcpp/channel.h>

#include <memory>
#include <string>

namespace qm::rpc {

/// A channel to a service of the suite: "host:port", or a comma-separated list of them, one for each replica. Any
/// replica can be called, so the first that accepts a connection receives the calls, and another one after that
/// connection ends. Reconnects within a second, and detects a peer that disappeared silently within 25 s.
///
/// A single address is resolved for each connection; several are resolved when the channel is created. If `security`
/// does not allow the channel, the log has the reason and every call fails.
std::shared_ptr<grpc::Channel> channel_to(const std::string& addresses, int max_receive_bytes = 64 << 20,
                                          const ClientSecurity& security = {});

/// The same as a gRPC target, for callers that create the channel themselves.
std::string target_of(const std::string& addresses);

}  // namespace qm::rpc
