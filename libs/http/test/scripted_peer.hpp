#pragma once
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <array>
#include <atomic>
#include <functional>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace qm::http {

/// A server with scripted faults: the script handles the connections one after the other.
class ScriptedPeer {
 public:
  class Wire {
   public:
    explicit Wire(int fd, const std::atomic<bool>& stop) : fd_(fd), stop_(stop) {}
    /// Up to and including the empty line; empty if the client disconnected or the peer is stopped.
    std::string read_request() {
      std::string got;
      std::array<char, 4096> bytes;
      while (got.find("\r\n\r\n") == std::string::npos) {
        if (!readable()) return {};
        const auto n = ::recv(fd_, bytes.data(), bytes.size(), 0);
        if (n <= 0) return {};
        got.append(bytes.data(), static_cast<std::size_t>(n));
      }
      return got;
    }
    void send(std::string_view bytes) { ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
    /// Sends nothing until the client disconnects or the peer is stopped.
    void hang() {
      std::array<char, 4096> bytes;
      while (readable() && ::recv(fd_, bytes.data(), bytes.size(), 0) > 0) {
      }
    }

   private:
    bool readable() {
      while (!stop_) {
        pollfd entry{fd_, POLLIN, 0};
        if (::poll(&entry, 1, 20) > 0) return true;
      }
      return false;
    }
    int fd_;
    const std::atomic<bool>& stop_;
  };
  using Script = std::function<void(Wire& wire, int connection)>;

  explicit ScriptedPeer(Script script) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(fd_, 16), 0);
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, script = std::move(script)] {
      for (;;) {
        pollfd entry{fd_, POLLIN, 0};
        if (::poll(&entry, 1, 20) <= 0) {
          if (stop_) return;
          continue;
        }
        const int client = ::accept(fd_, nullptr, nullptr);
        Wire wire(client, stop_);
        script(wire, ++connections_);
        ::close(client);
        ++closed_;
      }
    });
  }
  ~ScriptedPeer() {
    stop_ = true;
    thread_.join();
    ::close(fd_);
  }
  [[nodiscard]] std::string origin() const { return "http://127.0.0.1:" + std::to_string(port_); }
  [[nodiscard]] int connections() const { return connections_; }
  [[nodiscard]] int closed() const { return closed_; }

 private:
  int fd_;
  std::uint16_t port_ = 0;
  std::atomic<bool> stop_ = false;
  std::atomic<int> connections_ = 0, closed_ = 0;
  std::thread thread_;
};

}  // namespace qm::http
