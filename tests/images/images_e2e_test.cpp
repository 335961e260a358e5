// Each image as it is built: its files, its user, and that it runs without arguments.
#include "qm/base/json.hpp"
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

// Image and layout are listed by the same command, so that they can be compared as text.
constexpr const char* kList =
    "find . -mindepth 1 \\( -type f -printf '%P %s\\n' \\) -o -type l -print -o -type d -printf '%P/\\n' | sort";

TEST_P(Images, HoldsWhatWasLaidOutAndNothingElse) {
  const auto laid = sh(fmt::format("cd build/images/{} && {}", GetParam(), kList));
  const auto held = sh(fmt::format("cd $(podman image mount {}) && {}; cd / && podman image umount {} >/dev/null",
                                   image(GetParam()), kList, image(GetParam())));
  ASSERT_EQ(laid.code, 0) << laid.output;
  ASSERT_EQ(held.code, 0) << held.output;
  auto wanted_files = lines_of(laid.output);
  // The Dockerfile creates the folder that the fleet's user may write to.
  if (GetParam() == "qm-fleet")
    wanted_files.insert(std::ranges::find(wanted_files, "var/lib/quartermaster/"), "var/lib/fleet/");
  EXPECT_EQ(lines_of(held.output), wanted_files);
  std::set<std::string> programs;
  for (const auto& line : lines_of(held.output)) {
    const auto path = line.substr(0, line.find(' '));
    if (path.starts_with("usr/bin/") && !path.ends_with('/')) programs.insert(path.substr(8));
    const auto name = path.substr(path.rfind('/') + 1);
    for (const char* tool :
         {"sh", "bash", "dash", "busybox", "apt", "apt-get", "dpkg", "perl", "python3", "curl", "su", "mount"})
      EXPECT_NE(name, tool) << path;
    EXPECT_FALSE(path.starts_with("var/lib/dpkg") || path.starts_with("var/lib/apt")) << path;
  }
  std::set<std::string> wanted{GetParam()};
  if (GetParam() == "quartermaster") wanted = std::set<std::string>(targets().begin(), targets().end() - 1);
  EXPECT_EQ(programs, wanted);
}

// No file runs as another user than the caller, and only the intended folders are world-writable.
TEST_P(Images, HasNoSetuidOrWorldWritableFile) {
  const auto found = sh(fmt::format(
      "cd $(podman image mount {0}) && find . \\( -type f -perm /6000 -o ! -type l -perm -o+w ! -path ./tmp -o "
      "-type b -o -type c \\) -print; getcap -r . ; cd / && podman image umount {0} >/dev/null",
      image(GetParam())));
  ASSERT_EQ(found.code, 0) << found.output;
  EXPECT_EQ(found.output, "");
}

// The SBOM in the image lists the contents of the image; two independent validators accept its two forms.
TEST_P(Images, TheSbomIsValidAndComplete) {
  const auto copied = [&](const char* kind) { return fmt::format("usr/share/sbom/{}.{}.json", GetParam(), kind); };
  const testing::TempDir folder;
  const auto held = sh(fmt::format(
      "cd $(podman image mount {0}) && cp {2} {3} {1} && find . -type f ! -path './usr/share/sbom/*' -print0 | xargs -0 sha256sum | sort; "
      "cd / && podman image umount {0} >/dev/null",
      image(GetParam()), folder.path(), copied("spdx"), copied("cdx")));
  ASSERT_EQ(held.code, 0) << held.output;
  const std::string spdx = fmt::format("{}/{}.spdx.json", folder.path(), GetParam());
  const std::string cyclonedx = fmt::format("{}/{}.cdx.json", folder.path(), GetParam());
  std::set<std::string> there, listed;
  for (const auto& line : lines_of(held.output)) there.insert(line);
  const auto document = Json::parse(testing::read_file(spdx));
  ASSERT_TRUE(document);
  for (const Json& file : (*document)["files"].items())
    listed.insert(file["checksums"].at(1)["checksumValue"].string() + "  " + file["fileName"].string());
  EXPECT_EQ(listed, there);
  const auto libraries =
      std::ranges::count_if(listed, [](const auto& line) { return line.find(".so") != std::string::npos; });
  std::printf("%s: %zu files, %td of them shared objects\n", GetParam().c_str(), listed.size(), libraries);
  EXPECT_GT(libraries, 5);

  const std::string python = setting("QM_SBOM_PYTHON");
  const auto valid_spdx = sh(fmt::format("$(dirname {})/pyspdxtools -i {}", python, spdx));
  EXPECT_EQ(valid_spdx.code, 0) << valid_spdx.output;
  const auto valid_cyclonedx = sh(fmt::format("{} tests/images/validate_cyclonedx.py {}", python, cyclonedx));
  EXPECT_EQ(valid_cyclonedx.code, 0) << valid_cyclonedx.output;
}

