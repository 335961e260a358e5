// Certificates of the chart, as an upgrade finds them at each age: Helm reads Secrets of a real API server, and
// renders.
#include "qm/base/base64.hpp"
#include "qm/http/certificate.hpp"
#include "support.hpp"

#include <fmt/format.h>

#include <fstream>
#include <map>
#include <unistd.h>

namespace qm::deploy {
namespace certificates_k8s_test {

using http::Identity;
using std::chrono::days;
using std::chrono::hours;
using Data = std::map<std::string, std::string>;  ///< of a Secret, decoded

const kube::Resource kSecrets{"", "v1", "secrets", true};
constexpr const char* kComponents[] = {"admission", "placement", "autoscaler", "telemetry", "cost", "client"};

class Certificates : public ::testing::Test {
 protected:
  void SetUp() override {
    if (setting("QM_KUBE_URL").empty()) GTEST_SKIP() << kNoRealKube;
    if (setting("QM_HELM").empty()) GTEST_SKIP() << "QM_HELM is not set: run ./qm peers helm";
    client_ = std::make_unique<kube::Client>(real_kube());
    ns_ = fmt::format("certificates-{}-{}", ::getpid(), counter_++);
    make_namespace(*client_, ns_);
  }
  void TearDown() override {
    if (client_ != nullptr) (void)client_->remove(kNamespaces, "", ns_, {});
  }

  static http::WallTime at(hours from_now) {
    return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()) + from_now;
  }
  static Identity authority(const std::string& name, hours from, hours until) {
    auto made = http::make_authority({name, {}, at(from), at(until)});
    EXPECT_TRUE(made) << made.error().to_string();
    return *made;
  }
  static Identity leaf(const std::string& component, const Identity& issuer, hours from, hours until) {
    auto made =
        http::make_certificate({"quartermaster-" + component, {"localhost"}, at(from), at(until), {}, true}, issuer);
    EXPECT_TRUE(made) << made.error().to_string();
    return *made;
  }

  static std::string name_of(const std::string& component) {
    return component == "ca" ? "qm-quartermaster-ca" : "qm-quartermaster-tls-" + component;
  }
  void put(const std::string& component, const Data& data) {
    (void)client_->remove(kSecrets, ns_, name_of(component), {});
    Json fields = Json::object();
    for (const auto& [name, value] : data) fields.set(name, base64(value));
    const auto made = client_->create(kSecrets, ns_,
                                      Json::object({{"metadata", Json::object({{"name", name_of(component)}})},
                                                    {"type", "kubernetes.io/tls"},
                                                    {"data", fields}}));
    ASSERT_TRUE(made) << made.error().to_string();
  }
  void put_leaf(const std::string& component, const Identity& one, const std::string& trusted) {
    put(component, {{"tls.crt", one.certificate}, {"tls.key", one.key}, {"ca.crt", trusted}});
  }
  /// A CA, and a certificate for each component, all 10 days old and valid for hundreds of days.
  Identity young_release() {
    const Identity ca = authority("qm-quartermaster-ca", days(-10), days(3290));
    put("ca", {{"tls.crt", ca.certificate}, {"tls.key", ca.key}});
    for (const char* one : kComponents) put_leaf(one, leaf(one, ca, days(-10), days(815)), ca.certificate);
    return ca;
  }

