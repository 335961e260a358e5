// Inputs that follow one another closely share a transaction; a request does not wait for others.
#include "qm/service/pace.hpp"

#include "qm/testing/testing.hpp"
#include "sums.hpp"

#include <gtest/gtest.h>

#include <future>

namespace qm::service {
namespace pace_test {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

TEST(Pace, AfterABurstOneBatchPerInterval) {
  Pace pace(20ms);
  const auto start = steady_clock::now();
  for (int i = 0; i < Pace::kBurst; ++i) {
    EXPECT_LE(pace.next(), start) << i;
    pace.written(start);
  }
  EXPECT_EQ(pace.next(), start + 20ms);
  pace.written(start + 20ms);
  EXPECT_EQ(pace.next(), start + 40ms);
}

TEST(Pace, APauseRefillsNoMoreThanTheBurst) {
  Pace pace(20ms);
  const auto start = steady_clock::now();
  pace.written(start);
  const auto later = start + 1h;
  for (int i = 0; i < Pace::kBurst; ++i) pace.written(later);
  EXPECT_EQ(pace.next(), later + 20ms);
}

/// A host with threads whose bucket is empty, so that the next small batch is due after an hour.
struct Busy : World {
  explicit Busy(const std::string& name, HostOptions options = {}) : World(name) {
    options.gather = 1h;
    boot(options);
    host->start();
    for (int i = 0; i < Pace::kBurst; ++i) {
      observe(1);
      const auto wanted = static_cast<std::uint64_t>(i) + 1;
      EXPECT_TRUE(testing::wait_until([&] { return host->counters().batches >= wanted; }));
    }
  }
  ~Busy() { host->stop(); }

  void observe(std::size_t inputs) {
    for (std::size_t i = 0; i < inputs; ++i) {
      Input in;
      in.source = Source::kWatch;
      in.name = "seen";
      in.bytes = "a=1";
      EXPECT_TRUE(host->submit(std::move(in)));
    }
  }
};

TEST(Pace, ObservationsOfABusyHostShareABatchUntilItIsLarge) {
  Busy w("pace-share");
  const auto before = w.host->counters();
  for (std::uint64_t i = 1; i < 64; ++i) {
    w.observe(1);
    EXPECT_TRUE(testing::wait_until([&] {
      const auto now = w.host->counters();
      return now.mailbox == i || now.batches > before.batches;
    }));
  }
  EXPECT_EQ(w.host->counters().batches, before.batches) << "more are awaited";
  w.observe(1);
  EXPECT_TRUE(testing::wait_until([&] { return w.host->counters().inputs == before.inputs + 64; }));
  EXPECT_EQ(w.host->counters().batches, before.batches + 1);
}

TEST(Pace, ARequestDoesNotWaitAndTakesObservationsAlong) {
  Busy w("pace-request");
  const auto before = w.host->counters().batches;
  w.observe(3);
  std::promise<std::string> reply;
  ASSERT_TRUE(w.add("b=5", "r1", [&](Result<std::string> r) { reply.set_value(r.value_or("refused")); }));
  EXPECT_EQ(reply.get_future().get(), "5");
  EXPECT_EQ(w.host->counters().batches, before + 1);
  std::int64_t sum = 0;
  w.host->read([&](const Shell& shell) { sum = static_cast<const Sums&>(shell).sum("a"); });
  EXPECT_EQ(sum, Pace::kBurst + 3);
}

TEST(Pace, AFullMailboxDoesNotWait) {
  HostOptions options;
  options.mailbox = 4;
  Busy w("pace-full", options);
  const auto before = w.host->counters().inputs;
  w.observe(options.mailbox);
  EXPECT_TRUE(testing::wait_until([&] { return w.host->counters().inputs == before + options.mailbox; }));
}

/// The relay deletes rows later than it sends them, and needs no further event for it.
TEST(Pace, RowsThatWereSentAreDeleted) {
  World w("pace-clear");
  w.boot();
  w.host->start();
  const auto left = [&] { return store::open_memory(w.disk)->read_outbox(0, 100).value().size(); };
  for (std::uint64_t i = 1; i <= 20; ++i) {
    ASSERT_TRUE(w.add("a=1", fmt::format("r{}", i)));
    ASSERT_TRUE(testing::wait_until([&] { return w.host->counters().published == i; }));
  }
  EXPECT_TRUE(testing::wait_until([&] { return left() == 0; }));
  ASSERT_TRUE(w.add("a=1", "last"));
  ASSERT_TRUE(testing::wait_until([&] { return w.host->counters().published == 21; }));
  w.host->stop();
  EXPECT_EQ(left(), 0U);
}

TEST(Pace, AReadEndsTheWaitAndAPeekDoesNot) {
  Busy w("pace-read");
  const auto before = w.host->counters().batches;
  w.observe(1);
  for (int i = 0; i < 3; ++i) w.host->peek([](const Shell&) {});
  EXPECT_EQ(w.host->counters().batches, before);
  EXPECT_EQ(w.host->counters().mailbox, 1U);
  w.host->read([](const Shell&) {});
  EXPECT_TRUE(testing::wait_until([&] { return w.host->counters().batches == before + 1; }));
}

/// A host with threads, and with an engine in which work is pending, or none. An input that is deferred waits for an
/// hour.
struct Deferring : World {
  explicit Deferring(const std::string& name, bool pending, HostOptions options = {}) : World(name) {
    options.gather = 0s;
    if (options.defer == HostOptions().defer) options.defer = 1h;
    boot(options);
    sums->pending = pending;
    host->start();
    EXPECT_TRUE(testing::wait_until([&] { return host->counters().batches == 1; })) << "of the first timer";
  }
  ~Deferring() { host->stop(); }

