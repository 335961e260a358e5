#pragma once
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"
#include "qm/http/http.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace qm::http {

/// A parsed origin: "https://[::1]:6443" -> tls, "::1", "6443".
struct Origin {
  bool tls = false;
  std::string host, port;
  std::string authority;  ///< for the Host header
  static Result<Origin> parse(std::string_view text);
};

/// When to give up: at a time, or when `stop` returns true (called every 100 ms while waiting; with `wake` once that is
/// notified, and every 10 s).
struct Patience {
  SteadyInstant until = SteadyInstant::max();
  const std::function<bool()>* stop = nullptr;
  const Wake* wake = nullptr;
};

/// The TLS settings of a client, read once for all its connections.
class TlsClient {
 public:
  static Result<std::unique_ptr<TlsClient>> make(const ClientOptions& options);
  ~TlsClient();
  [[nodiscard]] void* context() const { return context_; }

 private:
  explicit TlsClient(void* context) : context_(context) {}
  void* context_;
};

/// One client connection, plain or TLS, on a non-blocking socket.
///
/// Threads  one at a time.
/// Fails    kUnavailable: refused or broken; kDeadlineExceeded: patience.until passed; kCancelled: `stop` returned
///          true.
class Connection {
 public:
  static Result<std::unique_ptr<Connection>> open(const Origin& origin, const TlsClient* tls, Patience patience);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  Status write(std::string_view bytes, Patience patience);
  /// Returns at least one byte, or 0 at the end of the stream.
  Result<std::size_t> read(std::span<char> into, Patience patience);
  /// False if the peer has closed or sent unexpected bytes: the connection must not be reused.
  [[nodiscard]] bool fresh() const;
  [[nodiscard]] SteadyInstant idle_since() const { return idle_since_; }
  void now_idle() { idle_since_ = std::chrono::steady_clock::now(); }

 private:
  struct Tls;
  Connection();
  Status connect(const Origin& origin, Patience patience);
  Status handshake(const Origin& origin, const TlsClient& tls, Patience patience);
  Status wait(short events, Patience patience) const;
  Status send_raw(std::string_view bytes, Patience patience);
  Result<std::size_t> receive_raw(std::span<char> into, Patience patience);
  /// Executes one TLS call: sends the bytes it produced, receives the bytes it needs.
  Result<std::size_t> drive(const std::function<int()>& call, std::string_view what, Patience patience);

  int fd_ = -1;
  std::unique_ptr<Tls> tls_;
  SteadyInstant idle_since_{};
};

}  // namespace qm::http
