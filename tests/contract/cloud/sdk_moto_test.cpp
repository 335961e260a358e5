// The AWS SDK for Python against the simulated AWS: it comes with moto.
#include "in_process.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace qm::contract {
namespace sdk_moto_test {

// Every action is called, and every answer and error is read by the SDK's models.
TEST(Sdk, ReadsEveryAnswerOfTheFleet) {
  const char* python = std::getenv("QM_SDK_PYTHON");
  if (python == nullptr) GTEST_SKIP() << "QM_SDK_PYTHON is not set: run ./qm peers moto";
  const testing::TempDir dir;
  InProcess cloud_here(dir.path() + "/clock");
  ASSERT_TRUE(cloud_here.server.start());
  const std::string root = QM_SOURCE_DIR;
  testing::Process::Options options;
  options.argv = {python, root + "/tests/contract/cloud/sdk.py",
                  fmt::format("http://127.0.0.1:{}", cloud_here.server.port()), root + "/fleet/src"};
  options.output = dir.path() + "/failures";
  const auto process = testing::Process::start(options);
  ASSERT_TRUE(process);
  EXPECT_EQ((*process)->wait(std::chrono::minutes(2)).value_or(-1), 0) << testing::read_file(options.output);
}

}  // namespace sdk_moto_test
}  // namespace qm::contract