  void observe(Urgency urgency) {
    Input in;
    in.source = Source::kWatch;
    in.name = "seen";
    in.bytes = "a=1";
    in.urgency = urgency;
    EXPECT_TRUE(host->submit(std::move(in)));
  }
};

TEST(Urgency, ADeferredInputSharesTheBatchOfTheNextOneThatIsNot) {
  Deferring w("defer-share", false);
  for (int i = 0; i < 3; ++i) w.observe(Urgency::kDeferred);
  for (int i = 0; i < 3; ++i) w.host->peek([](const Shell&) {});
  EXPECT_EQ(w.host->counters().mailbox, 3U) << "nothing waits for them";
  w.observe(Urgency::kNow);
  EXPECT_TRUE(testing::wait_until([&] { return w.host->counters().inputs == 5; }));
  EXPECT_EQ(w.host->counters().batches, 2U);
}

TEST(Urgency, WhileWorkIsPendingNothingIsDeferred) {
  Deferring w("defer-pending", true);
  w.observe(Urgency::kDeferred);
  EXPECT_TRUE(testing::wait_until([&] { return w.host->counters().batches == 2; }));
}

TEST(Urgency, ADeferredInputWaitsForALimitedTime) {
  HostOptions options;
  options.defer = 1ms;
  Deferring w("defer-limit", false, options);
  w.observe(Urgency::kDeferred);
  EXPECT_TRUE(testing::wait_until([&] { return w.host->counters().batches == 2; }));
}

TEST(Urgency, ManyDeferredInputsDoNotWait) {
  Deferring w("defer-many", false);
  for (int i = 0; i < 64; ++i) w.observe(Urgency::kDeferred);
  EXPECT_TRUE(testing::wait_until([&] { return w.host->counters().inputs == 65; }));
  EXPECT_EQ(w.host->counters().batches, 2U);
}

TEST(Urgency, OutcomesAndMessagesHaveTheirsByTheOptions) {
  HostOptions options;
  options.consumes = {"qm.in"};
  options.urgency_of = [](const Input& in) {
    return in.source == Source::kOutcome || in.bytes == "a=2" ? Urgency::kDeferred : Urgency::kNow;
  };
  Deferring w("defer-options", false, options);
  ASSERT_TRUE(w.add("b=5", "r1"));  // it has an intent
  EXPECT_TRUE(testing::wait_until([&] {
    const auto now = w.host->counters();
    return now.batches == 2 && now.mailbox == 1;
  })) << "its outcome";
  const auto send = [&](const char* bytes, std::uint64_t version) {
    const bus::Record record{"qm.in", "k", envelope("k", version, bytes)};
    EXPECT_TRUE((*w.bus->producer("other"))->publish({&record, 1}, 10s));
  };
  send("a=2", 1);
  EXPECT_TRUE(testing::wait_until([&] { return w.host->counters().mailbox == 2; }));
  EXPECT_EQ(w.host->counters().batches, 2U);
  send("a=3", 2);
  EXPECT_TRUE(testing::wait_until([&] { return w.host->counters().inputs == 5; }));
  EXPECT_EQ(w.host->counters().batches, 3U);
}

TEST(Pace, AStoppedHostDecidesWhatItAccepted) {
  Busy w("pace-stop");
  const auto before = w.host->counters().inputs;
  w.observe(3);
  w.host->stop();
  EXPECT_EQ(w.host->counters().inputs, before + 3);
}

}  // namespace pace_test
}  // namespace qm::service