  /// The Secrets as an upgrade would write them, by component.
  std::map<std::string, Data> upgraded(std::vector<std::string> more = {}) {
    std::vector<std::string> args{setting("QM_HELM"),
                                  "template",
                                  "qm",
                                  source("deploy/helm/quartermaster"),
                                  "-n",
                                  ns_,
                                  "-f",
                                  source("deploy/helm/quartermaster/ci/trial.yaml"),
                                  "--set",
                                  "agent.enabled=false",
                                  "--dry-run=server",
                                  "--kube-version",
                                  "1.36.0"};
    args.insert(args.end(), more.begin(), more.end());
    const Ran ran = run(args);
    EXPECT_EQ(ran.code, 0) << ran.output;
    const std::string file = folder_.path() + "/rendered.yaml";
    std::ofstream(file) << ran.output.substr(std::min(ran.output.find("---\n"), ran.output.size()));
    std::map<std::string, Data> out;
    for (const auto& object : objects_of(file)) {
      const Json& secret = object.document.content;
      const std::string& name = secret["metadata"]["name"].string();
      if (secret["kind"].string() != "Secret" || secret["type"].string() != "kubernetes.io/tls") continue;
      Data& data = out[name == name_of("ca") ? "ca" : name.substr(name_of("").size())];
      for (const auto& [field, value] : secret["data"].members())
        data[field] = from_base64(value.string()).value_or("not base64");
    }
    return out;
  }
  /// The Secret in the API server.
  Data stored(const std::string& component) {
    Data out;
    const auto secret = client_->get(kSecrets, ns_, name_of(component));
    EXPECT_TRUE(secret) << component;
    if (!secret) return out;
    for (const auto& [field, value] : (*secret)["data"].members())
      out[field] = from_base64(value.string()).value_or("not base64");
    return out;
  }
  void install(const std::map<std::string, Data>& secrets) {
    for (const auto& [component, data] : secrets) put(component, data);
  }

  /// True if OpenSSL, which gRPC uses, accepts `shown` with the trust bundle `trusted`.
  bool verifies(const Data& shown, const Data& trusted) {
    std::ofstream(folder_.path() + "/shown.pem") << shown.at("tls.crt");
    std::ofstream(folder_.path() + "/trusted.pem") << trusted.at("ca.crt");
    const Ran ran = run({"openssl", "verify", "-no-CApath", "-no-CAfile", "-no-CAstore", "-CAfile",
                         folder_.path() + "/trusted.pem", folder_.path() + "/shown.pem"});
    return ran.code == 0;
  }
  static double days_left(const Data& data) {
    const auto facts = http::read_certificate(data.at("tls.crt"));
    EXPECT_TRUE(facts);
    return facts ? std::chrono::duration<double, std::ratio<86400>>(facts->until - at(hours(0))).count() : 0;
  }
  [[nodiscard]] const std::string& ns() const { return ns_; }

