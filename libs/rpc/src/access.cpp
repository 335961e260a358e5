// Authorizes calls. First by the table; then, if the row requires a user, by the token: from the cache, or reviewed
// on an internal thread while the call waits without one.
#include "qm/rpc/access.hpp"

#include "qm/base/assert.hpp"
#include "qm/base/digest.hpp"
#include "qm/base/log.hpp"
#include "qm/rpc/rules.hpp"
#include "qm/rpc/worker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace qm::rpc {
namespace {

constexpr std::array<std::string_view, 6> kServices{"admission", "placement", "autoscaler",
                                                    "telemetry", "cost",      "agent"};
constexpr std::size_t kLookUps = 2;           ///< threads
constexpr std::size_t kLongestToken = 16384;  ///< bytes; metadata has a lower bound
constexpr int kDenialsASecond = 10;

using Answer = Result<std::shared_ptr<const Caller>>;

tl::unexpected<Error> denied(Code code, std::string what, std::string remedy) {
  return fail(Error{code, std::move(what), {}, std::move(remedy)});
}

/// The token of "Bearer TOKEN", whose scheme is case-insensitive; empty if there is none.
std::string_view token_of(const std::string& authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() <= kScheme.size() || authorization.size() > kLongestToken) return {};
  for (std::size_t i = 0; i < kScheme.size(); ++i) {
    const char c = authorization[i];
    if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c) != kScheme[i]) return {};
  }
  std::string_view token(authorization);
  token.remove_prefix(kScheme.size());
  while (token.starts_with(' ')) token.remove_prefix(1);
  return token;
}

bool is_service(std::string_view service) { return std::ranges::find(kServices, service) != kServices.end(); }

std::string_view needed(Need need) {
  switch (need) {
    case Need::kTeamLead:
      return "a team lead";
    case Need::kOperator:
      return "an operator";
    default:
      return "a user";
  }
}

}  // namespace

std::string Caller::roles() const {
  if (!service.empty()) return "service";
  std::string out;
  const auto add = [&](bool has, std::string_view role) {
    if (has) out += (out.empty() ? "" : ",") + std::string(role);
  };
  add(user, "user");
  add(team_lead, "team-lead");
  add(operator_, "operator");
  add(auditor, "auditor");
  return out.empty() ? "none" : out;
}

std::string service_of(const Call& call) {
  if (!call.tls) return {};
  if (!call.uris.empty()) {
    // With two of them the service of the certificate would be ambiguous.
    constexpr std::string_view kFolder = "/quartermaster/";
    if (call.uris.size() > 1 || !call.uris[0].starts_with("spiffe://")) return {};
    const auto at = call.uris[0].rfind(kFolder);
    if (at == std::string::npos) return {};
    const auto name = call.uris[0].substr(at + kFolder.size());
    return is_service(name) ? name : std::string();
  }
  constexpr std::string_view kPrefix = "quartermaster-";
  if (!call.common_name.starts_with(kPrefix)) return {};
  const auto name = call.common_name.substr(kPrefix.size());
  return is_service(name) ? name : std::string();
}

struct Access::Impl {
  explicit Impl(AccessOptions o) : options(std::move(o)) {
    QM_ASSERT(!options.review || options.roles, "tokens are reviewed, but no user has a role");
    if (options.review) {
      for (std::size_t i = 0; i < kLookUps; ++i) workers.push_back(std::make_unique<Worker>());
    }
  }

  struct Entry {
    std::optional<Answer> answer;  ///< none during the review
    SteadyInstant until{};
    std::vector<std::function<void(const Answer&)>> waiting;
  };

  AccessOptions options;
  std::mutex mutex;
  std::map<std::string, Entry> tokens;  ///< by digest
  std::deque<std::string> order;        ///< of insertion, for the bound
  std::size_t turn = 0;
  std::map<std::pair<std::string, std::string>, double> denials;  ///< by method and code
  SteadyInstant second{};
  int logged = 0;
  std::vector<std::unique_ptr<Worker>> workers;

  void resolve(const std::string& token, std::function<void(const Answer&)> done) {
    const auto digest = sha256_hex(token);
    std::optional<Answer> known;
    Worker* worker = nullptr;
    {
      const std::lock_guard lock(mutex);
      auto& entry = tokens[digest];
      if (entry.answer && entry.until > options.now()) {
        known = entry.answer;
      } else {
        const bool asked = !entry.waiting.empty();
        if (entry.waiting.size() < Worker::kMostWaiting) {
          entry.waiting.push_back(std::move(done));
          if (!asked) worker = workers[turn++ % workers.size()].get();
        } else {
          known = busy();
        }
      }
    }
    if (known) return done(*known);
    if (worker == nullptr) return;
    if (!worker->post([this, token, digest] { look_up(token, digest); })) settle(digest, busy());
  }

  static Answer busy() {
    return denied(Code::kUnavailable, "too many token reviews are queued", "try again in a second");
  }

  void look_up(const std::string& token, const std::string& digest) {
    auto identity = options.review(token);
    if (!identity) return settle(digest, fail(identity.error()));
    settle(digest, std::make_shared<const Caller>(options.roles->caller(*identity)));
  }

  void settle(const std::string& digest, const Answer& answer) {
    std::vector<std::function<void(const Answer&)>> waiting;
    {
      const std::lock_guard lock(mutex);
      auto& entry = tokens[digest];
      waiting.swap(entry.waiting);
      const bool unauthenticated = !answer && answer.error().code == Code::kUnauthenticated;
      if (answer || unauthenticated) {
        if (!entry.answer) order.push_back(digest);
        entry.answer = answer;
        entry.until = options.now() + (answer ? options.keep : options.keep_refused);
      } else if (!entry.answer) {
        tokens.erase(digest);  // unknown: the next call reviews it again
      }
      for (std::size_t looked = order.size(); order.size() > options.most_cached && looked > 0; --looked) {
        auto oldest = std::move(order.front());
        order.pop_front();
        const auto found = tokens.find(oldest);
        if (found != tokens.end() && !found->second.waiting.empty()) {
          order.push_back(std::move(oldest));
        } else if (found != tokens.end()) {
          tokens.erase(found);
        }
      }
    }
    for (const auto& fn : waiting) fn(answer);
  }

