// Certificates through their lifetimes, on a clock of the test: created, shared and renewed repeatedly, while a
// client with only the registered bundle verifies each handshake.
#include "qm/admission/webhook/certificates.hpp"

#include "qm/admission/webhook/registration.hpp"
#include "qm/admission/webhook/review.hpp"
#include "qm/admission/webhook/server.hpp"
#include "qm/base/base64.hpp"
#include "store_server.hpp"

#include <atomic>
#include <thread>

namespace qm::admission::webhook {
namespace certificates_test {

using namespace std::chrono_literals;

const WallTime kStart{std::chrono::seconds(1'800'000'000)};
const char* const kSecret = "/api/v1/namespaces/quartermaster-system/secrets/quartermaster-webhook-cert";
const char* const kMutating = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/quartermaster";
const char* const kValidating = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/quartermaster";

struct Clock {
  std::atomic<WallTime> now{kStart};
  void pass(std::chrono::seconds time) { now = now.load() + time; }
};

/// One process of the service: keeper and server.
struct Replica {
  Replica(const StoreServer& store, const Clock& clock, const CertificateLife& life = {})
      : client({store.origin(), {}, {}, {}, {}, 2000}),
        server(
            {}, {}, [] { return std::make_shared<const admission_policy::View>(); }, registry),
        keeper(
            client, options(life), [&clock] { return clock.now.load(); },
            [this](const http::Identity& identity) { return server.serve(identity); },
            [this](const std::string& bundle) { return enrol(client, registration(), bundle); }) {}

  static Registration registration() {
    Registration out;
    out.url = "https://127.0.0.1:9443";
    return out;
  }
  static KeeperOptions options(const CertificateLife& life) {
    KeeperOptions out;
    out.names = registration().names();
    out.life = life;
    return out;
  }

  kube::Client client;
  metrics::Registry registry;
  Server server;
  CertificateKeeper keeper;
};

std::string bundle_in(const StoreServer& store, const char* path) {
  const auto config = store.object(path);
  std::string first;
  for (const auto& hook : config["webhooks"].items()) {
    const auto bundle = *from_base64(hook["clientConfig"]["caBundle"].string());
    if (first.empty()) first = bundle;
    EXPECT_EQ(bundle, first) << "every webhook of a configuration trusts the same";
  }
  return first;
}

/// As the API server does: a new connection that trusts only the registered bundle, at the time of the clock.
Status handshake(const StoreServer& store, const Replica& replica, const Clock& clock) {
  http::ClientOptions options;
  options.ca = bundle_in(store, kMutating);
  options.at = clock.now.load();
  http::Client client("https://127.0.0.1:" + std::to_string(replica.server.port()), options);
  http::Request request;
  request.target = "/readyz";
  const auto answer = client.send(request);
  if (!answer) return fail(answer.error());
  return {};
}

Json parsed_configuration() {
  return *Json::parse(R"({"metadata":{"name":"quartermaster","labels":{"app.kubernetes.io/managed-by":"Helm"}},
      "webhooks":[{"name":"a","failurePolicy":"Ignore","clientConfig":{"service":{"name":"theirs"}}}]})");
}

std::string serving_of(const StoreServer& store) {
  return *from_base64(store.object(kSecret)["data"]["tls.crt"].string());
}

TEST(Certificates, AreCreatedSharedAndRegistered) {
  StoreServer store;
  Clock clock;
  Replica one(store, clock), two(store, clock);
  ASSERT_TRUE(one.keeper.look());
  ASSERT_TRUE(two.keeper.look());
  EXPECT_EQ(store.object(kSecret)["type"].string(), "kubernetes.io/tls");
  EXPECT_EQ(bundle_in(store, kMutating), bundle_in(store, kValidating));
  EXPECT_TRUE(handshake(store, one, clock));
  EXPECT_TRUE(handshake(store, two, clock)) << "the second took the first one's";
  EXPECT_EQ(one.keeper.serving_until(), kStart + 30 * 24h);
  const int writes = store.writes();
  ASSERT_TRUE(one.keeper.look());
  EXPECT_EQ(store.writes(), writes) << "nothing to do, nothing written";
}

TEST(Certificates, RacingReplicasAgree) {
  StoreServer store;
  Clock clock;
  std::vector<std::unique_ptr<Replica>> all;
  for (int i = 0; i < 4; ++i) all.push_back(std::make_unique<Replica>(store, clock));
  const auto all_replicas_step = [&] {
    std::vector<std::jthread> threads;
    for (auto& replica : all) {
      threads.emplace_back([&replica] {
        for (int tries = 0; tries < 50 && !replica->keeper.look(); ++tries) {
        }
      });
    }
  };
  all_replicas_step();
  for (auto& replica : all) {
    EXPECT_TRUE(handshake(store, *replica, clock));
    EXPECT_EQ(replica->keeper.serving_until(), kStart + 30 * 24h);
  }
  EXPECT_EQ(http::split_certificates(bundle_in(store, kMutating)).size(), 1U) << "one authority for all replicas";
  clock.pass(16 * 24h);
  all_replicas_step();
  all_replicas_step();
  for (auto& replica : all) EXPECT_TRUE(handshake(store, *replica, clock));
}

TEST(Certificates, AreRotatedTwiceUnderVerifyingClient) {
  const CertificateLife life{.authority = 96h, .serving = 16h};
  StoreServer store;
  Clock clock;
  Replica one(store, clock, life), two(store, clock, life);
  ASSERT_TRUE(one.keeper.look());
  ASSERT_TRUE(two.keeper.look());
  int serving = 0, authorities = 0;
  std::string served = serving_of(store), newest = http::split_certificates(bundle_in(store, kMutating)).front();
  // The second replica checks an hour late each time.
  for (const auto end = kStart + 2 * 97h; clock.now.load() < end;) {
    clock.pass(1h);
    ASSERT_TRUE(one.keeper.look());
    ASSERT_TRUE(handshake(store, one, clock)) << "after " << (clock.now.load() - kStart) / 1h << " hours";
    ASSERT_TRUE(handshake(store, two, clock)) << "after " << (clock.now.load() - kStart) / 1h << " hours";
    if (const auto now = serving_of(store); now != served) {
      const auto facts = *http::read_certificate(served);
      EXPECT_LT(clock.now.load() - facts.from, (facts.until - facts.from) * 2 / 3) << "before two thirds of its life";
      served = now;
      ++serving;
    }
    const auto all = http::split_certificates(bundle_in(store, kMutating));
    EXPECT_LE(all.size(), 2U);
    if (all.front() != newest) {
      ASSERT_EQ(all.size(), 2U) << "the old authority is kept with the new one";
      EXPECT_EQ(all.back(), newest);
      newest = all.front();
      ++authorities;
    }
    ASSERT_TRUE(two.keeper.look());
  }
  EXPECT_GE(authorities, 3);
  EXPECT_GE(serving, 20);
}

TEST(Certificates, NewAuthoritySignsOnlyAfterRegistration) {
  const CertificateLife life;
  const std::vector<std::string> names{"127.0.0.1"};
  const auto first = *renewed({}, kStart, names, false, life);
  const auto half = kStart + 183 * 24h;
  const auto both = *renewed(*renewed(first, half - 13 * 24h, names, true, life), half, names, true, life);
  ASSERT_EQ(both.authorities.size(), 2U);
  EXPECT_TRUE(http::signed_by(both.serving.certificate, both.authorities[1])) << "still the old one's";
  EXPECT_EQ(*renewed(both, half + 9min, names, true, life), both) << "not settled";
  EXPECT_EQ(*renewed(both, half + 11min, names, false, life), both) << "old enough, but not registered";
  const auto next = *renewed(both, half + 11min, names, true, life);
  EXPECT_TRUE(http::signed_by(next.serving.certificate, both.authorities[0]));
}

TEST(Certificates, InvalidOnesAreReplacedAtOnce) {
  const CertificateLife life;
  const auto good = *renewed({}, kStart, {"127.0.0.1"}, false, life);
  EXPECT_EQ(*renewed(good, kStart + 1h, {"127.0.0.1"}, false, life), good);
  const auto damaged = [&](auto change) {
    Bundle bundle = good;
    change(bundle);
    return *renewed(bundle, kStart + 1h, {"127.0.0.1"}, false, life);
  };
  EXPECT_NE(damaged([](Bundle& b) { b.serving.key = "nonsense"; }).serving, good.serving);
  EXPECT_NE(damaged([](Bundle& b) { b.serving.certificate = b.authorities[0]; }).serving, good.serving);
  const auto other = damaged([](Bundle& b) { b.authority_key = "nonsense"; });
  EXPECT_EQ(other.authorities.size(), 2U) << "the old authority still signs the served certificate";
  EXPECT_EQ(other.serving, good.serving);
  const auto renamed = *renewed(good, kStart + 1h, {"127.0.0.1", "new.example"}, false, life);
  EXPECT_EQ(http::read_certificate(renamed.serving.certificate)->names,
            (std::vector<std::string>{"127.0.0.1", "new.example"}));
  const auto late = *renewed(good, kStart + 400 * 24h, {"127.0.0.1"}, false, life);
  EXPECT_EQ(late.authorities.size(), 1U);
  EXPECT_NE(late.authorities, good.authorities) << "all had expired";
}

TEST(Certificates, UnreachableApiServerIsTolerated) {
  StoreServer store;
  Clock clock;
  Replica one(store, clock);
  ASSERT_TRUE(one.keeper.look());
  store.away(true);
  EXPECT_EQ(one.keeper.look().error().code, Code::kUnavailable);
  store.away(false);
  EXPECT_TRUE(handshake(store, one, clock));
}

TEST(Registration, KeepsOwnEntriesAndUpdatesOnlyBundleOfOthers) {
  StoreServer store;
  kube::Client client({store.origin(), {}, {}, {}, {}, 2000});
  ASSERT_TRUE(enrol(client, Replica::registration(), "BUNDLE"));
  auto ours = store.object(kMutating);
  EXPECT_EQ(ours["webhooks"].size(), 9U);
  ours.set("webhooks").items_mut()[0].set("failurePolicy", "Nonsense");
  store.put(kMutating, ours);
  auto charts = parsed_configuration();
  store.put(kValidating, charts);
  ASSERT_TRUE(enrol(client, Replica::registration(), "NEXT"));
  EXPECT_EQ(store.object(kMutating)["webhooks"].at(0)["failurePolicy"].string(), "Fail");
  const auto theirs = store.object(kValidating);
  EXPECT_EQ(theirs["webhooks"].at(0)["failurePolicy"].string(), "Ignore") << "the chart's own choice stays";
  EXPECT_EQ(theirs["webhooks"].at(0)["clientConfig"]["caBundle"].string(), base64("NEXT"));
  EXPECT_EQ(theirs["webhooks"].at(0)["clientConfig"]["service"]["name"].string(), "theirs");
}

TEST(Registration, NamesAreThoseThatApiServerCalls) {
  Registration r;
  EXPECT_EQ(r.names(),
            (std::vector<std::string>{"quartermaster-admission-webhook.quartermaster-system.svc",
                                      "quartermaster-admission-webhook.quartermaster-system.svc.cluster.local"}));
  r.url = "https://[::1]:9443";
  EXPECT_EQ(r.names().back(), "::1");
  r.url = "https://hook.example:9443";
  EXPECT_EQ(r.names().back(), "hook.example");
}

}  // namespace certificates_test
}  // namespace qm::admission::webhook
