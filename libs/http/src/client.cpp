// The client: blocking calls over non-blocking sockets, so that every wait has a deadline and a stop.
// Beast parses; connection.cpp moves the bytes.
#include "connection.hpp"
#include "qm/http/http.hpp"

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <fmt/format.h>

#include <array>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

namespace qm::http {
namespace {

namespace bhttp = boost::beast::http;
using boost::system::error_code;
using Parser = bhttp::response_parser<bhttp::string_body>;
using std::chrono::steady_clock;

constexpr std::size_t kMaxIdle = 8;
/// Below the usual idle timeout of servers, so that the client closes first.
constexpr std::chrono::seconds kMaxIdleTime{30};
constexpr std::uint32_t kMaxAnswerHeader = 64 << 10;

bool idempotent(const std::string& method) {
  return method == "GET" || method == "HEAD" || method == "PUT" || method == "DELETE" || method == "OPTIONS";
}

std::string encode(const Request& request, const Origin& origin) {
  std::string out = fmt::format("{} {} HTTP/1.1\r\n", request.method, request.target);
  if (request.headers.get("Host").empty()) out += fmt::format("Host: {}\r\n", origin.authority);
  for (const auto& [name, value] : request.headers.all()) {
    out += fmt::format("{}: {}\r\n", name, value);
  }
  const bool has_body =
      !request.body.empty() || request.method == "POST" || request.method == "PUT" || request.method == "PATCH";
  if (has_body) out += fmt::format("Content-Length: {}\r\n", request.body.size());
  out += "\r\n";
  out += request.body;
  return out;
}

/// A line break in a target or header would inject a second request into the connection.
Status check(const Request& request) {
  const auto broken = [](std::string_view text) { return text.find_first_of("\r\n") != std::string_view::npos; };
  bool bad = broken(request.method) || broken(request.target) || request.target.empty() ||
             request.target.find(' ') != std::string::npos;
  for (const auto& [name, value] : request.headers.all()) bad = bad || broken(name) || broken(value);
  if (!bad) return {};
  return fail(Error{Code::kInvalid, "the target or a header of the request has a space or line break", "target",
                    "percent-encode it with url_encode"});
}

Response head_of(const Parser& parser) {
  Response head;
  const auto& message = parser.get();
  head.status = static_cast<int>(message.result_int());
  for (const auto& field : message) {
    const std::string_view name(field.name_string().data(), field.name_string().size());
    if (head.headers.get(name).empty()) head.headers.set(name, std::string(field.value()));
  }
  return head;
}

/// Reads one response from a connection, feeding the parser as bytes arrive.
class Reader {
 public:
  Reader(Connection& connection, bool head_only, std::optional<std::size_t> max_body)
      : connection_(connection), head_only_(head_only), max_body_(max_body) {
    fresh();
  }

  [[nodiscard]] Parser& parser() { return *parser_; }
  [[nodiscard]] bool any_byte() const { return any_byte_; }
  [[nodiscard]] bool done() const { return parser_->is_done(); }
  /// Whether no bytes of a next response are left.
  [[nodiscard]] bool clean() const { return pending_.empty() && !ended_; }

  /// Parses the available bytes, or waits for more bytes and parses those.
  Status step(Patience patience) {
    if (pending_.empty() || starved_) {
      std::array<char, 16384> buffer;
      QM_ASSIGN(const auto n, connection_.read(buffer, patience));
      if (n == 0) return end();
      any_byte_ = true;
      pending_.append(buffer.data(), n);
    }
    error_code ec;
    const auto used = parser_->put(boost::asio::const_buffer(pending_.data(), pending_.size()), ec);
    pending_.erase(0, used);
    starved_ = ec == bhttp::error::need_more;
    if (ec == bhttp::error::body_limit) {
      return fail(Error{Code::kInvalid, fmt::format("the answer is larger than {} bytes", *max_body_), "max_body",
                        "request less, or raise the limit"});
    }
    if (ec && !starved_) return fail(Code::kUnavailable, "not an HTTP answer: {}", ec.message());
    if (parser_->is_done() && parser_->get().result_int() < 200) fresh();  // 100 Continue and similar
    return {};
  }

 private:
  void fresh() {
    parser_.emplace();
    // Not eager: in that mode Beast 1.74 drops the body limit's error, and treats "no limit" as a limit of zero.
    parser_->skip(head_only_);
    parser_->header_limit(kMaxAnswerHeader);
    parser_->body_limit(max_body_ ? *max_body_ : std::numeric_limits<std::uint64_t>::max());
    starved_ = false;
  }
  Status end() {
    ended_ = true;
    error_code ec;
    if (parser_->got_some()) parser_->put_eof(ec);
    if (parser_->is_done()) return {};
    return fail(Code::kUnavailable, "the connection was closed {}",
                parser_->is_header_done() ? "in the middle of the answer" : "before the answer");
  }

  Connection& connection_;
  bool head_only_;
  std::optional<std::size_t> max_body_;
  std::optional<Parser> parser_;
  std::string pending_;
  bool starved_ = false, any_byte_ = false, ended_ = false;
};

}  // namespace

struct Client::Impl {
  std::string origin_text;
  ClientOptions options;
  Result<Origin> origin = fail(Code::kInternal, "no origin");
  Result<std::unique_ptr<TlsClient>> tls = std::unique_ptr<TlsClient>();
  std::mutex mutex;
  std::vector<std::unique_ptr<Connection>> idle;

