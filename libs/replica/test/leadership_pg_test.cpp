// Two replicas on one database: in one process to shorten the lease's clock, in two processes to kill one.
#include "qm/replica/leadership.hpp"

#include "qm/testing/postgres_test.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <sys/wait.h>
#include <thread>

namespace qm::replica {
namespace leadership_pg_test {

using namespace std::chrono_literals;

class LeadershipTest : public testing::PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (IsSkipped()) return;
    options_.conninfo = conninfo_;
    options_.service = "cost";
    const auto store = store::open_postgres(options_);
    ASSERT_TRUE(store) << store.error().to_string();
  }
  std::unique_ptr<Leadership> replica(const std::string& holder, store::LeaseTiming timing = {}) const {
    auto lease = store::open_lease(options_);
    EXPECT_TRUE(lease) << lease.error().to_string();
    return std::make_unique<Leadership>(std::move(*lease), timing, holder);
  }
  static bool never() { return false; }
  /// A process that leads until it is killed; returns once it does.
  pid_t leader_process() const {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto lead = replica("child");
      if (!lead->wait(never)) ::_exit(1);
      lead->serves_at("127.0.0.1:1");
      for (;;) ::pause();
    }
    const auto lease = store::open_lease(options_);
    EXPECT_TRUE(testing::wait_until([&] {
      const auto view = (*lease)->look();
      return view && view->holder == "child" && !view->address.empty();
    }));
    return child;
  }

  store::PgOptions options_;
};

TEST_F(LeadershipTest, TheSecondWaitsAndTakesOverWhenTheFirstEnds) {
  const auto first = replica("first"), second = replica("second");
  ASSERT_TRUE(first->wait(never));
  EXPECT_TRUE(first->leads());
  first->serves_at("127.0.0.1:7101");
  std::atomic<bool> stands_by = false;
  std::thread waiting([&] {
    EXPECT_TRUE(second->wait(never, [&]() -> Status {
      stands_by = true;
      return {};
    }));
  });
  EXPECT_TRUE(testing::wait_until([&] { return second->served() && stands_by; }));
  EXPECT_EQ(second->view().address, "127.0.0.1:7101");
  EXPECT_FALSE(second->leads());
  EXPECT_FALSE(second->may_answer());
  const auto begin = std::chrono::steady_clock::now();
  first->release();
  waiting.join();
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_TRUE(second->leads());
  EXPECT_FALSE(second->served()) << "it serves itself now";
  EXPECT_FALSE(first->leads());
  EXPECT_FALSE(first->lost()) << "what is given back is not lost";
  EXPECT_LT(took, 2s) << "a planned end hands over at once";
  RecordProperty("handover_ms", static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(took).count()));
}

