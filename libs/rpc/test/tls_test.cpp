// Who may connect, and how: over a real server and real sockets.
#include "credentials.hpp"
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

/// What Submit answers over a connection of its own: kExhausted comes from the handler, so the call went through.
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

TEST(Tls, StrangersDoNotGetIn) {
  Authority authority;
  Authority stranger("somebody else");
  const Running running(serving(authority.issue("quartermaster-placement")));
  // A server that they do not trust; a certificate that the server does not; one that is no more; and plain text.
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
  left_behind.tls.ca = renewed.ca;  // `files.ca` is what it trusted, and that has changed
  EXPECT_EQ(call(running.address(), left_behind).code, Code::kUnavailable);
}

TEST(Tls, PlainTextStaysOnTheMachine) {
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
  ClientSecurity said;
  said.insecure = true;
  EXPECT_TRUE(open_channel("192.0.2.1:7101", said));
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
    const char* says;
  };
  const Case cases[] = {
      {"--tls-key", {good.certificate, "", good.ca}, "go together"},
      {"--tls-ca", {good.certificate, good.key, ""}, "trust"},
      {"--tls-cert", {"", "", good.ca}, "certificate of its own"},
      {"--tls-cert", {authority.folder() + "/none", good.key, good.ca}, "cannot be read"},
      {"--tls-cert", {good.key, good.key, good.ca}, "holds no certificate"},
      {"--tls-ca", {good.certificate, good.key, good.key}, "holds no certificate"},
      {"--tls-key", {good.certificate, other.key, good.ca}, "is not the key of"},
      {"--tls-cert", authority.issue("quartermaster-agent", {{}, std::chrono::hours(-1)}), "has expired"},
  };
  for (const auto& c : cases) {
    const auto checked = check_tls(c.files, true);
    ASSERT_FALSE(checked) << c.says;
    EXPECT_EQ(checked.error().field, c.flag) << c.says;
    EXPECT_NE(checked.error().message.find(c.says), std::string::npos) << checked.error().message;
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
