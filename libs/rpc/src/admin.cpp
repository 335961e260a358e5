#include "qm/base/assert.hpp"
#include "qm/rpc/process.hpp"

#include <fmt/format.h>

#include <charconv>
#include <utility>

namespace qm::rpc {
namespace {

constexpr std::size_t kMaxExplained = 200;

Result<http::ServerOptions> options_of(const std::string& address) {
  http::ServerOptions options;
  const auto colon = address.rfind(':');
  const char* end = address.data() + address.size();
  const auto bad = [&] {
    return fail(Error{Code::kInvalid, fmt::format("'{}' is no address", address), "http", "write host:port"});
  };
  if (colon == std::string::npos || colon == 0) return bad();
  const auto [stop, ec] = std::from_chars(address.data() + colon + 1, end, options.port);
  if (ec != std::errc() || stop != end) return bad();
  options.address = address.substr(0, colon);
  return options;
}

std::string_view level_name() {
  for (const std::string_view name : {"trace", "debug", "info", "warn", "error", "off"}) {
    if (log::parse_level(name) == log::level()) return name;
  }
  return "unknown";
}

/// Collects the parts of a state that speak of an id: what lies under it as a key, and the objects that hold it as
/// a value, each under its path.
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
  std::function<bool()> alive;
  std::function<service::Readiness()> ready;
  std::function<Json()> state;
  http::Router router;
  std::unique_ptr<http::Server> server;

  void add_standard_routes() {
    using http::Answer;
    using http::Request;
    using Params = http::Router::Params;
    router.add("GET", "/metrics", [this](const Request&, const Params&) -> Answer {
      auto answer = http::text(200, registry.text());
      answer.headers.set("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
      return answer;
    });
    router.add("GET", "/healthz", [this](const Request&, const Params&) -> Answer {
      return alive() ? http::text(200, "ok\n") : http::text(503, "the loop stands still\n");
    });
    router.add("GET", "/readyz", [this](const Request&, const Params&) -> Answer {
      const auto now = ready();
      return http::text(now.ready ? 200 : 503, now.text + "\n");
    });
    router.add("GET", "/debug/state",
               [this](const Request&, const Params&) -> Answer { return http::json(200, state().pretty() + "\n"); });
    router.add("GET", "/debug/explain", [this](const Request& request, const Params&) -> Answer {
      const auto uid = request.query()["uid"];
      if (uid.empty()) return http::text(400, "uid is missing; ask for /debug/explain?uid=UID\n");
      Json::Object found;
      find_mentions(state(), "", uid, found);
      if (found.empty()) return http::text(404, "nothing in the state speaks of " + uid + "\n");
      return http::json(200, Json(std::move(found)).pretty() + "\n");
    });
    router.add("GET", "/debug/log-level", [](const Request&, const Params&) -> Answer {
      return http::text(200, std::string(level_name()) + "\n");
    });
    router.add("PUT", "/debug/log-level", [](const Request& request, const Params&) -> Answer {
      auto text = request.query()["level"];
      if (text.empty()) text = request.body;
      while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
      const auto level = log::parse_level(text);
      if (!level) return http::text(400, level.error().to_string() + "\n");
      log::set_level(*level);
      log::info("log level set", {{"level", text}});
      return http::text(200, text + "\n");
    });
  }
};

AdminServer::AdminServer(std::string address, metrics::Registry& registry, std::function<bool()> alive,
                         std::function<service::Readiness()> ready, std::function<Json()> state)
    : impl_(new Impl{std::move(address), registry, std::move(alive), std::move(ready), std::move(state), {}, nullptr}) {
}

AdminServer::~AdminServer() { stop(); }

void AdminServer::route(std::string method, std::string pattern, http::Router::Route route) {
  QM_ASSERT(!impl_->server, "route {} added to a running admin server", pattern);
  impl_->router.add(std::move(method), std::move(pattern), std::move(route));
}

Status AdminServer::start() {
  QM_ASSIGN(auto options, options_of(impl_->address));
  // After the service's own routes, which win.
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
