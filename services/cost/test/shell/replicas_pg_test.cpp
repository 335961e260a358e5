// Two processes of one service on one database: the lead changes by kill, by a planned end and by a pause, while
// callers call both of them and retry only UNAVAILABLE. Cost represents all five services: they use the same leader
// election.
#include "qm/http/http.hpp"
#include "qm/rpc/channel.hpp"
#include "qm/testing/latencies.hpp"
#include "qm/testing/postgres_test.hpp"
#include "qm/testing/testing.hpp"
#include "quartermaster/v1/cost_service.grpc.pb.h"
#include "wire.hpp"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <mutex>
#include <thread>

namespace qm::cost::test {
namespace replicas_pg_test {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// One of the two processes; keeps its ports across restarts.
class One {
 public:
  One(std::string conninfo, std::string log) : conninfo_(std::move(conninfo)), log_(std::move(log)) { start(); }
  void start() {
    auto started = testing::Process::start(
        {{std::string(QM_BIN_DIR) + "/qm-cost", "--postgres", conninfo_, "--grpc", grpc(), "--http", http()},
         {},
         log_});
    ASSERT_TRUE(started) << started.error().to_string();
    process = std::move(*started);
  }
  [[nodiscard]] std::string grpc() const { return fmt::format("127.0.0.1:{}", grpc_); }
  [[nodiscard]] std::string http() const { return fmt::format("127.0.0.1:{}", http_); }
  /// "leader", "standby", or empty while it is neither, or not ready.
  [[nodiscard]] std::string role() const {
    http::ClientOptions options;
    options.timeout = 1s;
    http::Client client("http://" + http(), options);
    const auto ready = client.send({.target = "/readyz"});
    if (!ready || ready->status != 200) return {};
    const auto answer = client.send({.target = "/debug/state"});
    const auto state = answer ? Json::parse(answer->body) : Result<Json>(fail(answer.error()));
    if (!state) return {};
    return (*state)["host"].is_null() ? (*state)["role"].string() : "leader";
  }
  [[nodiscard]] std::string log() const { return testing::read_file(log_); }

  std::unique_ptr<testing::Process> process;

 private:
  const std::string conninfo_, log_;
  const int grpc_ = testing::free_port(), http_ = testing::free_port();
};

class Replicas : public testing::PostgresTest {
 protected:
  void TearDown() override { stop_readers(); }
  void bring_up() {
    for (int i = 0; i < 2; ++i)
      both_.push_back(std::make_unique<One>(conninfo_, fmt::format("{}/log{}", dir_.path(), i)));
    ASSERT_TRUE(testing::wait_until([&] { return leader() != nullptr && standby() != nullptr; })) << logs();
  }
  One* in_role(const std::string& role) {
    const auto it = std::ranges::find_if(both_, [&](const auto& one) { return one->role() == role; });
    return it == both_.end() ? nullptr : it->get();
  }
  One* leader() { return in_role("leader"); }
  One* standby() { return in_role("standby"); }
  /// Once both report it: a response may be late, or a standby between two leaders. Null and null if they never do.
  std::pair<One*, One*> leader_and_standby() {
    std::pair<One*, One*> out;
    const bool both = testing::wait_until([&] {
      out = {leader(), standby()};
      return out.first != nullptr && out.second != nullptr;
    });
    return both ? out : std::pair<One*, One*>{};
  }
  std::string logs() { return both_[0]->log() + "\n----\n" + both_[1]->log(); }

  /// Calls each replica over a separate connection, all the time.
  void start_readers() {
    for (std::size_t i = 0; i < both_.size(); ++i) {
      readers_.emplace_back([this, &reads = reads_[i], address = both_[i]->grpc()](const std::stop_token& stop) {
        const auto stub = pb::Cost::NewStub(rpc::channel_to(address));
        while (!stop.stop_requested()) reads += read(*stub, stop) ? 1 : 0;
      });
    }
  }
  /// Both readers get responses: from the leader, and from the standby that forwards to the leader.
  bool reads_go_on() {
    const int first = reads_[0], second = reads_[1];
    return testing::wait_until([&] { return reads_[0] > first + 5 && reads_[1] > second + 5; });
  }
  bool read(pb::Cost::Stub& stub, const std::stop_token& stop) {
    const auto begin = Clock::now();
    grpc::Status status;
    do {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + 10s);
      context.set_wait_for_ready(true);  // a blocking client connects only while a call waits for it
      pb::ListPricesResponse response;
      status = stub.ListPrices(&context, {}, &response);
      if (!status.ok()) {
        {
          const std::lock_guard lock(mutex_);
          ++refusals_[fmt::format("{} {}", static_cast<int>(status.error_code()), status.error_message())];
        }
        std::mutex idle;
        std::unique_lock lock(idle);
        wake_.wait_for(lock, stop, 20ms, [] { return false; });
      }
    } while (status.error_code() == grpc::StatusCode::UNAVAILABLE && Clock::now() - begin < 30s &&
             !stop.stop_requested());
    const std::lock_guard lock(mutex_);
    longest_ = std::max(longest_, testing::ms_since(begin));
    if (!status.ok() && !stop.stop_requested())
      failures_.push_back(fmt::format("{} {}", static_cast<int>(status.error_code()), status.error_message()));
    return status.ok();
  }
  void stop_readers() { readers_.clear(); }
  void expect_no_failed_read(const std::string& what) {
    stop_readers();
    for (const auto& failure : failures_) ADD_FAILURE() << failure;
    std::printf("[ figures  ] %s: %d reads, longest with repeats %ld ms, failed %zu\n", what.c_str(),
                reads_[0] + reads_[1], longest_, failures_.size());
    for (const auto& [text, n] : refusals_) std::printf("[ refused  ] %d times: %s\n", n, text.c_str());
  }
  /// The time from `begin` until this one leads and serves.
  std::int64_t until_leads(One& one, Clock::time_point begin) {
    EXPECT_TRUE(testing::wait_until([&] { return one.role() == "leader"; })) << logs();
    return testing::ms_since(begin);
  }

