#include "qm/testing/testing.hpp"

#include "qm/base/digest.hpp"
#include "qm/testing/text.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <signal.h>
#include <unistd.h>
#include <vector>

namespace qm::testing {
namespace testing_test {

using namespace std::chrono_literals;

TEST(TempDir, IsThereAndThenIsNot) {
  std::string path;
  {
    const TempDir dir;
    path = dir.path();
    EXPECT_TRUE(std::filesystem::is_directory(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

/// QM_SHARED for one test; its earlier value is restored.
class SharedIs {
 public:
  explicit SharedIs(const std::string& value) {
    if (const char* before = std::getenv("QM_SHARED"); before != nullptr) before_ = before;
    ::setenv("QM_SHARED", value.c_str(), 1);
  }
  ~SharedIs() {
    if (before_) {
      ::setenv("QM_SHARED", before_->c_str(), 1);
    } else {
      ::unsetenv("QM_SHARED");
    }
  }

 private:
  std::optional<std::string> before_;
};

TEST(DataFolders, AreOurOwnFirstAndTheReferenceOneWhereItIsPresent) {
  const TempDir reference;
  std::filesystem::create_directories(reference.path() + "/manifests");
  std::filesystem::create_directories(reference.path() + "/elsewhere");
  const SharedIs shared(reference.path());
  EXPECT_EQ(data_folders("manifests"),
            (std::vector<std::string>{data_dir() + "/manifests", reference.path() + "/manifests"}));
  EXPECT_EQ(data_folders("elsewhere"), std::vector<std::string>{reference.path() + "/elsewhere"});
  EXPECT_EQ(data_folders("nowhere"), std::vector<std::string>{});
}

TEST(DataFolders, AreOurOwnAloneWithoutReferenceData) {
  const SharedIs shared("/nonexistent");
  EXPECT_EQ(shared_dir(), std::nullopt);
  EXPECT_TRUE(std::filesystem::exists(data_dir() + "/manifests/README.md"));
  EXPECT_EQ(data_folders("manifests"), std::vector<std::string>{data_dir() + "/manifests"});
}

TEST(WaitUntil, EndsWithTheConditionOrTheTimeout) {
  int looks = 0;
  EXPECT_TRUE(wait_until([&] { return ++looks == 3; }));
  EXPECT_FALSE(wait_until([] { return false; }, 5ms));
}

TEST(FreePort, IsBelowThoseOfOutgoingConnectionsAndGivenOnce) {
  std::set<int> seen;
  for (int i = 0; i < 200; ++i) {
    const int port = free_port();
    EXPECT_GE(port, 10'240);
    EXPECT_LT(port, 32'768);
    EXPECT_TRUE(seen.insert(port).second) << port;
  }
}

TEST(FreePort, IsReservedUntilItsProcessEnds) {
  // Reserved by a name that a second process cannot bind.
  const int ours = free_port();
  std::ifstream sockets("/proc/net/unix");
  const std::string all{std::istreambuf_iterator<char>(sockets), {}};
  EXPECT_NE(all.find("@quartermaster-test-port-" + std::to_string(ours) + "\n"), std::string::npos);
}

TEST(AddressSanitizer, IsInTheBinaryThatIsNamedForIt) {
  EXPECT_EQ(address_sanitizer(), std::filesystem::read_symlink("/proc/self/exe").string().ends_with("_asan"));
}

TEST(AddressSanitizer, EndsAReadPastTheEndInALibrary) {
  if (!address_sanitizer()) GTEST_SKIP() << "the libraries of this binary are not instrumented";
  const std::vector<char> bytes(16);
  EXPECT_DEATH((void)stable_hash({bytes.data(), bytes.size() + 1}), "heap-buffer-overflow");
}

TEST(Process, GivesStatusOutputAndEnvironment) {
  const TempDir dir;
  auto child =
      Process::start({{"sh", "-c", "echo \"$WORD\"; echo err >&2; exit 7"}, {{"WORD", "hello"}}, dir.path() + "/out"});
  ASSERT_TRUE(child) << child.error().to_string();
  EXPECT_EQ((*child)->wait(10s), 7);
  EXPECT_FALSE((*child)->running());
  EXPECT_EQ(read_file(dir.path() + "/out"), "hello\nerr\n");
}

TEST(Process, ASignalIs128AndItsNumber) {
  auto child = Process::start({{"sleep", "100"}, {}, {}});
  ASSERT_TRUE(child);
  EXPECT_TRUE((*child)->running());
  EXPECT_EQ(::getpgid((*child)->pid()), (*child)->pid());
  EXPECT_EQ((*child)->wait(1ms), std::nullopt);
  (*child)->signal(SIGTERM);
  EXPECT_EQ((*child)->wait(10s), 128 + SIGTERM);
  (*child)->signal(SIGKILL);  // harmless once it is gone
}

TEST(Process, IsKilledWithItsOwner) {
  pid_t pid = 0;
  {
    auto child = Process::start({{"sleep", "100"}, {}, {}});
    ASSERT_TRUE(child);
    pid = (*child)->pid();
  }
  EXPECT_EQ(::kill(pid, 0), -1);
}

TEST(Process, ReportsWhyItCannotStart) {
  auto child = Process::start({{"/no/such/program"}, {}, {}});
  ASSERT_FALSE(child);
  EXPECT_NE(child.error().message.find("/no/such/program"), std::string::npos);
  EXPECT_FALSE(Process::start({}));
}

TEST(Text, IsSplitWithoutEmptyPartsAndTrimmed) {
  using Parts = std::vector<std::string>;
  EXPECT_EQ(split("a,,b,", ','), (Parts{"a", "b"}));
  EXPECT_EQ(split(",a", ','), Parts{"a"});
  EXPECT_EQ(split("", ','), Parts{});
  EXPECT_EQ(trimmed(" \ta b \t"), "a b");
  EXPECT_EQ(trimmed(" "), "");
}

}  // namespace testing_test
}  // namespace qm::testing
