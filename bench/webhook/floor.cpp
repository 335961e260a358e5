// What any webhook costs: pod creates in turns without one, with one that only says yes, with one that changes each pod by
// a patch that was made before, and with ours; the first two of these behind the server that ours has, the patch behind the
// plainest server, too.
#include "fixture.hpp"
#include "plain_server.hpp"
#include "qm/admission/webhook/registration.hpp"
#include "qm/admission/webhook/review.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <random>
#include <unistd.h>

namespace qm::bench {
namespace {

namespace webhook = admission::webhook;

std::string uid_in(std::string_view review) {
  constexpr std::string_view kUid = R"("request":{"uid":")";
  const auto from = review.find(kUid) + kUid.size();
  return std::string(review.substr(from, review.find('"', from) - from));
}

/// Answers every review alike: with nothing but yes, or with the patch that ours gave to the first pod.
class Constant {
 public:
  explicit Constant(bool patches, std::string ns) : patches_(patches), view_(cluster({std::move(ns)})) {}
  std::string operator()(std::string_view review) {
    std::call_once(once_, [&] {
      Json response = Json::object({{"allowed", true}});
      if (patches_) response = by_ours(review)["response"];
      response.set("uid", "");
      body_ = Json::object({{"apiVersion", "admission.k8s.io/v1"}, {"kind", "AdmissionReview"}, {"response", response}})
                  .dump();
      body_.resize(body_.size() - std::string_view(R"("}})").size());
    });
    return body_ + uid_in(review) + R"("}})";
  }

 private:
  [[nodiscard]] Json by_ours(std::string_view review) const {
    http::Request request;
    request.method = "POST";
    request.target = "/mutate";
    request.body = std::string(review);
    return must(Json::parse(webhook::respond(request, rules(), *view_).body));
  }
  const bool patches_;
  const std::shared_ptr<const webhook::View> view_;
  std::once_flag once_;
  std::string body_;  // up to the uid
};

/// As small as a registration can be.
Json registration_of(const std::string& kind, const std::string& name, const std::string& url,
                     const std::string& authority) {
  auto rule = Json::object({{"apiGroups", Json::array({""})},
                            {"apiVersions", Json::array({"v1"})},
                            {"operations", Json::array({"CREATE"})},
                            {"resources", Json::array({"pods"})},
                            {"scope", "Namespaced"}});
  auto hook = Json::object({{"name", kind + ".bench.quartermaster.dev"},
                            {"admissionReviewVersions", Json::array({"v1"})},
                            {"clientConfig", Json::object({{"url", url}, {"caBundle", webhook::base64(authority)}})},
                            {"rules", Json::array({std::move(rule)})},
                            {"namespaceSelector", Json::object({{"matchLabels", Json::object({{"bench", name}})}})},
                            {"failurePolicy", "Fail"},
                            {"sideEffects", "None"},
                            {"timeoutSeconds", 2}});
  return Json::object({{"metadata", Json::object({{"name", name}})}, {"webhooks", Json::array({std::move(hook)})}});
}

/// The server that ours has, around answers that are made before.
class Served {
 public:
  Served(const http::Identity& identity, Constant& constant)
      : server_(options(identity), [&constant](const http::Request& r) { return http::json(200, constant(r.body)); }) {
    must(server_.start());
  }
  [[nodiscard]] std::string origin() const { return fmt::format("https://127.0.0.1:{}", server_.port()); }

 private:
  static http::ServerOptions options(const http::Identity& identity) {
    http::ServerOptions out;
    out.threads = webhook::ServerOptions{}.threads;
    out.identity = identity;
    return out;
  }
  http::Server server_;
};

struct Kind {
  std::string name, ns;
  bool gates;
  std::vector<double> took = {};
};

/// Mean time of a call as the API server measures it, in milliseconds, over all calls so far.
double call_ms(http::Client& api, const std::string& token, const std::string& hook) {
  http::Request request;
  request.target = "/metrics";
  request.headers.set("Authorization", "Bearer " + token);
  const auto text = must(api.send(request)).body;
  const auto value = [&](const char* part) {
    const auto line = fmt::format(
        R"(apiserver_admission_webhook_admission_duration_seconds_{}{{name="{}",operation="CREATE",rejected="false",type="admit"}} )",
        part, hook);
    const auto at = text.find(line);
    return at == std::string::npos ? 0.0 : std::atof(text.c_str() + at + line.size());
  };
  return value("sum") * 1000 / std::max(1.0, value("count"));
}

