#include "sockets.hpp"

#include <arpa/inet.h>
#include <charconv>
#include <filesystem>
#include <netinet/tcp.h>
#include <string>
#include <sys/socket.h>

namespace qm::rpc {
namespace {

/// The local port of a TCP socket; -1 for anything else.
int local_port(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return -1;
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
  return -1;
}

int tcp_state(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? info.tcpi_state : -1;
}

/// Calls visit(fd) for every socket of this process whose own end has the port.
template <class Visit>
void each_socket(int port, Visit&& visit) {
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    if (fd >= 0 && local_port(fd) == port) visit(fd);
  }
}

}  // namespace

void stop_listening(int port) {
  each_socket(port, [](int fd) {
    if (tcp_state(fd) == TCP_LISTEN) ::shutdown(fd, SHUT_RD);
  });
}

bool any_connected(int port) {
  bool found = false;
  each_socket(port, [&found](int fd) { found = found || tcp_state(fd) == TCP_ESTABLISHED; });
  return found;
}

}  // namespace qm::rpc
