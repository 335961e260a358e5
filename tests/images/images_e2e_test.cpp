// Each image as it is built: what lies in it, as whom it runs, and that it runs with nothing given to it.
#include "support.hpp"

#include <algorithm>
#include <set>

namespace qm::images {
namespace images_e2e_test {

class Images : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (setting("QM_CONTAINERS").empty()) GTEST_SKIP() << kNoContainers;
    ASSERT_EQ(build_once(), "");
  }
};

// Image and layout are listed by the same line, so that they can be compared as text.
constexpr const char* kList =
    "find . -mindepth 1 \\( -type f -printf '%P %s\\n' \\) -o -type l -print -o -type d -printf '%P/\\n' | sort";

TEST_P(Images, HoldsWhatWasLaidOutAndNothingElse) {
  const auto laid = sh(fmt::format("cd build/images/{} && {}", GetParam(), kList));
  const auto held = sh(fmt::format("cd $(podman image mount {}) && {}; cd / && podman image umount {} >/dev/null",
                                   image(GetParam()), kList, image(GetParam())));
  ASSERT_EQ(laid.code, 0) << laid.output;
  ASSERT_EQ(held.code, 0) << held.output;
  auto wanted_files = lines_of(laid.output);
  // The folder that the fleet's user may write to is made by the Dockerfile.
  if (GetParam() == "qm-fleet")
    wanted_files.insert(std::ranges::find(wanted_files, "var/lib/quartermaster/"), "var/lib/fleet/");
  EXPECT_EQ(lines_of(held.output), wanted_files);
  std::set<std::string> programs;
  for (const auto& line : lines_of(held.output)) {
    const auto path = line.substr(0, line.find(' '));
    if (path.starts_with("usr/bin/") && !path.ends_with('/')) programs.insert(path.substr(8));
    const auto name = path.substr(path.rfind('/') + 1);
    for (const char* tool : {"sh", "bash", "dash", "busybox", "apt", "dpkg", "perl", "python3", "curl"})
      EXPECT_NE(name, tool) << path;
  }
  std::set<std::string> wanted{GetParam()};
  if (GetParam() == "quartermaster") wanted = std::set<std::string>(targets().begin(), targets().end() - 1);
  EXPECT_EQ(programs, wanted);
}

TEST_P(Images, RunsAsNobodyWithNothing) {
  const auto user =
      sh(fmt::format("podman image inspect --format '{{{{.Config.User}}}} {{{{.Size}}}}' {}", image(GetParam())));
  ASSERT_EQ(user.code, 0) << user.output;
  EXPECT_TRUE(user.output.starts_with("65532:65532 ")) << user.output;
  const long size = std::stol(user.output.substr(12));
  std::printf("%s: %.1f MB\n", GetParam().c_str(), static_cast<double>(size) / 1e6);
  EXPECT_LT(size, 150'000'000);
  const std::string confined =
      "podman run --rm --pull never --read-only --read-only-tmpfs=false --cap-drop all --security-opt no-new-privileges";
  // The image with all of them has no program of its own.
  const std::string program = GetParam() == "quartermaster" ? "qm-cost" : "";
  const auto help = sh(fmt::format("{} {} {} --help", confined, image(GetParam()), program));
  EXPECT_EQ(help.code, 0) << help.output;
  EXPECT_NE(help.output.find("Usage"), std::string::npos) << help.output;
  const auto shell = sh(fmt::format("{} --entrypoint /bin/sh {} -c true", confined, image(GetParam())));
  EXPECT_NE(shell.code, 0) << "there is a shell";
}

INSTANTIATE_TEST_SUITE_P(EachTarget, Images, ::testing::ValuesIn(targets()), [](const auto& one) {
  std::string name = one.param;
  std::erase(name, '-');
  return name;
});

}  // namespace images_e2e_test
}  // namespace qm::images
