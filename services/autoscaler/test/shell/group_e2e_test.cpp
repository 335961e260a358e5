#include "test/shell/group_body.hpp"

#include <filesystem>

namespace qm::autoscaler {
namespace group_e2e_test {

class GroupOnTheFleet : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string binary = std::string(QM_BIN_DIR) + "/qm-fleet";
    if (!std::filesystem::exists(binary)) GTEST_SKIP() << "qm-fleet is not built: run ./qm build";
    auto fleet = qm::testing::Process::start(
        {{binary, "--dir", dir_.path(), "--nodes", "0", "--factor", "100"}, {}, dir_.path() + "/log"});
    ASSERT_TRUE(fleet) << fleet.error().to_string();
    fleet_ = std::move(*fleet);
    const std::string ports = dir_.path() + "/fleet.json";
    ASSERT_TRUE(qm::testing::wait_until([&] { return std::filesystem::exists(ports); }))
        << qm::testing::read_file(dir_.path() + "/log");
    options_.endpoint = fmt::format("http://127.0.0.1:{}",
                                    Json::parse(qm::testing::read_file(ports)).value_or(Json())["aws"].integer());
    options_.access_key = options_.secret_key = "test";
  }
  qm::testing::TempDir dir_;
  std::unique_ptr<qm::testing::Process> fleet_;
  cloud::AwsOptions options_;
};

TEST_F(GroupOnTheFleet, GrowsWithDemandAndShrinksByTheMachinesThatAreEmpty) {
  autoscaler::testing::GroupStory(options_, "gpu-nodes").run();
}

// S-152
TEST_F(GroupOnTheFleet, StaysWithinItsBoundsAndServesThoseThatItsLabelsAndTaintsAllow) {
  autoscaler::testing::GroupStory(options_, "h100-training").run_bounds();
}

}  // namespace group_e2e_test
}  // namespace qm::autoscaler