void create_in_turns(kube::Client& client, std::vector<Kind>& kinds, double seconds) {
  static int made = 0;
  static std::mt19937 chance(1);
  std::vector<Kind*> order;
  for (auto& kind : kinds) order.push_back(&kind);
  for (const auto begin = Clock::now(); since(begin) < seconds;) {
    // What the scheduler does about a pod without gates falls into the turn after: in each round another's.
    std::ranges::shuffle(order, chance);
    for (auto* next : order) {
      auto& kind = *next;
      const auto name = "p-" + std::to_string(++made);
      const auto pod = gpu_pod(name);
      const auto at = Clock::now();
      const auto stored = must(client.create(kube::resources::kPods, kind.ns, pod));
      kind.took.push_back(ms(Clock::now() - at));
      if (gated(stored) != kind.gates) {
        std::cerr << kind.name << ": the webhook was asked when it should not be, or the other way round\n";
        std::exit(1);
      }
      must(client.remove(kube::resources::kPods, kind.ns, name, {.uid = {}, .grace_seconds = 0}));
    }
  }
}

}  // namespace

void floor_of_calls(int seconds) {
  const auto options = api_server();
  kube::Client client(options);
  const auto base = "qm-floor-" + std::to_string(::getpid());
  std::vector<Kind> kinds{{"bare", base + "-bare", false},
                          {"allowed", base + "-allowed", false},
                          {"constant", base + "-constant", true},
                          {"plain", base + "-plain", true},
                          {"ours", base + "-ours", true}};
  for (const auto& kind : kinds) make_space(client, kind.ns, kind.ns);

  const Certified certified;
  Constant yes(false, {}), patch(true, kinds[2].ns), same(true, kinds[3].ns);
  const Served allowed(certified.serving, yes), constant(certified.serving, patch);
  const PlainServer plain(certified.serving, [&same](std::string_view body) { return same(body); });
  const std::string origins[] = {
      {}, allowed.origin(), constant.origin(), fmt::format("https://127.0.0.1:{}", plain.port())};
  for (std::size_t i = 1; i < std::size(origins); ++i) {
    must(client.create(kMutating, "",
                       registration_of(kinds[i].name, kinds[i].ns, origins[i], certified.authority.certificate)));
  }
  const Running running(kinds.back().ns);
  webhook::Registration registration;
  registration.name = kinds.back().ns;
  registration.url = running.origin();
  registration.only = "bench=" + kinds.back().ns;
  must(enrol(client, registration, running.certified.authority.certificate));
  for (const auto& kind : kinds) {
    if (kind.gates) await_gated(client, kind.ns);
  }

  Report report("webhook.floor", {});
  std::size_t all = 0;
  for (int repeat = -1; repeat < kRepeats; ++repeat) {
    for (auto& kind : kinds) kind.took.clear();
    create_in_turns(client, kinds, repeat < 0 ? 2 : seconds);
    if (repeat < 0) continue;
    all += kinds[0].took.size();
    for (const auto& kind : kinds) {
      for (const auto& [name, share] : {std::pair{"p50_ms", 0.5}, std::pair{"p99_ms", 0.99}}) {
        report.add(fmt::format("{}_{}", kind.name, name), at_share(kind.took, share));
        if (&kind == &kinds[0]) continue;
        report.add(fmt::format("{}_added_{}", kind.name, name),
                   at_share(kind.took, share) - at_share(kinds[0].took, share));
      }
    }
  }
  http::ClientOptions over;
  over.ca_file = options.ca_file;
  http::Client api(options.server, over);
  for (const auto* kind : {"allowed", "constant", "plain"}) {
    report.add(fmt::format("{}_call_mean_ms", kind),
               call_ms(api, options.token, fmt::format("{}.bench.quartermaster.dev", kind)));
  }
  report.add("ours_call_mean_ms", call_ms(api, options.token, "pods.quartermaster.dev"));
  report.add("creates_of_each", static_cast<double>(all));
  report.print();
  for (const auto& kind : kinds) {
    if (kind.name != "bare") must(client.remove(kMutating, "", kind.ns, {}));
  }
  must(client.remove(kValidating, "", kinds.back().ns, {}));
  for (const auto& kind : kinds) remove_space(client, kind.ns);
}

}  // namespace qm::bench
