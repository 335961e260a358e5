// The main job on a real API server, with its own cluster, separate from the one that other tests share: the API
// server and all other parts of this cluster are killed during the job.
//
//   QM_CLUSTER_NODES   number of nodes: 20 by default, which takes two and a half minutes; 1000 is the full size, and
//                      takes half an hour
//   QM_CLUSTER_PODS    three for each node by default
//   QM_CLUSTER_PORT    first of six ports, 27443 by default
//   QM_CLUSTER_BUS     postgres or kafka
#include "qm/base/json.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <unistd.h>

namespace qm {
namespace main_job_k8s_test {

using namespace std::chrono_literals;

std::string env(const char* name, const std::string& other) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? other : value;
}

/// Stops the control plane, which an interrupted job leaves running.
class ControlPlane {
 public:
  explicit ControlPlane(std::string folder) : folder_(std::move(folder)) {}
  ~ControlPlane() {
    const std::string line = "QM_KUBE_RUN='" + folder_ + "' tools/peers/kubernetes.sh stop >/dev/null 2>&1";
    if (std::filesystem::exists(folder_ + "/settings")) (void)!std::system(line.c_str());
  }

 private:
  std::string folder_;
};

TEST(MainJob, HoldsEveryLawOnARealApiServerWhateverIsKilled) {
  // If this is set, the peer's programs are built and the host is large enough.
  if (env("QM_KUBE_URL", "").empty()) GTEST_SKIP() << "QM_KUBE_URL is not set; run ./qm peers kubernetes";
  std::string why_not;
  if (testing::Postgres::shared(&why_not) == nullptr) GTEST_SKIP() << why_not;
  const int nodes = std::stoi(env("QM_CLUSTER_NODES", "20"));
  const int pods = std::stoi(env("QM_CLUSTER_PODS", std::to_string(3 * nodes)));
  const std::string bus = env("QM_CLUSTER_BUS", "postgres");
  std::filesystem::current_path(QM_SOURCE_DIR);
  const testing::TempDir dir;
  testing::Process::Options options;
  options.argv = {std::string(QM_BIN_DIR) + "/qm-demo",
                  "--kube",
                  "peer",
                  "--bus",
                  bus,
                  "--nodes",
                  std::to_string(nodes),
                  "--pods",
                  std::to_string(pods),
                  "--spread",
                  std::to_string(std::max(45, pods / 20)),
                  "--limit",
                  std::to_string(360 + pods / 10),
                  "--dir",
                  dir.path(),
                  "--json",
                  dir.path() + "/report.json"};
  options.output = dir.path() + "/output";
  const ControlPlane left(dir.path() + "/kube");
  auto job = testing::Process::start(options);
  ASSERT_TRUE(job) << job.error().to_string();
  const auto code = (*job)->wait(std::chrono::seconds(560 + pods / 4));
  const std::string output = testing::read_file(dir.path() + "/output");
  ASSERT_TRUE(code) << "not over in time\n" << output;
  EXPECT_EQ(*code, 0) << output;
  const auto read = Json::parse(testing::read_file(dir.path() + "/report.json"));
  ASSERT_TRUE(read) << output;
  const Json& report = *read;
  EXPECT_EQ(report["violations"].size(), 0U) << report["violations"].pretty();
  for (const char* wrong : {"lost", "doubled", "double_booked", "partial_gangs", "orphan_instances", "failed",
                            "running", "waiting", "ledger_imbalance_nano", "bill_difference_nano"}) {
    EXPECT_EQ(report[wrong].integer(), 0) << wrong;
  }
  EXPECT_EQ(report["finished"].integer(), report["submitted"].integer());
  // Each pod is bound at least once; those whose node was lost are bound again.
  EXPECT_GE(report.path("pace.bound.pods").integer(), pods);
  EXPECT_GE(report.path("pace.admitted.pods").integer(), pods);
  EXPECT_EQ(report["kills"].integer(), bus == "kafka" ? 8 : 7)
      << "five services, the API server, PostgreSQL, and Kafka";
  EXPECT_GT(report["provider_nano_usd"].integer(), 0);
  std::int64_t gpu_micros = 0;
  for (const auto& line : report["chargeback"].items()) {
    if (line["team"].string().starts_with("team-")) gpu_micros += line["gpu_micros"].integer();
  }
  EXPECT_GT(gpu_micros, std::int64_t{pods} * 20 * 1'000'000) << "each pod held a GPU for twenty seconds at least";
  std::printf("%s", output.substr(output.find("\nJobs ") == std::string::npos ? 0 : output.find("\nJobs ")).c_str());
}

}  // namespace main_job_k8s_test
}  // namespace qm
