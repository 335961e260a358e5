// The program itself: starts on an empty database, applies its prices, keeps its ledger across a kill, terminates
// cleanly.
#include "qm/pg/connection.hpp"
#include "qm/testing/postgres_test.hpp"
#include "qm/testing/testing.hpp"
#include "quartermaster/v1/cost_service.grpc.pb.h"
#include "wire.hpp"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <csignal>

namespace qm::cost::test {
namespace program_pg_test {

class Program {
 public:
  explicit Program(const std::string& conninfo) : port_(testing::free_port()) {
    auto started = testing::Process::start({{std::string(QM_BIN_DIR) + "/qm-cost", "--postgres", conninfo, "--grpc",
                                             fmt::format("127.0.0.1:{}", port_), "--http", "127.0.0.1:0"},
                                            {},
                                            log_.path() + "/log"});
    EXPECT_TRUE(started) << started.error().to_string();
    process_ = std::move(*started);
  }
  int prices() {
    // A separate channel each time: one that met a closed port waits seconds before it retries.
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto stub = pb::Cost::NewStub(
        grpc::CreateCustomChannel(fmt::format("127.0.0.1:{}", port_), grpc::InsecureChannelCredentials(), arguments));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(2));
    pb::ListPricesResponse response;
    return stub->ListPrices(&context, {}, &response).ok() ? response.prices_size() : -1;
  }
  testing::Process& process() { return *process_; }
  std::string log() { return testing::read_file(log_.path() + "/log"); }

 private:
  testing::TempDir log_;
  int port_;
  std::unique_ptr<testing::Process> process_;
};

class CostProgram : public testing::PostgresTest {};

TEST_F(CostProgram, ComesUpSurvivesAKillAndEndsCleanly) {
  {
    Program first(conninfo_);
    ASSERT_TRUE(testing::wait_until([&] {
      return first.prices() == static_cast<int>(builtin_prices().entries.size());
    })) << first.log();
    first.process().signal(SIGKILL);
    EXPECT_EQ(first.process().wait(std::chrono::seconds(10)), 128 + SIGKILL);
  }
  Program second(conninfo_);
  ASSERT_TRUE(testing::wait_until([&] { return second.prices() == static_cast<int>(builtin_prices().entries.size()); }))
      << second.log();
  second.process().signal(SIGTERM);
  EXPECT_EQ(second.process().wait(std::chrono::seconds(20)), 0) << second.log();
}

TEST_F(CostProgram, AFormerLeaderWaitsForADatabaseThatAcceptsNoSession) {
  const auto open = [](const std::string& to) { return *pg::Connection::open(to, {.application_name = "test"}); };
  const auto inside = open(conninfo_), outside = open(server_->fresh_database());
  Program program(conninfo_);
  const auto serves = [&] { return program.prices() == static_cast<int>(builtin_prices().entries.size()); };
  ASSERT_TRUE(testing::wait_until(serves)) << program.log();
  const auto sessions = [&](bool allowed) {
    return outside->exec(fmt::format("alter database {} allow_connections {}",
                                     pg::quote_name(inside->exec("select current_database()")->str(0, 0)), allowed));
  };
  ASSERT_TRUE(sessions(false));
  ASSERT_TRUE(inside->exec("update cost.lease set holder = 'another', beat = beat + 1"));
  EXPECT_TRUE(testing::wait_until([&] { return program.log().find("database is not available") != std::string::npos; }))
      << program.log();
  EXPECT_TRUE(program.process().running()) << program.log();
  ASSERT_TRUE(sessions(true));
  EXPECT_TRUE(testing::wait_until(serves)) << program.log();
  // A process that is terminated while it waits exits.
  const auto reported = program.log().size();
  ASSERT_TRUE(sessions(false));
  ASSERT_TRUE(inside->exec("update cost.lease set holder = 'another', beat = beat + 1"));
  EXPECT_TRUE(testing::wait_until([&] {
    return program.log().find("database is not available", reported) != std::string::npos;
  })) << program.log();
  program.process().signal(SIGTERM);
  EXPECT_EQ(program.process().wait(std::chrono::seconds(10)), 0) << program.log();
}

}  // namespace program_pg_test
}  // namespace qm::cost::test
