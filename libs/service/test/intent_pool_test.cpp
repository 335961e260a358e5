// The order of execution.
#include "src/intent_pool.hpp"

#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <future>
#include <mutex>
#include <set>
#include <thread>

namespace qm::service {
namespace intent_pool_test {

class Recorder final : public Executor {
 public:
  Result<Outcome> execute(const store::IntentRow& intent) override {
    done.push_back(intent.id);
    if (intent.id == failing && failures-- > 0) return fail(Code::kUnavailable, "not now");
    return Outcome{};
  }
  Outcome failed(const store::IntentRow& /*intent*/, const Error& /*error*/) override { return {}; }
  [[nodiscard]] Turn turn_of(const store::IntentRow& intent) const override {
    const auto found = turns.find(intent.id);
    return found == turns.end() ? Turn{} : found->second;
  }
  [[nodiscard]] std::optional<Outcome> superseded(const store::IntentRow& intent,
                                                  const store::IntentRow& later) const override {
    if (!obsolete.contains({intent.id, later.id})) return std::nullopt;
    return Outcome{"superseded by " + later.id};
  }
  std::vector<std::string> done;
  std::map<std::string, Turn> turns;
  std::set<std::pair<std::string, std::string>> obsolete;  ///< an intent, and the later one that supersedes it
  std::string failing;
  int failures = 0;
};

/// A proof of the lead may cost a statement.
TEST(IntentPool, WithoutAnIntentThatIsDueTheLeadIsNotProven) {
  Recorder recorder;
  int asked = 0;
  IntentPool pool(
      &recorder, [](const auto&, const auto&) {}, [&] { return ++asked > 0; });
  EXPECT_FALSE(pool.once());
  EXPECT_EQ(asked, 0);
  store::IntentRow due;
  due.id = due.key = "a";
  pool.add({due});
  EXPECT_TRUE(pool.once());
  EXPECT_GT(asked, 0);
}

store::IntentRow intent(const std::string& id, const std::string& key) {
  store::IntentRow row;
  row.id = id;
  row.key = key;
  return row;
}

struct Pool {
  Recorder recorder;
  std::map<std::string, std::string> outcomes;
  IntentPool pool{&recorder, [this](const auto& row, const auto& outcome) { outcomes[row.id] = outcome.bytes; }};
  void settle() {
    EXPECT_TRUE(testing::wait_until([&] {
      while (pool.once()) {
      }
      return pool.open() == 0;
    }));
  }
};

TEST(IntentPool, TheOldestIsFirstWhateverItsName) {
  Pool p;
  p.pool.add({intent("1", "z"), intent("2", "m"), intent("3", "z")});
  p.pool.add({intent("4", "a")});
  p.settle();
  // The next intent of a key is queued when the previous one is done.
  EXPECT_EQ(p.recorder.done, (std::vector<std::string>{"1", "2", "4", "3"}));
}

TEST(IntentPool, AnIntentYieldsToLaterOnesForALimitedTime) {
  Pool p;
  p.recorder.turns = {{"1", {"", std::chrono::hours(1)}}, {"3", {"", std::chrono::minutes(1)}}};
  p.pool.add({intent("1", "a"), intent("2", "b"), intent("3", "c"), intent("4", "b")});
  p.settle();
  EXPECT_EQ(p.recorder.done, (std::vector<std::string>{"2", "4", "3", "1"}));
}

/// It delays nothing that could be executed.
TEST(IntentPool, WithoutOthersAnIntentThatYieldsIsExecutedAtOnce) {
  Pool p;
  p.recorder.turns = {{"1", {"", std::chrono::hours(1)}}};
  p.pool.add({intent("1", "a")});
  EXPECT_TRUE(p.pool.once());
  EXPECT_EQ(p.recorder.done, std::vector<std::string>{"1"});
}

/// Groups are executed one after the other, each in the turn of its oldest intent.
TEST(IntentPool, TheIntentsOfAGroupAreExecutedTogether) {
  Pool p;
  for (const char* id : {"1", "4", "6"}) p.recorder.turns[id] = {"x", {}};
  for (const char* id : {"2", "5"}) p.recorder.turns[id] = {"y", {}};
  p.pool.add({intent("1", "a"), intent("2", "b"), intent("3", "c"), intent("4", "d")});
  p.pool.add({intent("5", "e"), intent("6", "f")});
  p.settle();
  EXPECT_EQ(p.recorder.done, (std::vector<std::string>{"1", "4", "6", "2", "5", "3"}));
  // A group without open intents has no turn any more.
  p.recorder.done.clear();
  p.pool.add({intent("7", "g"), intent("4", "d")});
  p.settle();
  EXPECT_EQ(p.recorder.done, (std::vector<std::string>{"7", "4"}));
}

TEST(IntentPool, AFailureOfAGroupEndsWithItsRetry) {
  Pool p;
  for (const char* id : {"1", "3"}) p.recorder.turns[id] = {"x", {}};
  p.recorder.failing = "1";
  p.recorder.failures = 1;
  p.pool.add({intent("1", "a"), intent("2", "b"), intent("3", "c")});
  p.settle();
  EXPECT_EQ(p.recorder.done, (std::vector<std::string>{"1", "3", "2", "1"}));
}

TEST(IntentPool, AFailedIntentBacksOffAndDelaysNoOther) {
  Pool p;
  p.recorder.failing = "1";
  p.recorder.failures = 2;
  p.pool.add({intent("1", "a"), intent("2", "a"), intent("3", "b")});
  p.settle();
  EXPECT_EQ(p.recorder.done, (std::vector<std::string>{"1", "3", "1", "1", "2"}));
}

/// Each intent has an outcome; one that a later intent of its key supersedes is not executed.
TEST(IntentPool, ASupersededIntentIsReportedAndNotExecuted) {
  Pool p;
  p.recorder.obsolete = {{"1", "3"}, {"2", "4"}, {"5", "6"}};
  p.recorder.turns = {{"1", {"x", {}}}};
  p.pool.add({intent("1", "a"), intent("2", "a"), intent("3", "a"), intent("4", "b"), intent("5", "c")});
  p.settle();
  EXPECT_EQ(p.recorder.done, (std::vector<std::string>{"4", "5", "2", "3"})) << "4 has another key, 6 is not open";
  EXPECT_EQ(p.outcomes,
            (std::map<std::string, std::string>{{"1", "superseded by 3"}, {"2", ""}, {"3", ""}, {"4", ""}, {"5", ""}}));
  // The group ended with its intent, and the turn is that of a new one.
  p.recorder.done.clear();
  p.recorder.turns["8"] = {"x", {}};
  p.pool.add({intent("7", "a"), intent("8", "b")});
  p.settle();
  EXPECT_EQ(p.recorder.done, (std::vector<std::string>{"7", "8"}));
}

/// As after an outage: the retries of the first have failed, and the second is about what is wanted now.
TEST(IntentPool, AnIntentThatFailsIsSupersededBeforeItsNextTry) {
  Pool p;
  p.recorder.failing = "1";
  p.recorder.failures = 100;
  p.recorder.obsolete = {{"1", "2"}};
  p.pool.add({intent("1", "a")});
  EXPECT_TRUE(p.pool.once());
  const auto retrying = p.pool.retrying();
  ASSERT_TRUE(retrying);
  p.pool.add({intent("2", "a")});
  EXPECT_TRUE(testing::wait_until([&] { return p.pool.once(); }));
  EXPECT_EQ(p.outcomes.size(), 1U);
  ASSERT_TRUE(p.pool.retrying()) << "nothing about the object has succeeded yet";
  EXPECT_EQ(p.pool.retrying()->since, retrying->since);
  p.settle();
  EXPECT_EQ(p.recorder.done, (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(p.outcomes.at("1"), "superseded by 2");
  EXPECT_FALSE(p.pool.retrying());
}

/// The first is superseded by one that is superseded itself.
TEST(IntentPool, OfManyIntentsTheLastIsExecuted) {
  Pool p;
  p.recorder.obsolete = {{"1", "2"}, {"2", "3"}};
  p.pool.add({intent("1", "a"), intent("2", "a"), intent("3", "a")});
  p.settle();
  EXPECT_EQ(p.recorder.done, std::vector<std::string>{"3"});
  EXPECT_EQ(p.outcomes.size(), 3U);
}

TEST(IntentPool, RetriesAreReportedWithTheirError) {
  Pool p;
  EXPECT_FALSE(p.pool.retrying());
  p.recorder.failing = "1";
  p.recorder.failures = 1;
  p.pool.add({intent("1", "a"), intent("2", "b")});
  EXPECT_TRUE(p.pool.once());
  const auto retrying = p.pool.retrying();
  ASSERT_TRUE(retrying);
  EXPECT_EQ(retrying->keys, 1U);
  EXPECT_NE(retrying->error.find("1: "), std::string::npos) << retrying->error;
  EXPECT_NE(retrying->error.find("not now"), std::string::npos) << retrying->error;
  p.settle();
  EXPECT_FALSE(p.pool.retrying());
}

TEST(IntentPool, NothingIsBegunThatMayNotBeAndNothingIsForgotten) {
  bool may = false;
  Recorder recorder;
  IntentPool pool(
      &recorder, [](const auto&, const auto&) {}, [&] { return may; });
  pool.add({intent("1", "a")});
  EXPECT_FALSE(pool.once());
  EXPECT_EQ(pool.open(), 1U);
  may = true;
  EXPECT_TRUE(pool.once());
  EXPECT_EQ(pool.open(), 0U);
  pool.add({intent("2", "a")});
  pool.clear();
  EXPECT_FALSE(pool.once()) << "what was cleared has no turn";
}

/// Ends a call when the test sets `end`.
class Slow final : public Executor {
 public:
  Result<Outcome> execute(const store::IntentRow& intent) override {
    {
      const std::lock_guard lock(mutex);
      begun.push_back(intent.id);
    }
    if (intent.id == "1") end.get_future().wait();
    return Outcome{};
  }
  Outcome failed(const store::IntentRow& /*intent*/, const Error& /*error*/) override { return {}; }
  [[nodiscard]] std::vector<std::string> calls() const {
    const std::lock_guard lock(mutex);
    return begun;
  }
  std::promise<void> end;

 private:
  mutable std::mutex mutex;
  std::vector<std::string> begun;
};

TEST(IntentPool, AfterAReloadAKeyWaitsForTheCallThatIsStillUnderWay) {
  Slow slow;
  std::vector<std::string> reported;
  IntentPool pool(&slow, [&](const auto& row, const auto&) { reported.push_back(row.id); });
  pool.add({intent("1", "a"), intent("2", "a")});
  std::thread caller([&] { EXPECT_TRUE(pool.once()); });
  ASSERT_TRUE(testing::wait_until([&] { return slow.calls().size() == 1; }));
  pool.clear();
  pool.add({intent("3", "a"), intent("4", "b")});
  EXPECT_TRUE(pool.once()) << "another key";
  EXPECT_FALSE(pool.once()) << "two calls of one key at a time";
  EXPECT_EQ(slow.calls(), (std::vector<std::string>{"1", "4"}));
  slow.end.set_value();
  caller.join();
  EXPECT_TRUE(pool.once());
  EXPECT_FALSE(pool.once()) << "what was cleared does not come back";
  EXPECT_EQ(slow.calls(), (std::vector<std::string>{"1", "4", "3"}));
  EXPECT_EQ(reported, (std::vector<std::string>{"4", "3"})) << "the reloaded engine has intent 1 open still";
}

/// Executes intents for as long as `open` is not set, at most `most` of them at once.
class Held final : public Executor {
 public:
  Result<Outcome> execute(const store::IntentRow& /*intent*/) override {
    ++running;
    opened_.wait();
    return Outcome{};
  }
  Outcome failed(const store::IntentRow& /*intent*/, const Error& /*error*/) override { return {}; }
  [[nodiscard]] int most_at_once(SteadyDuration waited) const override {
    longest = waited;
    return most;
  }
  mutable std::atomic<SteadyDuration> longest{SteadyDuration::zero()};
  std::atomic<int> most{1}, running{0};
  std::promise<void> open;

 private:
  std::shared_future<void> opened_{open.get_future()};
};

TEST(IntentPool, TheExecutorLimitsHowManyAreExecutedAtOnce) {
  Held held;
  IntentPool pool{&held, [](const auto&, const auto&) {}};
  pool.start(4);
  EXPECT_EQ(pool.most_at_once(), 1);
  pool.add({intent("1", "a"), intent("2", "b"), intent("3", "c"), intent("4", "d"), intent("5", "e")});
  EXPECT_TRUE(testing::wait_until([&] { return held.running == 1; }));
  EXPECT_FALSE(pool.once());  // due, and not executed now
  EXPECT_EQ(held.running, 1);
  EXPECT_TRUE(testing::wait_until([&] { return held.longest.load() > std::chrono::milliseconds(30); }));
  // A higher limit is followed without a further intent; the threads are a limit too.
  held.most = 9;
  EXPECT_EQ(pool.most_at_once(), 4);
  EXPECT_TRUE(testing::wait_until([&] { return held.running == 4; }));
  held.most = 1;
  held.open.set_value();
  EXPECT_TRUE(testing::wait_until([&] { return pool.open() == 0; }));
  EXPECT_EQ(held.running, 5);
}

}  // namespace intent_pool_test
}  // namespace qm::service
