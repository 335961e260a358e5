#include "relay.hpp"

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstring>
#include <list>
#include <mutex>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace qm::deploy {
namespace {

constexpr int kLookMs = 100;

class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

sockaddr_in place(const std::string& address, int port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(static_cast<std::uint16_t>(port));
  ::inet_pton(AF_INET, address.c_str(), &out.sin_addr);
  return out;
}

Socket connect_to(const std::string& target) {
  const auto colon = target.rfind(':');
  if (colon == std::string::npos) return Socket();
  Socket out(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto at = place(target.substr(0, colon), std::atoi(target.c_str() + colon + 1));
  if (::connect(out.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) return Socket();
  return out;
}

bool write_all(int fd, const char* data, ssize_t left) {
  while (left > 0) {
    const auto n = ::send(fd, data, static_cast<std::size_t>(left), MSG_NOSIGNAL);
    if (n <= 0) return false;
    data += n;
    left -= n;
  }
  return true;
}

/// Copies both ways, until both sides have finished, or one is gone.
void pass(const Socket& a, const Socket& b, const std::stop_token& stop) {
  std::array<pollfd, 2> at{pollfd{a.get(), POLLIN, 0}, pollfd{b.get(), POLLIN, 0}};
  std::array<char, 65536> bytes;
  int open = 2;
  while (open > 0 && !stop.stop_requested()) {
    if (::poll(at.data(), at.size(), kLookMs) < 0 && errno != EINTR) return;
    for (std::size_t i = 0; i < 2; ++i) {
      if (at[i].fd < 0 || at[i].revents == 0) continue;
      const int to = i == 0 ? b.get() : a.get();
      const auto n = ::recv(at[i].fd, bytes.data(), bytes.size(), 0);
      if (n < 0) return;
      if (n == 0) {
        ::shutdown(to, SHUT_WR);
        at[i].fd = -1;
        --open;
      } else if (!write_all(to, bytes.data(), n)) {
        return;
      }
    }
  }
}

}  // namespace

struct Relay::Impl {
  Socket listener;
  std::function<std::string()> pick;
  struct Line {
    std::jthread thread;
    std::atomic<bool> over = false;
  };
  std::list<Line> lines;
  std::jthread acceptor;

  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      pollfd at{listener.get(), POLLIN, 0};
      lines.remove_if([](const Line& line) { return line.over.load(); });
      if (::poll(&at, 1, kLookMs) <= 0) continue;
      const int fd = ::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      auto& line = lines.emplace_back();
      line.thread = std::jthread([this, &line, fd](const std::stop_token& ends) {
        const Socket client(fd);
        const Socket server = connect_to(pick());
        if (server.get() >= 0) pass(client, server, ends);
        line.over = true;
      });
    }
  }
};

Relay::Relay(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Relay::~Relay() {
  impl_->acceptor = {};  // no new connections from here on
  for (auto& line : impl_->lines) line.thread.request_stop();
}

Result<std::unique_ptr<Relay>> Relay::open(const std::string& address, int port, std::function<std::string()> pick) {
  Socket listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const auto at = place(address, port);
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0 ||
      ::listen(listener.get(), 128) != 0) {
    return fail(Code::kUnavailable, "cannot listen on {}:{}: {}", address, port, std::strerror(errno));
  }
  auto impl = std::make_unique<Impl>();
  impl->pick = std::move(pick);
  // Moved member by member: a socket is not assigned.
  std::destroy_at(&impl->listener);
  std::construct_at(&impl->listener, std::move(listener));
  impl->acceptor = std::jthread([raw = impl.get()](const std::stop_token& stop) { raw->run(stop); });
  return std::unique_ptr<Relay>(new Relay(std::move(impl)));
}

}  // namespace qm::deploy
