#include "qm/base/assert.hpp"
#include "qm/rpc/process.hpp"
#include "qm/rpc/rules.hpp"

#include <fmt/format.h>

#include <atomic>
#include <charconv>
#include <future>
#include <utility>

namespace qm::rpc {
namespace {

constexpr std::size_t kMaxExplained = 200;
constexpr int kPages = 1, kChecks = 2;          ///< of /debug at a time
constexpr int kThreads = kPages + kChecks + 1;  ///< at least one is left for probes and metrics

/// A slot among a bounded number; none if all are in use.
class Place {
 public:
  Place(std::atomic<int>& taken, int most) : taken_(taken), got_(++taken <= most) {}
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() { --taken_; }
  explicit operator bool() const { return got_; }

 private:
  std::atomic<int>& taken_;
  bool got_;
};

int http_status(Code code) {
  if (code == Code::kUnauthenticated) return 401;
  if (code == Code::kPermissionDenied) return 403;
  return 503;
}

http::Response refusal(const Error& error) {
  auto out =
      http::text(http_status(error.code), error.message + (error.remedy.empty() ? "" : "; " + error.remedy) + "\n");
  if (out.status == 401) out.headers.set("WWW-Authenticate", "Bearer");
  return out;
}

http::Response busy(std::string_view what) {
  auto out = http::text(429, fmt::format("{} at a time; try again in a second\n", what));
  out.headers.set("Retry-After", "1");
  return out;
}

Result<http::ServerOptions> options_of(const std::string& address) {
  http::ServerOptions options;
  const auto colon = address.rfind(':');
  const char* end = address.data() + address.size();
  const auto bad = [&] {
    return fail(Error{Code::kInvalid, fmt::format("'{}' is not a valid address", address), "http", "write host:port"});
  };
  if (colon == std::string::npos || colon == 0) return bad();
  const auto [stop, ec] = std::from_chars(address.data() + colon + 1, end, options.port);
  if (ec != std::errc() || stop != end) return bad();
  options.address = address.substr(0, colon);
  options.threads = kThreads;
  return options;
}

std::string_view level_name() {
  for (const std::string_view name : {"trace", "debug", "info", "warn", "error", "off"}) {
    if (log::parse_level(name) == log::level()) return name;
  }
  return "unknown";
}

/// Collects the parts of a state that contain an id: the value below it as a key, and the objects that have it as
/// a value, each with its path.
void find_mentions(const Json& at, const std::string& path, const std::string& id, Json::Object& out) {
  if (out.size() >= kMaxExplained) return;
  if (at.is_object()) {
    for (const auto& [key, value] : at.members()) {
      if (value.is_string() && value.string() == id) {
        out.emplace_back(path, at);
        return;
      }
    }
    for (const auto& [key, value] : at.members()) {
      const auto below = path.empty() ? key : path + "." + key;
      // Keys such as "<uid>/<attempt>" belong to the uid too.
      if (key == id || key.starts_with(id + "/")) {
        out.emplace_back(below, value);
      } else {
        find_mentions(value, below, id, out);
      }
    }
  } else if (at.is_array()) {
    for (std::size_t i = 0; i < at.size(); ++i) {
      find_mentions(at.at(i), fmt::format("{}[{}]", path, i), id, out);
    }
  }
}

}  // namespace

struct AdminServer::Impl {
  std::string address;
  metrics::Registry& registry;
  std::shared_ptr<Access> access;
  AdminPages pages;
  http::Router router;
  std::unique_ptr<http::Server> server;
  std::atomic<int> reading{0}, checking{0};

  void add(std::string method, std::string pattern, http::Router::Route route) {
    if (pattern.starts_with("/debug/")) route = guarded(method + " " + pattern, std::move(route));
    router.add(std::move(method), std::move(pattern), std::move(route));
  }

  http::Router::Route guarded(const std::string& row, http::Router::Route route) {
    QM_ASSERT(rule_of(row) != nullptr, "{} has no row in qm/rpc/rules.hpp", row);
    return [this, row, route = std::move(route)](const http::Request& request,
                                                 const http::Router::Params& params) -> http::Answer {
      if (auto refused = may(row, request)) return std::move(*refused);
      const Place place(reading, kPages);
      if (!place) return busy("one page of /debug is answered");
      return route(request, params);
    };
  }

