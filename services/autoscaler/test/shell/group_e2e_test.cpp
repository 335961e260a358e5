#include "test/shell/group_body.hpp"

#include <filesystem>

namespace qm::autoscaler {
namespace {

TEST(GroupOnTheFleet, GrowsWithDemandAndShrinksByTheMachinesThatAreEmpty) {
  const std::string binary = std::string(QM_BIN_DIR) + "/qm-fleet";
  if (!std::filesystem::exists(binary)) GTEST_SKIP() << "qm-fleet is not built: run ./qm build";
  const qm::testing::TempDir dir;
  const auto fleet = qm::testing::Process::start(
      {{binary, "--dir", dir.path(), "--nodes", "0", "--factor", "100"}, {}, dir.path() + "/log"});
  ASSERT_TRUE(fleet) << fleet.error().to_string();
  const std::string ports = dir.path() + "/fleet.json";
  ASSERT_TRUE(qm::testing::wait_until([&] { return std::filesystem::exists(ports); }))
      << qm::testing::read_file(dir.path() + "/log");
  cloud::AwsOptions options;
  options.endpoint =
      fmt::format("http://127.0.0.1:{}", Json::parse(qm::testing::read_file(ports)).value_or(Json())["aws"].integer());
  options.access_key = options.secret_key = "test";
  autoscaler::testing::GroupStory(options, "gpu-nodes").run();
}

}  // namespace
}  // namespace qm::autoscaler
