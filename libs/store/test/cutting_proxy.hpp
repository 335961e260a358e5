#pragma once
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace qm::store {

/// A TCP relay to a server on loopback that can cut a connection at one chosen moment: when the client sends a message
/// that contains `mark`, either before the server gets it, or after the server answered and before the client hears.
class CuttingProxy {
 public:
  enum class Cut { kNever, kBeforeRequest, kBeforeAnswer };

  explicit CuttingProxy(int server_port) : server_port_(server_port), listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    auto address = loopback(0);
    socklen_t size = sizeof address;
    ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
    ::listen(listener_, 16);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~CuttingProxy() {
    stop_ = true;
    acceptor_.join();
    for (auto& relay : relays_) relay.join();
    ::close(listener_);
  }

  [[nodiscard]] int port() const { return port_; }
  /// Cuts once, at the next message with the mark. `stay_away`: refuses every connection from then on.
  void arm(Cut cut, std::string mark, bool stay_away = false) {
    const std::lock_guard lock(mutex_);
    mark_ = std::move(mark);
    stay_away_ = stay_away;
    cut_ = cut;
  }
  [[nodiscard]] bool has_cut() const { return cuts_ > 0; }
  void come_back() { away_ = false; }

 private:
  static sockaddr_in loopback(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    return address;
  }

  void accept_all() {
    while (!stop_) {
      pollfd ready{listener_, POLLIN, 0};
      if (::poll(&ready, 1, 20) <= 0) continue;
      const int client = ::accept(listener_, nullptr, nullptr);
      if (away_) {
        ::close(client);
        continue;
      }
      relays_.emplace_back([this, client] { relay(client); });
    }
  }

  void relay(int client) {
    const int server = ::socket(AF_INET, SOCK_STREAM, 0);
    const auto address = loopback(server_port_);
    if (::connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) copy(client, server);
    ::close(server);
    ::close(client);
  }

  void copy(int client, int server) {
    bool cut_at_answer = false;
    std::array<char, 1 << 16> buffer;
    while (!stop_) {
      std::array<pollfd, 2> ready{pollfd{client, POLLIN, 0}, pollfd{server, POLLIN, 0}};
      if (::poll(ready.data(), 2, 20) <= 0) continue;
      if (ready[0].revents != 0) {
        const auto got = ::read(client, buffer.data(), buffer.size());
        if (got <= 0) return;
        const auto cut = take_cut({buffer.data(), static_cast<std::size_t>(got)});
        if (cut == Cut::kBeforeRequest) return;
        cut_at_answer = cut == Cut::kBeforeAnswer;
        if (::send(server, buffer.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL) != got) return;
      }
      if (ready[1].revents != 0) {
        const auto got = ::read(server, buffer.data(), buffer.size());
        if (got <= 0 || cut_at_answer) return;
        if (::send(client, buffer.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL) != got) return;
      }
    }
  }

  Cut take_cut(std::string_view message) {
    const std::lock_guard lock(mutex_);
    if (cut_ == Cut::kNever || message.find(mark_) == std::string_view::npos) return Cut::kNever;
    ++cuts_;
    away_ = stay_away_;
    return std::exchange(cut_, Cut::kNever);
  }

  int server_port_;
  int listener_;
  int port_ = 0;
  std::atomic<bool> stop_{false};
  std::atomic<bool> away_{false};
  std::atomic<int> cuts_{0};
  std::mutex mutex_;
  Cut cut_ = Cut::kNever;
  bool stay_away_ = false;
  std::string mark_;
  std::thread acceptor_;
  std::vector<std::thread> relays_;
};

}  // namespace qm::store
