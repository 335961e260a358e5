// The effect of an upgrade and of a crash on clients, seen from the API server: no refused creation while replicas of
// admission are replaced one after the other, and a new leader within seconds after a SIGKILL.
#include "installation.hpp"
#include "qm/base/base64.hpp"
#include "qm/http/certificate.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <mutex>
#include <thread>

namespace qm::deploy {
namespace upgrade_k8s_test {

using namespace std::chrono_literals;
constexpr auto kPatience = 110s;
/// ADR 0014: the limit for a takeover after a crash of the leader.
constexpr auto kTakeover = 5s;

class Rolling : public InstallationTest {
 protected:
  void SetUp() override {
    InstallationTest::SetUp();
    if (IsSkipped() || HasFailure()) return;
    ASSERT_TRUE(eventually([this] { return suite().all_ready("admission", 2); }));
  }
  static bool eventually(const std::function<bool()>& condition) { return testing::wait_until(condition, kPatience); }
  Json lease(const std::string& service) {
    const auto found =
        suite().api().get(kube::resources::kLeases, suite().ns(), fmt::format("quartermaster-{}-default", service));
    return found ? (*found)["spec"] : Json();
  }
};

/// Creates pods that the webhooks review, one after the other and two at a time, until stop. In the tenant's
/// namespace a creation is refused if the webhook cannot be called.
class Creator {
 public:
  explicit Creator(const std::string& ns) {
    for (int i = 0; i < 2; ++i) {
      threads_.emplace_back([this, ns, i](const std::stop_token& stop) {
        kube::Client client(real_kube());
        for (int n = 0; !stop.stop_requested(); ++n) {
          const auto name = fmt::format("rolls-{}-{}", i, n);
          const auto made = client.create(
              kube::resources::kPods, ns,
              Json::object({{"metadata", Json::object({{"name", name}})},
                            {"spec", *Json::parse(R"({"containers":[{"name":"main","image":"example.com/a"}],
                                                      "nodeSelector":{"nowhere":"at-all"}})")}}));
          ++asked;
          if (!made) {
            const std::lock_guard lock(mutex_);
            refused_.push_back(made.error().to_string());
          }
          if (made) (void)client.remove(kube::resources::kPods, ns, name, {.uid = {}, .grace_seconds = 0});
        }
      });
    }
  }
  std::vector<std::string> end() {
    threads_.clear();
    return refused_;
  }
  std::atomic<int> asked = 0;

 private:
  std::mutex mutex_;
  std::vector<std::string> refused_;
  std::vector<std::jthread> threads_;
};

TEST_F(Rolling, AnUpgradeRefusesNoRequestAtTheWebhook) {
  const auto before = suite().kubelet().pods("admission");
  Creator creator(suite().tenant());
  ASSERT_TRUE(eventually([&] { return creator.asked > 20; }));
  const int from = creator.asked;
  const Ran upgraded = suite().release("upgrade", {"--set-string", "services.admission.annotations.round=two"});
  EXPECT_EQ(upgraded.code, 0) << upgraded.output;
  EXPECT_TRUE(eventually([&] {
    const auto now = suite().kubelet().pods("admission");
    const auto old = [&](const auto& pod) {
      return std::ranges::any_of(before, [&](const auto& one) { return one.name == pod.name; });
    };
    return suite().all_ready("admission", 2) && std::ranges::none_of(now, old);
  })) << "the replicas were not replaced";
  const int during = creator.asked - from;
  const auto refused = creator.end();
  EXPECT_GT(during, 50);
  EXPECT_TRUE(refused.empty()) << refused.size() << " of " << during << ", the first: " << refused.front();
  RecordProperty("asked", during);
  RecordProperty("refused", static_cast<int>(refused.size()));
  std::printf("%d pods were created while two replicas were replaced, %zu were refused\n", during, refused.size());
}

TEST_F(Rolling, AnUpgradeRenewsACertificateInItsLastThird) {
  const kube::Resource secrets{"", "v1", "secrets", true};
  const auto data_of = [&](const std::string& component) {
    const auto found = suite().api().get(secrets, suite().ns(), "qm-quartermaster-" + component);
    EXPECT_TRUE(found) << component;
    return found ? (*found)["data"] : Json();
  };
  const auto text = [](const Json& data, const char* field) {
    return from_base64(data[field].string()).value_or(std::string());
  };
  const Json ca = data_of("ca"), placement = data_of("tls-placement");
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const auto aged = http::make_certificate({"quartermaster-cost",
                                            {"qm-quartermaster-cost", "localhost"},
                                            now - std::chrono::days(600),
                                            now + std::chrono::days(225),
                                            {},
                                            true},
                                           {text(ca, "tls.crt"), text(ca, "tls.key")});
  ASSERT_TRUE(aged) << aged.error().to_string();
  Json data = data_of("tls-cost");
  data.set("tls.crt", base64(aged->certificate)).set("tls.key", base64(aged->key));
  ASSERT_TRUE(
      suite().api().merge_patch(secrets, suite().ns(), "qm-quartermaster-tls-cost", Json::object({{"data", data}})));

  const auto before = suite().kubelet().pods("cost");
  const Ran upgraded = suite().release("upgrade", {"--set-string", "services.cost.annotations.round=renewed"});
  ASSERT_EQ(upgraded.code, 0) << upgraded.output;
  const Json renewed = data_of("tls-cost");
  const auto facts = http::read_certificate(text(renewed, "tls.crt"));
  ASSERT_TRUE(facts);
  EXPECT_GT(facts->until, now + std::chrono::days(800));
  EXPECT_TRUE(http::belongs({text(renewed, "tls.crt"), text(renewed, "tls.key")}));
  EXPECT_TRUE(http::signed_by(text(renewed, "tls.crt"), text(ca, "tls.crt")));
  EXPECT_TRUE(data_of("ca") == ca);
  EXPECT_TRUE(data_of("tls-placement") == placement);
  // New and old processes work together: the new leader of cost reads from the other services.
  EXPECT_TRUE(eventually([&] {
    const auto pods = suite().kubelet().pods("cost");
    const auto old = [&](const auto& pod) {
      return std::ranges::any_of(before, [&](const auto& one) { return one.name == pod.name; });
    };
    return suite().all_ready("cost", 2) && std::ranges::none_of(pods, old);
  }));
  const auto report = suite().qmctl({"report"});
  EXPECT_EQ(report.code, 0) << report.output;
}

TEST_F(Rolling, AKilledLeaderIsReplacedWithinSeconds) {
  for (const char* service : {"admission", "placement"}) {
    SCOPED_TRACE(service);
    ASSERT_TRUE(eventually([&] { return suite().all_ready(service, 2); }));
    Json before;
    std::string holder, leader;
    // The holder is named HOST_PID_RANDOM. A new leader writes the Lease a moment after its claim.
    ASSERT_TRUE(eventually([&] {
      before = lease(service);
      holder = before["holderIdentity"].string();
      for (const auto& pod : suite().kubelet().pods(service)) {
        if (holder.find(fmt::format("_{}_", pod.pid)) != std::string::npos) leader = pod.name;
      }
      return !leader.empty();
    })) << holder
        << " is none of our processes";
    const auto begin = std::chrono::steady_clock::now();
    suite().kubelet().signal(leader, SIGKILL);
    EXPECT_TRUE(eventually([&] {
      const Json now = lease(service);
      return now["holderIdentity"].string() != holder &&
             now["leaseTransitions"].integer() > before["leaseTransitions"].integer();
    }));
    const auto took = std::chrono::steady_clock::now() - begin;
    EXPECT_LE(took, kTakeover);
    std::printf("%s: the Lease names another leader after %.2f s\n", service,
                std::chrono::duration<double>(took).count());
    EXPECT_TRUE(eventually([&] { return suite().all_ready(service, 2); })) << "the killed one does not come back";
  }
}

}  // namespace upgrade_k8s_test
}  // namespace qm::deploy
