// The server: one session object per connection. All of its work runs on the connection's strand, or for pinned
// connections on its thread.
//
// A session reads one request (idle timeout before its first byte, read timeout for the rest), calls the
// handler, writes the response, and starts again. A streamed response uses a ChunkStream: other threads
// append to its bounded backlog and wake the session, which writes. Meanwhile a read stays open, so that
// the disconnection of a client is noticed at once. A streamed response ends its connection.
#include "answer.hpp"
#include "qm/base/assert.hpp"
#include "qm/base/log.hpp"
#include "qm/http/http.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <fmt/format.h>

#include <array>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <type_traits>
#include <utility>

namespace qm::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::uint32_t kMaxRequestHeader = 32 << 10;
constexpr std::chrono::seconds kLinger{2};
constexpr std::size_t kMaxLingerBytes = 16 << 20;

class SessionBase;

/// Shared by the sessions of one server.
struct Shared {
  ServerOptions options;
  Handler handler;
  std::mutex mutex;
  std::condition_variable left;  ///< a session has ended, or has sent its response
  std::set<SessionBase*> sessions;
  int busy = 0;  ///< requests that were partly read, and that have no complete response yet
  bool draining = false, stopping = false;
  std::chrono::steady_clock::time_point accepted_at{};  ///< when the last connection was accepted
};

class SessionBase {
 public:
  explicit SessionBase(Shared& shared) : shared_(shared) {}
  virtual ~SessionBase() = default;
  /// Any thread, under the shared mutex: afterwards no writer can access this session.
  void drop_stream() {
    const std::scoped_lock lock(stream_mutex_);
    if (chunks_) chunks_->drop();
  }
  /// Call after the server's threads have joined.
  virtual void close_socket() = 0;
  /// Any thread, under the shared mutex: ends the connection unless a request has begun on it, or its peer has not
  /// sent the first yet.
  virtual void retire() = 0;

 protected:
  void set_busy(bool busy) {
    const std::scoped_lock lock(shared_.mutex);
    if (std::exchange(busy_, busy) == busy) return;
    shared_.busy += busy ? 1 : -1;
    shared_.left.notify_all();
  }
  bool draining() {
    const std::scoped_lock lock(shared_.mutex);
    return shared_.draining;
  }

  // A session is listed only while it is whole: another thread calls its virtual functions.
  void join() {
    const std::scoped_lock lock(shared_.mutex);
    shared_.sessions.insert(this);
  }
  void leave() {
    const std::scoped_lock lock(shared_.mutex);
    shared_.sessions.erase(this);
    if (busy_) --shared_.busy;
    shared_.left.notify_all();
  }

  Shared& shared_;
  bool busy_ = false;
  std::mutex stream_mutex_;  // guards the pointer only
  std::shared_ptr<ChunkStream> chunks_;
};

template <class S>
class Session final : public SessionBase, public std::enable_shared_from_this<Session<S>> {
  static constexpr bool kTls = !std::is_same_v<S, beast::tcp_stream>;

 public:
  template <class... Args>
  Session(Shared& shared, Args&&... args) : SessionBase(shared), stream_(std::forward<Args>(args)...) {
    join();
  }
  ~Session() override {
    leave();
    if (chunks_) chunks_->drop();
  }

  void close_socket() override { close_now(); }

  void retire() override {
    auto session = this->weak_from_this().lock();
    if (!session) return;
    auto executor = session->stream_.get_executor();
    asio::post(executor, [session = std::move(session)] {
      // A read that has its bytes already is not cancelled: that request is answered.
      if (session->idle_) session->tcp_layer().cancel();
    });
  }

  /// Called from the acceptor's thread.
  void run() {
    asio::dispatch(stream_.get_executor(), [self = this->shared_from_this()] { self->begin(); });
  }

 private:
  void begin() {
    if constexpr (kTls) {
      tcp_layer().expires_after(shared_.options.read_timeout);
      stream_.async_handshake(asio::ssl::stream_base::server, [self = this->shared_from_this()](error_code ec) {
        if (!ec) self->wait_request();
      });
    } else {
      wait_request();
    }
  }

