// Our implementation of the Pod Security Standards against the API server that enforces them: the same pods, the same
// verdicts.
#include "pod_security_cases.hpp"
#include "qm/admission_policy/pod_security.hpp"
#include "qm/kube/client.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <unistd.h>

namespace qm::cli {
namespace pod_security_k8s_test {

using admission_policy::pod_security_findings;
using admission_policy::pod_security_of;
using admission_policy::PodSecurity;

const kube::Resource kNamespaces{"", "v1", "namespaces", false};
const kube::Resource kAccounts{"", "v1", "serviceaccounts", true};

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

class PodSecurityServer : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (setting("QM_KUBE_URL").empty()) GTEST_SKIP() << "QM_KUBE_URL is not set: run ./qm peers kubernetes";
    kube::ClientOptions options;
    options.server = setting("QM_KUBE_URL");
    options.ca_file = setting("QM_KUBE_CA");
    options.token = setting("QM_KUBE_TOKEN");
    client_ = std::make_unique<kube::Client>(options);
    static int serial = 0;
    ns_ = fmt::format("pod-security-{}-{}-{}", GetParam(), ::getpid(), ++serial);
    const Json labels = Json::object({{"pod-security.kubernetes.io/enforce", GetParam()}});
    const auto made = client_->create(kNamespaces, {},
                                      Json::object({{"apiVersion", "v1"},
                                                    {"kind", "Namespace"},
                                                    {"metadata", Json::object({{"name", ns_}, {"labels", labels}})}}));
    ASSERT_TRUE(made) << made.error().to_string();
    // Pods are accepted once their service account exists; a controller may have created it first.
    (void)client_->create(
        kAccounts, ns_,
        Json::object(
            {{"apiVersion", "v1"}, {"kind", "ServiceAccount"}, {"metadata", Json::object({{"name", "default"}})}}));
  }
  void TearDown() override {
    if (client_) (void)client_->remove(kNamespaces, {}, ns_, {});
  }

  /// Counts the pod if both verdicts are equal. An invalid pod is ignored.
  void compare(const Json& pod, const std::string& what) {
    const auto made = client_->create(kube::resources::kPods, ns_, pod);
    if (made) {
      (void)client_->remove(kube::resources::kPods, ns_, "p", {{}, 0, "Background"});
    } else {
      ASSERT_EQ(made.error().code, Code::kInvalid) << what << ": " << made.error().to_string();
      if (made.error().message.find("violates PodSecurity") == std::string::npos) return;
    }
    ++compared_;
    const auto findings = pod_security_findings(pod["spec"], *pod_security_of(GetParam()));
    EXPECT_EQ(findings.empty(), made.has_value())
        << what << "\nthe server: " << (made ? "takes it" : made.error().message)
        << "\nwe: " << (findings.empty() ? "nothing" : findings[0].to_string());
  }

  std::unique_ptr<kube::Client> client_;
  std::string ns_;
  std::size_t compared_ = 0;
};

TEST_P(PodSecurityServer, AgreesWithTheServerOnEachPod) {  // S-380
  for (const auto& change : pod_changes()) {
    auto pod = compliant_pod();
    change.apply(pod.set("spec"));
    compare(pod, change.what);
  }
  EXPECT_GE(compared_, pod_changes().size() - 4);
}

TEST_P(PodSecurityServer, AgreesWithTheServerOnThreeChangesAtOnce) {
  std::minstd_rand draw(20261122);
  const auto& changes = pod_changes();
  for (int i = 0; i < 60; ++i) {
    auto pod = compliant_pod();
    std::string what;
    for (int n = 0; n < 3; ++n) {
      const auto& change = changes[draw() % changes.size()];
      change.apply(pod.set("spec"));
      what += fmt::format("{}; ", change.what);
    }
    compare(pod, what);
  }
  EXPECT_GE(compared_, 30U);
}

INSTANTIATE_TEST_SUITE_P(Levels, PodSecurityServer, ::testing::Values("baseline", "restricted"),
                         [](const auto& level) { return std::string(level.param); });

}  // namespace pod_security_k8s_test
}  // namespace qm::cli