  testing::TempDir dir_;
  std::vector<std::unique_ptr<One>> both_;
  std::condition_variable_any wake_;
  std::array<std::atomic<int>, 2> reads_{};
  std::mutex mutex_;
  std::int64_t longest_ = 0;
  std::vector<std::string> failures_;
  std::map<std::string, int> refusals_;  ///< retried calls, and how often
  std::vector<std::jthread> readers_;
};

TEST_F(Replicas, TwentyKilledLeadersAreFollowedWithinFiveSeconds) {
  ASSERT_NO_FATAL_FAILURE(bring_up());
  start_readers();
  std::vector<std::int64_t> took;
  for (int i = 0; i < 20; ++i) {
    const auto [old, next] = leader_and_standby();
    ASSERT_TRUE(old != nullptr && next != nullptr) << logs();
    const auto begin = Clock::now();
    old->process->signal(SIGKILL);
    took.push_back(until_leads(*next, begin));
    ASSERT_EQ(old->process->wait(10s), 128 + SIGKILL);
    old->start();
    ASSERT_TRUE(testing::wait_until([&] { return old->role() == "standby"; })) << logs();
    ASSERT_TRUE(reads_go_on()) << logs();
  }
  std::printf("[ figures  ] takeover after SIGKILL: %s\n", testing::latencies(took).c_str());
  EXPECT_LE(*std::ranges::max_element(took), 5000);
  expect_no_failed_read("twenty kills");
}

TEST_F(Replicas, TenPlannedEndsHandOver) {
  ASSERT_NO_FATAL_FAILURE(bring_up());
  start_readers();
  std::vector<std::int64_t> took;
  for (int i = 0; i < 10; ++i) {
    const auto [old, next] = leader_and_standby();
    ASSERT_TRUE(old != nullptr && next != nullptr) << logs();
    const auto begin = Clock::now();
    old->process->signal(SIGTERM);
    took.push_back(until_leads(*next, begin));
    ASSERT_EQ(old->process->wait(20s), 0) << old->log();
    old->start();
    ASSERT_TRUE(testing::wait_until([&] { return old->role() == "standby"; })) << logs();
    ASSERT_TRUE(reads_go_on()) << logs();
  }
  std::printf("[ figures  ] handover after SIGTERM: %s\n", testing::latencies(took).c_str());
  EXPECT_LE(*std::ranges::max_element(took), 5000);
  expect_no_failed_read("ten planned ends");
}

TEST_F(Replicas, ALeaderThatStoodStillComesBackAsAStandby) {
  ASSERT_NO_FATAL_FAILURE(bring_up());
  std::vector<std::int64_t> took;
  for (int i = 0; i < 3; ++i) {
    const auto [old, next] = leader_and_standby();
    ASSERT_TRUE(old != nullptr && next != nullptr) << logs();
    const auto begin = Clock::now();
    old->process->signal(SIGSTOP);
    took.push_back(until_leads(*next, begin));
    old->process->signal(SIGCONT);
    EXPECT_TRUE(testing::wait_until([&] { return old->role() == "standby"; })) << logs();
    EXPECT_TRUE(old->process->running()) << "it restarts by itself";
    EXPECT_EQ(leader_and_standby(), std::pair(next, old));
  }
  std::printf("[ figures  ] takeover after SIGSTOP: %s\n", testing::latencies(took).c_str());
  EXPECT_LE(*std::ranges::max_element(took), 5000);
}

TEST_F(Replicas, AReplicaThatIsShutDownDoesNotBecomeStandbyAfterLosingItsLead) {
  ASSERT_NO_FATAL_FAILURE(bring_up());
  const auto [old, next] = leader_and_standby();
  ASSERT_TRUE(old != nullptr && next != nullptr) << logs();
  old->process->signal(SIGSTOP);
  (void)until_leads(*next, Clock::now());
  // It handles the signal first, and detects during its shutdown that another process leads.
  old->process->signal(SIGTERM);
  old->process->signal(SIGCONT);
  EXPECT_EQ(old->process->wait(20s), 0) << old->log();
  EXPECT_NE(old->log().find("another replica is the leader now"), std::string::npos) << old->log();
  EXPECT_EQ(old->log().find("restarting as standby"), std::string::npos) << old->log();
  EXPECT_EQ(next->role(), "leader");
}

TEST_F(Replicas, AStandbyEndsAtOnceWhenAsked) {
  ASSERT_NO_FATAL_FAILURE(bring_up());
  auto* waits = leader_and_standby().second;
  ASSERT_NE(waits, nullptr);
  waits->process->signal(SIGTERM);
  EXPECT_EQ(waits->process->wait(5s), 0) << waits->log();
  EXPECT_TRUE(testing::wait_until([&] { return leader() != nullptr; }));
}

// ---- migrations

class Migrations : public Replicas {
 protected:
  struct Ran {
    int code;
    std::string output;
  };
  std::unique_ptr<testing::Process> launch(const std::vector<std::string>& more, const std::string& log) {
    std::vector<std::string> argv = {std::string(QM_BIN_DIR) + "/qm-cost", "--postgres", conninfo_};
    argv.insert(argv.end(), more.begin(), more.end());
    auto started = testing::Process::start({argv, {}, log});
    EXPECT_TRUE(started) << started.error().to_string();
    return std::move(*started);
  }
  Ran run(const std::vector<std::string>& more) {
    const auto log = dir_.path() + "/run";
    const auto process = launch(more, log);
    const auto code = process->wait(20s).value_or(-1);
    return {code, testing::read_file(log)};
  }
};

TEST_F(Migrations, TheHookMigratesAndAServiceThatOnlyChecksThenStarts) {
  const auto early = run({"--migrations", "check"});
  EXPECT_EQ(early.code, 1);
  EXPECT_NE(early.output.find("schema cost is at version 0 of common, this program needs"), std::string::npos)
      << early.output;
  EXPECT_NE(early.output.find("--migrate-only"), std::string::npos) << early.output;

  const auto hook = run({"--migrate-only"});
  EXPECT_EQ(hook.code, 0) << hook.output;
  EXPECT_EQ(run({"--migrate-only"}).code, 0) << "again, there is nothing to do";

  const auto log = dir_.path() + "/checks";
  const auto service = launch({"--migrations", "check", "--http", "127.0.0.1:0"}, log);
  EXPECT_TRUE(testing::wait_until([&] { return testing::read_file(log).find("cost is up") != std::string::npos; }))
      << testing::read_file(log);
  service->signal(SIGTERM);
  EXPECT_EQ(service->wait(20s), 0) << testing::read_file(log);
}

TEST_F(Migrations, TwoAtOnceAreOneAfterTheOther) {
  std::vector<std::unique_ptr<testing::Process>> all;
  for (int i = 0; i < 4; ++i) all.push_back(launch({"--migrate-only"}, fmt::format("{}/{}", dir_.path(), i)));
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(all[static_cast<std::size_t>(i)]->wait(20s), 0)
        << testing::read_file(fmt::format("{}/{}", dir_.path(), i));
}

TEST_F(Migrations, ANewerSchemaIsRefusedByName) {
  auto next = migrations();
  next.push_back({static_cast<int>(next.size()) + 1, "soon", "create table {schema}.soon (a bigint)"});
  ASSERT_TRUE(store::open_postgres({.conninfo = conninfo_, .service = "cost", .migrations = next}));
  for (const auto& args : {std::vector<std::string>{}, {"--migrations", "check"}, {"--migrate-only"}}) {
    const auto ran = run(args);
    EXPECT_EQ(ran.code, 1);
    EXPECT_NE(ran.output.find("(soon), which is newer than this program"), std::string::npos) << ran.output;
    EXPECT_NE(ran.output.find("run a newer program"), std::string::npos) << ran.output;
  }
}

// The next version's hook runs while this version leads and another of its processes is standby: the standby no longer
// takes over, and forwards calls to the new leader.
TEST_F(Migrations, AnOldStandbyLeavesTheLeadToTheNextVersion) {
  ASSERT_NO_FATAL_FAILURE(bring_up());
  const auto [old, waits] = leader_and_standby();
  ASSERT_TRUE(old != nullptr && waits != nullptr);
  auto next = migrations();
  next.push_back({static_cast<int>(next.size()) + 1, "soon", "create table {schema}.soon (a bigint)"});
  ASSERT_TRUE(store::open_postgres({.conninfo = conninfo_, .service = "cost", .migrations = next}));
  EXPECT_TRUE(testing::wait_until([&] { return old->role() == "leader"; })) << "who leads goes on";
  old->process->signal(SIGKILL);
  ASSERT_EQ(old->process->wait(10s), 128 + SIGKILL);
  EXPECT_TRUE(testing::wait_until([&] {
    return waits->log().find("there is no leader, and this replica cannot lead") != std::string::npos;
  })) << waits->log();
  EXPECT_NE(waits->log().find("(soon), which is newer than this program"), std::string::npos);
  EXPECT_TRUE(waits->process->running());
  EXPECT_EQ(waits->role(), "") << "not ready: calls sent to it are not answered";
}

}  // namespace replicas_pg_test
}  // namespace qm::cost::test
