// The program with its webhook, with PostgreSQL and a real API server: the webhook uses the queues and quota of the
// program, and workloads that were created while it was down are suspended later.
#include "qm/admission/webhook/review.hpp"
#include "qm/base/base64.hpp"
#include "qm/testing/testing.hpp"
#include "real_server.hpp"
#include "reviews.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <unistd.h>
#include <vector>

namespace qm::admission::webhook {
namespace program_k8s_test {

using namespace std::chrono_literals;
using kube::resources::kJobs;
class RealProgram : public ::testing::Test {
 protected:
  void SetUp() override {
    if (env("QM_KUBE_URL").empty() || env("KUBECONFIG").empty()) {
      GTEST_SKIP() << "no Kubernetes: run ./qm peers kubernetes";
    }
    std::string why;
    auto* postgres = qm::testing::Postgres::shared(&why);
    if (postgres == nullptr) GTEST_SKIP() << why;
    database_ = postgres->fresh_database();
    static int number = 0;
    team_ = fmt::format("qm-webhook-{}-{}", ::getpid(), ++number);
    home_ = team_ + "-home";
    client_ = std::make_unique<kube::Client>(real());
    for (const auto& ns : {team_, home_}) {
      auto metadata = Json::object({{"name", ns}, {"labels", Json::object({{"webhook-test", ns}})}});
      ASSERT_TRUE(client_->create(kNamespaces, "", Json::object({{"metadata", std::move(metadata)}})));
    }
    std::ofstream(dir_.path() + "/queues.yaml") << fmt::format(R"(
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {{name: cpu}}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {{name: webhook-test}}
spec:
  namespaceSelector: {{}}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: cpu
      resources: [{{name: cpu, nominalQuota: 2}}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {{name: default, namespace: {}}}
spec: {{clusterQueue: webhook-test}}
)",
                                                               team_);
  }
  void TearDown() override {
    if (!client_) return;
    process_.reset();
    standby_.reset();
    (void)client_->remove(kMutating, "", "quartermaster", {});
    (void)client_->remove(kValidating, "", "quartermaster", {});
    for (const auto& ns : {team_, home_}) (void)client_->remove(kNamespaces, "", ns, {});
  }

  void start() { start(process_, webhook_address_, "/log"); }
  void start(std::unique_ptr<qm::testing::Process>& process, const std::string& webhook_address, const char* file) {
    qm::testing::Process::Options options;
    const auto port = [] { return fmt::format("127.0.0.1:{}", qm::testing::free_port()); };
    options.argv = {std::string(QM_BIN_DIR) + "/qm-admission",
                    "--grpc",
                    port(),
                    "--http",
                    port(),
                    "--postgres",
                    database_,
                    "--kube",
                    "kubeconfig:" + env("KUBECONFIG"),
                    "--config",
                    dir_.path() + "/queues.yaml"};
    for (const auto& set : {std::string("placement=none"), "webhook=" + webhook_address,
                            "webhook-url=https://" + webhook_address_, "webhook-service=" + home_ + "/admission",
                            "webhook-only=webhook-test=" + team_, std::string("webhook-own=admin")}) {
      options.argv.emplace_back("--set");
      options.argv.push_back(set);
    }
    options.output = dir_.path() + file;
    auto started = qm::testing::Process::start(options);
    ASSERT_TRUE(started) << started.error().to_string();
    process = std::move(*started);
  }

  /// One cpu for each pod.
  static Json job(const std::string& name, int pods) {
    return parsed(fmt::format(R"({{"metadata":{{"name":"{}"}},"spec":{{"parallelism":{},"completions":{},"template":
        {{"spec":{{"restartPolicy":"Never","containers":[{{"name":"main","image":"x","resources":{{"requests":
        {{"cpu":"1"}}}}}}]}}}}}}}})",
                              name, pods, pods));
  }
  Result<Json> submit(const std::string& name, int pods, bool names_queue = false) {
    auto one = job(name, pods);
    if (names_queue) one.set("metadata").set("labels").set(words::kQueueLabel, "default");
    return client_->create(kJobs, team_, one);
  }
  bool suspended(const std::string& name) {
    const auto job = client_->get(kJobs, team_, name);
    return job && (*job)["spec"]["suspend"].boolean();
  }
  /// A client of one replica's webhook, which trusts the registered bundle.
  std::unique_ptr<http::Client> at(const std::string& webhook_address) {
    http::ClientOptions options;
    const auto config = client_->get(kMutating, "", "quartermaster");
    if (config) options.ca = from_base64((*config)["webhooks"].at(0)["clientConfig"]["caBundle"].string()).value_or("");
    return std::make_unique<http::Client>("https://" + webhook_address, options);
  }
  /// The review of a Job without a queue.
  [[nodiscard]] http::Request asking() const {
    http::Request request;
    request.method = "POST";
    request.target = "/mutate";
    auto review = parsed(review_of(
        parsed(R"({"metadata":{"name":"j"},"spec":{"template":{"spec":{"containers":[{"name":"m"}]}}}})"), "Job"));
    review.set("request").set("namespace", team_);
    request.body = review.dump();
    return request;
  }
  static std::string patch_in(const http::Response& answer) {
    return from_base64(parsed(answer.body)["response"]["patch"].string()).value_or("");
  }
  [[nodiscard]] std::string log() const { return qm::testing::read_file(dir_.path() + "/log"); }

  qm::testing::TempDir dir_;
  std::string database_, team_, home_;
  const std::string webhook_address_ = fmt::format("127.0.0.1:{}", qm::testing::free_port());
  std::unique_ptr<kube::Client> client_;
  std::unique_ptr<qm::testing::Process> process_, standby_;
};

