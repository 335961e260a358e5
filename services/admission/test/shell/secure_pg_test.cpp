// The program as in production: TLS, tokens, roles, an audit trail; with a private PostgreSQL.
#include "job_server.hpp"
#include "qm/http/http.hpp"
#include "qm/pg/connection.hpp"
#include "qm/rpc/security.hpp"
#include "qm/rpc/server.hpp"
#include "qm/testing/postgres_test.hpp"
#include "qm/testing/testing.hpp"
#include "quartermaster/v1/admission_service.grpc.pb.h"

#include <gtest/gtest.h>

#include <fstream>

namespace qm::admission {
namespace secure_pg_test {

namespace pb = quartermaster::v1;
using qm::testing::wait_until;

constexpr const char* kDatabasePassword = "canary-database-password";
constexpr const char* kOperatorToken = "canary-operator-token";

class Secure : public qm::testing::PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (IsSkipped()) return;
    // The server trusts all clients, so any password is accepted.
    database_ = conninfo_ + " password=" + kDatabasePassword;
    const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    const auto from = now - std::chrono::hours(1), until = now + std::chrono::hours(1);
    const auto authority = http::make_authority({"suite", {}, from, until});
    http::CertificateTerms terms{"quartermaster-admission", {"127.0.0.1"}, from, until};
    terms.client = true;
    const auto own = http::make_certificate(terms, *authority);
    write("ca.crt", authority->certificate);
    write("tls.crt", own->certificate);
    write("tls.key", own->key);
    write("tokens", std::string(kOperatorToken) + ",olga,1,platform\ncanary-user-token,ursula,2,research\n");
    write("roles.yaml",
          "apiVersion: access.quartermaster.dev/v1alpha1\nkind: RoleMap\nspec:\n  operators: {groups: [platform]}\n"
          "  tenants:\n  - {name: research, groups: [research], namespaces: [lab]}\n");
  }
  void TearDown() override { jobs_.close_watches(); }

  void write(const std::string& name, const std::string& text) const { std::ofstream(file(name)) << text; }
  [[nodiscard]] std::string file(const std::string& name) const { return dir_.path() + "/" + name; }

  void start(const std::map<std::string, std::string>& environment = {}) {
    qm::testing::Process::Options options;
    const auto local = [](int port) { return fmt::format("127.0.0.1:{}", port); };
    options.argv = {std::string(QM_BIN_DIR) + "/qm-admission",
                    "--grpc",
                    local(grpc_),
                    "--http",
                    local(http_),
                    "--kube",
                    jobs_.client().server,
                    "--tls-cert",
                    file("tls.crt"),
                    "--tls-key",
                    file("tls.key"),
                    "--tls-ca",
                    file("ca.crt"),
                    "--auth",
                    "static:" + file("tokens"),
                    "--roles",
                    file("roles.yaml"),
                    "--log-level",
                    "debug"};
    options.env = environment;
    options.env["QM_POSTGRES"] = database_;
    options.env["QM_BUS"] = "postgres:" + database_;
    options.output = file(fmt::format("log-{}", ++runs_));
    auto started = qm::testing::Process::start(options);
    ASSERT_TRUE(started) << started.error().to_string();
    process_ = std::move(*started);
  }
  bool ready() {
    http::Client client(fmt::format("http://127.0.0.1:{}", http_));
    return wait_until([&] {
      const auto answer = client.send({"GET", "/readyz"});
      return (answer && answer->status == 200) || !process_->running();
    });
  }
  std::string page(const std::string& target, const std::string& token = {}) {
    http::Client client(fmt::format("http://127.0.0.1:{}", http_));
    http::Request request{"GET", target};
    if (!token.empty()) request.headers.set("Authorization", "Bearer " + token);
    const auto answer = client.send(request);
    return answer ? answer->body : std::string();
  }
  /// Retries with the same request id while no replica leads, as clients do: a standby is ready too.
  Error apply(const std::string& token, const std::string& id) {
    Error last;
    wait_until([&] {
      last = apply_once(token, id);
      return last.code != Code::kUnavailable || !process_->running();
    });
    return last;
  }
  Error apply_once(const std::string& token, const std::string& id) {
    rpc::ClientSecurity security;
    security.tls.ca = file("ca.crt");
    security.token = token;
    auto channel = rpc::open_channel(fmt::format("127.0.0.1:{}", grpc_), security);
    if (!channel) return channel.error();
    grpc::ClientContext context;
    if (const auto added = rpc::add_token(context, security); !added) return added.error();
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    pb::ApplyRequest request;
    request.set_request_id(id);
    request.set_manifest(testing::kQueues);
    request.set_source("queues.yaml");
    pb::ApplyResponse response;
    const auto status = pb::Admission::NewStub(*channel)->Apply(&context, request, &response);
    return status.ok() ? Error{static_cast<Code>(0), {}, {}, {}} : rpc::from_grpc(status, "apply");
  }
  std::string trail(const std::string& where) {
    auto session = pg::Connection::open(database_, {"test"});
    if (!session) return session.error().to_string();
    const auto rows = (*session)->query(
        "select coalesce(string_agg(concat_ws(' ', caller, roles, method, object, "
        "request_id, outcome), E'\\n' order by number), '') from admission.audit " +
        where);
    return rows ? rows->str(0, 0) : rows.error().to_string();
  }
  void end() {
    process_->signal(15);
    EXPECT_EQ(process_->wait(std::chrono::seconds(20)), 0);
  }
  std::string logs() const {
    std::string all;
    for (int i = 1; i <= runs_; ++i) all += qm::testing::read_file(file(fmt::format("log-{}", i)));
    return all;
  }

