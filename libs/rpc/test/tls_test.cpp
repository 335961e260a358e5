// Connection security: over a real server and real sockets.
#include "credentials.hpp"
#include "qm/rpc/process.hpp"
#include "qm/rpc/server.hpp"
#include "tiny_service.hpp"

#include <gtest/gtest.h>

namespace qm::rpc {
namespace tls_test {

using qm::testing::wait_until;
using testing::Authority;

struct Running {
  explicit Running(ServerOptions options) : server(std::move(options), {&service}) {
    const auto started = server.start();
    EXPECT_TRUE(started) << started.error().to_string();
    service.error = {Code::kExhausted, "reached", {}, {}};
  }
  [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(server.port()); }
  TinyService service;
  Server server;
};

/// The result of Submit over a new connection: kExhausted comes from the handler, so the call was allowed.
Error call(const std::string& address, const ClientSecurity& security) {
  auto channel = open_channel(address, security);
  if (!channel) return channel.error();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  v1::SubmitResponse response;
  return from_grpc(v1::Admission::NewStub(*channel)->Submit(&context, {}, &response), "Submit");
}

ServerOptions serving(const TlsFiles& files) {
  ServerOptions options;
  options.tls = files;
  return options;
}

TEST(Tls, BothSidesProveThemselves) {
  Authority authority;
  const Running running(serving(authority.issue("quartermaster-placement")));
  EXPECT_EQ(call(running.address(), {authority.issue("quartermaster-admission")}).code, Code::kExhausted);
  ClientSecurity without_certificate;
  without_certificate.tls.ca = authority.ca();
  EXPECT_EQ(call(running.address(), without_certificate).code, Code::kExhausted);
}

TEST(Tls, UnknownClientsAreRefused) {
  Authority authority;
  Authority stranger("another client");
  const Running running(serving(authority.issue("quartermaster-placement")));
  // An untrusted server; an untrusted client certificate; an expired one; and plain text.
  EXPECT_EQ(call(running.address(), {stranger.issue("quartermaster-admission")}).code, Code::kUnavailable);
  auto foreign = stranger.issue("quartermaster-telemetry");
  foreign.ca = authority.ca();
  EXPECT_EQ(call(running.address(), {foreign}).code, Code::kUnavailable);
  EXPECT_EQ(call(running.address(), {}).code, Code::kUnavailable);
  EXPECT_EQ(call(running.address(), {authority.issue("quartermaster-admission")}).code, Code::kExhausted);
}

TEST(Tls, TheServersNameCounts) {
  Authority authority;
  const Running running(serving(authority.issue("quartermaster-placement")));
  ClientSecurity security{authority.issue("quartermaster-admission")};
  security.server_name = "elsewhere.example";
  EXPECT_EQ(call(running.address(), security).code, Code::kUnavailable);
  security.server_name = "localhost";
  EXPECT_EQ(call(running.address(), security).code, Code::kExhausted);
}

TEST(Tls, ARenewedCertificateIsTakenWithoutARestart) {
  Authority before;
  Authority after("the next authority");
  const auto files = before.issue("quartermaster-placement");
  const Running running(serving(files));
  const ClientSecurity old_friend{before.issue("quartermaster-admission")};
  const ClientSecurity new_friend{after.issue("quartermaster-admission")};
  EXPECT_EQ(call(running.address(), old_friend).code, Code::kExhausted);
  EXPECT_EQ(call(running.address(), new_friend).code, Code::kUnavailable);
  const auto renewed = after.issue("quartermaster-placement");
  testing::write_file(files.ca, qm::testing::read_file(renewed.ca));
  testing::write_file(files.key, qm::testing::read_file(renewed.key));
  testing::write_file(files.certificate, qm::testing::read_file(renewed.certificate));
  EXPECT_TRUE(wait_until([&] { return call(running.address(), new_friend).code == Code::kExhausted; }));
  auto left_behind = old_friend;
  left_behind.tls.ca = renewed.ca;  // `files.ca` is the trusted one, and that has changed
  EXPECT_EQ(call(running.address(), left_behind).code, Code::kUnavailable);
}

// An authority is renewed in two steps: first all processes trust both, then certificates are signed by the new one.
// At each moment processes of both steps may connect to each other.
TEST(Tls, PeersOfBothAuthoritiesConnectDuringARotation) {
  Authority before;
  Authority after("the next authority");
  const auto files = before.issue("quartermaster-placement");
  const std::string old_ca = qm::testing::read_file(before.ca());
  const std::string both = qm::testing::read_file(after.ca()) + old_ca;
  const Running running(serving(files));
  const auto peer = [&](Authority& issuer, const std::string& name, const std::string& trusted) {
    ClientSecurity out{issuer.issue("quartermaster-admission", {.file = name})};
    out.tls.ca = issuer.folder() + "/" + name + ".ca";
    testing::write_file(out.tls.ca, trusted);
    return out;
  };
  const ClientSecurity old_peer = peer(before, "old", old_ca);
  const ClientSecurity between = peer(before, "between", both);
  const ClientSecurity new_peer = peer(after, "new", both);
  auto open = open_channel(running.address(), old_peer);  // stays open during the whole test
  ASSERT_TRUE(open);
  const auto over_open = [&] {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::SubmitResponse response;
    return from_grpc(v1::Admission::NewStub(*open)->Submit(&context, {}, &response), "Submit").code;
  };
  EXPECT_EQ(over_open(), Code::kExhausted);
  EXPECT_EQ(call(running.address(), between).code, Code::kExhausted);

  testing::write_file(files.ca, both);
  EXPECT_TRUE(wait_until([&] { return call(running.address(), new_peer).code == Code::kExhausted; }));
  EXPECT_EQ(call(running.address(), between).code, Code::kExhausted);
  EXPECT_EQ(call(running.address(), old_peer).code, Code::kExhausted);

  const auto renewed = after.issue("quartermaster-placement");
  testing::write_file(files.key, qm::testing::read_file(renewed.key));
  testing::write_file(files.certificate, qm::testing::read_file(renewed.certificate));
  // Only a peer that trusts the old authority alone detects, with a new connection, that the server has a new
  // certificate.
  EXPECT_TRUE(wait_until([&] { return call(running.address(), old_peer).code == Code::kUnavailable; }));
  EXPECT_EQ(call(running.address(), between).code, Code::kExhausted);
  EXPECT_EQ(call(running.address(), new_peer).code, Code::kExhausted);
  EXPECT_EQ(over_open(), Code::kExhausted);
}

TEST(Tls, TheExpirationOfTheCertificatesIsExported) {
  Authority before;
  Authority after("the next authority");
  const auto files = before.issue("quartermaster-placement", {.until = std::chrono::hours(5)});
  const auto until = [](const std::string& path) {
    return http::read_certificate(qm::testing::read_file(path))->until.time_since_epoch().count();
  };
  metrics::Registry registry;
  export_certificates(registry, files, "placement");
  const auto exported = [&](const char* what, const char* use, long value) {
    const std::string line = fmt::format(
        "qm_tls_certificate_{}_timestamp_seconds{{service=\"placement\",use=\"{}\"}} {}\n", what, use, value);
    const std::string text = registry.text();
    EXPECT_NE(text.find(line), std::string::npos) << line << "in:\n" << text;
  };
  const long first = until(files.certificate);
  exported("expiration", "identity", first);
  exported("not_before", "identity", first - 7 * 3600);
  exported("expiration", "authority", until(before.ca()));

  // A key that does not match its new certificate yet: the server uses the previous pair.
  const auto renewed = after.issue("quartermaster-placement", {.until = std::chrono::hours(9)});
  testing::write_file(files.certificate, qm::testing::read_file(renewed.certificate));
  exported("expiration", "identity", first);
  testing::write_file(files.key, qm::testing::read_file(renewed.key));
  exported("expiration", "identity", until(renewed.certificate));
  // For a bundle the last expiry counts, in any order; after a file is removed the last values remain.
  Authority short_lived("a short authority", std::chrono::hours(2));
  testing::write_file(files.ca, qm::testing::read_file(short_lived.ca()) + qm::testing::read_file(after.ca()) +
                                    qm::testing::read_file(short_lived.ca()));
  exported("expiration", "authority", until(after.ca()));
  std::filesystem::remove(files.ca);
  exported("expiration", "authority", until(after.ca()));

  metrics::Registry plain;
  export_certificates(plain, {}, "placement");
  EXPECT_EQ(plain.text().find("qm_tls_certificate"), std::string::npos);
}

TEST(Tls, PlainTextStaysOnLoopback) {
  ServerOptions options;
  options.address = "0.0.0.0:0";
  TinyService service;
  const auto refused = Server(options, {&service}).start();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kFailedPrecondition);
  EXPECT_NE(refused.error().remedy.find("--tls-cert"), std::string::npos);
  EXPECT_NE(refused.error().remedy.find("--insecure"), std::string::npos);
  options.insecure = true;
  Server open(options, {&service});
  const auto started = open.start();
  EXPECT_TRUE(started) << started.error().to_string();

