// The loop on a manual clock with bus and store in memory.
#include "qm/testing/state.hpp"
#include "qm/testing/testing.hpp"
#include "quartermaster/v1/envelope.pb.h"
#include "quartermaster/v1/journal.pb.h"
#include "sums.hpp"

#include <gtest/gtest.h>

namespace qm::service {
namespace host_test {

namespace pb = quartermaster::v1;

TEST(Host, AnswersAfterTheCommitAndFeedsTheBus) {
  World w("answers");
  w.boot();
  std::string reply;
  ASSERT_TRUE(w.add("a=5", "r1", [&](Result<std::string> r) { reply = reply_of(r); }));
  EXPECT_EQ(reply, "");
  w.settle();
  EXPECT_EQ(reply, "5");
  EXPECT_EQ(w.doer.done, std::vector<std::string>{"a=5"});
  EXPECT_EQ(w.sums->sum("outcomes"), 1);
  EXPECT_EQ(w.host->counters().open_intents, 0u);

  auto consumer = *w.bus->consumer({"check", {"qm.test"}, [](const auto&) { return std::int64_t{-1}; }});
  const auto got = events_of(*consumer->poll(10, std::chrono::milliseconds(10)));
  ASSERT_EQ(got.size(), 1u);
  const auto& e = got[0];
  EXPECT_EQ(e.key_version(), 1u);
  EXPECT_EQ(e.payload(), "5");
  EXPECT_EQ(e.decision_id(), "test/default/1");
  EXPECT_EQ(e.epoch(), 1u);
}

TEST(Host, RepeatedRequestIdGetsTheFirstAnswerAcrossRestart) {
  World w("repeat");
  w.boot();
  std::vector<std::string> replies;
  const auto note = [&](Result<std::string> r) { replies.push_back(reply_of(r)); };
  ASSERT_TRUE(w.add("a=5", "r1", note));
  ASSERT_TRUE(w.add("a=5", "r1", note));  // in the same batch
  w.settle();
  ASSERT_TRUE(w.add("a=5", "r1", note));  // later
  w.settle();
  w.boot();  // after a restart
  ASSERT_TRUE(w.add("a=5", "r1", note));
  w.settle();
  EXPECT_EQ(replies, (std::vector<std::string>{"5", "5", "5", "5"}));
  EXPECT_EQ(w.sums->sum("a"), 5);
  w.clock.advance(std::chrono::hours(25));  // the id is forgotten after 24 h
  ASSERT_TRUE(w.add("b=1", "r2", note));
  w.settle();
  ASSERT_TRUE(w.add("a=5", "r1", note));
  w.settle();
  EXPECT_EQ(replies.back(), "10");
}

TEST(Host, NotCommittedIsUndoneAndRepeatedOnce) {
  World w("undo");
  w.boot();
  std::string reply;
  store::plant_outcome(*w.disk, store::CommitOutcome::kNotCommitted);
  ASSERT_TRUE(w.add("a=5", "r1", [&](Result<std::string> r) { reply = reply_of(r); }));
  w.host->pump();
  EXPECT_EQ(reply, "");
  EXPECT_EQ(w.sums->sum("a"), 0);
  EXPECT_FALSE(w.host->ready());
  while (reply.empty()) w.host->pump();
  EXPECT_EQ(reply, "5");
  EXPECT_EQ(w.sums->sum("a"), 5);
  EXPECT_EQ(w.host->counters().undone, 1u);
  EXPECT_TRUE(w.host->ready());
}

class InDoubt : public ::testing::TestWithParam<bool> {};
TEST_P(InDoubt, IsReadBackAndAppliedExactlyOnce) {
  World w(std::string("doubt") + (GetParam() ? "1" : "0"));
  w.boot();
  std::string reply;
  store::plant_outcome(*w.disk, store::CommitOutcome::kInDoubt, GetParam());
  ASSERT_TRUE(w.add("a=5", "r1", [&](Result<std::string> r) { reply = reply_of(r); }));
  while (reply.empty()) w.host->pump();
  EXPECT_EQ(reply, "5");
  w.settle();
  EXPECT_EQ(w.sums->sum("a"), 5);
  EXPECT_EQ(w.host->counters().reloads, 1u);
  EXPECT_EQ(w.doer.done.size(), 1u);
}
INSTANTIATE_TEST_SUITE_P(Either, InDoubt, ::testing::Bool());

TEST(Host, OldLeaderStopsDecidingAndLosesNothing) {
  World w("epoch");
  w.boot();
  ASSERT_TRUE(w.add("a=1", "r1"));
  w.settle();
  auto usurper = store::open_memory(w.disk);
  ASSERT_TRUE(usurper->acquire("other"));
  std::string reply;
  ASSERT_TRUE(w.add("a=1", "r2", [&](Result<std::string> r) { reply = reply_of(r); }));
  w.settle();
  EXPECT_NE(reply.find("another replica is the leader now"), std::string::npos) << reply;
  EXPECT_FALSE(w.host->ready());
  EXPECT_FALSE(w.host->alive());
  EXPECT_FALSE(w.add("a=1", "r3"));
  w.boot();
  EXPECT_EQ(w.sums->sum("a"), 1);
}

TEST(Host, PendingCallsFailAtOnceWhenAnotherReplicaLeads) {
  std::vector<std::string> replies;
  World w("epoch2");
  HostOptions options;
  options.max_batch = 1;
  w.boot(options);
  auto usurper = store::open_memory(w.disk);
  ASSERT_TRUE(usurper->acquire("other"));
  const auto note = [&](Result<std::string> r) { replies.push_back(reply_of(r)); };
  for (const char* id : {"r1", "r2", "r3"}) ASSERT_TRUE(w.add("a=1", id, note));
  w.host->pump();  // handles the first; a server that drains would wait for the others
  ASSERT_EQ(replies.size(), 3U);
  for (const auto& reply : replies)
    EXPECT_NE(reply.find("another replica is the leader now"), std::string::npos) << reply;
  EXPECT_EQ(w.host->counters().mailbox, 0U);
  w.host->stop();
  EXPECT_EQ(replies.size(), 3U) << "each is published once";
}

/// Counts the calls of until().
class CountingClock final : public DomainClock {
 public:
  [[nodiscard]] Instant now() const override { return from_micros(1'000'000); }
  [[nodiscard]] SteadyDuration until(Instant) const override {
    ++asked;
    return SteadyDuration::zero();
  }
  mutable std::atomic<int> asked{0};
};

TEST(Host, AnOldLeaderDoesNotTurnInCirclesOverATimerThatIsDue) {
  World w("epoch3");
  const CountingClock clock;
  auto shell = std::make_unique<Sums>();
  shell->wake_at = clock.now();  // due at once, and again after each step
  HostOptions options;
  options.service = "test";
  Host host(options, std::move(shell), store::open_memory(w.disk), nullptr, clock, nullptr);
  ASSERT_TRUE(host.open());
  auto usurper = store::open_memory(w.disk);
  ASSERT_TRUE(usurper->acquire("other"));
  host.start();
  ASSERT_TRUE(testing::wait_until([&] { return !host.alive(); }));
  const int before = clock.asked;
  EXPECT_FALSE(testing::wait_until([&] { return clock.asked - before > 5; }, std::chrono::milliseconds(50)));
  std::int64_t keys = -1;
  host.read([&](const Shell& old) { keys = testing::whole_state<StateDump>(old)["keys"].integer(); });
  EXPECT_EQ(keys, 0) << "its pages are still answered";
}

/// The relay and the engine wait for up to a second at rest.
TEST(Host, ACommitIsPublishedWithoutAWait) {
  World w("prompt");
  w.boot();
  w.host->start();
  const auto start = std::chrono::steady_clock::now();
  constexpr std::uint64_t kEvents = 30;
  for (std::uint64_t i = 1; i <= kEvents; ++i) {
    ASSERT_TRUE(w.add("a=1", std::to_string(i)));
    ASSERT_TRUE(testing::wait_until([&] { return w.host->counters().published >= i; }));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(500) * kEvents);
  w.host->stop();
}

TEST(Host, TimeNeverGoesBackAcrossRestart) {
  World w("time");
  w.boot();
  w.clock.advance(std::chrono::seconds(100));
  ASSERT_TRUE(w.add("a=1", "r1"));
  w.settle();
  const Instant last = w.sums->nows.back();
  World behind("time2");
  behind.disk = w.disk;
  behind.boot();  // its clock starts 100 s earlier
  ASSERT_TRUE(behind.add("a=1", "r2"));
  behind.settle();
  EXPECT_EQ(behind.sums->nows.back(), last);
}

TEST(Host, WakesTheEngineAtTheTimeItAskedFor) {
  World w("wake");
  w.boot();
  w.settle();
  w.sums->wake_at = w.clock.now() + std::chrono::seconds(10);
  ASSERT_TRUE(w.add("a=1", "r1"));
  w.settle();
  const int before = w.sums->timers;
  w.clock.advance(std::chrono::seconds(9));
  w.settle();
  EXPECT_EQ(w.sums->timers, before);
  w.sums->wake_at.reset();
  w.clock.advance(std::chrono::seconds(1));
  w.settle();
  EXPECT_EQ(w.sums->timers, before + 1);
}

TEST(Host, FullMailboxIsExhausted) {
  World w("full");
  w.boot({.mailbox = 2});
  ASSERT_TRUE(w.add("a=1", "r1"));
  ASSERT_TRUE(w.add("a=1", "r2"));
  const auto third = w.add("a=1", "r3");
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, Code::kExhausted);
  EXPECT_EQ(third.error().remedy, "try again in a second");
  EXPECT_EQ(w.host->counters().refused, 1u);
}

TEST(Host, RefusalIsAnAnswerAndIsNotRemembered) {
  World w("refusal");
  w.boot();
  std::string reply;
  ASSERT_TRUE(w.add("nonsense", "r1", [&](Result<std::string> r) { reply = reply_of(r); }));
  w.settle();
  EXPECT_NE(reply.find("no key=n"), std::string::npos);
  ASSERT_TRUE(w.add("a=1", "r1", [&](Result<std::string> r) { reply = reply_of(r); }));
  w.settle();
  EXPECT_EQ(reply, "1");
}

TEST(Host, DropsDuplicatesByVersionAndStartsAtItsOwnCursor) {
  World w("cursor");
  w.boot({.consumes = {"qm.in"}});
  auto producer = *w.bus->producer("p");
  const std::vector<bus::Record> first = {{"qm.in", "a", envelope("a", 1, "a=1")},
                                          {"qm.in", "a", envelope("a", 2, "a=2")}};
  ASSERT_TRUE(producer->publish(first, std::chrono::seconds(1)));
  ASSERT_TRUE(producer->publish(first, std::chrono::seconds(1)));  // resent after a timeout
  w.settle();
  EXPECT_EQ(w.sums->sum("a"), 3);
  EXPECT_EQ(w.host->counters().duplicates, 2u);
  w.boot({.consumes = {"qm.in"}});
  w.settle();
  EXPECT_EQ(w.sums->sum("a"), 3);
  EXPECT_EQ(w.host->counters().duplicates, 0u) << "the cursor, not the version, keeps old messages away";
  ASSERT_TRUE(
      producer->publish(std::vector<bus::Record>{{"qm.in", "a", envelope("a", 5, "a=10")}}, std::chrono::seconds(1)));
  w.settle();
  EXPECT_EQ(w.sums->sum("a"), 13) << "an event carries its key's whole state: the newest is applied over a gap";
  EXPECT_EQ(w.host->counters().gaps, 1u);
}

TEST(Host, IgnoresMessagesOfOtherShardsOnTheSameBus) {
  World w("shards");
  w.boot({.consumes = {"qm.in"}});
  auto producer = *w.bus->producer("p");
  ASSERT_TRUE(producer->publish(std::vector<bus::Record>{{"qm.in", "a", envelope("a", 7, "a=100", "elsewhere")},
                                                         {"qm.in", "a", envelope("a", 1, "a=1")},
                                                         {"qm.in", "a", envelope("a", 8, "rubbish", "elsewhere")}},
                                std::chrono::seconds(1)));
  w.settle();
  EXPECT_EQ(w.sums->sum("a"), 1) << "the versions of another cluster's key are not ours";
  EXPECT_EQ(w.host->counters().duplicates, 0u);
  EXPECT_EQ(w.host->counters().poison, 0u);
  w.boot({.consumes = {"qm.in"}});
  EXPECT_FALSE(w.host->consume_once()) << "the cursor is past them";
}

/// A database that never becomes available.
class NoStore final : public store::Store {
 public:
  Result<store::Loaded> acquire(const std::string&) override { return gone(); }
  Result<store::CommitOutcome> commit(const store::Commit&) override { return gone(); }
  [[nodiscard]] store::Term term() const override { return {}; }
  Result<std::vector<store::OutboxRow>> read_outbox(std::uint64_t, std::size_t) override { return gone(); }
  Status published(std::uint64_t, std::uint64_t) override { return gone(); }
  Result<std::vector<store::OutboxRow>> snapshot(const std::string&, const std::string&, std::size_t,
                                                 const std::string&, bool) override {
    return gone();
  }
  Result<std::vector<JournalRow>> read_journal(std::uint64_t, std::size_t) override { return gone(); }

