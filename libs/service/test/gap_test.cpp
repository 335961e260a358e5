// Messages that are missing on the bus, and the bounds of reading.
#include "qm/bus/memory.hpp"
#include "qm/testing/testing.hpp"
#include "sums.hpp"

#include <gtest/gtest.h>

namespace qm::service {
namespace gap_test {

/// A bus that no longer retains the messages before an offset.
class Trimmed final : public bus::Bus {
 public:
  Trimmed(std::shared_ptr<bus::Bus> all, std::int64_t first) : all_(std::move(all)), first_(first) {}
  Status ensure_topics(std::span<const std::string> topics, int partitions) override {
    return all_->ensure_topics(topics, partitions);
  }
  Result<std::unique_ptr<bus::Producer>> producer(const std::string& id) override { return all_->producer(id); }
  Result<std::unique_ptr<bus::Consumer>> consumer(bus::ConsumerOptions options) override {
    struct Late final : bus::Consumer {
      std::unique_ptr<bus::Consumer> all;
      std::int64_t first = 0;
      Result<std::vector<bus::Message>> poll(std::size_t max, SteadyDuration timeout) override {
        auto got = all->poll(max, timeout);
        if (got) std::erase_if(*got, [&](const bus::Message& m) { return m.offset < first; });
        return got;
      }
      void report(const bus::TopicPartition& at, std::int64_t next) override { all->report(at, next); }
      [[nodiscard]] std::vector<bus::TopicPartition> assignment() const override { return all->assignment(); }
      [[nodiscard]] std::int64_t lag() const override { return all->lag(); }
      [[nodiscard]] std::map<bus::TopicPartition, std::int64_t> ends() const override { return all->ends(); }
      Result<std::optional<std::string>> value_at(const bus::TopicPartition& at, std::int64_t offset,
                                                  SteadyDuration timeout) override {
        if (offset < first) return std::optional<std::string>();
        return all->value_at(at, offset, timeout);
      }
    };
    auto late = std::make_unique<Late>();
    QM_ASSIGN(late->all, all_->consumer(std::move(options)));
    late->first = first_;
    return std::unique_ptr<bus::Consumer>(std::move(late));
  }
  [[nodiscard]] std::string name() const override { return "trimmed"; }

 private:
  std::shared_ptr<bus::Bus> all_;
  std::int64_t first_;
};

/// Counts the requests to the carrier, and waits for no message.
class Counted final : public bus::Bus {
 public:
  explicit Counted(std::shared_ptr<bus::Bus> all) : all_(std::move(all)) {}
  Status ensure_topics(std::span<const std::string> topics, int partitions) override {
    return all_->ensure_topics(topics, partitions);
  }
  Result<std::unique_ptr<bus::Producer>> producer(const std::string& id) override { return all_->producer(id); }
  Result<std::unique_ptr<bus::Consumer>> consumer(bus::ConsumerOptions options) override {
    struct Reads final : bus::Consumer {
      std::unique_ptr<bus::Consumer> all;
      Counted* counts = nullptr;
      Result<std::vector<bus::Message>> poll(std::size_t max, SteadyDuration) override {
        return all->poll(max, SteadyDuration::zero());
      }
      void report(const bus::TopicPartition& at, std::int64_t next) override { counts->reported[at] = next; }
      [[nodiscard]] std::vector<bus::TopicPartition> assignment() const override { return all->assignment(); }
      [[nodiscard]] std::int64_t lag() const override {
        ++counts->lags;
        return all->lag();
      }
      [[nodiscard]] std::map<bus::TopicPartition, std::int64_t> ends() const override { return all->ends(); }
      Result<std::optional<std::string>> value_at(const bus::TopicPartition& at, std::int64_t offset,
                                                  SteadyDuration timeout) override {
        ++counts->values;
        return all->value_at(at, offset, timeout);
      }
    };
    auto reads = std::make_unique<Reads>();
    QM_ASSIGN(reads->all, all_->consumer(std::move(options)));
    reads->counts = this;
    return std::unique_ptr<bus::Consumer>(std::move(reads));
  }
  [[nodiscard]] std::string name() const override { return "counted"; }
  int lags = 0, values = 0;
  std::map<bus::TopicPartition, std::int64_t> reported;