TEST_P(Images, RunsUnprivilegedWithoutCapabilities) {
  const auto user =
      sh(fmt::format("podman image inspect --format '{{{{.Config.User}}}} {{{{.Size}}}}' {}", image(GetParam())));
  ASSERT_EQ(user.code, 0) << user.output;
  EXPECT_TRUE(user.output.starts_with("65532:65532 ")) << user.output;
  const long size = std::stol(user.output.substr(12));
  std::printf("%s: %.1f MB\n", GetParam().c_str(), static_cast<double>(size) / 1e6);
  EXPECT_LT(size, 150'000'000);
  const std::string confined =
      "podman run --rm --pull never --read-only --read-only-tmpfs=false --cap-drop all --security-opt no-new-privileges";
  // The combined image has no single program.
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

// A tag can be moved, a digest cannot: a pushed image is named by its digest in the registry.
TEST(Pushed, EachImageIsNamedByItsDigest) {
  if (setting("QM_CONTAINERS").empty()) GTEST_SKIP() << kNoContainers;
  ASSERT_EQ(build_once(), "");
  const testing::TempDir folder;
  const auto ran = sh(fmt::format("tools/images.sh push oci:{} test", folder.path()), std::chrono::minutes(5));
  ASSERT_EQ(ran.code, 0) << ran.output;
  const auto lines = lines_of(ran.output);
  ASSERT_EQ(lines.size(), targets().size()) << ran.output;
  for (std::size_t i = 0; i < targets().size(); ++i) {
    const auto index = Json::parse(testing::read_file(fmt::format("{}/{}/index.json", folder.path(), targets()[i])));
    ASSERT_TRUE(index) << targets()[i];
    const std::string& digest = (*index)["manifests"].at(0)["digest"].string();
    EXPECT_TRUE(digest.starts_with("sha256:")) << digest;
    EXPECT_NE(lines[i].find(digest), std::string::npos) << lines[i];
  }
  EXPECT_TRUE(lines[0].starts_with("QM_IMAGE_ADMISSION=")) << lines[0];
  EXPECT_NE(lines.back().find("image.digest=sha256:"), std::string::npos) << lines.back();

  // docker-compose.yml uses them instead of its tags.
  const std::string pinned = "QM_IMAGE_ADMISSION=registry.example.com/qm-admission@sha256:" + std::string(64, 'a');
  const auto config = sh(fmt::format("env -u QM_REGISTRY -u QM_TAG {} {} -f docker-compose.yml config", pinned,
                                     setting("QM_PODMAN_COMPOSE")));
  EXPECT_EQ(config.code, 0) << config.output;
  EXPECT_NE(config.output.find("image: " + pinned.substr(19)), std::string::npos) << config.output;
  EXPECT_NE(config.output.find("image: quartermaster/qm-placement:dev"), std::string::npos) << config.output;
}

}  // namespace images_e2e_test
}  // namespace qm::images