 private:
  static inline int counter_ = 0;
  std::unique_ptr<kube::Client> client_;
  testing::TempDir folder_;
  std::string ns_;
};

TEST_F(Certificates, AnInstallationIssuesThem) {
  const auto made = upgraded();
  ASSERT_EQ(made.size(), 1 + std::size(kComponents));
  EXPECT_EQ(made.at("ca").size(), 2u) << "a certificate and its key";
  EXPECT_NEAR(days_left(made.at("ca")), 4 * 825, 0.1);
  for (const char* one : kComponents) {
    EXPECT_TRUE(verifies(made.at(one), made.at("client"))) << one;
    EXPECT_NEAR(days_left(made.at(one)), 825, 0.1) << one;
    EXPECT_EQ(http::read_certificate(made.at(one).at("tls.crt"))->common_name, std::string("quartermaster-") + one);
    EXPECT_TRUE(http::belongs({made.at(one).at("tls.crt"), made.at(one).at("tls.key")})) << one;
  }
}

TEST_F(Certificates, YoungCertificatesAreKeptByteForByte) {
  (void)young_release();
  const auto after = upgraded();
  ASSERT_EQ(after.size(), 1 + std::size(kComponents));
  for (const auto& [component, data] : after) EXPECT_EQ(data, stored(component)) << component;
}

TEST_F(Certificates, ANewReleaseIsStable) {
  const auto made = upgraded();
  install(made);
  EXPECT_EQ(upgraded(), made);
}

TEST_F(Certificates, ALeafInItsLastThirdIsRenewed) {
  const Identity ca = young_release();
  // One just before its last third, one in it, one expired, and one far beyond 2050, where times have another encoding.
  put_leaf("admission", leaf("admission", ca, days(-199), days(101)), ca.certificate);
  put_leaf("placement", leaf("placement", ca, days(-201), days(99)), ca.certificate);
  put_leaf("telemetry", leaf("telemetry", ca, days(-825), hours(-1)), ca.certificate);
  put_leaf("cost", leaf("cost", ca, days(-10), days(10'000)), ca.certificate);
  const auto after = upgraded();
  for (const char* one : {"ca", "admission", "autoscaler", "cost", "client"})
    EXPECT_EQ(after.at(one), stored(one)) << one;
  for (const char* one : {"placement", "telemetry"}) {
    SCOPED_TRACE(one);
    EXPECT_NE(after.at(one).at("tls.crt"), stored(one).at("tls.crt"));
    EXPECT_TRUE(http::belongs({after.at(one).at("tls.crt"), after.at(one).at("tls.key")}));
    EXPECT_NEAR(days_left(after.at(one)), 825, 0.1);
    EXPECT_EQ(after.at(one).at("ca.crt"), ca.certificate);
    EXPECT_TRUE(verifies(after.at(one), stored("autoscaler"))) << "by a process that has read no new file";
    EXPECT_TRUE(verifies(stored("autoscaler"), after.at(one)));
  }
  EXPECT_FALSE(verifies(stored("telemetry"), after.at("telemetry"))) << "it had expired";
}

TEST_F(Certificates, AnAuthorityIsRenewedInTwoSteps) {
  const Identity old_ca = authority("qm-quartermaster-ca", days(-2300), days(1000));
  put("ca", {{"tls.crt", old_ca.certificate}, {"tls.key", old_ca.key}});
  for (const char* one : kComponents) put_leaf(one, leaf(one, old_ca, days(-10), days(815)), old_ca.certificate);
  put_leaf("cost", leaf("cost", old_ca, days(-801), days(24)), old_ca.certificate);
  std::map<std::string, Data> before;
  for (const char* one : kComponents) before[one] = stored(one);

  // First both CAs are trusted, and the old one still issues certificates.
  const auto first = upgraded();
  EXPECT_EQ(first.at("ca").at("previous.crt"), old_ca.certificate);
  EXPECT_EQ(first.at("ca").at("previous.key"), old_ca.key);
  const std::string new_ca = first.at("ca").at("tls.crt");
  EXPECT_NE(new_ca, old_ca.certificate);
  EXPECT_NE(first.at("cost").at("tls.crt"), before.at("cost").at("tls.crt"));
  EXPECT_TRUE(http::signed_by(first.at("cost").at("tls.crt"), old_ca.certificate));
  for (const char* one : kComponents) {
    EXPECT_EQ(http::split_certificates(first.at(one).at("ca.crt")).size(), 2u) << one;
    if (std::string(one) != "cost") {
      EXPECT_EQ(first.at(one).at("tls.crt"), before.at(one).at("tls.crt")) << one;
    }
    EXPECT_TRUE(verifies(first.at(one), before.at("admission"))) << one << " is trusted by a process of before";
    EXPECT_TRUE(verifies(before.at(one), first.at("admission"))) << one;
  }
  // Another upgrade within the hour changes nothing.
  install(first);
  EXPECT_EQ(upgraded(), first);

  // An hour later, when every process has read both, the new CA issues certificates.
  const Identity aged = authority("qm-quartermaster-ca-20260101000000", hours(-2), days(3300));
  put("ca", {{"tls.crt", aged.certificate},
             {"tls.key", aged.key},
             {"previous.crt", old_ca.certificate},
             {"previous.key", old_ca.key}});
  for (const char* one : kComponents) {
    Data data = first.at(one);
    data["ca.crt"] = aged.certificate + old_ca.certificate;
    put(one, data);
    before[one] = data;
  }
  put_leaf("client", leaf("client", old_ca, days(-801), days(24)), aged.certificate + old_ca.certificate);
  const auto second = upgraded();
  EXPECT_EQ(second.at("ca"),
            (Data{{"tls.crt", aged.certificate}, {"tls.key", aged.key}, {"previous.crt", old_ca.certificate}}))
      << "the old key signs no more";
  EXPECT_TRUE(http::signed_by(second.at("client").at("tls.crt"), aged.certificate));
  for (const char* one : kComponents) {
    EXPECT_EQ(second.at(one).at("ca.crt"), aged.certificate + old_ca.certificate) << one;
    EXPECT_TRUE(verifies(second.at(one), before.at("admission"))) << one;
    EXPECT_TRUE(verifies(before.at(one), second.at("admission"))) << one;
    if (std::string(one) != "client") {
      EXPECT_EQ(second.at(one), before.at(one)) << one;
    }
  }

  // The old CA is removed when none of its certificates is left, and not before all processes have read the last
  // change.
  install(second);
  for (const char* one : kComponents)
    put_leaf(one, leaf(one, aged, hours(-2), days(815)), aged.certificate + old_ca.certificate);
  put_leaf("cost", leaf("cost", aged, hours(0), days(815)), aged.certificate + old_ca.certificate);
  EXPECT_EQ(upgraded().at("ca").at("previous.crt"), old_ca.certificate);
  put_leaf("cost", leaf("cost", aged, hours(-2), days(815)), aged.certificate + old_ca.certificate);
  const auto third = upgraded();
  EXPECT_EQ(third.at("ca"), (Data{{"tls.crt", aged.certificate}, {"tls.key", aged.key}}));
  for (const char* one : kComponents) {
    EXPECT_EQ(third.at(one).at("tls.crt"), stored(one).at("tls.crt")) << one;
    EXPECT_EQ(third.at(one).at("ca.crt"), aged.certificate) << one;
  }
}

TEST_F(Certificates, ExpiredCertificatesAreReplacedAtOnce) {
  const Identity expired = authority("qm-quartermaster-ca", days(-3301), days(-1));
  put("ca", {{"tls.crt", expired.certificate}, {"tls.key", expired.key}});
  for (const char* one : kComponents) put_leaf(one, leaf(one, expired, days(-830), days(-5)), expired.certificate);
  const auto after = upgraded();
  EXPECT_EQ(after.at("ca").size(), 2u);
  for (const char* one : kComponents) {
    EXPECT_TRUE(verifies(after.at(one), after.at("client"))) << one;
    EXPECT_EQ(after.at(one).at("ca.crt"), after.at("ca").at("tls.crt")) << one;
  }
}

TEST_F(Certificates, NoLeafOutlivesItsAuthority) {
  // The lifetime has been raised: the CA's remaining time is enough for certificates of 90 days, not of 825.
  const Identity ca = authority("qm-quartermaster-ca", days(-10), days(350));
  put("ca", {{"tls.crt", ca.certificate}, {"tls.key", ca.key}});
  for (const char* one : kComponents) put_leaf(one, leaf(one, ca, days(-10), days(80)), ca.certificate);
  put_leaf("cost", leaf("cost", ca, days(-80), days(10)), ca.certificate);
  EXPECT_EQ(upgraded({"--set", "tls.days=90"}).at("ca"), stored("ca"));
  const auto raised = upgraded();
  EXPECT_NE(raised.at("ca").at("tls.crt"), ca.certificate);
  EXPECT_TRUE(http::signed_by(raised.at("cost").at("tls.crt"), ca.certificate));
  EXPECT_NEAR(days_left(raised.at("cost")), 349, 1.1);
  EXPECT_TRUE(verifies(raised.at("cost"), stored("admission")));
}

TEST_F(Certificates, CertificatesOfAnAdministratorAreKept) {
  const Identity ca = young_release();
  const Identity own = authority("corp-ca", days(-3000), days(10));
  put_leaf("cost", leaf("cost", own, days(-300), days(-1)), own.certificate);
  EXPECT_EQ(upgraded().at("cost"), stored("cost")) << "in the place of the chart's own";
  EXPECT_EQ(upgraded({"--set", "tls.source=secrets", "--set", "tls.secretPrefix=mine"}),
            (std::map<std::string, Data>{}));
  EXPECT_EQ(upgraded({"--set", "tls.source=cert-manager", "--set", "tls.issuer.name=corp"}),
            (std::map<std::string, Data>{}));
}

}  // namespace certificates_k8s_test
}  // namespace qm::deploy
