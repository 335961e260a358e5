#pragma once
#include "qm/http/certificate.hpp"
#include "qm/rpc/security.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace qm::rpc::testing {

inline void write_file(const std::string& path, const std::string& text) {
  // Renamed into place, because readers may read it at any time.
  std::ofstream(path + ".new") << text;
  std::filesystem::rename(path + ".new", path);
}

/// An authority in a folder, and the files of processes with its certificates.
class Authority {
 public:
  explicit Authority(const std::string& name = "test authority", std::chrono::hours until = std::chrono::hours(24)) {
    const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    auto made = http::make_authority({name, {}, now - std::chrono::hours(1), now + until});
    EXPECT_TRUE(made) << made.error().to_string();
    self_ = *made;
    write_file(dir_.path() + "/ca.crt", self_.certificate);
  }

  struct Terms {
    std::vector<std::string> uris = {};
    std::chrono::hours until{12};
    std::string file = {};  ///< instead of the common name
  };
  TlsFiles issue(const std::string& common_name, const Terms& terms) {
    const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    http::CertificateTerms asked{
        common_name, {"127.0.0.1", "localhost"}, now - std::chrono::hours(2), now + terms.until, terms.uris, true};
    const auto made = http::make_certificate(asked, self_);
    EXPECT_TRUE(made) << made.error().to_string();
    const auto base = dir_.path() + "/" + (terms.file.empty() ? common_name : terms.file);
    write_file(base + ".key", made->key);
    write_file(base + ".crt", made->certificate);
    return {base + ".crt", base + ".key", ca()};
  }
  TlsFiles issue(const std::string& common_name) { return issue(common_name, {}); }
  [[nodiscard]] std::string ca() const { return dir_.path() + "/ca.crt"; }
  [[nodiscard]] const std::string& folder() const { return dir_.path(); }

 private:
  qm::testing::TempDir dir_;
  http::Identity self_;
};

}  // namespace qm::rpc::testing
