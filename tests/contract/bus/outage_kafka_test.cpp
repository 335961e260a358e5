// A service that continues to decide while the broker is down or hangs, and a consumer that reads its events
// afterwards: hosts over PostgreSQL as in production, and a real broker.
#include "kafka_place.hpp"
#include "qm/base/table.hpp"
#include "qm/clock/clock.hpp"
#include "qm/pg/connection.hpp"
#include "qm/service/host.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <unistd.h>

namespace qm::bus {
namespace outage_kafka_test {

using namespace std::chrono_literals;
using service::Source;
using std::chrono::steady_clock;

constexpr int kKeys = 50;

/// Counts per key. A request for "k7" increments the count of the key and publishes it, followed by the bytes of the
/// request. A message contains the count of its key.
class Counts final : public service::Shell {
 public:
  explicit Counts(std::string topic) : topic_(std::move(topic)) {}
  Status load(std::span<const store::StateRow> rows) override {
    table_.clear();
    for (const auto& row : rows) table_.restore(row.key, std::stoll(*row.value));
    return {};
  }
  void step(std::span<const service::Input> batch, Instant, service::Effects& out,
            std::vector<std::pair<std::size_t, Error>>&) override {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const auto& in = batch[i];
      if (in.source == Source::kRequest) {
        const auto count = ++table_.edit(in.key);
        out.events.push_back({topic_, in.key, std::to_string(count) + in.bytes, false});
        out.answers.push_back({i, ""});
      } else if (in.source == Source::kBus) {
        auto& last = table_.edit(in.key);
        if (std::stoll(in.bytes) != last + 1) ++out_of_order;
        last = std::stoll(in.bytes);
        ++applied;
      }
    }
    table_.changed([&](const std::string& key, const std::int64_t* count) {
      out.state.push_back({"count", key, std::to_string(*count)});
    });
  }
  void undo() override { table_.rollback(); }
  void commit() override { table_.commit(); }
  [[nodiscard]] std::uint64_t digest() const override { return 0; }
  void debug_state(service::StateDump&) const override {}
  std::atomic<int> applied{0}, out_of_order{0};

 private:
  std::string topic_;
  Table<std::string, std::int64_t> table_;
};

class KafkaOutage : public ::testing::Test {
 protected:
  void SetUp() override {
    place_ = kafka_place();
    if (place_.setting.empty()) GTEST_SKIP() << place_.why_not;
    if (!place_.crash) GTEST_SKIP() << "the broker was not started by " << kScript;
    std::string why_not;
    auto* server = testing::Postgres::shared(&why_not);
    if (server == nullptr) GTEST_SKIP() << why_not;
    conninfo_ = server->fresh_database();
    topic_ = fmt::format("outage.{}.{}", ::getpid(), steady_clock::now().time_since_epoch().count());
    prepare_topic();
    speaker_ = host("speaker");
    listener_ = host("listener");
    ASSERT_TRUE(say(kKeys));
    ASSERT_TRUE(testing::wait_until([&] { return received_->applied == reported_; }));
  }
  void TearDown() override {
    if (speaker_) speaker_->stop();
    if (listener_) listener_->stop();
  }

  virtual void prepare_topic() {}

  std::unique_ptr<service::Host> host(const std::string& name) {
    service::HostOptions options;
    options.service = name;
    (name == "speaker" ? options.produces : options.consumes) = {topic_};
    if (name == "speaker" && hasty_) options.publish_timeout = 1s;
    auto shell = std::make_unique<Counts>(topic_);
    if (name == "listener") received_ = shell.get();
    auto place = store::open_postgres({.conninfo = conninfo_, .service = name});
    EXPECT_TRUE(place.has_value()) << place.error().to_string();
    auto out = std::make_unique<service::Host>(options, std::move(shell), std::move(*place),
                                               make_bus(place_.setting).value(), clock_, nullptr);
    const auto opened = out->open();
    EXPECT_TRUE(opened.has_value()) << opened.error().to_string();
    out->start();
    return out;
  }

  /// Commits `n` events with these bytes appended; false if an answer takes more than two seconds.
  bool say(int n, const std::string& bytes = "") {
    std::atomic<int> answered{0};
    for (int i = 0; i < n; ++i) {
      service::Input input;
      input.source = Source::kRequest;
      input.name = "count";
      input.key = "k" + std::to_string(i % kKeys);
      input.bytes = bytes;
      EXPECT_TRUE(speaker_->submit(std::move(input), [&](const Result<std::string>& r) { answered += r ? 1 : 0; }));
    }
    reported_ += n;
    return testing::wait_until([&] { return answered == n; }, hasty_ ? 20s : 2s);
  }
  std::int64_t outbox_rows() const {
    return (*pg::Connection::open(conninfo_, {"judge"}))->exec("select count(*) from speaker.outbox")->int8(0, 0);
  }
  /// The consumer has every event once and in order, and the outbox is empty.
  void expect_all_received() {
    ASSERT_TRUE(testing::wait_until([&] { return received_->applied >= reported_; }, 120s))
        << received_->applied << " of " << reported_;
    EXPECT_EQ(received_->applied, reported_);
    EXPECT_EQ(received_->out_of_order, 0);
    EXPECT_EQ(listener_->counters().gaps, 0U);
    EXPECT_TRUE(testing::wait_until([&] { return outbox_rows() == 0; }));
  }