  [[nodiscard]] static Call call_of(const std::string& row, const http::Request& request) {
    Call call;
    call.path = row;
    call.authorization = std::string(request.headers.get("Authorization"));
    return call;
  }

  /// The refusal, if any.
  std::optional<http::Response> may(const std::string& row, const http::Request& request) {
    if (!access || !access->asks()) {
      if (request.loopback) return std::nullopt;
      return refusal(
          {Code::kPermissionDenied,
           fmt::format("{} is answered on the loopback interface only, because this process checks no tokens", row),
           {},
           "use kubectl port-forward, or start the process with --auth tokenreview and --roles"});
    }
    const Place place(checking, kChecks);
    if (!place) return busy("two tokens are checked");
    std::promise<Status> checked;
    access->check(call_of(row, request), [&](const Status& status) { checked.set_value(status); });
    const Status status = checked.get_future().get();
    return status ? std::nullopt : std::optional(refusal(status.error()));
  }

  void add_standard_routes() {
    using http::Answer;
    using http::Request;
    using Params = http::Router::Params;
    add("GET", "/metrics", [this](const Request&, const Params&) -> Answer {
      auto answer = http::text(200, registry.text());
      answer.headers.set("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
      return answer;
    });
    add("GET", "/healthz", [this](const Request&, const Params&) -> Answer {
      return pages.alive() ? http::text(200, "ok\n") : http::text(503, "the loop is stuck\n");
    });
    add("GET", "/readyz", [this](const Request&, const Params&) -> Answer {
      const auto now = pages.ready();
      return http::text(now.ready ? 200 : 503, now.text + "\n");
    });
    add("GET", "/debug/state",
        [this](const Request&, const Params&) -> Answer { return http::json(200, pages.state().pretty() + "\n"); });
    add("GET", "/debug/explain", [this](const Request& request, const Params&) -> Answer {
      const auto uid = request.query()["uid"];
      if (uid.empty()) return http::text(400, "uid is missing; ask for /debug/explain?uid=UID\n");
      Json::Object found;
      find_mentions(pages.state(), "", uid, found);
      if (found.empty()) return http::text(404, "nothing in the state refers to " + uid + "\n");
      return http::json(200, Json(std::move(found)).pretty() + "\n");
    });
    add("GET", "/debug/log-level",
        [](const Request&, const Params&) -> Answer { return http::text(200, std::string(level_name()) + "\n"); });
    add("PUT", "/debug/log-level", [this](const Request& request, const Params&) -> Answer {
      auto text = request.query()["level"];
      if (text.empty()) text = request.body;
      while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
      const auto level = log::parse_level(text);
      if (!level) return http::text(400, level.error().to_string() + "\n");
      log::set_level(*level);
      const auto caller = access ? access->caller(call_of("PUT /debug/log-level", request)).name : Caller().name;
      log::info("log level set", {{"level", text}, {"caller", caller}});
      return http::text(200, text + "\n");
    });
  }
};

AdminServer::AdminServer(std::string address, metrics::Registry& registry, std::shared_ptr<Access> access,
                         AdminPages pages)
    : impl_(new Impl{std::move(address), registry, std::move(access), std::move(pages), {}, nullptr}) {}

AdminServer::~AdminServer() { stop(); }

void AdminServer::route(std::string method, std::string pattern, http::Router::Route route) {
  QM_ASSERT(!impl_->server, "route {} added to a running admin server", pattern);
  impl_->add(std::move(method), std::move(pattern), std::move(route));
}

Status AdminServer::start() {
  QM_ASSIGN(auto options, options_of(impl_->address));
  // After the service's own routes, which have precedence.
  impl_->add_standard_routes();
  impl_->server = std::make_unique<http::Server>(
      std::move(options), [impl = impl_.get()](const http::Request& r) { return impl->router(r); });
  return impl_->server->start();
}

void AdminServer::stop() {
  if (impl_->server) impl_->server->stop();
}

int AdminServer::port() const { return impl_->server ? impl_->server->port() : 0; }

}  // namespace qm::rpc
