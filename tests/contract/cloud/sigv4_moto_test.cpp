// The published test suite of Signature Version 4. It comes with botocore's sources.
#include "qm/cloud/sigv4.hpp"

#include "qm/base/parse.hpp"
#include "qm/http/http.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace qm::contract {
namespace sigv4_moto_test {

/// The request of a file. Lines that begin with a blank continue a header, and the body follows an empty line.
cloud::SigningInput read_request(const std::string& text) {
  cloud::SigningInput in;
  in.access_key = "AKIDEXAMPLE";
  in.secret_key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
  in.region = "us-east-1";
  in.service = "service";
  const auto end = text.find("\n\n");
  if (end != std::string::npos) in.body = text.substr(end + 2);
  const auto lines = split(std::string_view(text).substr(0, end), '\n');
  const std::string first(lines.front());
  in.method = first.substr(0, first.find(' '));
  const auto from = in.method.size() + 1;
  const auto target = first.substr(from, first.rfind(' ') - from);  // one of the paths has a space
  in.path = target.substr(0, target.find('?'));
  // The suite writes queries as a user does; clients send them encoded.
  if (in.path.size() < target.size()) {
    for (const char c : target.substr(in.path.size() + 1)) {
      in.query += static_cast<unsigned char>(c) < 0x80 ? std::string(1, c) : http::url_encode(std::string(1, c));
    }
  }
  for (const auto& line : lines) {
    if (line == lines.front() || line.empty()) continue;
    if (line.starts_with(' ')) {
      in.headers.back().second += " " + std::string(line);
      continue;
    }
    const auto colon = line.find(':');
    in.headers.emplace_back(line.substr(0, colon), line.substr(colon + 1));
    if (line.starts_with("X-Amz-Date:")) in.amz_date = line.substr(colon + 1);
  }
  return in;
}

TEST(SigV4Suite, EveryRequestHasTheThreePublishedSteps) {
  const char* folder = std::getenv("QM_SIGV4_SUITE");
  if (folder == nullptr) GTEST_SKIP() << "QM_SIGV4_SUITE is not set: run ./qm peers moto";
  int requests = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".req") continue;
    ++requests;
    const auto step = [&](const char* extension) {
      return testing::read_file(std::filesystem::path(entry.path()).replace_extension(extension).string());
    };
    SCOPED_TRACE(entry.path().stem().string());
    auto in = read_request(step(".req"));
    // The session token of some requests is in the credentials only.
    const auto canonical = step(".creq");
    const std::string name = "x-amz-security-token:";
    const bool sent =
        std::ranges::any_of(in.headers, [](const auto& one) { return one.first == "X-Amz-Security-Token"; });
    if (const auto at = canonical.find("\n" + name); at != std::string::npos && !sent) {
      const auto from = at + 1 + name.size();
      in.headers.emplace_back("X-Amz-Security-Token", canonical.substr(from, canonical.find('\n', from) - from));
    }
    EXPECT_EQ(cloud::canonical_request(in), canonical);
    EXPECT_EQ(cloud::string_to_sign(in), step(".sts"));
    EXPECT_EQ(cloud::authorization_header(in), step(".authz"));
  }
  EXPECT_EQ(requests, 34);
}

}  // namespace sigv4_moto_test
}  // namespace qm::contract