 private:
  static tl::unexpected<Error> gone() { return fail(Code::kUnavailable, "no answer"); }
};

TEST(Host, WaitsForItsStoreAsLongAsItsCallerDoes) {
  ManualClock clock{from_micros(1'000'000)};
  Host host({.service = "test"}, std::make_unique<Sums>(), std::make_unique<NoStore>(), nullptr, clock, nullptr);
  int asked = 0;
  const auto opened = host.open([&] { return ++asked < 2; });
  EXPECT_EQ(asked, 2);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().message, "test cannot acquire its shard default: no answer");
}

/// A bus that is unavailable until `there` is set.
class Away final : public bus::Bus {
 public:
  explicit Away(std::shared_ptr<bus::Bus> all) : all_(std::move(all)) {}
  Status ensure_topics(std::span<const std::string> topics, int partitions) override {
    return there ? all_->ensure_topics(topics, partitions) : gone();
  }
  Result<std::unique_ptr<bus::Producer>> producer(const std::string& id) override {
    if (closed) return fail(Code::kPermissionDenied, "no ACL for topic qm.test");
    return all_->producer(id);
  }
  Result<std::unique_ptr<bus::Consumer>> consumer(bus::ConsumerOptions options) override {
    if (closed) return fail(Code::kPermissionDenied, "no ACL for group test");
    return all_->consumer(std::move(options));
  }
  [[nodiscard]] std::string name() const override { return "away"; }
  bool there = false, closed = false;

