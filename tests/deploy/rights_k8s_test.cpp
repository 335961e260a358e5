// The RBAC rules of the chart are sufficient: processes start against a real API server with their own service
// accounts, and no call is forbidden.
#include "installation.hpp"
#include "support.hpp"

#include <fmt/format.h>

#include <fstream>
#include <unistd.h>

namespace qm::deploy {
namespace rights_k8s_test {

class Rights : public ::testing::Test {
 protected:
  void SetUp() override {
    if (setting("QM_KUBE_URL").empty()) GTEST_SKIP() << kNoRealKube;
    if (setting("QM_HELM").empty()) GTEST_SKIP() << "QM_HELM is not set: run ./qm peers helm";
    std::string why;
    postgres_ = testing::Postgres::shared(&why);
    if (postgres_ == nullptr) GTEST_SKIP() << why;
    Installation::end();
    client_ = std::make_unique<kube::Client>(real_kube());
    ns_ = fmt::format("rights-{}-{}", ::getpid(), counter_++);
    make_namespace(*client_, ns_);
    define(*client_, source("deploy/helm/quartermaster/files/crds"));
    const Ran ran = rendered({"rbac", "webhook"});
    ASSERT_EQ(ran.code, 0) << ran.output;
    file_ = folder_.path() + "/rights.yaml";
    std::ofstream(file_) << ran.output.substr(ran.output.find("---\n"));
    const Ran applied = run({setting("QM_KUBECTL"), "apply", "-n", ns_, "-f", file_});
    ASSERT_EQ(applied.code, 0) << applied.output;
  }
  void TearDown() override {
    if (client_ == nullptr) return;
    (void)run({setting("QM_KUBECTL"), "delete", "-n", ns_, "--ignore-not-found", "--wait=false", "-f", file_});
    (void)client_->remove(kNamespaces, "", ns_, {});
  }
  kube::Client& client() { return *client_; }
  [[nodiscard]] Ran rendered(const std::vector<std::string>& templates) const {
    std::vector<std::string> argv = {setting("QM_HELM"),
                                     "template",
                                     "qm",
                                     source("deploy/helm/quartermaster"),
                                     "-n",
                                     ns_,
                                     "-f",
                                     source("deploy/helm/quartermaster/ci/trial.yaml"),
                                     "--kube-version",
                                     "1.36.0"};
    for (const auto& name : templates) argv.insert(argv.end(), {"-s", fmt::format("templates/{}.yaml", name)});
    return run(argv);
  }
  /// The kinds that the chart configures for admission: its permissions cover only these, even if the cluster has
  /// others.
  [[nodiscard]] std::string kinds() const {
    const std::string services = rendered({"services"}).output;
    const std::size_t at = services.find("kinds=");
    EXPECT_NE(at, std::string::npos) << services;
    return services.substr(at, services.find('\n', at) - at);
  }
  [[nodiscard]] const std::string& ns() const { return ns_; }
  [[nodiscard]] std::string log_of(const std::string& who) const {
    return testing::read_file(folder_.path() + "/" + who + ".log");
  }