TEST_F(LeadershipTest, AKilledLeaderIsFollowedWithinAFewSeconds) {
  const pid_t child = leader_process();
  const auto second = replica("second");
  std::thread waiting([&] { EXPECT_TRUE(second->wait(never)); });
  EXPECT_TRUE(testing::wait_until([&] { return second->served(); }));
  const auto begin = std::chrono::steady_clock::now();
  ::kill(child, SIGKILL);
  waiting.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST_F(LeadershipTest, AStoppedLeaderIsFollowedAndKnowsItWhenItWakes) {
  // Its lease has another holder than this process: the state in the database after it resumed is relevant.
  const pid_t child = leader_process();
  const auto second = replica("second");
  std::thread waiting([&] { EXPECT_TRUE(second->wait(never)); });
  EXPECT_TRUE(testing::wait_until([&] { return second->served(); }));
  const auto begin = std::chrono::steady_clock::now();
  ::kill(child, SIGSTOP);
  waiting.join();
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took, 2s) << "its session lives, so silence alone tells";
  EXPECT_LT(took, 5s);
  ::kill(child, SIGCONT);
  const auto lease = store::open_lease(options_);
  const auto beat = (*lease)->look()->beat;
  EXPECT_TRUE(testing::wait_until([&] { return (*lease)->look()->beat >= beat + 3; }));
  EXPECT_EQ((*lease)->look()->holder, "second");
  EXPECT_FALSE(second->lost());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_F(LeadershipTest, AReplacedLeaderDoesNothingMore) {
  const auto first = replica("first"), second = replica("second");
  ASSERT_TRUE(first->wait(never));
  ASSERT_TRUE(second->wait(never, {}, true));
  EXPECT_FALSE(second->leads()) << "the first may act until its proof has ended";
  EXPECT_TRUE(testing::wait_until([&] { return first->lost(); }));
  EXPECT_TRUE(testing::wait_until([&] { return second->leads(); }));
  EXPECT_FALSE(first->leads());
  EXPECT_FALSE(first->may_answer());
  first->release();
  EXPECT_TRUE(second->leads());
  EXPECT_FALSE(second->lost());
}

TEST_F(LeadershipTest, WithoutADatabaseTheLastKnownLeaderIsReported) {
  const auto first = replica("first");
  ASSERT_TRUE(first->wait(never));
  server_->kill9();
  EXPECT_TRUE(testing::wait_until([&] { return !first->leads(); })) << "a lead that cannot be proven ends";
  EXPECT_TRUE(first->may_answer()) << "no other replica can have acquired it";
  EXPECT_FALSE(first->lost());
  const auto up = server_->restart();
  ASSERT_TRUE(up) << up.error().to_string();
  EXPECT_TRUE(testing::wait_until([&] { return first->leads(); })) << "the same leader goes on";
}

/// Without a standby the beats are rare, here an hour apart: a proof is made when it is needed.
TEST_F(LeadershipTest, ALeadThatRestsIsProvenWhenItIsNeeded) {
  const store::LeaseTiming rare{.lease = 3h, .renew = 20ms, .renew_alone = 1h, .look = 20ms, .proof = 100ms};
  const auto only = replica("only", rare);
  ASSERT_TRUE(only->wait(never));
  const auto session = pg::Connection::open(conninfo_, {"watcher"}).value();
  const auto beat = [&] { return session->exec("select beat from cost.lease").value().int8(0, 0); };
  std::int64_t last = -1;
  EXPECT_TRUE(testing::wait_until([&] {
    const auto until = std::chrono::steady_clock::now() + 10 * rare.proof;
    last = beat();
    return !testing::wait_until([&] { return beat() != last; }, 1s) && std::chrono::steady_clock::now() >= until;
  })) << "the beats end";
  EXPECT_TRUE(only->holds());
  EXPECT_EQ(beat(), last) << "a report needs no proof";
  EXPECT_TRUE(only->leads());
  EXPECT_GT(beat(), last);
  EXPECT_TRUE(only->may_answer());
}

TEST_F(LeadershipTest, AReplicaThatCannotReadTheSchemaStaysStandby) {
  const auto first = replica("first"), old = replica("old");
  ASSERT_TRUE(first->wait(never));
  first->serves_at("127.0.0.1:1");
  std::atomic<bool> give_up = false;
  std::thread waiting([&] {
    const auto ended = old->wait([&] { return give_up.load(); });
    EXPECT_FALSE(ended);
    EXPECT_EQ(ended.error().code, Code::kCancelled);
  });
  EXPECT_TRUE(testing::wait_until([&] { return old->served(); }));
  auto next_version = options_;
  next_version.migrations = {{1, "soon", "create table {schema}.soon (a bigint)"}};
  ASSERT_TRUE(store::open_postgres(next_version));
  first->release();
  EXPECT_TRUE(testing::wait_until([&] { return !old->served(); }));
  // A newer program starts, and the old one forwards calls again.
  const auto lease = store::open_lease(options_);
  EXPECT_EQ((*lease)->claim((*lease)->look()->beat, "newer"), true);
  EXPECT_TRUE((*lease)->renew("newer", "127.0.0.1:2")->holds);
  EXPECT_TRUE(testing::wait_until([&] { return old->served() && old->view().holder == "newer"; }));
  give_up = true;
  waiting.join();
  EXPECT_FALSE(old->leads());
}

}  // namespace leadership_pg_test
}  // namespace qm::replica