  Place place_;
  bool hasty_ = false;
  std::string conninfo_, topic_;
  SystemClock clock_;
  Counts* received_ = nullptr;
  std::unique_ptr<service::Host> speaker_, listener_;
  int reported_ = 0;
};

TEST_F(KafkaOutage, TheOutboxGrowsForAMinuteAndThenDrains) {
  constexpr auto kAway = 60s;
  constexpr auto kTick = 100ms;
  constexpr int kEachTick = 20;
  const int before = reported_;
  place_.crash();
  const auto start = steady_clock::now();
  for (auto due = start; due < start + kAway; due += kTick) {
    ASSERT_TRUE(testing::wait_until([&] { return steady_clock::now() >= due; }, 1s));
    ASSERT_TRUE(say(kEachTick)) << "deciding does not wait for the broker";
  }
  const int waiting = reported_ - before;
  EXPECT_GE(waiting, 10'000);
  EXPECT_EQ(outbox_rows(), waiting);
  EXPECT_GE(speaker_->counters().send_failures, 2U) << "the relay's own timeout has passed several times";
  EXPECT_EQ(received_->applied, before);
  EXPECT_TRUE(speaker_->ready());
  place_.restore();
  const auto back = steady_clock::now();
  expect_all_received();
  const std::chrono::duration<double> drained = steady_clock::now() - back;
  EXPECT_LE(drained.count(), 120.0);
  std::cout << waiting << " events waited; received " << drained.count() << " s after the broker was back\n";
}

class KafkaHang : public KafkaOutage {
 protected:
  KafkaHang() { hasty_ = true; }
};

/// The broker has records that the relay considers unsent, and receives them again: the consumer drops the duplicates.
TEST_F(KafkaHang, ATimedOutSendIsRepeatedWithoutHarm) {
  std::uint64_t repeated = 0;
  for (int round = 0; round < 5 && repeated == 0; ++round) {
    const auto failures = speaker_->counters().send_failures;
    place_.freeze();
    const bool answered = say(kKeys * 4);
    EXPECT_TRUE(testing::wait_until([&] { return speaker_->counters().send_failures > failures; }));
    place_.thaw();
    ASSERT_TRUE(answered);
    expect_all_received();
    // A duplicate may arrive after the expected events, so one more event follows it on each partition.
    ASSERT_TRUE(say(kKeys));
    expect_all_received();
    repeated = listener_->counters().duplicates;
  }
  EXPECT_GT(repeated, 0U) << "no send that timed out was in the log: this run shows nothing";
}

/// The broker's limit for this topic is 1 MiB, and the client may not change it.
class KafkaNarrowTopic : public KafkaOutage {
 protected:
  KafkaNarrowTopic() { hasty_ = true; }
  void prepare_topic() override {
    make_standing_topic(topic_, kDefaultPartitions);
    forbid_changes(topic_);
  }
};

TEST_F(KafkaNarrowTopic, ARefusedRecordDelaysNoOther) {
  ASSERT_TRUE(say(1, std::string(2 << 20, ' ')));  // of k0
  --reported_;                                     // no consumer receives it
  ASSERT_TRUE(say(kKeys * 10));
  ASSERT_TRUE(testing::wait_until([&] { return received_->applied >= reported_; }, 60s))
      << received_->applied << " of " << reported_;
  EXPECT_EQ(received_->out_of_order, 1) << "k0 continues after the refused event";
  EXPECT_TRUE(testing::wait_until([&] { return outbox_rows() == 0; }));
  EXPECT_EQ(speaker_->counters().parked, 1U);
  EXPECT_EQ(listener_->counters().gaps, 1U);
  EXPECT_TRUE(speaker_->ready());
  Reader reader;
  reader.open(*make_bus(place_.setting).value(), topic_ + ".look", {dead_letter(topic_)});
  ASSERT_TRUE(testing::wait_until([&] {
    reader.turn();
    return !reader.log().empty();
  }));
  EXPECT_EQ(reader.log()[0].key, "k0");
}

}  // namespace outage_kafka_test
}  // namespace qm::bus
