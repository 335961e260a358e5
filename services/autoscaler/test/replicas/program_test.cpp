// qm-replicas: files plain or gzip, and cases that cannot be read.
#include "qm/base/json.hpp"
#include "qm/base/parse.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace qm::autoscaler::replicas {
namespace program_test {

const std::string kProgram = std::string(QM_BIN_DIR) + "/qm-replicas";

int run(const std::vector<std::string>& arguments, const std::string& output) {
  std::vector<std::string> argv{kProgram};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  auto process = testing::Process::start({argv, {}, output});
  EXPECT_TRUE(process);
  return (*process)->wait(std::chrono::seconds(60)).value_or(-1);
}

std::string case_of(const std::string& name, const std::string& spec) {
  return R"({"name": ")" + name +
         R"(", "object": {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": {)" + spec +
         R"(}}, "ticks": [{"t": 0, "replicas": 9}]})" + "\n";
}

TEST(ReplicasProgram, WritesALineACaseAndNamesTheFieldOfOneThatItCannotRead) {
  if (!std::filesystem::exists(kProgram)) GTEST_SKIP() << "qm-replicas is not built";
  const testing::TempDir folder;
  const auto in = folder.path() + "/cases", out = folder.path() + "/out", log = folder.path() + "/log";
  std::ofstream(in) << case_of("wrong", R"("maxReplica": 5)") << case_of("right", R"("maxReplicas": 5)");
  EXPECT_EQ(run({in, "--out", out}, log), 2);
  EXPECT_NE(testing::read_file(log).find("cases:1: wrong: spec.maxReplicas is missing"), std::string::npos)
      << testing::read_file(log);
  const auto text = testing::read_file(out);
  const auto lines = split(text, '\n');
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_TRUE((*Json::parse(lines[0])).contains("error"));
  const auto tick = (*Json::parse(lines[1]))["ticks"].at(0);
  EXPECT_EQ(tick["desired"].integer(), 5);
  EXPECT_EQ(tick["rule"].string(), "above_max");
  EXPECT_TRUE(tick["proposals"].is_null());
  EXPECT_EQ(run({folder.path() + "/none"}, log), 2);
  EXPECT_NE(testing::read_file(log).find("/none"), std::string::npos);
}

}  // namespace program_test
}  // namespace qm::autoscaler::replicas
