#pragma once
#include "qm/rpc/security.hpp"

#include <grpcpp/channel.h>

#include <memory>
#include <string>

namespace qm::rpc {

/// A channel to a service of the suite: "host:port", or several of them with commas between, one for each replica. Any
/// replica may be asked, so the first that takes a connection gets the calls, and another as soon as that one is gone.
/// Connects again within a second, and notices a peer that went without a word within 25 s.
///
/// A single address is resolved anew for each connection; several are when the channel is made. Where `security` does not
/// let it be opened, the log says why and every call fails.
std::shared_ptr<grpc::Channel> channel_to(const std::string& addresses, int max_receive_bytes = 64 << 20,
                                          const ClientSecurity& security = {});

/// The same as a target of gRPC, for who makes the channel himself.
std::string target_of(const std::string& addresses);

}  // namespace qm::rpc