TEST_F(RealProgram, HoldsJobsByTheirLocalQueues) {
  start();
  ASSERT_TRUE(qm::testing::wait_until(
      [&] {
        const auto probe = dry_run(kJobs, team_, job("probe", 9));
        return kube::label(probe, words::kQueueLabel) == "default" && probe["spec"]["suspend"].boolean();
      },
      60s))
      << log();
  ASSERT_TRUE(submit("fits", 2));
  ASSERT_TRUE(qm::testing::wait_until([&] { return !suspended("fits"); }, 60s)) << log();
  const auto grown = by_alice(kJobs, team_, "fits", R"({"spec":{"parallelism":3}})");
  EXPECT_EQ(grown.status, 403) << grown.body;
  EXPECT_NE(grown.body.find("holds quota that was counted from spec.parallelism"), std::string::npos) << grown.body;

  ASSERT_TRUE(submit("waits", 1));
  EXPECT_EQ(by_alice(kJobs, team_, "waits", R"({"spec":{"suspend":false}})").status, 403);
  EXPECT_TRUE(suspended("waits"));

  // While no replica runs, a Job starts at once; the watch of admission suspends it after the restart, as there is no
  // quota for it.
  process_->signal(9);
  process_->wait(10s);
  const auto past = submit("past", 1, true);
  ASSERT_TRUE(past) << past.error().to_string();
  EXPECT_FALSE((*past)["spec"]["suspend"].boolean());
  start();
  EXPECT_TRUE(qm::testing::wait_until([&] { return suspended("past"); }, 60s)) << log();
  EXPECT_TRUE(qm::testing::wait_until(
      [&] { return by_alice(kJobs, team_, "past", R"({"spec":{"suspend":false}})").status == 403; }, 60s))
      << log();
  process_->signal(15);
  const auto status = process_->wait(30s);
  ASSERT_TRUE(status) << log();
  EXPECT_EQ(*status, 0) << log();
}

// A Service routes the API server to any replica.
TEST_F(RealProgram, StandbyAnswersLikeLeader) {
  start();
  ASSERT_TRUE(qm::testing::wait_until(
      [&] {
        const auto config = client_->get(kMutating, "", "quartermaster");
        return config && log().find("admission serves") != std::string::npos;
      },
      60s))
      << log();
  const auto webhook_address = fmt::format("127.0.0.1:{}", qm::testing::free_port());
  start(standby_, webhook_address, "/standby");
  const auto client = at(webhook_address);
  const auto request = asking();
  std::string patch;
  EXPECT_TRUE(qm::testing::wait_until(
      [&] {
        const auto answer = client->send(request);
        if (!answer) return false;
        patch = patch_in(*answer);
        return patch.find(R"("kueue.x-k8s.io/queue-name":"default")") != std::string::npos;
      },
      60s))
      << patch << qm::testing::read_file(dir_.path() + "/standby");
  EXPECT_EQ(qm::testing::read_file(dir_.path() + "/standby").find("admission serves"), std::string::npos)
      << "it is not the leader";
}

// The webhook responds from memory: PostgreSQL, which is also the bus here, may be down.
TEST_F(RealProgram, AnswersWithoutDatabaseAndBus) {
  start();
  const auto request = asking();
  std::unique_ptr<http::Client> client;
  ASSERT_TRUE(qm::testing::wait_until(
      [&] {
        if (log().find("admission serves") == std::string::npos) return false;
        client = at(webhook_address_);
        const auto answer = client->send(request);
        return answer && patch_in(*answer).find(R"("kueue.x-k8s.io/queue-name":"default")") != std::string::npos;
      },
      60s))
      << log();
  std::string why;
  auto* postgres = qm::testing::Postgres::shared(&why);
  postgres->kill9();
  std::vector<std::chrono::steady_clock::duration> took;
  for (int i = 0; i < 500; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const auto answer = client->send(request);
    took.push_back(std::chrono::steady_clock::now() - begin);
    ASSERT_TRUE(answer) << answer.error().to_string() << log();
    ASSERT_NE(patch_in(*answer).find(R"("kueue.x-k8s.io/queue-name":"default")"), std::string::npos) << answer->body;
  }
  const auto held = submit("meanwhile", 1);
  EXPECT_TRUE(held && (*held)["spec"]["suspend"].boolean()) << "and the API server receives it";
  EXPECT_TRUE(postgres->restart());
  std::ranges::sort(took);
  EXPECT_LT(took[took.size() / 2], 50ms) << "nothing waits for a database; the figure is the bench's";
}

}  // namespace program_k8s_test
}  // namespace qm::admission::webhook