  beast::tcp_stream& tcp_layer() { return beast::get_lowest_layer(stream_); }
  auto self() { return this->shared_from_this(); }

  void wait_request() {
    if (buffer_.size() > 0) return read_request();
    tcp_layer().expires_after(shared_.options.idle_timeout);
    idle_ = true;
    stream_.async_read_some(buffer_.prepare(8192), [self = self()](error_code ec, std::size_t n) {
      self->idle_ = false;
      if (ec == asio::error::operation_aborted) return self->finish();
      if (ec) return;
      self->buffer_.commit(n);
      self->read_request();
    });
  }

  void read_request() {
    set_busy(true);
    parser_.emplace();
    parser_->header_limit(kMaxRequestHeader);
    parser_->body_limit(shared_.options.max_body);
    tcp_layer().expires_after(shared_.options.read_timeout);
    beast::http::async_read_header(stream_, buffer_, *parser_, [self = self()](error_code ec, std::size_t) {
      if (ec) return self->refuse(ec);
      self->read_body();
    });
  }

  void read_body() {
    const auto expect = parser_->get()[beast::http::field::expect];
    if (!beast::iequals(expect, "100-continue")) return read_rest();
    out_ = "HTTP/1.1 100 Continue\r\n\r\n";
    asio::async_write(stream_, asio::buffer(out_), [self = self()](error_code ec, std::size_t) {
      if (!ec) self->read_rest();
    });
  }

  void read_rest() {
    beast::http::async_read(stream_, buffer_, *parser_, [self = self()](error_code ec, std::size_t) {
      if (ec) return self->refuse(ec);
      self->answer();
    });
  }

  /// The request could not be read: sends the reason if the peer still reads, and closes.
  void refuse(error_code ec) {
    using beast::http::error;
    if (ec == error::end_of_stream || ec == error::partial_message) return;
    if (ec == error::body_limit) {
      write_last(text(413, fmt::format("the body is larger than {} bytes\n", shared_.options.max_body)));
    } else if (ec == error::header_limit || ec == error::buffer_overflow) {
      write_last(text(431, fmt::format("the header is larger than {} bytes\n", kMaxRequestHeader)));
    } else if (ec.category() == beast::http::make_error_code(error::bad_method).category()) {
      write_last(text(400, "not an HTTP/1.1 request: " + ec.message() + "\n"));
    }  // else the connection is gone or was too slow: no response is possible
  }

  void answer() {
    auto& message = parser_->get();
    Request request;
    request.method = std::string(message.method_string());
    request.target = std::string(message.target());
    for (const auto& field : message) {
      // The first of equal names has precedence; Headers::set would use the last.
      const std::string_view name(field.name_string().data(), field.name_string().size());
      if (request.headers.get(name).empty()) {
        request.headers.set(name, std::string(field.value()));
      }
    }
    request.body = std::move(message.body());
    request.loopback = from_loopback();
    const bool keep = message.keep_alive() && !draining();
    const bool head_only = request.method == "HEAD";
    auto answer = ask(request);
    if (answer.stream && !head_only) {
      if (message.version() < 11) return write_last(text(505, "streams need HTTP/1.1\n"));
      return start_stream(std::move(answer));
    }
    out_ = head_of(answer.head, false, keep);
    if (!head_only && answer.head.status != 204 && answer.head.status != 304) {
      out_ += answer.head.body;
    }
    // A large response may take longer than a request: its limit is the time without progress of the peer.
    tcp_layer().expires_after(shared_.options.idle_timeout);
    asio::async_write(stream_, asio::buffer(out_), [self = self(), keep](error_code ec, std::size_t) {
      self->set_busy(false);
      if (ec) return;
      if (!keep) return self->finish();
      self->wait_request();
    });
  }

  bool from_loopback() {
    error_code ec;
    const auto peer = tcp_layer().socket().remote_endpoint(ec);
    if (ec) return false;
    auto address = peer.address();
    // A server of IPv6 sees clients of IPv4 as ::ffff:127.0.0.1.
    if (address.is_v6() && address.to_v6().is_v4_mapped())
      address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
    return address.is_loopback();
  }