 private:
  static Status gone() { return fail(Code::kUnavailable, "no answer"); }
  std::shared_ptr<bus::Bus> all_;
};

TEST(Host, StartsAndDecidesWithoutItsBus) {
  World w("alone");
  const auto away = std::make_shared<Away>(w.bus);
  w.bus = away;
  EXPECT_EQ(w.make({.consumes = {"qm.in"}}).open().error().code, Code::kUnavailable)
      << "a call without a deadline gets the error";
  ASSERT_TRUE(w.make({.consumes = {"qm.in"}}).open([] { return true; }));
  std::string reply;
  ASSERT_TRUE(w.add("a=5", "r1", [&](Result<std::string> r) { reply = reply_of(r); }));
  w.settle();
  EXPECT_EQ(reply, "5");
  EXPECT_TRUE(w.host->ready());
  EXPECT_EQ(w.host->counters().outbox_backlog, 1U);
  const auto error = Error{Code::kUnavailable, "no answer", {}, {}}.to_string();
  EXPECT_EQ(w.host->readiness().text,
            fmt::format("ok; events could not be sent to the bus for 0 s: {0}; the bus could not be "
                        "read for 0 s: {0}",
                        error));

  // A bus that is available and denies both is reported, too.
  away->there = away->closed = true;
  w.settle();
  EXPECT_NE(w.host->readiness().text.find("no ACL for topic qm.test"), std::string::npos) << w.host->readiness().text;
  EXPECT_NE(w.host->readiness().text.find("no ACL for group test"), std::string::npos) << w.host->readiness().text;

  away->closed = false;
  w.settle();
  EXPECT_EQ(w.host->counters().outbox_backlog, 0U);
  EXPECT_EQ(w.host->counters().published, 1U);
  EXPECT_EQ(w.host->readiness().text, "ok");
}

