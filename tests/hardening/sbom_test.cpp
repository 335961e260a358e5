// The bill of materials names every file of an image's file system, with its checksum, and nothing of unknown origin.
#include "qm/base/json.hpp"
#include "shipped.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

namespace qm::hardening {
namespace sbom_test {

using Sums = std::map<std::string, std::string>;  ///< path -> SHA-256

class Sbom : public ::testing::Test {
 protected:
  void SetUp() override {
    const Ran laid = sh(fmt::format("tools/image-root.sh {} {}", program("qm-fleet"), root()));
    ASSERT_EQ(laid.code, 0) << laid.output;
  }
  [[nodiscard]] std::string root() const { return folder_.path() + "/root"; }
  [[nodiscard]] Ran write() const {
    return sh(fmt::format("SOURCE_DATE_EPOCH=1800000000 tools/sbom.py {} qm-fleet 9.8.7", root()));
  }
  [[nodiscard]] std::string text(const std::string& kind) const {
    return testing::read_file(fmt::format("{}/usr/share/sbom/qm-fleet.{}.json", root(), kind));
  }
  [[nodiscard]] Sums files() const {
    const Ran ran =
        sh(fmt::format("cd {} && find . -type f -not -path './usr/share/sbom/*' -print0 | xargs -0 sha256sum", root()));
    Sums out;
    std::istringstream in(ran.output);
    for (std::string sum, path; in >> sum >> path;) out[path.substr(1)] = sum;
    return out;
  }

 private:
  testing::TempDir folder_;
};

Sums of_spdx(const Json& document) {
  Sums out;
  for (const Json& file : document["files"].items()) {
    for (const Json& sum : file["checksums"].items()) {
      if (sum["algorithm"].string() == "SHA256")
        out[file["fileName"].string().substr(1)] = sum["checksumValue"].string();
    }
  }
  return out;
}

void of_cyclonedx(const Json& component, Sums& out) {
  if (component["type"].string() == "file") {
    for (const Json& hash : component["hashes"].items()) {
      if (hash["alg"].string() == "SHA-256") out[component["name"].string()] = hash["content"].string();
    }
  }
  for (const Json& part : component["components"].items()) of_cyclonedx(part, out);
}

// Cron triggers name time zones of the IANA database, which the image has to bring.
TEST_F(Sbom, TheAutoscalersImageHasTimeZonesOfKnownOrigin) {
  const std::string folder = root() + "-autoscaler";
  const Ran laid = sh(fmt::format("tools/image-root.sh {} {}", program("qm-autoscaler"), folder));
  ASSERT_EQ(laid.code, 0) << laid.output;
  EXPECT_EQ(testing::read_file(folder + "/usr/share/zoneinfo/Europe/Berlin").substr(0, 4), "TZif");
  EXPECT_FALSE(std::filesystem::exists(root() + "/usr/share/zoneinfo")) << "another program needs none";
  const Ran ran = sh(fmt::format("SOURCE_DATE_EPOCH=1800000000 tools/sbom.py {} qm-autoscaler 9.8.7", folder));
  ASSERT_EQ(ran.code, 0) << ran.output;
  const std::string bill = testing::read_file(folder + "/usr/share/sbom/qm-autoscaler.spdx.json");
  EXPECT_NE(bill.find("pkg:deb/debian/tzdata@"), std::string::npos);
}

TEST_F(Sbom, ListsEveryFileWithChecksumAndPackage) {
  const Ran ran = write();
  ASSERT_EQ(ran.code, 0) << ran.output;
  const auto spdx = Json::parse(text("spdx")), cyclonedx = Json::parse(text("cdx"));
  ASSERT_TRUE(spdx && cyclonedx);
  const Sums there = files();
  EXPECT_TRUE(there.contains("/usr/bin/qm-fleet"));
  EXPECT_GT(there.size(), 10u);
  EXPECT_EQ(of_spdx(*spdx), there);
  Sums listed;
  of_cyclonedx(*cyclonedx, listed);
  EXPECT_EQ(listed, there);

  // Version and source of one package, as in dpkg, in both documents; and of the program.
  const std::string version = sh("dpkg-query -W -f '${Version}' libssl3").output;
  ASSERT_FALSE(version.empty());
  std::set<std::string> packages;
  for (const Json& one : (*spdx)["packages"].items()) {
    packages.insert(one["name"].string() + " " + one["versionInfo"].string());
    if (one["name"].string() == "libssl3") {
      EXPECT_EQ(one["licenseDeclared"].string().find("Apache-2.0"), 0u) << one["licenseDeclared"].string();
    }
  }
  EXPECT_TRUE(packages.contains("libssl3 " + version));
  EXPECT_TRUE(packages.contains("qm-fleet 9.8.7"));
  std::set<std::string> purls;
  for (const Json& one : (*cyclonedx)["components"].items()) purls.insert(one["purl"].string());
  EXPECT_TRUE(purls.contains(fmt::format("pkg:deb/debian/libssl3@{}?arch={}&distro=debian-12&upstream=openssl%40{}",
                                         version, sh("dpkg --print-architecture | tr -d '\\n'").output, version)))
      << text("cdx");

  // The same file system gives the same documents.
  const std::string first = text("spdx") + text("cdx");
  ASSERT_EQ(write().code, 0);
  EXPECT_EQ(text("spdx") + text("cdx"), first);
}

TEST_F(Sbom, AFileOfUnknownOriginIsRefused) {
  const Ran found = sh(fmt::format("cd {} && find . -name 'libz.so*'", root()));
  ASSERT_TRUE(found.output.starts_with("./")) << found.output;
  const std::string library = found.output.substr(1, found.output.find('\n') - 1);
  const std::string stray = library.substr(0, library.rfind('/')) + "/libstray.so.1";
  std::filesystem::copy_file(root() + library, root() + stray);
  const Ran unknown = write();
  EXPECT_EQ(unknown.code, 1);
  EXPECT_NE(unknown.output.find(stray + " is of no Debian package"), std::string::npos) << unknown.output;
  EXPECT_FALSE(std::filesystem::exists(root() + "/usr/share/sbom"));
  std::filesystem::remove(root() + stray);

  std::ofstream(root() + library, std::ios::app) << "more";
  const Ran changed = write();
  EXPECT_EQ(changed.code, 1);
  EXPECT_NE(changed.output.find(library + " is not the file that zlib1g"), std::string::npos) << changed.output;
  EXPECT_FALSE(std::filesystem::exists(root() + "/usr/share/sbom"));
}

}  // namespace sbom_test
}  // namespace qm::hardening