  const auto channel = open_channel("192.0.2.1:7101", {});
  ASSERT_FALSE(channel);
  EXPECT_EQ(channel.error().code, Code::kFailedPrecondition);
  ClientSecurity reported;
  reported.insecure = true;
  EXPECT_TRUE(open_channel("192.0.2.1:7101", reported));
}

TEST(Tls, OpenToOthersMeansAskingThem) {
  Authority authority;
  auto options = serving(authority.issue("quartermaster-placement"));
  options.address = "0.0.0.0:0";
  TinyService service;
  const auto refused = Server(options, {&service}).start();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().field, "--auth");
}

TEST(Tls, LoopbackIsWhatDoesNotLeave) {
  for (const auto* address : {"127.0.0.1:1", "127.8.0.1:1", "localhost:1", "[::1]:1", "unix:/tmp/x"})
    EXPECT_TRUE(is_loopback(address)) << address;
  for (const auto* address : {"0.0.0.0:1", "10.0.0.1:1", "127.evil.example:1", "[::]:1", "localhost.example:1"})
    EXPECT_FALSE(is_loopback(address)) << address;
}

TEST(Tls, FilesThatDoNotFitAreNamed) {
  Authority authority;
  const auto good = authority.issue("quartermaster-cost");
  const auto other = authority.issue("quartermaster-admission");
  EXPECT_TRUE(check_tls(good, true));
  EXPECT_TRUE(check_tls({"", "", good.ca}, false));
  struct Case {
    const char* flag;
    TlsFiles files;
    const char* shows;
  };
  const Case cases[] = {
      {"--tls-key", {good.certificate, "", good.ca}, "needs its key"},
      {"--tls-ca", {good.certificate, good.key, ""}, "authority"},
      {"--tls-cert", {"", "", good.ca}, "certificate of its own"},
      {"--tls-cert", {authority.folder() + "/none", good.key, good.ca}, "cannot be read"},
      {"--tls-cert", {good.key, good.key, good.ca}, "contains no certificate"},
      {"--tls-ca", {good.certificate, good.key, good.key}, "contains no certificate"},
      {"--tls-key", {good.certificate, other.key, good.ca}, "is not the key of"},
      {"--tls-cert", authority.issue("quartermaster-agent", {{}, std::chrono::hours(-1)}), "has expired"},
  };
  for (const auto& c : cases) {
    const auto checked = check_tls(c.files, true);
    ASSERT_FALSE(checked) << c.shows;
    EXPECT_EQ(checked.error().field, c.flag) << c.shows;
    EXPECT_NE(checked.error().message.find(c.shows), std::string::npos) << checked.error().message;
    EXPECT_FALSE(checked.error().remedy.empty());
  }
}

TEST(Tls, ATokenIsOneWord) {
  qm::testing::TempDir dir;
  ClientSecurity security;
  security.token = "two words\nx-evil: 1";
  grpc::ClientContext context;
  EXPECT_FALSE(add_token(context, security));
  security.token.clear();
  security.token_file = dir.path() + "/token";
  EXPECT_FALSE(add_token(context, security));
  testing::write_file(security.token_file, "abc.def\n");
  EXPECT_TRUE(add_token(context, security));
}

}  // namespace tls_test
}  // namespace qm::rpc