  Answer ask(const Request& request) {
    try {
      return shared_.handler(request);
    } catch (const std::exception& e) {
      log::error("http handler threw", {{"target", request.target}, {"error", e.what()}});
      return text(500, "the handler failed; see the log\n");
    }
  }

  void start_stream(Answer answer) {
    std::weak_ptr<Session> weak = self();
    auto wake = [weak] {
      if (auto session = weak.lock()) {
        auto executor = session->stream_.get_executor();
        asio::post(executor, [session = std::move(session)] { session->pump(); });
      }
    };
    {
      const std::scoped_lock lock(shared_.mutex, stream_mutex_);
      if (shared_.stopping) return;
      chunks_ =
          std::make_shared<ChunkStream>(head_of(answer.head, true, false), shared_.options.max_stream_backlog, wake);
    }
    set_busy(false);  // a stream is not awaited
    watch_peer();
    pump();
    try {
      answer.stream(chunks_);
    } catch (const std::exception& e) {
      log::error("http stream start threw", {{"error", e.what()}});
      close_now();
    }
  }

  /// While a stream is sent, the client is expected to send nothing; a read detects its disconnection.
  void watch_peer() {
    tcp_layer().expires_never();
    stream_.async_read_some(asio::buffer(discard_), [self = self()](error_code ec, std::size_t) {
      if (ec) return self->close_now();
      self->watch_peer();
    });
  }

  void pump() {
    if (gone_) return;
    // Before the check of writing_: closing must not wait for a write without progress.
    if (chunks_->look()) {
      log::warn("http stream closed: its reader is too slow", {{"backlog_limit", shared_.options.max_stream_backlog}});
      return close_now();
    }
    if (writing_) return;
    auto next = chunks_->take();
    if (next.bytes.empty()) {
      if (next.end) close_now();
      return;
    }
    out_ = std::move(next.bytes);
    writing_ = true;
    tcp_layer().expires_after(shared_.options.idle_timeout);
    asio::async_write(stream_, asio::buffer(out_), [self = self()](error_code ec, std::size_t) {
      self->writing_ = false;
      if (ec) return self->close_now();
      self->pump();
    });
  }

  void close_now() {
    if (gone_) return;
    gone_ = true;
    if (chunks_) chunks_->drop();
    error_code ignored;
    tcp_layer().socket().shutdown(tcp::socket::shutdown_both, ignored);
    tcp_layer().close();
  }

  /// Ends the connection after the last response so that the peer can read it: first the sending side is shut down,
  /// then further bytes from the peer are discarded for a moment, because closing with unread bytes would reset the
  /// connection.
  void finish() {
    if constexpr (kTls) {
      tcp_layer().expires_after(kLinger);
      stream_.async_shutdown([self = self()](error_code) {});
    } else {
      error_code ignored;
      tcp_layer().socket().shutdown(tcp::socket::shutdown_send, ignored);
      tcp_layer().expires_after(kLinger);
      linger();
    }
  }
  void linger() {
    stream_.async_read_some(asio::buffer(discard_), [self = self()](error_code ec, std::size_t n) {
      self->lingered_ += n;
      if (!ec && self->lingered_ < kMaxLingerBytes) self->linger();
    });
  }

  void write_last(const Response& response) {
    out_ = head_of(response, false, false) + response.body;
    tcp_layer().expires_after(shared_.options.read_timeout);
    asio::async_write(stream_, asio::buffer(out_), [self = self()](error_code ec, std::size_t) {
      if (!ec) self->finish();
    });
  }

  S stream_;
  beast::flat_buffer buffer_;
  std::optional<beast::http::request_parser<beast::http::string_body>> parser_;
  std::string out_;
  std::array<char, 4096> discard_{};
  std::size_t lingered_ = 0;
  bool idle_ = false;  ///< no byte of the next request has arrived
  bool writing_ = false, gone_ = false;
};