  /// A kubeconfig with the token of a service account of the chart's.
  std::string kubeconfig_of(const std::string& who) {
    const kube::Resource tokens{"", "v1", fmt::format("serviceaccounts/qm-quartermaster-{}/token", who), true};
    const auto made = client().create(
        tokens, ns_, *Json::parse(R"({"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}})"));
    EXPECT_TRUE(made) << made.error().to_string();
    const std::string path = fmt::format("{}/{}.kubeconfig", folder_.path(), who);
    std::ofstream(path) << fmt::format(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n"
        "clusters: [{{name: a, cluster: {{server: \"{}\", certificate-authority: \"{}\"}}}}]\n"
        "users: [{{name: a, user: {{token: \"{}\"}}}}]\n",
        setting("QM_KUBE_URL"), setting("QM_KUBE_CA"), made ? (*made)["status"]["token"].string() : "");
    return path;
  }
  /// Starts a program with the service account of its name.
  std::unique_ptr<testing::Process> start(const std::string& who, std::vector<std::string> more = {}) {
    const int port = testing::free_port();
    testing::Process::Options options;
    options.argv = {std::string(QM_BIN_DIR) + "/qm-" + who,
                    "--kube",
                    "kubeconfig:" + kubeconfig_of(who),
                    "--postgres",
                    postgres_->fresh_database(),
                    "--grpc",
                    fmt::format("127.0.0.1:{}", testing::free_port()),
                    "--http",
                    fmt::format("127.0.0.1:{}", port),
                    "--lease-namespace",
                    ns_};
    options.argv.insert(options.argv.end(), more.begin(), more.end());
    options.env["KUBECONFIG"] = "";
    // For the autoscaler: a cloud that never answers.
    options.env["AWS_ACCESS_KEY_ID"] = options.env["AWS_SECRET_ACCESS_KEY"] = "none";
    options.env["AWS_ENDPOINT_URL"] = "http://127.0.0.1:9";
    options.output = folder_.path() + "/" + who + ".log";
    auto process = testing::Process::start(options);
    if (!process) {
      ADD_FAILURE() << process.error().to_string();
      return nullptr;
    }
    const std::string ready = fmt::format("http://127.0.0.1:{}/readyz", port);
    EXPECT_TRUE(testing::wait_until(
        [&] {
          return run({"curl", "-fsS", "-m", "2", ready}).code == 0;
        },
        std::chrono::seconds(60)))
        << log_of(who);
    return std::move(*process);
  }
  void expect_nothing_forbidden(const std::string& who) const {
    const std::string log = log_of(who);
    for (const char* word : {": 403", "forbidden", "PERMISSION_DENIED"}) {  // a bare 403 occurs in timestamps
      EXPECT_EQ(log.find(word), std::string::npos) << log;
    }
  }
  bool holds_lease(const std::string& who) {
    return testing::wait_until([&] {
      const auto lease = client().get(kube::resources::kLeases, ns_, fmt::format("quartermaster-{}-default", who));
      return lease && !(*lease)["spec"]["holderIdentity"].string().empty();
    });
  }

 private:
  static inline int counter_ = 0;
  testing::Postgres* postgres_ = nullptr;
  std::unique_ptr<kube::Client> client_;
  testing::TempDir folder_;
  std::string ns_, file_;
};

TEST_F(Rights, PlacementHasEnough) {
  if (!std::filesystem::exists(std::string(QM_BIN_DIR) + "/qm-placement")) GTEST_SKIP() << "qm-placement is not built";
  const auto process = start("placement", {"--set", "quota=auto", "--set", "binding=auto"});
  EXPECT_TRUE(holds_lease("placement")) << log_of("placement");
  expect_nothing_forbidden("placement");
}

// They write only their Lease until there is work.
TEST_F(Rights, TheOthersHaveEnoughToLead) {
  for (const char* who : {"autoscaler", "telemetry", "cost"}) {
    SCOPED_TRACE(who);
    if (!std::filesystem::exists(std::string(QM_BIN_DIR) + "/qm-" + who)) GTEST_SKIP() << who << " is not built";
    const auto process = start(who);
    EXPECT_TRUE(holds_lease(who)) << log_of(who);
    expect_nothing_forbidden(who);
  }
}

TEST_F(Rights, AdmissionHasEnoughForItsWebhooksToo) {
  if (!std::filesystem::exists(std::string(QM_BIN_DIR) + "/qm-admission")) GTEST_SKIP() << "qm-admission is not built";
  const auto process =
      start("admission", {"--set", fmt::format("webhook=127.0.0.1:{}", testing::free_port()), "--set",
                          fmt::format("webhook-service={}/qm-quartermaster-admission:9443", ns()), "--set", kinds()});
  EXPECT_TRUE(holds_lease("admission")) << log_of("admission");
  EXPECT_TRUE(testing::wait_until([&] {
    const auto found = client().get({"admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", false},
                                    "", "quartermaster");
    return found && !(*found)["webhooks"].at(0)["clientConfig"]["caBundle"].string().empty();
  })) << "it has not written its caBundle\n"
      << log_of("admission");
  expect_nothing_forbidden("admission");
}

}  // namespace rights_k8s_test
}  // namespace qm::deploy
