#pragma once
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <array>
#include <cstdint>
#include <netinet/in.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <utility>

namespace qm::http {

/// A bare TCP client, for malformed requests. Reads time out after 20 s.
class RawSocket {
 public:
  explicit RawSocket(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval limit{20, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~RawSocket() { close(); }
  RawSocket(const RawSocket&) = delete;
  RawSocket& operator=(const RawSocket&) = delete;

  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return;  // the peer may have refused already
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  /// Reads up to and including `end`; bytes after it are kept.
  std::string read_until(std::string_view end) {
    for (;;) {
      if (const auto at = buffer_.find(end); at != std::string::npos) return take(at + end.size());
      if (!fill()) return take(buffer_.size());
    }
  }
  std::string read_exactly(std::size_t n) {
    while (buffer_.size() < n && fill()) {
    }
    return take(std::min(n, buffer_.size()));
  }
  /// Reads everything until the peer closes.
  std::string read_all() {
    while (fill()) {
    }
    return take(buffer_.size());
  }

 private:
  bool fill() {
    std::array<char, 65536> bytes;
    const auto n = ::recv(fd_, bytes.data(), bytes.size(), 0);
    EXPECT_FALSE(n < 0 && errno == EAGAIN) << "the peer neither answered nor closed";
    if (n <= 0) return false;
    buffer_.append(bytes.data(), static_cast<std::size_t>(n));
    return true;
  }
  std::string take(std::size_t n) {
    auto out = buffer_.substr(0, n);
    buffer_.erase(0, n);
    return out;
  }

  int fd_;
  std::string buffer_;
};

}  // namespace qm::http