Result<tcp::endpoint> endpoint_of(const ServerOptions& options) {
  error_code ec;
  const auto address =
      asio::ip::make_address(options.address == "localhost" ? std::string("127.0.0.1") : options.address, ec);
  if (ec) {
    return fail(Error{Code::kInvalid, fmt::format("'{}' is not an IP address", options.address), "address",
                      "use a numeric address such as 127.0.0.1 or 0.0.0.0"});
  }
  return tcp::endpoint(address, options.port);
}

Status load_tls(asio::ssl::context& context, const TlsFiles& files) {
  error_code ec;
  context.use_certificate_chain_file(files.certificate, ec);
  if (ec) return fail(Code::kInvalid, "certificate '{}': {}", files.certificate, ec.message());
  context.use_private_key_file(files.key, asio::ssl::context::pem, ec);
  if (ec) return fail(Code::kInvalid, "private key '{}': {}", files.key, ec.message());
  if (files.client_ca.empty()) return {};
  context.load_verify_file(files.client_ca, ec);
  if (ec) return fail(Code::kInvalid, "client CA '{}': {}", files.client_ca, ec.message());
  context.set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert);
  return {};
}

std::shared_ptr<asio::ssl::context> tls_context() {
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  return context;
}

Status load_tls(asio::ssl::context& context, const Identity& identity) {
  error_code ec;
  context.use_certificate_chain(asio::buffer(identity.certificate), ec);
  if (ec) return fail(Code::kInvalid, "the certificate cannot be read: {}", ec.message());
  context.use_private_key(asio::buffer(identity.key), asio::ssl::context::pem, ec);
  if (ec) return fail(Code::kInvalid, "the private key is not the certificate's: {}", ec.message());
  return {};
}

}  // namespace

struct Server::Impl {
  Impl(ServerOptions options, Handler handler) : loops(loops_for(options)) {
    shared.options = std::move(options);
    shared.handler = std::move(handler);
  }

  using Loops = std::vector<std::unique_ptr<asio::io_context>>;
  static Loops loops_for(const ServerOptions& options) {
    Loops out;
    const int many = options.pinned ? std::max(1, options.threads) : 1;
    for (int i = 0; i < many; ++i) {
      out.push_back(options.pinned ? std::make_unique<asio::io_context>(1) : std::make_unique<asio::io_context>());
    }
    return out;
  }

  void accept() {
    acceptor.async_accept(next_home(), [this](error_code ec, tcp::socket socket) {
      if (ec == asio::error::operation_aborted) return;
      if (ec) {
        // Probably no free file descriptors: a pause is better than a busy loop.
        log::warn("http accept failed", {{"error", ec.message()}});
        retry.expires_after(std::chrono::milliseconds(100));
        retry.async_wait([this](error_code waited) {
          if (!waited) accept();
        });
        return;
      }
      admit(std::move(socket));
      accept();
    });
  }

  /// Where the next connection runs: on a selected thread, or on any free one.
  asio::any_io_executor next_home() {
    if (!shared.options.pinned) return asio::make_strand(*loops.front());
    return loops[turn++ % loops.size()]->get_executor();
  }

  void admit(tcp::socket socket) {
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    socket.set_option(asio::socket_base::keep_alive(true), ignored);
    {
      const std::scoped_lock lock(shared.mutex);
      shared.accepted_at = std::chrono::steady_clock::now();
      if (shared.sessions.size() >= shared.options.max_connections) {
        ++refused;
        socket.non_blocking(true, ignored);
        if (!tls) {
          const auto full = text(503, "too many connections\n");
          socket.write_some(asio::buffer(head_of(full, false, false) + full.body), ignored);
        }
        return;
      }
    }
    // The session owns the parts of the context that it needs, so that the context may be replaced meanwhile.
    if (const auto serving = current_context()) {
      std::make_shared<Session<beast::ssl_stream<beast::tcp_stream>>>(shared, std::move(socket), *serving)->run();
    } else {
      std::make_shared<Session<beast::tcp_stream>>(shared, std::move(socket))->run();
    }
  }

  std::shared_ptr<asio::ssl::context> current_context() {
    const std::scoped_lock lock(context_mutex);
    return context;
  }

