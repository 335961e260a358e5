#include "qm/rpc/channel.hpp"

#include "qm/base/log.hpp"

#include <grpcpp/grpcpp.h>

#include <netdb.h>
#include <sstream>
#include <sys/socket.h>
#include <utility>

namespace qm::rpc {
namespace {

constexpr int kKeepAliveMs = 20'000, kKeepAliveTimeoutMs = 5'000;

/// "10.0.0.1:7101" for "host:7101"; unchanged if it cannot be resolved.
std::string resolved(const std::string& address) {
  const auto colon = address.rfind(':');
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (colon == std::string::npos || ::getaddrinfo(address.substr(0, colon).c_str(), nullptr, &hints, &found) != 0)
    return address;
  char text[NI_MAXHOST] = "";
  const int rc = ::getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  ::freeaddrinfo(found);
  return rc == 0 ? text + address.substr(colon) : address;
}

}  // namespace

std::string target_of(const std::string& addresses) {
  if (addresses.find(',') == std::string::npos) return addresses;
  std::string target;
  std::istringstream in(addresses);
  for (std::string one; std::getline(in, one, ',');) target += (target.empty() ? "ipv4:" : ",") + resolved(one);
  return target;
}

std::shared_ptr<grpc::Channel> channel_to(const std::string& addresses, int max_receive_bytes,
                                          const ClientSecurity& security) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(max_receive_bytes);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepAliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepAliveTimeoutMs);
  auto opened = open_channel(addresses, security, arguments);
  if (opened) return *opened;
  log::error("no channel to a peer", {{"address", addresses}, {"error", opened.error().to_string()}});
  return grpc::CreateCustomChannel(addresses, nullptr, arguments);
}

}  // namespace qm::rpc
