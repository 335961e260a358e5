// Orders for MIG layouts, and recommendations for sharing. S-140 S-142
#include "fake_suite.hpp"
#include "qm/testing/testing.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace qm::cli {
namespace layouts_test {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Layouts, FilesAreOneOrder) {
  FakeSuite suite;
  populate(suite.state);
  const testing::TempDir dir;
  std::ofstream(dir.path() + "/a.yaml") << "mig: {config: all-1g.5gb}\n";
  std::ofstream(dir.path() + "/b.yaml") << "mig-configs: {}\n";
  const auto ran = qmctl(suite, {"layouts", "-f", dir.path(), "--dry-run", "--withdraw", "node-1"});
  EXPECT_EQ(ran.code, kDone) << ran.err;
  EXPECT_TRUE(suite.state.ordered.dry_run());
  EXPECT_THAT(suite.state.ordered.request_id(), StartsWith("qmctl-"));
  EXPECT_EQ(suite.state.ordered.withdraw(0), "node-1");
  EXPECT_EQ(suite.state.ordered.manifest(), "mig: {config: all-1g.5gb}\n\n---\nmig-configs: {}\n");
  EXPECT_THAT(ran.out, HasSubstr("layout half is known\n"));
  EXPECT_THAT(ran.out, HasSubstr("all-1g.5gb (mig-1g.5gb 56), waiting: the window has not started from 2026-"));
  EXPECT_THAT(ran.err, HasSubstr("warning: node x: layout all-1g.5gb"));
}

struct Advice {
  std::vector<std::string> profile;
  std::string method;
};

std::vector<Advice> profiles() {
  return {{{"--tenants", "3", "--production"}, "mig"},
          {{"--production", "--gpu-model", "H100"}, "mps"},
          {{"--gpu-model", "Tesla-T4"}, "time_slicing"},
          {{"--tenants", "2", "--gpu-model", "NVIDIA-H100-80GB-HBM3"}, "mig"}};
}
std::string recommended(std::vector<std::string> profile, const std::vector<std::string>& more = {}) {
  profile.insert(profile.begin(), {"recommend", "sharing"});
  profile.insert(profile.end(), more.begin(), more.end());
  const auto ran = qmctl(profile);
  EXPECT_EQ(ran.code, kDone) << ran.err;
  return ran.out;
}

// S-422: the rule that replaces the lost one.
// S-142: MIG for several tenants, MPS for a single tenant's throughput, time-slicing for non-production.
TEST(Recommend, TheThreeProfilesGetTheThreeMethods) {
  for (const auto& [profile, method] : profiles()) EXPECT_THAT(recommended(profile), StartsWith(method + ": "));
  const auto old = recommended({"--tenants", "2", "--gpu-model", "Tesla-T4"});
  EXPECT_THAT(old, StartsWith("none: mig is for multi-tenant isolation, which Tesla-T4 does not support"));
}

// S-140: the recorded table gives the same result, and each of its cells is printed.
TEST(Recommend, FollowsTheTableThatItIsGiven) {
  const auto folders = testing::data_folders("tables");
  ASSERT_FALSE(folders.empty());
  for (const auto& folder : folders) {
    SCOPED_TRACE(folder);
    const std::string file = folder + "/sharing-comparison.csv";
    for (const auto& [profile, method] : profiles())
      EXPECT_THAT(recommended(profile, {"--table", file}), StartsWith(method + ": "));
    const auto answer = Json::parse(recommended({"--production", "-o", "json"}, {"--table", file}));
    ASSERT_TRUE(answer);
    const Json& all = (*answer)["comparison"];
    ASSERT_EQ(all.members().size(), 7U);
    const auto shows = [&](const char* dimension, const char* mig, const char* mps, const char* slicing) {
      EXPECT_THAT(all[dimension]["mig"].string(), HasSubstr(mig)) << dimension;
      EXPECT_THAT(all[dimension]["mps"].string(), HasSubstr(mps)) << dimension;
      EXPECT_THAT(all[dimension]["time_slicing"].string(), HasSubstr(slicing)) << dimension;
    };
    shows("isolation", "hardware-enforced", "soft", "none");
    shows("memory", "dedicated", "limits", "shared");
    shows("overhead", "none", "low", "medium");
    shows("use case", "multi-tenant", "high-throughput", "dev/test");
    shows("gpu support", "A100, H100, H200", "all CUDA", "all CUDA");
    shows("configuration complexity", "medium", "low", "low");
    shows("recommended for", "multi-tenant", "single-tenant", "non-production");
  }
}

TEST(Recommend, ATableThatCannotBeReadIsRefused) {
  const testing::TempDir dir;
  const auto refused = [&](const std::string& text) {
    std::ofstream(dir.path() + "/t.csv") << text;
    const auto ran = qmctl({"recommend", "sharing", "--table", dir.path() + "/t.csv"});
    EXPECT_NE(ran.code, kDone);
    return ran.err;
  };
  EXPECT_THAT(refused("dimension,mig,mps\n"), HasSubstr("no column time_slicing"));
  EXPECT_THAT(refused("dimension,mig,mps,time_slicing\nmemory,a\n"), HasSubstr("too few cells"));
  EXPECT_THAT(refused("dimension,mig,mps,time_slicing\nmemory,a,b,c\n"), HasSubstr("has no recommendation"));
  EXPECT_THAT(refused("dimension,mig,mps,time_slicing\nrecommended for,a,b,c\ngpu support,all,all,all\n"),
              HasSubstr("recommends nothing for non-production"));
}

}  // namespace layouts_test
}  // namespace qm::cli