  Status usable() const {
    if (!origin) return fail(origin.error());
    if (!tls) return fail(tls.error());
    return {};
  }

  std::unique_ptr<Connection> pooled() {
    const auto oldest = steady_clock::now() - kMaxIdleTime;
    const std::scoped_lock lock(mutex);
    while (!idle.empty()) {
      auto connection = std::move(idle.back());
      idle.pop_back();
      if (connection->idle_since() > oldest && connection->fresh()) return connection;
    }
    return nullptr;
  }

  void keep(std::unique_ptr<Connection> connection) {
    connection->now_idle();
    const std::scoped_lock lock(mutex);
    if (idle.size() < kMaxIdle) idle.push_back(std::move(connection));
  }

  Result<std::unique_ptr<Connection>> connect(SteadyInstant until, const std::function<bool()>* stop) const {
    return Connection::open(*origin, tls->get(),
                            {std::min(until, steady_clock::now() + options.connect_timeout), stop});
  }

  [[nodiscard]] SteadyInstant deadline() const {
    return options.timeout.count() == 0 ? SteadyInstant::max() : steady_clock::now() + options.timeout;
  }

  struct Attempt {
    Result<Response> answer;
    bool untouched = false;  // failed without one byte of a response
  };
  Attempt attempt(std::unique_ptr<Connection> connection, const Request& request, const std::string& bytes,
                  SteadyInstant until) {
    Reader reader(*connection, request.method == "HEAD", options.max_body);
    const auto run = [&]() -> Status {
      // A server may respond before it read the whole request (413) and close: that response is valid.
      const auto sent = connection->write(bytes, {until});
      if (!sent && sent.error().code != Code::kUnavailable) return sent;
      while (!reader.done()) {
        if (auto step = reader.step({until}); !step) return sent ? step : Status(fail(sent.error()));
      }
      return {};
    };
    if (auto done = run(); !done) return {fail(done.error()), !reader.any_byte()};
    auto response = head_of(reader.parser());
    response.body = std::move(reader.parser().get().body());
    if (reader.parser().keep_alive() && reader.clean()) keep(std::move(connection));
    return {std::move(response)};
  }
};

Client::Client(std::string origin, ClientOptions options) : impl_(std::make_unique<Impl>()) {
  impl_->origin = Origin::parse(origin);
  impl_->origin_text = std::move(origin);
  impl_->options = std::move(options);
  if (impl_->origin && impl_->origin->tls) impl_->tls = TlsClient::make(impl_->options);
}

Client::~Client() = default;

const std::string& Client::origin() const { return impl_->origin_text; }

Result<Response> Client::send(const Request& request) {
  QM_TRY(impl_->usable());
  QM_TRY(check(request));
  const auto bytes = encode(request, *impl_->origin);
  const auto until = impl_->deadline();
  const bool again = idempotent(request.method);
  const auto name = [&](Error error) {
    return fail(error.with_context(fmt::format("{} {}{}", request.method, impl_->origin_text, request.target)));
  };
  auto connection = impl_->pooled();
  const bool reused = connection != nullptr;
  if (!connection) {
    auto opened = impl_->connect(until, nullptr);
    if (!opened) return name(opened.error());
    connection = std::move(*opened);
  }
  auto tried = impl_->attempt(std::move(connection), request, bytes, until);
  // A kept connection may have been closed by the idle timeout: that is not evidence about the server.
  if (!tried.answer && reused && again && tried.untouched && tried.answer.error().code == Code::kUnavailable) {
    auto opened = impl_->connect(until, nullptr);
    if (!opened) return name(opened.error());
    tried = impl_->attempt(std::move(*opened), request, bytes, until);
  }
  if (tried.answer) return std::move(tried.answer);
  auto error = tried.answer.error();
  if (error.code == Code::kUnavailable && !again) {
    error.code = Code::kUnknown;
    error.remedy = "check whether it took effect before repeating it";
  }
  return name(std::move(error));
}

Status Client::stream(const Request& request, const std::function<bool(const Response&)>& on_head,
                      const std::function<bool(std::string_view)>& on_chunk, const std::function<bool()>& stop,
                      const Wake* wake) {
  QM_TRY(impl_->usable());
  QM_TRY(check(request));
  const auto name = [&](const Error& error) {
    return fail(error.with_context(fmt::format("{} {}{}", request.method, impl_->origin_text, request.target)));
  };
  const auto stopped = [&] { return name(Error{Code::kCancelled, "stopped by the caller", {}, {}}); };
  const auto* asked = stop ? &stop : nullptr;
  auto opened = impl_->connect(impl_->deadline(), asked);
  if (!opened) return name(opened.error());
  auto& connection = **opened;
  if (auto sent = connection.write(encode(request, *impl_->origin), {impl_->deadline(), asked}); !sent) {
    return name(sent.error());
  }
  Reader reader(connection, request.method == "HEAD", std::nullopt);
  bool head_seen = false;
  while (!reader.done()) {
    // A peer that sends without pause must not prevent the check of `stop`.
    if (stop && stop()) return stopped();
    if (auto step = reader.step({impl_->deadline(), asked, wake}); !step) return name(step.error());
    auto& parser = reader.parser();
    if (!parser.is_header_done()) continue;
    if (!std::exchange(head_seen, true) && on_head && !on_head(head_of(parser))) return stopped();
    auto& body = parser.get().body();
    if (body.empty()) continue;
    if (on_chunk && !on_chunk(body)) return stopped();
    body.clear();
  }
  return {};
}

}  // namespace qm::http