  // Before the loops: destroying one destroys its sessions, which leave this set.
  Shared shared;
  Loops loops;
  std::size_t turn = 0;
  tcp::acceptor acceptor{*loops.front()};
  asio::steady_timer retry{*loops.front()};
  std::mutex context_mutex;  // guards the pointer only
  std::shared_ptr<asio::ssl::context> context;
  bool tls = false;
  std::vector<std::jthread> threads;
  std::uint16_t port = 0;
  std::uint64_t refused = 0;
};

Server::Server(ServerOptions options, Handler handler)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(handler))) {}

Server::~Server() { stop(); }

Status Server::start() {
  auto& options = impl_->shared.options;
  QM_ASSERT(impl_->threads.empty() && !impl_->shared.stopping, "http server started twice");
  QM_ASSIGN(const auto endpoint, endpoint_of(options));
  if (options.tls) {
    auto context = tls_context();
    QM_TRY(load_tls(*context, *options.tls));
    impl_->context = std::move(context);
  } else if (options.identity) {
    QM_TRY(replace_certificate(*options.identity));
  }
  impl_->tls = impl_->context != nullptr;
  error_code ec;
  auto& acceptor = impl_->acceptor;
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(asio::socket_base::reuse_address(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (ec) {
    error_code ignored;
    acceptor.close(ignored);
    const auto what = fmt::format("{}:{}", options.address, options.port);
    if (ec == asio::error::address_in_use) {
      return fail(Error{Code::kAlreadyExists, "another process listens on " + what, "port",
                        "stop it, or choose another port (0 = any free one)"});
    }
    return fail(Code::kUnavailable, "cannot listen on {}: {}", what, ec.message());
  }
  impl_->port = acceptor.local_endpoint().port();
  impl_->accept();
  for (int i = 0; i < std::max(1, options.threads); ++i) {
    auto& loop = *impl_->loops[static_cast<std::size_t>(i) % impl_->loops.size()];
    impl_->threads.emplace_back([&loop] {
      const auto open = asio::make_work_guard(loop);
      loop.run();
    });
  }
  return {};
}

void Server::drain(std::chrono::milliseconds window) {
  auto& shared = impl_->shared;
  std::unique_lock lock(shared.mutex);
  shared.draining = true;
  // A client with an open connection learns with its next response that it is the last one. While new connections
  // arrive, more would be refused.
  const auto begin = std::chrono::steady_clock::now();
  const auto none_left = [&] { return shared.sessions.empty() || shared.stopping; };
  for (;;) {
    const auto quiet = std::min(shared.accepted_at + window / 2, begin + 2 * window);
    const auto until = shared.sessions.empty() ? quiet : std::max(quiet, begin + window);
    if (shared.stopping || std::chrono::steady_clock::now() >= until) break;
    shared.left.wait_until(lock, until);
  }
  // The others are idle: their clients learn now that the connection has ended, before they use it again. Closing it
  // later, with a request in it, would reset it.
  for (auto* session : shared.sessions) session->retire();
  shared.left.wait_for(lock, std::min<std::chrono::milliseconds>(window, kLinger), none_left);
  shared.left.wait_for(lock, shared.options.read_timeout, [&] { return shared.busy == 0 || shared.stopping; });
}

void Server::stop() {
  {
    const std::scoped_lock lock(impl_->shared.mutex);
    if (std::exchange(impl_->shared.stopping, true)) return;
    impl_->shared.left.notify_all();
    for (auto* session : impl_->shared.sessions) session->drop_stream();
  }
  for (auto& loop : impl_->loops) loop->stop();
  impl_->threads.clear();
  // The threads have joined: the remaining sessions can be closed here.
  error_code ignored;
  impl_->acceptor.close(ignored);
  for (auto* session : impl_->shared.sessions) session->close_socket();
}

std::uint16_t Server::port() const { return impl_->port; }

Status Server::replace_certificate(const Identity& identity) {
  auto context = tls_context();
  QM_TRY(load_tls(*context, identity));
  const std::scoped_lock lock(impl_->context_mutex);
  impl_->context = std::move(context);
  return {};
}

}  // namespace qm::http
