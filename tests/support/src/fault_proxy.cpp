#include "qm/testing/fault_proxy.hpp"

#include <array>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace qm::testing {
namespace {

constexpr int kLookMs = 5;

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

}  // namespace

FaultProxy::FaultProxy(int server_port) : server_port_(server_port), listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
  auto address = loopback(0);
  socklen_t size = sizeof address;
  ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
  ::listen(listener_, 64);
  ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

FaultProxy::~FaultProxy() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  acceptor_.join();
  for (auto& relay : relays_) relay.thread.join();
  ::close(listener_);
}

void FaultProxy::arm(Fault fault) {
  const std::lock_guard lock(mutex_);
  fault_ = std::move(fault);
  armed_ = true;
  struck_ = false;
}

void FaultProxy::heal() {
  const std::lock_guard lock(mutex_);
  armed_ = false;
  ++heals_;
  if (cut_at_heal_) ++cuts_;
  cut_at_heal_ = false;
  state_ = State::kOpen;
  changed_.notify_all();
}

void FaultProxy::accept_all() {
  while (!stop_) {
    pollfd ready{listener_, POLLIN, 0};
    if (::poll(&ready, 1, kLookMs) <= 0) continue;
    const int client = ::accept(listener_, nullptr, nullptr);
    if (client < 0) continue;
    if (state_ == State::kCut) {
      ::close(client);
      continue;
    }
    relays_.remove_if([](Relay& relay) {
      if (relay.over) relay.thread.join();
      return relay.over.load();
    });
    auto& added = relays_.emplace_back();
    added.thread = std::thread([this, client, &added] {
      relay(client);
      added.over = true;
    });
  }
}

void FaultProxy::relay(int client) {
  const int server = ::socket(AF_INET, SOCK_STREAM, 0);
  const auto address = loopback(server_port_);
  if (::connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) copy(client, server);
  ::close(server);
  ::close(client);
}

bool FaultProxy::pass(std::size_t born) {
  if (state_ == State::kStalled) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return state_ != State::kStalled || stop_; });
  }
  return !stop_ && cuts_ == born;
}

void FaultProxy::copy(int client, int server) {
  const std::size_t born = cuts_;
  Fault at_answer;
  std::size_t armed = 0;
  bool waits_for_answer = false;
  std::array<char, 1 << 16> buffer;
  while (pass(born)) {
    std::array<pollfd, 2> ready{pollfd{client, POLLIN, 0}, pollfd{server, POLLIN, 0}};
    if (::poll(ready.data(), 2, kLookMs) <= 0) continue;
    if (!pass(born)) return;
    if (ready[0].revents != 0) {
      const auto got = ::read(client, buffer.data(), buffer.size());
      if (got <= 0) return;
      if (Fault fault; strikes({buffer.data(), static_cast<std::size_t>(got)}, fault, armed)) {
        if (fault.side == Side::kBeforeAnswer) {
          at_answer = fault;
          waits_for_answer = true;
        } else {
          strike(fault, armed);
          if (fault.effect == Effect::kCutOne || !pass(born)) return;
        }
      }
      if (::send(server, buffer.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL) != got) return;
    }
    if (ready[1].revents != 0) {
      const auto got = ::read(server, buffer.data(), buffer.size());
      if (got <= 0) return;
      if (waits_for_answer) {
        waits_for_answer = false;
        strike(at_answer, armed);
        if (at_answer.effect == Effect::kCutOne || !pass(born)) return;
      }
      if (::send(client, buffer.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL) != got) return;
    }
  }
}

bool FaultProxy::strikes(std::string_view message, Fault& out, std::size_t& armed) {
  const std::lock_guard lock(mutex_);
  if (!armed_ || message.find(fault_.mark) == std::string_view::npos) return false;
  if (fault_.skip > 0) {
    --fault_.skip;
    return false;
  }
  armed_ = false;
  out = fault_;
  armed = heals_;
  return true;
}

void FaultProxy::strike(const Fault& fault, std::size_t armed) {
  const std::lock_guard lock(mutex_);
  if (armed != heals_) return;
  switch (fault.effect) {
    case Effect::kCutOne:
      break;
    case Effect::kCut:
      state_ = State::kCut;
      ++cuts_;
      break;
    case Effect::kStallCut:
      cut_at_heal_ = true;
      [[fallthrough]];
    case Effect::kStall:
      state_ = State::kStalled;
      break;
  }
  struck_ = true;
}

}  // namespace qm::testing
