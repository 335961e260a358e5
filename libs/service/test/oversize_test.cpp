// Events that are longer than the bus accepts: the caller gets an error, and no other event waits.
#include "qm/base/text.hpp"
#include "quartermaster/v1/journal.pb.h"
#include "sums.hpp"

#include <algorithm>

namespace qm::service {
namespace oversize_test {

namespace pb = quartermaster::v1;

const std::string kPad = fmt::format(" pad={}", bus::kMaxValue);

/// The current content of a topic: key, version and payload without its padding.
struct Reported {
  std::string key;
  std::uint64_t version = 0;
  std::string payload;
  friend bool operator==(const Reported&, const Reported&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Reported& s) {
    return out << s.key << " v" << s.version << " " << s.payload.substr(0, 40);
  }
};
std::vector<Reported> reported(World& w, const std::string& topic) {
  static int readers = 0;
  auto consumer =
      *w.bus->consumer({fmt::format("said{}", ++readers), {topic}, [](const auto&) { return std::int64_t{-1}; }});
  std::vector<Reported> out;
  for (const auto& e : events_of(*consumer->poll(10'000, std::chrono::milliseconds(1))))
    out.push_back({e.key(), e.key_version(), e.payload().substr(0, e.payload().find(' '))});
  std::ranges::stable_sort(out, {}, &Reported::key);
  return out;
}
std::vector<pb::DeadLetter> letters(World& w, const std::string& topic) {
  auto consumer =
      *w.bus->consumer({"letters", {bus::dead_letter(topic)}, [](const auto&) { return std::int64_t{-1}; }});
  std::vector<pb::DeadLetter> out;
  const auto got = *consumer->poll(100, std::chrono::milliseconds(1));
  for (const auto& message : got) {
    pb::Envelope e;
    EXPECT_TRUE(e.ParseFromString(message.value));
    EXPECT_TRUE(e.tombstone());
    EXPECT_TRUE(out.emplace_back().ParseFromString(e.payload()));
  }
  return out;
}

TEST(Oversize, ARequestWithTooLargeEventsIsRefusedAndTheOthersAreApplied) {
  World w("too_long_request");
  w.boot();
  std::map<std::string, std::string> replies;
  const auto add = [&](const std::string& bytes, const std::string& id) {
    ASSERT_TRUE(w.add(bytes, id, [&replies, id](Result<std::string> r) { replies[id] += reply_of(r); }));
  };
  add("a=1", "r1");
  add("b=2" + kPad, "r2");
  add("c=3", "r3");
  add("b=4", "r4");
  w.settle();
  EXPECT_EQ(replies["r1"], "1");
  EXPECT_EQ(replies["r3"], "3");
  EXPECT_EQ(replies["r4"], "4") << "nothing of what was refused is left";
  for (const char* word : {"qm.test", "about b", "16777216", "split it"})
    EXPECT_NE(replies["r2"].find(word), std::string::npos) << word << ": " << replies["r2"];
  EXPECT_EQ(w.sums->sum("b"), 4);
  EXPECT_EQ(std::ranges::count(w.doer.done, "b=2" + kPad), 0);
  EXPECT_EQ(w.doer.done.size(), 3U);
  EXPECT_EQ(reported(w, "qm.test"), (std::vector<Reported>{{"a", 1, "1"}, {"b", 1, "4"}, {"c", 1, "3"}}));
  EXPECT_EQ(w.host->counters().too_large, 1U);
  EXPECT_EQ(w.host->counters().outbox_backlog, 0U);
  EXPECT_TRUE(w.host->ready());
  EXPECT_TRUE(letters(w, "qm.test").empty()) << "the caller got the error";
  expect_replays(w);

  w.boot();
  EXPECT_EQ(w.sums->sum("b"), 4);
  add("b=1", "r2");
  w.settle();
  EXPECT_EQ(w.sums->sum("b"), 5) << "a refusal is not remembered for its request id";
}

TEST(Oversize, AFullBatchEndsAfterAFewSteps) {
  World w("too_long_many");
  w.boot();
  int applied = 0, refused = 0;
  for (int i = 0; i < 512; ++i)
    ASSERT_TRUE(w.add(fmt::format("k{}=1{}", i, i == 7 || i == 300 ? kPad : ""), fmt::format("r{}", i),
                      [&](const Result<std::string>& r) { ++(r ? applied : refused); }));
  int turns = 0;
  while (w.host->pump()) ++turns;
  EXPECT_EQ(applied, 510);
  EXPECT_EQ(refused, 2);
  EXPECT_LE(turns, 2 * 2 * 10 + 4) << "halves of halves, for two inputs";
  EXPECT_FALSE(w.host->pump()) << "and then there is nothing to do";
}

TEST(Oversize, AKeyThatIsTooLongIsRefusedToo) {
  World w("too_long_key");
  w.boot();
  std::string reply;
  ASSERT_TRUE(w.add(std::string(kMaxKey + 1, 'k') + "=1", "r1", [&](Result<std::string> r) { reply = reply_of(r); }));
  w.settle();
  EXPECT_NE(reply.find("has 1025 bytes"), std::string::npos) << reply;
  EXPECT_EQ(w.host->counters().outbox_backlog, 0U);
}

TEST(Oversize, AMessageWithTooLargeEventsIsDeadLettered) {
  World w("too_long_message");
  w.boot({.consumes = {"qm.in"}});
  auto producer = *w.bus->producer("p");
  ASSERT_TRUE(producer->publish(std::vector<bus::Record>{{"qm.in", "a", envelope("a", 1, "a=1")},
                                                         {"qm.in", "b", envelope("b", 1, "b=2" + kPad)},
                                                         {"qm.in", "b", envelope("b", 2, "b=3")}},
                                std::chrono::seconds(1)));
  w.settle();
  EXPECT_EQ(w.sums->sum("a"), 1);
  EXPECT_EQ(w.sums->sum("b"), 3);
  const auto aside = letters(w, "qm.in");
  ASSERT_EQ(aside.size(), 1U);
  EXPECT_EQ(aside[0].message().key(), "b");
  EXPECT_EQ(aside[0].message().key_version(), 1U);
  EXPECT_EQ(aside[0].message().payload(), "b=2" + kPad);
  EXPECT_EQ(aside[0].consumer(), "test/default");
  EXPECT_NE(aside[0].reason().find("topic qm.test about b"), std::string::npos) << aside[0].reason();
  expect_replays(w);
  w.boot({.consumes = {"qm.in"}});
  w.settle();
  EXPECT_EQ(w.sums->sum("b"), 3) << "the cursor is past it";
  EXPECT_EQ(w.host->counters().too_large, 0U);
}

TEST(Oversize, ARefusedMessageIsKnownWhenItComesAgain) {
  World w("too_long_again");
  w.boot({.consumes = {"qm.in"}});
  auto producer = *w.bus->producer("p");
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(producer->publish(std::vector<bus::Record>{{"qm.in", "b", envelope("b", 1, "b=2" + kPad)}},
                                  std::chrono::seconds(1)));
    w.settle();
  }
  EXPECT_EQ(w.host->counters().too_large, 1U);
  EXPECT_EQ(w.host->counters().duplicates, 1U);
  EXPECT_EQ(letters(w, "qm.in").size(), 1U);
}

TEST(Oversize, AnOutcomeWithTooLargeEventsEndsItsIntent) {
  World w("too_long_outcome");
  w.boot();
  w.doer.outcome = kPad;
  ASSERT_TRUE(w.add("a=1", "r1"));
  w.settle();
  EXPECT_EQ(w.sums->sum("outcomes"), 0);
  const auto aside = letters(w, "qm.inputs.test");
  ASSERT_EQ(aside.size(), 1U);
  EXPECT_EQ(aside[0].message().topic(), "do");
  w.boot();
  w.settle();
  EXPECT_EQ(w.doer.done.size(), 1U) << "it was done, and is not done again";
}

TEST(Oversize, TooLargeEventsOfATickAreWithheldAndItsOtherWorkIsDone) {
  World w("too_long_timer");
  w.boot();
  w.settle();
  w.sums->timer_pad = bus::kMaxValue;
  w.sums->wake_at = w.clock.now() + std::chrono::seconds(10);
  ASSERT_TRUE(w.add("a=1", "r1"));
  w.settle();
  w.clock.advance(std::chrono::seconds(10));
  w.sums->wake_at.reset();
  // Due in the same step as unrelated requests.
  std::string reply;
  ASSERT_TRUE(w.add("a=1", "r2", [&](Result<std::string> r) { reply = reply_of(r); }));
  w.settle();
  EXPECT_EQ(reply, "2") << "an innocent request is not refused";
  EXPECT_EQ(w.sums->sum("clock"), 1) << "the work that was due is done once";
  EXPECT_EQ(w.host->counters().too_large, 1U);
  const auto aside = letters(w, "qm.test");
  ASSERT_EQ(aside.size(), 1U);
  EXPECT_EQ(aside[0].message().key(), "clock");
  EXPECT_LE(aside[0].message().payload().size(), std::size_t{512} << 10);
  EXPECT_EQ(reported(w, "qm.test"), (std::vector<Reported>{{"a", 1, "1"}, {"a", 2, "2"}}));

  w.sums->timer_pad = 1;
  w.sums->wake_at = w.clock.now();
  ASSERT_TRUE(w.add("a=1", "r3"));
  w.host->pump();
  w.sums->wake_at.reset();
  w.settle();
  EXPECT_EQ(reported(w, "qm.test").back(), (Reported{"clock", 1, "2"})) << "the key's next event makes up for it";
}

/// An engine whose own work is oversized at every step: the input is refused, and the loop continues.
TEST(Oversize, AnInputAndATickMayBothHaveTooLargeEvents) {
  World w("too_long_both");
  w.boot();
  w.settle();
  w.sums->timer_pad = bus::kMaxValue;
  w.sums->wake_at = w.clock.now();  // due at every step
  std::string reply, other;
  ASSERT_TRUE(w.add("b=1" + kPad, "r1", [&](Result<std::string> r) { reply = reply_of(r); }));
  for (int i = 0; i < 10 && reply.empty(); ++i) w.host->pump();
  EXPECT_NE(reply.find("16777216"), std::string::npos) << reply;
  w.sums->wake_at.reset();
  w.sums->timer_pad = 0;
  ASSERT_TRUE(w.add("b=1", "r2", [&](Result<std::string> r) { other = reply_of(r); }));
  w.settle();
  EXPECT_EQ(other, "1");
}

TEST(Oversize, PiecesOfABatchSurviveADatabaseThatIsAway) {
  World w("too_long_away");
  w.boot();
  std::vector<std::string> replies;
  for (const char* bytes : {"a=1", "a=2", "b=1", "a=3"})
    ASSERT_TRUE(w.add(bytes + (*bytes == 'b' ? kPad : ""), bytes,
                      [&](Result<std::string> r) { replies.push_back(r ? *r : "refused"); }));
  store::plant_outcome(*w.disk, store::CommitOutcome::kNotCommitted);
  store::plant_outcome(*w.disk, store::CommitOutcome::kInDoubt, false);
  store::plant_outcome(*w.disk, store::CommitOutcome::kInDoubt, true);
  while (replies.size() < 4) w.host->pump();
  EXPECT_EQ(replies, (std::vector<std::string>{"1", "3", "refused", "6"}));
  w.settle();
  EXPECT_EQ(w.sums->sum("a"), 6);
}

/// A bus like a broker with a lower limit: long records, and sends with a long total, are refused.
class Narrow final : public bus::Bus {
 public:
  Narrow(std::shared_ptr<bus::Bus> all, std::size_t most) : all_(std::move(all)), most_(most) {}
  Status ensure_topics(std::span<const std::string> topics, int partitions) override {
    return all_->ensure_topics(topics, partitions);
  }
  Result<std::unique_ptr<bus::Producer>> producer(const std::string& id) override {
    struct Refusing final : bus::Producer {
      std::unique_ptr<bus::Producer> all;
      Narrow* bus = nullptr;
      Status publish(std::span<const bus::Record> records, SteadyDuration timeout) override {
        ++bus->sends;
        std::size_t bytes = 0;
        for (const auto& record : records) bytes += record.value.size();
        const bool letter = records[0].topic.ends_with(".dlq");
        if (letter && bus->letters_away) return fail(Code::kUnavailable, "no answer");
        if (bytes > bus->most_ || (letter && bus->no_letters)) return fail(Code::kOutOfRange, "too long");
        return all->publish(records, timeout);
      }
    };
    auto out = std::make_unique<Refusing>();
    QM_ASSIGN(out->all, all_->producer(id));
    out->bus = this;
    return std::unique_ptr<bus::Producer>(std::move(out));
  }
  Result<std::unique_ptr<bus::Consumer>> consumer(bus::ConsumerOptions options) override {
    return all_->consumer(std::move(options));
  }
  [[nodiscard]] std::string name() const override { return "narrow"; }
  int sends = 0;
  bool letters_away = false, no_letters = false;

 private:
  std::shared_ptr<bus::Bus> all_;
  std::size_t most_;
};

class NarrowBus : public ::testing::Test {
 protected:
  void boot(const std::string& name) {
    w_ = std::make_unique<World>(name);
    bus_ = std::make_shared<Narrow>(w_->bus, 4000);
    w_->bus = bus_;
    w_->boot();
  }
  void add(const std::string& bytes) { ASSERT_TRUE(w_->add(bytes, fmt::format("r{}", ++number_))); }
  std::unique_ptr<World> w_;
  std::shared_ptr<Narrow> bus_;
  int number_ = 0;
};

TEST_F(NarrowBus, WhatItRefusesIsParkedAndTheOtherKeysGoOn) {
  boot("narrow_park");
  for (int i = 0; i < 100; ++i) add(fmt::format("k{}=1", i % 10));
  add("k3=1 pad=5000");
  for (int i = 0; i < 100; ++i) add(fmt::format("k{}=1", i % 10));
  w_->settle();
  const auto counters = w_->host->counters();
  EXPECT_EQ(counters.parked, 1U);
  EXPECT_EQ(counters.published, 200U);
  EXPECT_EQ(counters.outbox_backlog, 0U);
  EXPECT_EQ(counters.send_failures, 0U) << "nothing is repeated that cannot work";
  EXPECT_TRUE(w_->host->ready());
  EXPECT_LE(bus_->sends, 80) << "halves, and more again once it works";
  std::map<std::string, std::uint64_t> last;
  for (const auto& event : reported(*w_, "qm.test")) {
    EXPECT_EQ(event.version, last[event.key] + (event.key == "k3" && last[event.key] == 10 ? 2 : 1)) << event.key;
    last[event.key] = event.version;
  }
  EXPECT_EQ(last["k3"], 21U) << "the key goes on, with a gap";
  EXPECT_EQ(last["k4"], 20U);
  const auto aside = letters(*w_, "qm.test");
  ASSERT_EQ(aside.size(), 1U);
  EXPECT_EQ(aside[0].message().key(), "k3");
  EXPECT_EQ(aside[0].message().key_version(), 11U);
  EXPECT_EQ(aside[0].message().payload(), "") << "a letter must fit; the state is in the Snapshot";
  EXPECT_EQ(aside[0].reason(), "OUT_OF_RANGE: too long");
  const auto kept = *w_->host->snapshot("qm.test", "", 100, "k3");
  EXPECT_EQ(kept.at(0).key_version, 21U);
}

TEST_F(NarrowBus, AnEventWaitsUntilItsDeadLetterIsSent) {
  boot("narrow_away");
  bus_->letters_away = true;
  add("a=1 pad=5000");
  add("b=1");
  w_->settle();
  EXPECT_EQ(w_->host->counters().parked, 0U);
  EXPECT_EQ(w_->host->counters().outbox_backlog, 2U);
  w_->boot();  // also after a restart
  bus_->letters_away = false;
  w_->settle();
  EXPECT_EQ(w_->host->counters().parked, 1U);
  EXPECT_EQ(w_->host->counters().outbox_backlog, 0U);
  EXPECT_EQ(reported(*w_, "qm.test"), (std::vector<Reported>{{"b", 1, "1"}}));
}

TEST_F(NarrowBus, ARefusedDeadLetterDelaysNoOtherEvent) {
  boot("narrow_letters");
  bus_->no_letters = true;
  add("a=1 pad=5000");
  add("b=1");
  w_->settle();
  EXPECT_EQ(w_->host->counters().parked, 1U);
  EXPECT_EQ(reported(*w_, "qm.test"), (std::vector<Reported>{{"b", 1, "1"}}));
}

}  // namespace oversize_test
}  // namespace qm::service
