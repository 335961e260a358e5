// The minimum cost of any webhook: pod creations, alternating between
//   bare       without one
//   allowed    with one that only allows
//   plain      with one that changes each pod by a prepared patch, on the simplest possible server
//   patched    the same on the server of our webhook
//   enrolled   the same, registered as our webhook is
//   ours       with our webhook
#include "fixture.hpp"
#include "plain_server.hpp"
#include "qm/admission/webhook/registration.hpp"
#include "qm/admission/webhook/review.hpp"
#include "qm/base/base64.hpp"

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

/// Answers every review in the same way: allows it, or with our webhook's patch of the first pod.
class Constant {
 public:
  explicit Constant(bool patches, std::string ns) : patches_(patches), view_(cluster({std::move(ns)})) {}
  std::string operator()(std::string_view review) {
    std::call_once(once_, [&] {
      Json response = Json::object({{"allowed", true}});
      if (patches_) response = by_webhook(review)["response"];
      response.set("uid", "");
      body_ = Json::object({{"apiVersion", "admission.k8s.io/v1"}, {"kind", "AdmissionReview"}, {"response", response}})
                  .dump();
      body_.resize(body_.size() - std::string_view(R"("}})").size());
    });
    return body_ + uid_in(review) + R"("}})";
  }

 private:
  [[nodiscard]] Json by_webhook(std::string_view review) const {
    http::Request request;
    request.method = "POST";
    request.target = "/mutate";
    request.body = std::string(review);
    return must(Json::parse(webhook::respond(request, rules(), *view_).body));
  }
  const bool patches_;
  const std::shared_ptr<const admission_policy::View> view_;
  std::once_flag once_;
  std::string body_;  // up to the uid
};

/// The smallest possible registration.
Json registration_of(const std::string& name, const std::string& url, const std::string& authority) {
  auto rule = Json::object({{"apiGroups", Json::array({""})},
                            {"apiVersions", Json::array({"v1"})},
                            {"operations", Json::array({"CREATE"})},
                            {"resources", Json::array({"pods"})},
                            {"scope", "Namespaced"}});
  auto hook = Json::object({{"name", "pods.bench.quartermaster.dev"},
                            {"admissionReviewVersions", Json::array({"v1"})},
                            {"clientConfig", Json::object({{"url", url}, {"caBundle", base64(authority)}})},
                            {"rules", Json::array({std::move(rule)})},
                            {"namespaceSelector", Json::object({{"matchLabels", Json::object({{"bench", name}})}})},
                            {"failurePolicy", "Fail"},
                            {"sideEffects", "None"},
                            {"timeoutSeconds", 2}});
  return Json::object({{"metadata", Json::object({{"name", name}})}, {"webhooks", Json::array({std::move(hook)})}});
}

/// The server of our webhook, with prepared answers.
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
    out.pinned = true;
    out.identity = identity;
    return out;
  }
  http::Server server_;
};

/// Our webhook, registered as the program does, for any URL.
void register_webhook(kube::Client& client, const std::string& name, const std::string& url,
                      const std::string& authority) {
  webhook::Registration registration;
  registration.name = name;
  registration.url = url;
  registration.only = "bench=" + name;
  must(enrol(client, registration, authority));
}

struct Kind {
  std::string name, ns;
  bool gates;
  std::vector<double> took = {};
};

void create_alternately(kube::Client& client, std::vector<Kind>& kinds, double seconds) {
  static int made = 0;
  static std::mt19937 chance(1);
  std::vector<Kind*> order;
  for (auto& kind : kinds) order.push_back(&kind);
  for (const auto begin = Clock::now(); since(begin) < seconds;) {
    // The scheduler's work for a pod without gates falls into the next creation: the order is shuffled in each round.
    std::ranges::shuffle(order, chance);
    for (auto* next : order) {
      auto& kind = *next;
      const auto name = "p-" + std::to_string(++made);
      const auto pod = gpu_pod(name);
      const auto at = Clock::now();
      const auto stored = must(client.create(kube::resources::kPods, kind.ns, pod));
      kind.took.push_back(ms(Clock::now() - at));
      if (gated(stored) != kind.gates) {
        std::cerr << kind.name << ": the webhook was called when it should not be, or not called when it should be\n";
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
  std::vector<Kind> kinds;
  const auto kind = [&](const char* name, bool gates) {
    const auto ns = fmt::format("qm-floor-{}-{}", ::getpid(), name);
    make_space(client, ns, ns);
    kinds.push_back({name, ns, gates});
    return ns;
  };
  const Certified certified;
  const auto& authority = certified.authority.certificate;
  const auto constant = [&](const std::string& ns, const std::string& origin) {
    must(client.create(kMutating, "", registration_of(ns, origin, authority)));
  };
  kind("bare", false);

  const auto allowed = kind("allowed", false);
  Constant yes(false, allowed);
  const Served allows(certified.serving, yes);
  constant(allowed, allows.origin());

  const auto plain = kind("plain", true);
  Constant plain_patch(true, plain);
  const PlainServer plainest(certified.serving, [&](std::string_view body) { return plain_patch(body); });
  constant(plain, fmt::format("https://127.0.0.1:{}", plainest.port()));

  const auto patched = kind("patched", true);
  Constant patch(true, patched);
  const Served patches(certified.serving, patch);
  constant(patched, patches.origin());

  const auto enrolled = kind("enrolled", true);
  Constant same_patch(true, enrolled);
  const Served patches_too(certified.serving, same_patch);
  register_webhook(client, enrolled, patches_too.origin(), authority);

  const auto ours = kind("ours", true);
  const Running running(ours);
  register_webhook(client, ours, running.origin(), running.certified.authority.certificate);
  for (const auto& one : kinds) {
    if (one.gates) await_gated(client, one.ns);
  }

  Report report("webhook.floor", {});
  std::size_t all = 0;
  for (int repeat = -1; repeat < kRepeats; ++repeat) {
    for (auto& one : kinds) one.took.clear();
    create_alternately(client, kinds, repeat < 0 ? 2 : seconds);
    if (repeat < 0) continue;
    all += kinds[0].took.size();
    for (const auto& one : kinds) {
      for (const auto& [name, share] : {std::pair{"p50_ms", 0.5}, std::pair{"p99_ms", 0.99}}) {
        report.add(fmt::format("{}_{}", one.name, name), at_share(one.took, share));
        if (&one == &kinds[0]) continue;
        report.add(fmt::format("{}_added_{}", one.name, name),
                   at_share(one.took, share) - at_share(kinds[0].took, share));
      }
    }
  }
  report.add("creates_of_each", static_cast<double>(all));
  report.print();
  for (const auto& one : kinds) {
    if (one.name != "bare") must(client.remove(kMutating, "", one.ns, {}));
  }
  for (const auto& ns : {enrolled, ours}) must(client.remove(kValidating, "", ns, {}));
  for (const auto& one : kinds) remove_space(client, one.ns);
}

}  // namespace qm::bench
