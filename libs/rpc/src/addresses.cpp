#include "qm/rpc/process.hpp"

#include <cerrno>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

namespace qm::rpc {

Status check_free(const std::string& address) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos) return {};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  // The server reports a host that cannot be resolved.
  if (::getaddrinfo(address.substr(0, colon).c_str(), address.substr(colon + 1).c_str(), &hints, &found) != 0)
    return {};
  bool taken = false;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    const int fd = ::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
    if (fd < 0) continue;
    // Closing connections of a predecessor do not count; a listener does.
    const int yes = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    taken = taken || (::bind(fd, at->ai_addr, at->ai_addrlen) != 0 && errno == EADDRINUSE);
    ::close(fd);
  }
  ::freeaddrinfo(found);
  if (!taken) return {};
  return fail(Error{Code::kAlreadyExists, "cannot listen on " + address, "address",
                    "stop the process that listens there, or choose another port (0 = any)"});
}

}  // namespace qm::rpc