TEST(Host, IntentsOfOneKeyKeepTheirOrderThroughFailuresAndRestart) {
  World w("intents");
  w.boot();
  w.doer.failures = 1;
  ASSERT_TRUE(w.add("a=1", "r1"));
  ASSERT_TRUE(w.add("a=2", "r2"));
  w.host->pump();
  EXPECT_TRUE(w.host->execute_once());  // fails, waits for its back-off
  EXPECT_EQ(w.host->counters().open_intents, 2u);
  w.boot();  // the process dies: both intents still exist
  w.settle();
  EXPECT_EQ(w.doer.done, (std::vector<std::string>{"a=1", "a=1", "a=2"}));
  EXPECT_EQ(w.sums->sum("outcomes"), 2);
}

TEST(Host, EventsNotYetSentSurviveTheProcess) {
  World w("outbox");
  w.boot();
  ASSERT_TRUE(w.add("a=1", "r1"));
  w.host->pump();  // committed, and killed before the relay ran
  w.boot();
  w.settle();
  auto consumer = *w.bus->consumer({"check", {"qm.test"}, [](const auto&) { return std::int64_t{-1}; }});
  EXPECT_EQ(events_of(*consumer->poll(10, std::chrono::milliseconds(10))).size(), 1u);
  EXPECT_EQ(w.host->counters().outbox_backlog, 0u);
  w.boot();  // no previous messages exist: that is not a backlog either
  w.settle();
  EXPECT_EQ(w.host->counters().outbox_backlog, 0u);
  ASSERT_TRUE(w.add("a=1", "r2"));
  w.host->pump();
  EXPECT_EQ(w.host->counters().outbox_backlog, 1u);
}

