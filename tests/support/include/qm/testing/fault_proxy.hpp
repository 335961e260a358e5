#pragma once
#include "qm/base/time.hpp"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace qm::testing {

/// A TCP relay to a server on loopback that injects one fault at a chosen message of a client: at the first one that
/// contains a mark, or at the n-th of all connections.
///
/// Threads  one acceptor and one for each connection; the functions may be called from any thread.
class FaultProxy {
 public:
  enum class Side {
    kBeforeRequest,
    kBeforeAnswer
  };  ///< the server has not received the message, or the client not its answer
  enum class Effect {
    kCutOne,    ///< ends this connection
    kCut,       ///< ends all connections and refuses new ones, until heal()
    kStall,     ///< no data in any direction until heal(); then all of it
    kStallCut,  ///< the same, but heal() ends the connections
  };
  struct Fault {
    Side side = Side::kBeforeRequest;
    Effect effect = Effect::kCutOne;
    std::string mark;      ///< empty = any message
    std::size_t skip = 0;  ///< matching messages that pass before
  };

  explicit FaultProxy(int server_port);
  ~FaultProxy();
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  [[nodiscard]] int port() const { return port_; }
  void arm(Fault fault);
  void heal();                                               ///< also disarms
  [[nodiscard]] bool has_struck() const { return struck_; }  ///< since it was armed

 private:
  enum class State { kOpen, kCut, kStalled };
  void accept_all();
  void relay(int client);
  void copy(int client, int server);
  /// True if the fault applies to this message.
  bool strikes(std::string_view message, Fault& out, std::size_t& armed);
  void strike(const Fault& fault, std::size_t armed);
  /// Waits while the connections are stalled; false: this connection ends.
  bool pass(std::size_t born);

  const int server_port_;
  const int listener_;
  int port_ = 0;
  std::atomic<bool> stop_{false}, struck_{false};
  std::atomic<State> state_{State::kOpen};
  std::atomic<std::size_t> cuts_{0};  ///< connections that were opened before are ended
  std::mutex mutex_;
  std::condition_variable changed_;
  bool armed_ = false, cut_at_heal_ = false;
  std::size_t heals_ = 0;  ///< a fault that was armed before the last heal() has no effect
  Fault fault_;
  std::thread acceptor_;
  struct Relay {
    std::atomic<bool> over{false};
    std::thread thread;
  };
  std::list<Relay> relays_;  ///< used only by the acceptor
};

}  // namespace qm::testing