 private:
  std::shared_ptr<bus::Bus> all_;
};

TEST(Host, AtRestTheBusIsLookedAtRarely) {
  World w("at-rest");
  const auto counted = std::make_shared<Counted>(w.bus);
  w.bus = counted;
  HostOptions options{.consumes = {"qm.in"}};
  options.bus_look = std::chrono::hours(1);
  w.boot(options);
  auto producer = *w.bus->producer("p");
  const auto send = [&](std::uint64_t version) {
    const std::vector<bus::Record> one{{"qm.in", "a", envelope("a", version, "a=1")}};
    ASSERT_TRUE(producer->publish(one, std::chrono::seconds(1)));
    w.settle();
    w.host->consume_once();
  };
  send(1);
  const bus::TopicPartition at{"qm.in", bus::partition_of("a", bus::kDefaultPartitions)};
  EXPECT_EQ(counted->reported[at], 1);
  EXPECT_EQ(w.host->counters().bus_lag, 0);
  const int lags = counted->lags, values = counted->values;
  EXPECT_GT(lags, 0);
  for (int i = 0; i < 100; ++i) w.host->consume_once();
  EXPECT_EQ(counted->lags, lags);
  EXPECT_LE(counted->values, values + 1) << "one comparison of a log, which was due";
  send(2);
  EXPECT_GT(counted->lags, lags) << "the cursor has moved";
  EXPECT_EQ(counted->reported[at], 2) << "as it is committed";
}

TEST(Host, TakesASnapshotWhereTheBusNoLongerKeepsWhatItNeeds) {
  World w("retention");
  int asked = 0;
  HostOptions options;
  options.consumes = {"qm.in"};
  options.snapshot = [&](const std::string& topic, const auto&) -> Result<Snapshot> {
    ++asked;
    EXPECT_EQ(topic, "qm.in");
    return Snapshot{{envelope("old", 7, "old=70"), envelope("a", 3, "a=3")}};
  };
  w.bus = std::make_shared<Trimmed>(w.bus, 2);  // the two oldest messages are gone
  w.boot(options);
  auto producer = *w.bus->producer("p");
  std::vector<bus::Record> many;
  for (int i = 1; i <= 3; ++i) many.push_back({"qm.in", "a", envelope("a", static_cast<std::uint64_t>(i), "a=1")});
  ASSERT_TRUE(producer->publish(many, std::chrono::seconds(1)));
  w.settle();
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(w.sums->sum("old"), 70);
  EXPECT_EQ(w.sums->sum("a"), 3) << "version 3 came with the snapshot, the message is a duplicate of it";
}

TEST(Host, ATopicWithAGapIsPausedUntilItsSnapshotIsThere) {
  World w("paused");
  bool owner = false;
  HostOptions options;
  options.consumes = {"qm.in", "qm.other"};
  options.snapshot = [&](const std::string& topic, const auto&) -> Result<Snapshot> {
    EXPECT_EQ(topic, "qm.in");
    if (!owner) return fail(Code::kUnavailable, "its owner is away");
    return Snapshot{{envelope("old", 7, "old=70")}};
  };
  const auto all = w.bus;
  w.bus = std::make_shared<Trimmed>(all, 2);
  w.boot(options);
  const auto producer = *all->producer("p");
  std::vector<bus::Record> in;
  for (std::uint64_t i = 1; i <= 4; ++i) in.push_back({"qm.in", "a", envelope("a", i, "a=1")});
  ASSERT_TRUE(producer->publish(in, std::chrono::seconds(1)));
  w.settle();
  EXPECT_EQ(w.sums->sum("a"), 0) << "what follows the gap is not applied without what is missing";
  EXPECT_NE(w.host->readiness().text.find("qm.in is not read for"), std::string::npos) << w.host->readiness().text;
  EXPECT_TRUE(w.host->ready()) << "it decides on what it knows";
  EXPECT_EQ(w.host->counters().paused_topics, 1U);
  w.host->stop();
  w.boot(options);
  w.settle();
  EXPECT_EQ(w.host->counters().paused_topics, 1U) << "the cursor did not pass the gap";
  owner = true;
  EXPECT_TRUE(testing::wait_until([&] {
    w.settle();
    return w.host->counters().paused_topics == 0 && w.sums->sum("a") > 0;
  }));
  EXPECT_EQ(w.sums->sum("old"), 70);
  EXPECT_EQ(w.sums->sum("a"), 2) << "messages 3 and 4, read again after the snapshot";
  EXPECT_EQ(w.host->readiness().text, "ok");
}

TEST(Host, OtherTopicsAreReadWhileOneIsPaused) {
  World w("paused2");
  HostOptions options;
  options.consumes = {"qm.in", "qm.other"};
  options.snapshot = [&](const std::string&, const auto&) -> Result<Snapshot> {
    return fail(Code::kUnavailable, "its owner is away");
  };
  const auto producer = *w.bus->producer("p");
  w.boot(options);
  const std::vector<bus::Record> in{{"qm.in", "a", envelope("a", 1, "a=1")}, {"qm.in", "a", envelope("a", 2, "a=1")}};
  ASSERT_TRUE(producer->publish(in, std::chrono::seconds(1)));
  w.settle();
  EXPECT_EQ(w.sums->sum("a"), 2);
  // The log of one topic is lost: its next message does not follow the last one read.
  World after("paused3");
  after.disk = w.disk;
  const auto lost = *after.bus->producer("p");
  after.boot(options);
  const std::vector<bus::Record> both{{"qm.in", "a", envelope("a", 3, "a=1")},
                                      {"qm.other", "b", envelope("b", 1, "b=1")}};
  ASSERT_TRUE(lost->publish(both, std::chrono::seconds(1)));
  after.settle();
  EXPECT_EQ(after.sums->sum("a"), 2) << "offset 0 of a log of which two were read";
  EXPECT_EQ(after.sums->sum("b"), 1);
  EXPECT_EQ(after.host->counters().paused_topics, 1U);
}

TEST(Host, ARecreatedTopicIsAGapAndEndsTheKeysThatEndedInIt) {
  World w("recreated");
  HostOptions options;
  options.consumes = {"qm.in"};
  int asked = 0;
  options.snapshot = [&](const std::string&, const auto&) -> Result<Snapshot> {
    ++asked;
    quartermaster::v1::Envelope end;
    EXPECT_TRUE(end.ParseFromString(envelope("gone", 2, "gone=-5")));
    end.set_tombstone(true);
    return Snapshot{{end.SerializeAsString(), envelope("a", 9, "a=90")}};
  };
  w.boot(options);
  const auto producer = *w.bus->producer("p");
  std::vector<bus::Record> in{{"qm.in", "gone", envelope("gone", 1, "gone=5")}};
  for (std::uint64_t i = 1; i <= 3; ++i) in.push_back({"qm.in", "a", envelope("a", i, "a=1")});
  ASSERT_TRUE(producer->publish(in, std::chrono::seconds(1)));
  w.settle();
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(w.sums->sum("gone"), 5);

  World recreated("recreated2");
  recreated.disk = w.disk;
  recreated.boot(options);
  const std::vector<bus::Record> one{{"qm.in", "a", envelope("a", 10, "a=1")}};
  ASSERT_TRUE((*recreated.bus->producer("p"))->publish(one, std::chrono::seconds(1)));
  recreated.settle();
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(recreated.sums->sum("a"), 3 + 90 + 1);
  EXPECT_EQ(recreated.host->counters().gaps, 0U) << "the snapshot has what was between versions 3 and 9";
  EXPECT_EQ(recreated.sums->sum("gone"), 0) << "its tombstone was lost with the log";
}

TEST(Host, SeveralShortLogsAreGapsOnceEvenIfAnOwnerIsAway) {
  World w("short");
  std::map<std::string, int> asked;
  bool away = false;
  HostOptions options;
  options.consumes = {"qm.in", "qm.other"};
  options.snapshot = [&](const std::string& topic, const auto&) -> Result<Snapshot> {
    ++asked[topic];
    if (away && topic == "qm.other") return fail(Code::kUnavailable, "its owner is away");
    return Snapshot{{topic == "qm.in" ? envelope("a", 9, "a=10") : envelope("b", 1, "b=1")}};
  };
  w.boot(options);
  const std::vector<bus::Record> both{{"qm.in", "a", envelope("a", 1, "a=1")},
                                      {"qm.other", "b", envelope("b", 1, "b=1")}};
  ASSERT_TRUE((*w.bus->producer("p"))->publish(both, std::chrono::seconds(1)));
  w.settle();
  EXPECT_TRUE(asked.empty());

  World empty("short2");  // both topics were lost, and no message was published since
  empty.disk = w.disk;
  away = true;
  empty.boot(options);
  const auto turns = [&] {
    for (int i = 0; i < 8; ++i) {
      empty.host->consume_once();
      empty.host->pump();
    }
  };
  turns();
  EXPECT_EQ(asked["qm.in"], 1);
  EXPECT_EQ(empty.host->counters().paused_topics, 1U);
  away = false;
  EXPECT_TRUE(testing::wait_until([&] {
    turns();
    return empty.host->counters().paused_topics == 0;
  }));
  const auto once = asked;
  turns();
  EXPECT_EQ(asked, once) << "a consumer that is opened for one topic does not find the log of the other short again";
  EXPECT_EQ(empty.sums->sum("a"), 1 + 10);

  const std::vector<bus::Record> next{{"qm.in", "a", envelope("a", 10, "a=1")},
                                      {"qm.other", "b", envelope("b", 2, "b=1")}};
  ASSERT_TRUE((*empty.bus->producer("p"))->publish(next, std::chrono::seconds(1)));
  turns();
  EXPECT_EQ(empty.sums->sum("a"), 1 + 10 + 1);
  EXPECT_EQ(empty.sums->sum("b"), 2);
  EXPECT_EQ(asked, once) << "the new logs are read from their beginning";
  empty.boot(options);
  turns();
  EXPECT_EQ(asked, once);
}

TEST(Host, TheMailboxIsBoundedInBytes) {
  World w("bytes");
  HostOptions options;
  options.consumes = {"qm.in"};
  options.mailbox_bytes = 1000;
  w.boot(options);
  const std::string pad(400, ' ');
  ASSERT_TRUE(w.add("a=1" + pad, "r1"));
  ASSERT_TRUE(w.add("a=1" + pad, "r2"));
  ASSERT_TRUE(w.add("a=1" + pad, "r3"));
  const auto refused = w.add("a=1", "r4");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kExhausted);
  EXPECT_EQ(refused.error().message, "test has 3 inputs waiting, 1209 bytes");
  // Messages stay on the bus until the mailbox has capacity, whatever the size of a poll.
  std::vector<bus::Record> in;
  for (std::uint64_t i = 1; i <= 20; ++i) in.push_back({"qm.in", "b", envelope("b", i, "b=1" + pad)});
  ASSERT_TRUE((*w.bus->producer("p"))->publish(in, std::chrono::seconds(1)));
  std::uint64_t most = 0;
  for (int i = 0; i < 40; ++i) {
    w.host->consume_once();
    most = std::max(most, w.host->counters().mailbox);
    w.host->pump();
  }
  EXPECT_LE(most, 3U);
  EXPECT_EQ(w.sums->sum("b"), 20);
}

}  // namespace gap_test
}  // namespace qm::service
