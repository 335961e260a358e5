#include "qm/http/certificate.hpp"

#include "qm/http/http.hpp"

#include <gtest/gtest.h>

namespace qm::http {
namespace certificate_test {

using namespace std::chrono_literals;

const WallTime kStart = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());

Identity authority(const std::string& name = "test-ca", WallTime from = kStart - 1h) {
  return *make_authority({name, {}, from, from + 100h});
}
Identity server_of(const Identity& by, WallTime from = kStart - 1h) {
  return *make_certificate({"server", {"127.0.0.1", "webhook.example.svc"}, from, from + 10h}, by);
}

TEST(Certificates, HaveTheFieldsTheyWereCreatedWith) {
  const auto ca = authority();
  const auto leaf = server_of(ca);
  EXPECT_EQ(*read_certificate(ca.certificate),
            (CertificateFacts{"test-ca", {}, kStart - 1h, kStart - 1h + 100h, true}));
  EXPECT_EQ(*read_certificate(leaf.certificate),
            (CertificateFacts{"server", {"127.0.0.1", "webhook.example.svc"}, kStart - 1h, kStart - 1h + 10h, false}));
}

TEST(Certificates, KnowTheirSignerAndTheirKey) {
  const auto ca = authority(), other = authority();
  const auto leaf = server_of(ca);
  EXPECT_TRUE(signed_by(leaf.certificate, ca.certificate));
  EXPECT_FALSE(signed_by(leaf.certificate, other.certificate)) << "of the same name, but another key";
  EXPECT_FALSE(signed_by("nonsense", ca.certificate));
  EXPECT_TRUE(belongs(leaf));
  EXPECT_FALSE(belongs({leaf.certificate, ca.key}));
  EXPECT_EQ(split_certificates(ca.certificate + "between\n" + leaf.certificate),
            (std::vector<std::string>{ca.certificate, leaf.certificate}));
}

TEST(Certificates, WhatCannotBeIsRefused) {
  EXPECT_EQ(make_authority({"x", {}, kStart, kStart}).error().code, Code::kInvalid);
  EXPECT_EQ(make_certificate({"x", {"a,DNS:b"}, kStart, kStart + 1h}, authority()).error().field, "names");
  EXPECT_EQ(make_certificate({"x", {"a"}, kStart, kStart + 1h}, {"no", "key"}).error().code, Code::kInvalid);
  EXPECT_EQ(read_certificate("nonsense").error().code, Code::kInvalid);
}

Status ask(const Server& server, const std::string& ca, std::optional<WallTime> at = {}) {
  ClientOptions options;
  options.ca = ca;
  options.at = at;
  const auto answer = Client("https://127.0.0.1:" + std::to_string(server.port()), options).send({});
  if (!answer) return fail(answer.error());
  return {};
}

TEST(Certificates, AreReplacedInARunningServer) {
  const auto first = authority("first"), second = authority("second");
  ServerOptions options;
  options.identity = server_of(first);
  Server server(options, [](const Request&) { return text(200, "here"); });
  ASSERT_TRUE(server.start());
  const auto origin = "https://127.0.0.1:" + std::to_string(server.port());
  ClientOptions trusts_first;
  trusts_first.ca = first.certificate;
  Client kept(origin, trusts_first);
  ASSERT_TRUE(kept.send({}));

  ASSERT_TRUE(server.replace_certificate(server_of(second)));
  EXPECT_TRUE(kept.send({})) << "an open connection continues";
  EXPECT_EQ(ask(server, first.certificate).error().code, Code::kUnauthenticated);
  EXPECT_TRUE(ask(server, second.certificate));
  EXPECT_TRUE(ask(server, first.certificate + second.certificate)) << "either of a bundle will do";

  EXPECT_EQ(server.replace_certificate({server_of(first).certificate, second.key}).error().code, Code::kInvalid);
  EXPECT_TRUE(ask(server, second.certificate)) << "the old one stays if the new one is invalid";
}

TEST(Certificates, AreJudgedAsOfTheTimeGiven) {
  const auto ca = authority();
  ServerOptions options;
  options.identity = server_of(ca);
  Server server(options, [](const Request&) { return text(200, "here"); });
  ASSERT_TRUE(server.start());
  EXPECT_TRUE(ask(server, ca.certificate));
  EXPECT_TRUE(ask(server, ca.certificate, kStart + 8h));
  EXPECT_FALSE(ask(server, ca.certificate, kStart + 20h));
  EXPECT_FALSE(ask(server, ca.certificate, kStart - 2h));
}

}  // namespace certificate_test
}  // namespace qm::http