  qm::testing::TempDir dir_;
  testing::JobServer jobs_;
  std::string database_;
  int grpc_ = qm::testing::free_port(), http_ = qm::testing::free_port(), runs_ = 0;
  std::unique_ptr<qm::testing::Process> process_;
};

TEST_F(Secure, CallersAreAuditedWithoutSecrets) {
  start();
  ASSERT_TRUE(ready()) << logs();
  EXPECT_EQ(apply(kOperatorToken, "r1").to_string(), apply(kOperatorToken, "r1").to_string());
  EXPECT_EQ(apply("canary-user-token", "r2").code, Code::kPermissionDenied);
  EXPECT_EQ(apply("canary-forged-token", "r3").code, Code::kUnauthenticated);
  EXPECT_EQ(apply("", "r4").code, Code::kUnauthenticated);
  EXPECT_TRUE(wait_until([&] { return trail("where outcome like 'PERMISSION%' or outcome like 'perm%'") != ""; }))
      << trail("");
  EXPECT_EQ(trail("where outcome = 'ok'"), "olga operator Apply queues.yaml olga/r1 ok");
  EXPECT_NE(trail("").find("ursula user Apply"), std::string::npos) << trail("");
  const auto state = page("/debug/state", kOperatorToken);
  EXPECT_NE(state.find("\"engine\""), std::string::npos) << state;
  EXPECT_EQ(page("/debug/state").find("\"engine\""), std::string::npos) << "without a token";
  EXPECT_EQ(page("/debug/state", "canary-user-token").find("\"engine\""), std::string::npos);
  const auto everything = state + page("/metrics") + page("/debug/explain?uid=x", kOperatorToken);
  EXPECT_NE(everything.find("qm_rpc_denied_total"), std::string::npos);
  EXPECT_NE(everything.find("qm_tls_certificate_expiration_timestamp_seconds{service=\"admission\",use=\"identity\"} "),
            std::string::npos);
  end();
  // Errors about a database that refuses, and about an invalid setting, mention the conninfo, but not all of it.
  database_ += " port=1";
  start();
  EXPECT_TRUE(wait_until([&] { return logs().find("PostgreSQL cannot be reached") != std::string::npos; })) << logs();
  process_->signal(9);
  process_->wait(std::chrono::seconds(10));
  database_ = "host=x password='" + std::string(kDatabasePassword);
  start();
  EXPECT_TRUE(wait_until([&] { return !process_->running(); }));
  const auto reported = logs() + everything;
  EXPECT_NE(reported.find("call denied"), std::string::npos) << reported;
  for (const auto* secret : {"canary", "BEGIN PRIVATE KEY"}) {
    const auto at = reported.find(secret);
    EXPECT_EQ(at, std::string::npos) << secret << " in: "
                                     << (at == std::string::npos ? "" : reported.substr(at < 200 ? 0 : at - 200, 400));
  }
}

TEST_F(Secure, OneAuditRowPerChangeAcrossKills) {
  int killed = 0, n = 0;
  for (const auto* point : {"service.before_commit", "store.before_commit", "store.in_commit", "store.after_commit",
                            "service.after_commit"}) {
    for (int passage = 1; passage <= 2; ++passage) {
      const auto id = fmt::format("change-{}", ++n);
      start({{"QM_CRASH_AT", fmt::format("{}:{}", point, passage)}});
      if (ready() && process_->running()) (void)apply(kOperatorToken, id);
      if (process_->wait(std::chrono::milliseconds(500))) {
        ++killed;
      } else {
        process_->signal(9);
        process_->wait(std::chrono::seconds(10));
      }
      start();
      ASSERT_TRUE(ready()) << logs();
      const auto again = apply(kOperatorToken, id);
      ASSERT_EQ(again.code, static_cast<Code>(0)) << again.to_string();
      process_->signal(9);
      process_->wait(std::chrono::seconds(10));
      EXPECT_EQ(trail(fmt::format("where request_id = 'olga/{}'", id)),
                fmt::format("olga operator Apply queues.yaml olga/{} ok", id))
          << point << " at passage " << passage;
    }
  }
  EXPECT_GE(killed, 5) << "the crash points were not reached";
}

}  // namespace secure_pg_test
}  // namespace qm::admission
