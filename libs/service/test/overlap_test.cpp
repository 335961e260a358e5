// A batch is decided while the one before it is written.
#include "qm/testing/testing.hpp"
#include "sums.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <future>

namespace qm::service {
namespace overlap_test {

using store::CommitOutcome;

/// One request in each batch; without threads the transaction of a batch takes place after the next one is decided.
class OverlapTest : public ::testing::Test {
 protected:
  void SetUp() override { w_.boot(options()); }
  static HostOptions options() {
    HostOptions options;
    options.max_batch = 1;
    options.overlap_from = 0;
    return options;
  }
  void add(const std::string& bytes, const std::string& id) {
    ASSERT_TRUE(w_.add(bytes, id, [this, id](const Result<std::string>& r) {
      replies_.push_back(id + " " + (r ? *r : r.error().message));
    }));
  }
  std::size_t batches() { return store::open_memory(w_.disk)->read_journal(0, 100)->size(); }
  static int number_;
  std::vector<std::string> replies_;
  World w_{"overlap" + std::to_string(++number_)};
};
int OverlapTest::number_ = 0;

using Lines = std::vector<std::string>;

TEST_F(OverlapTest, TheNextBatchIsDecidedBeforeTheOneBeforeItIsDurable) {
  add("a=1", "r1");
  add("a=2", "r2");
  w_.host->pump();
  EXPECT_EQ(w_.sums->sum("a"), 1);
  EXPECT_EQ(batches(), 0U);
  EXPECT_EQ(replies_, Lines{});
  w_.host->pump();
  EXPECT_EQ(w_.sums->sum("a"), 3);
  EXPECT_EQ(batches(), 1U);
  EXPECT_EQ(replies_, Lines{"r1 1"});
  w_.host->pump();
  EXPECT_EQ(batches(), 2U);
  EXPECT_EQ(replies_, (Lines{"r1 1", "r2 3"}));
  w_.settle();
  EXPECT_EQ(w_.doer.done, (Lines{"a=1", "a=2"}));
  expect_replays(w_);
}

TEST_F(OverlapTest, FewInputsAreWrittenBeforeTheNextBatchIsDecided) {
  auto few = options();
  few.overlap_from = 2;
  w_.boot(few);
  for (const char* id : {"r1", "r2", "r3"}) add("a=1", id);
  w_.host->pump();
  EXPECT_EQ(batches(), 0U) << "two are pending";
  w_.host->pump();
  EXPECT_EQ(batches(), 2U) << "one is pending";
}

TEST_F(OverlapTest, AReadShowsWhatIsDurable) {
  add("a=1", "r1");
  add("a=2", "r2");
  w_.host->pump();
  store::plant_outcome(*w_.disk, CommitOutcome::kNotCommitted);
  std::vector<std::int64_t> read;
  const auto note = [&](const Shell&) { read.push_back(w_.sums->sum("a")); };
  ASSERT_TRUE(w_.host->read_async(note));
  w_.host->pump();
  while (replies_.size() < 2) w_.host->pump();
  ASSERT_TRUE(w_.host->read_async(note));
  w_.host->pump();
  EXPECT_EQ(read, (std::vector<std::int64_t>{0, 3}));
}

class OverlapFails : public OverlapTest, public ::testing::WithParamInterface<std::pair<CommitOutcome, bool>> {};

TEST_P(OverlapFails, BothBatchesAreUndoneAndAppliedOnceInTheirOrder) {
  add("a=1", "r1");
  add("a=2", "r2");
  add("a=4", "r3");
  w_.host->pump();
  const auto [outcome, done] = GetParam();
  store::plant_outcome(*w_.disk, outcome, done);
  w_.host->pump();
  EXPECT_EQ(w_.sums->sum("a"), done ? 1 : 0);
  EXPECT_EQ(replies_, done ? Lines{"r1 1"} : Lines{});
  while (replies_.size() < 3) w_.host->pump();
  w_.settle();
  EXPECT_EQ(replies_, (Lines{"r1 1", "r2 3", "r3 7"}));
  EXPECT_EQ(w_.sums->sum("a"), 7);
  EXPECT_EQ(w_.doer.done, (Lines{"a=1", "a=2", "a=4"}));
  expect_replays(w_);
}
INSTANTIATE_TEST_SUITE_P(Each, OverlapFails,
                         ::testing::Values(std::pair(CommitOutcome::kNotCommitted, false),
                                           std::pair(CommitOutcome::kTermEnded, false),
                                           std::pair(CommitOutcome::kInDoubt, false),
                                           std::pair(CommitOutcome::kInDoubt, true)));

TEST_F(OverlapTest, AnotherLeaderEndsBoth) {
  add("a=1", "r1");
  add("a=2", "r2");
  w_.host->pump();
  auto usurper = store::open_memory(w_.disk);
  ASSERT_TRUE(usurper->acquire("other"));
  w_.host->pump();
  ASSERT_EQ(replies_.size(), 2U);
  for (const auto& reply : replies_) EXPECT_NE(reply.find("another replica is the leader now"), std::string::npos);
  EXPECT_EQ(batches(), 0U);
}

TEST_F(OverlapTest, ARequestIsRepeatedWhileItsBatchIsWritten) {
  add("a=1", "r1");
  add("a=1", "r1");
  add("a=5", "r2");
  w_.host->pump();
  w_.host->pump();
  EXPECT_EQ(replies_, Lines{"r1 1"});
  w_.settle();
  EXPECT_EQ(replies_, (Lines{"r1 1", "r1 1", "r2 6"}));
  EXPECT_EQ(w_.sums->sum("a"), 6);
}

TEST_F(OverlapTest, AMessageOfTheBusIsRepeatedWhileItsBatchIsWritten) {
  Input in;
  in.source = Source::kBus;
  in.name = "qm.other";
  in.key = "k";
  in.version = 1;
  in.bytes = "a=1";
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(w_.host->submit(in));
    w_.host->pump();
  }
  w_.settle();
  EXPECT_EQ(w_.sums->sum("a"), 1);
  EXPECT_EQ(w_.host->counters().duplicates, 0U) << "counted by the next batch that is written";
}

TEST_F(OverlapTest, ABatchThatCannotBeWrittenIsBisectedAfterTheOneBeforeItIsDurable) {
  add("a=1", "r1");
  add("a=2 pad=" + std::to_string(bus::kMaxValue), "r2");
  add("a=4", "r3");
  while (replies_.size() < 3) w_.host->pump();
  EXPECT_EQ(replies_.front(), "r1 1");
  EXPECT_NE(replies_[1].find("r2 the event for topic qm.test about a would have"), std::string::npos) << replies_[1];
  EXPECT_EQ(replies_.back(), "r3 5");
  w_.settle();
  EXPECT_EQ(w_.sums->sum("a"), 5);
  expect_replays(w_);
}

TEST_F(OverlapTest, ATimerIsThatOfTheBatchThatIsWritten) {
  w_.sums->wake_at = w_.clock.now() + std::chrono::seconds(1);
  for (const char* id : {"r1", "r2", "r3"}) add("a=1", id);
  w_.host->pump();
  EXPECT_EQ(w_.sums->timers, 1) << "the first step of a leader";
  w_.host->pump();
  EXPECT_EQ(w_.sums->timers, 1);
  w_.clock.advance(std::chrono::seconds(1));
  w_.host->pump();
  EXPECT_EQ(w_.sums->timers, 2);
}

TEST_F(OverlapTest, ADeletedKeyIsForgottenOnceAndItsVersionsGoOn) {
  auto at_once = options();
  at_once.forget_after = SteadyDuration::zero();
  w_.boot(at_once);
  add("a=1", "r1");
  add("a=-1", "r2");
  while (replies_.size() < 2) w_.host->pump();  // without the outcomes of intents, whose batch would forget the key
  add("b=1", "r3");
  add("b=1", "r4");
  add("a=7", "r5");
  w_.settle();
  EXPECT_EQ(replies_.back(), "r5 7");
  std::vector<std::uint64_t> versions;
  auto consumer = *w_.bus->consumer({.group = "reader", .topics = {"qm.test"}});
  for (const auto& e : events_of(*consumer->poll(1000, std::chrono::milliseconds(50))))
    if (e.key() == "a") versions.push_back(e.key_version());
  EXPECT_EQ(versions, (std::vector<std::uint64_t>{1, 2, 3}));
}

TEST_F(OverlapTest, AStoppedHostRefusesTheBatchThatItHasNotWritten) {
  add("a=1", "r1");
  w_.host->pump();
  w_.host->stop();
  EXPECT_EQ(replies_, Lines{"r1 the service is stopping"});
  EXPECT_EQ(batches(), 0U);
}

TEST_F(OverlapTest, WithThreadsAStopWritesAllThatWasAccepted) {
  Lines sums;
  for (int i = 1; i <= 20; ++i) {
    add("a=1", "r" + std::to_string(i));
    sums.push_back("r" + std::to_string(i) + " " + std::to_string(i));
  }
  w_.host->start();
  w_.host->stop();
  EXPECT_EQ(replies_, sums);
  EXPECT_EQ(batches(), 20U);
}

TEST_F(OverlapTest, WithThreadsEachInputIsAppliedOnceAndInOrder) {
  auto few = options();
  few.overlap_from = 1;
  few.max_batch = 7;
  w_.boot(few);
  w_.host->start();
  std::atomic<int> last{0}, answered{0};
  constexpr int kRequests = 3000;
  for (int i = 1; i <= kRequests; ++i) {
    ASSERT_TRUE(w_.add("a=1", "r" + std::to_string(i), [&, i](const Result<std::string>& r) {
      answered += r && *r == std::to_string(i) && last.exchange(i) == i - 1 ? 1 : 0;
    }));
  }
  EXPECT_TRUE(testing::wait_until([&] { return answered == kRequests; }));
  w_.host->stop();
  EXPECT_EQ(w_.sums->sum("a"), kRequests);
  expect_replays(w_);
}

/// The values of a service that writes each batch before it decides the next one.
RC_GTEST_PROP(OverlapProp, TheOutcomeIsThatOfOneBatchAfterTheOther, ()) {
  static int number = 0;
  World w("overlap-prop" + std::to_string(++number));
  HostOptions options;
  options.max_batch = *rc::gen::inRange<std::size_t>(1, 4);
  options.overlap_from = *rc::gen::inRange<std::size_t>(0, 3);
  w.boot(options);
  std::map<std::string, std::int64_t> sums;
  std::map<std::string, std::vector<std::string>> replies, expected;
  const int inputs = *rc::gen::inRange(1, 40);
  for (int i = 0; i < inputs; ++i) {
    const auto key = *rc::gen::element<std::string>("a", "b");
    const auto amount = *rc::gen::inRange(-2, 3);
    const auto id = "r" + std::to_string(*rc::gen::inRange(0, 30));
    if (!expected.contains(id)) {
      expected[id].push_back(std::to_string(sums[key] += amount));
      RC_ASSERT(w.add(fmt::format("{}={}", key, amount), id,
                      [&, id](const Result<std::string>& r) { replies[id].push_back(r ? *r : r.error().message); }));
    } else {
      expected[id].push_back(expected[id].front());
      RC_ASSERT(w.add("a=100", id,
                      [&, id](const Result<std::string>& r) { replies[id].push_back(r ? *r : r.error().message); }));
    }
    if (*rc::gen::inRange(0, 4) == 0) {
      const auto [outcome, done] =
          *rc::gen::element(std::pair(CommitOutcome::kNotCommitted, false), std::pair(CommitOutcome::kTermEnded, false),
                            std::pair(CommitOutcome::kInDoubt, false), std::pair(CommitOutcome::kInDoubt, true));
      store::plant_outcome(*w.disk, outcome, done);
    }
    for (int n = *rc::gen::inRange(0, 3); n > 0; --n) w.host->pump();
  }
  const auto count = [](const auto& lists) {
    std::size_t n = 0;
    for (const auto& [id, list] : lists) n += list.size();
    return n;
  };
  while (count(replies) < count(expected)) w.host->pump();
  w.settle();
  RC_ASSERT(replies == expected);
  for (const auto& [key, sum] : sums) RC_ASSERT(w.sums->sum(key) == sum);
  expect_replays(w);
  // Sequences and versions have no gap.
  std::map<std::string, std::uint64_t> versions;
  auto consumer = *w.bus->consumer({.group = "reader", .topics = {"qm.test"}});
  for (const auto& e : events_of(*consumer->poll(1000, std::chrono::milliseconds(50))))
    RC_ASSERT(e.key_version() == ++versions[e.key()]);
}

}  // namespace overlap_test
}  // namespace qm::service