  void note(const Call& call, const Caller* caller, const Error& error) {
    const auto method = std::string(rule_of(method_of(call.path)) != nullptr ? method_of(call.path) : "other");
    Denial denial{caller != nullptr ? caller->name : "unknown", caller != nullptr ? caller->roles() : "none", method,
                  error.message};
    {
      const std::lock_guard lock(mutex);
      ++denials[{method, std::string(name_of(error.code))}];
      if (error.code == Code::kUnavailable) return;  // unknown is not denied
      if (const auto now = options.now(); now - second >= std::chrono::seconds(1)) {
        second = now;
        logged = 0;
      }
      if (++logged > kDenialsASecond) return;
    }
    log::warn(
        "call denied",
        {{"method", denial.method}, {"caller", denial.caller}, {"roles", denial.roles}, {"reason", denial.reason}});
    if (options.on_denied) options.on_denied(denial);
  }

  /// The service in the certificate; for another replica of this service, the original caller of the forwarded call.
  [[nodiscard]] std::string from(const Call& call) const {
    auto shown = service_of(call);
    if (call.forwarded.empty() || shown.empty() || shown != options.service) return shown;
    return is_service(call.forwarded) ? call.forwarded : std::string();
  }

  void check(const Call& call, std::function<void(const Status&)> done) {
    const auto refuse = [&](Code code, std::string what, std::string remedy, const Caller* caller = nullptr) {
      const Error error{code, std::move(what), {}, std::move(remedy)};
      note(call, caller, error);
      done(fail(error));
    };
    const auto method = std::string(method_of(call.path));
    const auto* rule = rule_of(method);
    if (rule == nullptr) return refuse(Code::kPermissionDenied, fmt::format("no caller may use {}", method), {});
    if (rule->need == Need::kAnyone) return done({});
    const auto service = from(call);
    if (rule->need == Need::kServices || rule->need == Need::kAgents) {
      // In plain text on loopback no peer can have a certificate; without user authentication services are allowed
      // too.
      if (!call.tls && !options.review) return done({});
      Caller caller;
      caller.name = service.empty() ? call.common_name : "quartermaster-" + service;
      caller.service = service;
      if (may_call(caller, *rule)) return done({});
      const bool shown = !call.common_name.empty() || !call.uris.empty();
      return refuse(
          shown ? Code::kPermissionDenied : Code::kUnauthenticated,
          fmt::format("{} is for {}, by certificate", method, rule->need == Need::kAgents ? "agents" : "services"),
          "give --tls-cert of such a process: its URI ends in /quartermaster/NAME, or its common name is "
          "quartermaster-NAME",
          shown ? &caller : nullptr);
    }
    if (!options.review) return done({});
    const auto token = std::string(token_of(call.authorization));
    if (token.empty()) {
      return refuse(Code::kUnauthenticated, fmt::format("{} needs a bearer token", method),
                    "qmctl: --token-file FILE or QM_TOKEN; else metadata authorization: Bearer TOKEN");
    }
    resolve(token, [this, call, rule, method, done](const Answer& answer) {
      if (answer && may_call(**answer, *rule)) return done({});
      if (!answer) {
        note(call, nullptr, answer.error());
        return done(fail(answer.error()));
      }
      const Error error{Code::kPermissionDenied,
                        fmt::format("{} may not call {}: the call needs {}, and the caller is {}", (*answer)->name,
                                    method, needed(rule->need), (*answer)->roles()),
                        {},
                        "request membership in a group of the roles file"};
      note(call, answer->get(), error);
      done(fail(error));
    });
  }

  Caller caller(const Call& call) {
    Caller out;
    out.service = from(call);
    if (!out.service.empty()) out.name = "quartermaster-" + out.service;
    if (!options.review) {
      out.everything = out.everywhere = true;
      return out;
    }
    const auto token = std::string(token_of(call.authorization));
    if (token.empty()) return out;
    const auto digest = sha256_hex(token);
    const std::lock_guard lock(mutex);
    // Also after its expiry: it was valid when the call was authorized.
    const auto found = tokens.find(digest);
    if (found == tokens.end() || !found->second.answer || !*found->second.answer) return out;
    return ***found->second.answer;
  }
};

Access::Access(AccessOptions options) : impl_(std::make_shared<Impl>(std::move(options))) {}

Access::~Access() {
  impl_->workers.clear();  // they finish the accepted reviews
}

void Access::check(const Call& call, std::function<void(const Status&)> done) { impl_->check(call, std::move(done)); }

bool Access::asks() const { return static_cast<bool>(impl_->options.review); }

Caller Access::caller(const Call& call) { return impl_->caller(call); }

void Access::export_to(metrics::Registry& registry, const std::string& service) {
  registry.on_collect([weak = std::weak_ptr(impl_), service] {
    metrics::Family family{"qm_rpc_denied_total", "Calls that were refused.", metrics::Family::Kind::kCounter, {}};
    const auto impl = weak.lock();
    if (!impl) return std::vector{family};
    const std::lock_guard lock(impl->mutex);
    for (const auto& [at, count] : impl->denials) {
      family.series.push_back({{{"service", service}, {"method", at.first}, {"code", at.second}}, count});
    }
    return std::vector{family};
  });
}

}  // namespace qm::rpc
