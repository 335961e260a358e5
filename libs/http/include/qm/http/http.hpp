#pragma once
#include "qm/base/result.hpp"
#include "qm/base/wake.hpp"
#include "qm/http/certificate.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace qm::http {

/// HTTP headers. Names compare without case; lookup returns the first of equal names.
class Headers {
 public:
  void set(std::string_view name, std::string value);
  [[nodiscard]] std::string_view get(std::string_view name) const;  ///< empty where absent
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& all() const { return list_; }

 private:
  std::vector<std::pair<std::string, std::string>> list_;
};

struct Request {
  std::string method = "GET";
  std::string target = "/";  ///< path and query as sent
  Headers headers;
  std::string body;
  bool loopback = false;                                           ///< as received: from 127.0.0.0/8 or ::1
  [[nodiscard]] std::string path() const;                          ///< percent-decoded, without query
  [[nodiscard]] std::map<std::string, std::string> query() const;  ///< the last of equal names has precedence
};

struct Response {
  int status = 200;
  Headers headers;  ///< Content-Length and Connection are set by the server
  std::string body;
};
Response text(int status, std::string body);
Response json(int status, std::string body);

/// The writing end of a streamed response (chunked). Any thread.
class Stream {
 public:
  virtual ~Stream() = default;
  /// False once the client has disconnected; a slow client's backlog is bounded, beyond it the stream is closed.
  virtual bool write(std::string chunk) = 0;
  virtual void close() = 0;
  [[nodiscard]] virtual bool closed() const = 0;
};
/// Called once the head of a streamed response is being sent.
using StreamStart = std::function<void(std::shared_ptr<Stream>)>;

/// A response: complete, or a head followed by a stream.
struct Answer {
  Response head;
  StreamStart stream;  ///< where set, the body is chunked and written through it
  Answer(Response r) : head(std::move(r)) {}
  Answer(Response r, StreamStart s) : head(std::move(r)), stream(std::move(s)) {}
};
using Handler = std::function<Answer(const Request&)>;

struct TlsFiles {
  std::string certificate, key, client_ca;  ///< client_ca empty = no client certificate is requested
};

struct ServerOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;  ///< 0 = any free port
  int threads = 2;
  /// Each connection stays with one thread. No thread wakes another then, which is faster for occasional calls;
  /// but a handler that waits also blocks the other connections of its thread.
  bool pinned = false;
  std::size_t max_body = 1 << 20;
  std::size_t max_connections = 4096;
  std::chrono::seconds read_timeout{5};
  std::chrono::seconds idle_timeout{60};
  std::size_t max_stream_backlog = 8 << 20;  ///< unsent bytes for a slow reader before its stream is closed
  std::optional<TlsFiles> tls;
  std::optional<Identity> identity;  ///< instead of tls, a certificate from memory; it can be replaced
};

/// An HTTP/1.1 server: keep-alive, chunked streams, limits. Handlers run on its threads and should be quick.
/// Fails: start returns kAlreadyExists with the port if it is in use.
class Server {
 public:
  Server(ServerOptions options, Handler handler);
  ~Server();
  Status start();
  /// Call before stop, so that no call is lost: from now on each response has `Connection: close` and ends its
  /// connection. New connections are still accepted. Idle connections are ended when the window is over; it is
  /// extended, at most to twice its length, until none was accepted for half of it. Without connections it ends at
  /// once. Returns when no started request is without its response; streams are not awaited. Any thread but the
  /// handlers'.
  void drain(std::chrono::milliseconds window);
  void stop();  ///< closes streams, joins
  [[nodiscard]] std::uint16_t port() const;
  /// Uses this certificate for new connections from now on; existing connections keep theirs. For servers that
  /// started with a certificate. Any thread. kInvalid if certificate and key cannot be read or do not match: the old
  /// one remains in use.
  Status replace_certificate(const Identity& identity);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Selects a handler by method and path pattern: "/api/v1/nodes/{name}"; "{rest...}" matches the remaining path.
class Router {
 public:
  using Params = std::map<std::string, std::string>;
  using Route = std::function<Answer(const Request&, const Params&)>;
  void add(std::string method, std::string pattern, Route route);
  [[nodiscard]] Answer operator()(const Request& request) const;  ///< 404 or 405 if no pattern matches

 private:
  struct Entry {
    std::string method;
    std::vector<std::string> parts;
    Route route;
  };
  std::vector<Entry> entries_;
};

struct ClientOptions {
  std::chrono::milliseconds connect_timeout{2000};
  std::chrono::milliseconds timeout{10000};  ///< of the whole response; of a stream, between chunks (0 = none)
  std::size_t max_body = 64 << 20;
  std::string ca_file;               ///< for https
  std::string ca;                    ///< the same as PEM text, in addition
  std::optional<WallTime> at;        ///< time at which certificates must be valid, instead of now
  std::string certificate, key;      ///< files of a client certificate
  std::optional<Identity> identity;  ///< the same from memory, instead of files
  bool insecure = false;
};

/// A client for one origin ("http://127.0.0.1:8080") with keep-alive connections in a small pool. Any thread.
///
/// Fails    kUnavailable: no connection, or it broke before a response (retryable; a non-idempotent request may have
///          arrived: kUnknown); kDeadlineExceeded. A status of 400 and up is a response, not an error.
class Client {
 public:
  Client(std::string origin, ClientOptions options = {});
  ~Client();
  Result<Response> send(const Request& request);
  /// Streams the body of the response: on_head first, then on_chunk for each received part; either returns false to
  /// stop, and `stop` (may be empty) is called at least every 200 ms; with `wake` when that is notified, and every 10 s.
  /// Uses a separate connection.
  /// Returns when the stream ends:
  ///   OK                 clean end
  ///   kCancelled         stopped by one of the three
  ///   kUnavailable       no connection or a broken one
  ///   kDeadlineExceeded  no data for longer than the timeout
  Status stream(const Request& request, const std::function<bool(const Response&)>& on_head,
                const std::function<bool(std::string_view)>& on_chunk, const std::function<bool()>& stop,
                const Wake* wake = nullptr);
  [[nodiscard]] const std::string& origin() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Percent-encodes everything but letters, digits and "-._~".
[[nodiscard]] std::string url_encode(std::string_view text);
/// Reverses percent-encoding; a '%' without two hex digits stays unchanged, and so does '+'.
[[nodiscard]] std::string url_decode(std::string_view text);
/// Parses "a=1&b=two+words" (a query or a form body), '+' as a space; the last of equal names has precedence.
[[nodiscard]] std::map<std::string, std::string> parse_form(std::string_view text);

}  // namespace qm::http
