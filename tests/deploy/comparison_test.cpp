// The scripts of ./qm bench stack.
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

namespace {

TEST(Comparison, FiguresAreThoseOfTheRecordedTurns) {
  const qm::testing::TempDir folder;
  qm::testing::Process::Options options;
  options.argv = {"python3", std::string(QM_SOURCE_DIR) + "/bench/stack/figures_test.py"};
  options.output = folder.path() + "/output";
  auto process = qm::testing::Process::start(options);
  ASSERT_TRUE(process);
  EXPECT_EQ((*process)->wait(std::chrono::minutes(1)).value_or(-1), 0) << qm::testing::read_file(options.output);
}

}  // namespace