TEST(Host, WatchesResumeByVersionOrHaveToListAgain) {
  World w("feed");
  w.boot({.feed = 3});
  std::vector<std::string> seen;
  const auto handle = *w.host->follow(0, [&](const FeedEvent& e) { seen.push_back(e.payload); });
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(w.add("a=1", "r" + std::to_string(i)));
  w.settle();
  EXPECT_EQ(seen, (std::vector<std::string>{"1", "2"}));
  w.host->unfollow(handle);
  for (int i = 2; i < 6; ++i) ASSERT_TRUE(w.add("a=1", "r" + std::to_string(i)));
  w.settle();
  std::vector<std::string> later;
  ASSERT_TRUE(w.host->follow(4, [&](const FeedEvent& e) { later.push_back(e.payload); }));
  EXPECT_EQ(later, (std::vector<std::string>{"5", "6"}));
  const auto gone = w.host->follow(1, [](const FeedEvent&) {});
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Code::kOutOfRange);
}

TEST(Host, TheEventsForWatchesAreLimitedByTheirBytes) {
  World w("feed-bytes");
  w.boot({.feed_bytes = 3});
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(w.add("a=1", "r" + std::to_string(i)));
  w.settle();
  EXPECT_FALSE(w.host->follow(0, [](const FeedEvent&) {})) << "the first of four bytes";
  const auto handle = w.host->follow(1, [](const FeedEvent&) {});
  ASSERT_TRUE(handle);
  w.host->unfollow(*handle);
  ASSERT_TRUE(w.add("a=1 pad=9", "r4"));  // longer than the limit: it alone is kept
  w.settle();
  EXPECT_FALSE(w.host->follow(3, [](const FeedEvent&) {}));
  EXPECT_TRUE(w.host->follow(4, [](const FeedEvent&) {}));
}

TEST(Host, ReplayOfTheJournalGivesTheSameDigests) {
  World w("replay");
  w.boot();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(w.add("k" + std::to_string(i % 2) + "=" + std::to_string(i), "r" + std::to_string(i)));
    w.clock.advance(std::chrono::seconds(1));
    w.settle();
  }
  EXPECT_GE(store::open_memory(w.disk)->read_journal(0, 100)->size(), 5U);
  expect_replays(w);
}

TEST(Host, RunsWithThreadsAndDrainsAtStop) {
  World w("threads");
  w.boot();
  w.host->start();
  std::atomic<int> answered{0};
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(w.add("a=1", "r" + std::to_string(i), [&](Result<std::string> r) { answered += r ? 1 : 0; }));
  }
  std::int64_t size = -1;
  w.host->read([&](const Shell& shell) { size = testing::whole_state<StateDump>(shell)["keys"].integer(); });
  EXPECT_GE(size, 0);
  w.host->stop();
  EXPECT_EQ(answered, 200);
  EXPECT_EQ(w.sums->sum("a"), 200);
  EXPECT_FALSE(w.add("a=1", "late"));
}

}  // namespace host_test
}  // namespace qm::service
