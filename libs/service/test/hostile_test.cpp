// Malicious identifiers and payloads: the host neither crashes nor stalls, and the next input commits.
#include "qm/base/text.hpp"
#include "qm/testing/testing.hpp"
#include "sums.hpp"

#include <algorithm>
#include <random>

namespace qm::service {
namespace hostile_test {

using namespace std::string_literals;

/// Malicious text from a fixed seed, without the "=" that this service parses.
class Hostile {
 public:
  std::string text() {
    std::string out = any();
    std::ranges::replace(out, '=', '-');
    return out;
  }
  std::size_t pick(std::size_t below) { return std::uniform_int_distribution<std::size_t>(0, below - 1)(random_); }

 private:
  std::string any() {
    switch (pick(9)) {
      case 0:
        return letters(pick(20)) + "\0"s + letters(pick(20));
      case 1:
        return std::string(pick(30) == 0 ? 1 << 20 : 1 << 12, 'm');
      case 2:
        return letters(kMaxKey + 1 + pick(3000));
      case 3:
        return letters(pick(20)) + std::string(1, static_cast<char>(0x80 + pick(0x80)));
      case 4:
        return letters(pick(20)) + std::string(1, static_cast<char>(1 + pick(31))) + "\x1b[2J";
      case 5:
        return "\xed\xa0\x80\xc0\xaf"s;
      case 6:
        return "'; drop table admission.state; --"s + letters(pick(100));
      case 7:
        return std::string(1 + pick(200), '\0');
      default:
        return bytes(pick(300));
    }
  }
  std::string letters(std::size_t n) {
    std::string out(n, ' ');
    for (auto& c : out) c = static_cast<char>('a' + pick(26));
    return out;
  }
  std::string bytes(std::size_t n) {
    std::string out(n, ' ');
    for (auto& c : out) c = static_cast<char>(pick(256));
    return out;
  }
  std::mt19937_64 random_{20261126};
};

constexpr int kRounds = 5000;

TEST(Hostile, ARequestWithAnyIdAndAnyNameLeavesTheNextOneAlone) {
  World w("hostile_requests");
  w.boot();
  Hostile hostile;
  int refused = 0;
  for (int i = 0; i < kRounds; ++i) {
    const auto id = hostile.pick(2) == 0 ? hostile.text() : fmt::format("id{}", i);
    std::string answer = "none";
    const auto taken =
        w.add(hostile.text() + "=1", id, [&](const Result<std::string>& r) { answer = r ? "" : r.error().message; });
    std::string good;
    ASSERT_TRUE(w.add("good=1", fmt::format("good{}", i), [&](Result<std::string> r) { good = reply_of(r); }));
    int turns = 0;
    while (w.host->pump()) ASSERT_LT(++turns, 20);
    ASSERT_EQ(good, std::to_string(i + 1)) << i;
    if (!taken) {
      ASSERT_EQ(taken.error().code, Code::kInvalid);
    } else {
      ASSERT_NE(answer, "none") << "every accepted request is answered";
    }
    refused += !taken || !answer.empty() ? 1 : 0;
    ASSERT_TRUE(w.host->readiness().ready) << w.host->readiness().text;
  }
  EXPECT_GT(refused, kRounds / 2);
}

TEST(Hostile, AMessageWithAnyKeyAndAnyPayloadLeavesTheNextOneAlone) {
  World w("hostile_messages");
  w.boot({.consumes = {"qm.in"}});
  auto producer = *w.bus->producer("p");
  Hostile hostile;
  for (int i = 0; i < kRounds; ++i) {
    const auto key = hostile.text();
    const auto payload = hostile.text() + (hostile.pick(2) == 0 ? "=1" : "");
    // An envelope with a malicious key, or bytes that are not an envelope.
    const auto value = hostile.pick(4) == 0 ? hostile.text() : envelope(key, i + 1, payload);
    ASSERT_TRUE(producer->publish(
        std::vector<bus::Record>{{"qm.in", key.substr(0, 100), value},
                                 {"qm.in", "good", envelope("good", static_cast<std::uint64_t>(i + 1), "good=1")}},
        std::chrono::seconds(1)));
    for (int turns = 0; w.sums->sum("good") <= i; ++turns) {
      ASSERT_LT(turns, 20) << i;
      w.host->consume_once();
      while (w.host->pump()) ASSERT_LT(++turns, 20) << i;
    }
    ASSERT_EQ(w.sums->sum("good"), i + 1);
  }
  w.settle();
  EXPECT_GT(w.host->counters().poison + w.host->counters().too_large, kRounds / 2U) << "they become dead letters";
  EXPECT_TRUE(w.host->readiness().ready);
}

// Work without an input cannot be refused: it is retried and reported at /readyz until the database accepts it.
TEST(Hostile, WorkOfItsOwnThatCannotBeWrittenIsReported) {
  World w("hostile_own");
  w.boot();
  w.settle();
  w.sums->wake_at = w.clock.now() + std::chrono::seconds(1);
  ASSERT_TRUE(w.add("a=1", "r1"));
  w.settle();
  w.sums->wake_at.reset();
  w.sums->own_key = "a\0b"s;
  w.clock.advance(std::chrono::seconds(1));
  EXPECT_TRUE(w.host->pump());
  const auto reported = w.host->readiness();
  EXPECT_FALSE(reported.ready);
  EXPECT_NE(reported.text.find("NUL"), std::string::npos) << reported.text;
  EXPECT_NE(reported.text.find("nothing could be saved to PostgreSQL for "), std::string::npos) << reported.text;
  w.sums->own_key = "clock";
  EXPECT_TRUE(testing::wait_until([&] { return w.host->pump() && w.host->readiness().ready; }));
  EXPECT_EQ(w.sums->sum("clock"), 1);
}

// Own work that fails again between the two attempts at an input: the input is dropped with an error, and the loop backs
// off.
TEST(Hostile, AnInputWhoseRefusalCannotBeWrittenIsDroppedAndReported) {
  World w("hostile_dropped");
  w.boot();
  w.settle();
  const auto due = [&](const std::string& key) {
    w.sums->own_key = key;
    w.sums->wake_at = w.clock.now();
  };
  w.sums->wake_at = w.clock.now();  // from now on own work is due in every batch
  ASSERT_TRUE(w.add("first=1", "r0"));
  EXPECT_TRUE(w.host->pump());
  due("a\0b"s);
  std::string answer;
  ASSERT_TRUE(w.add("a=1", "r1", [&](Result<std::string> r) { answer = reply_of(r); }));
  EXPECT_TRUE(w.host->pump());  // fails with the input
  EXPECT_TRUE(w.host->pump());  // fails with its refusal: own work goes first
  due("clock");
  EXPECT_TRUE(w.host->pump());  // own work alone is committed
  due("a\0b"s);
  EXPECT_TRUE(w.host->pump());  // fails with the input again
  EXPECT_TRUE(w.host->pump());  // and with its refusal
  EXPECT_NE(answer.find("NUL"), std::string::npos) << answer;
  EXPECT_TRUE(w.host->pump());
  EXPECT_FALSE(w.host->ready()) << "a batch with the dropped input alone backs off";
  w.sums->wake_at.reset();
  w.sums->own_key.clear();
  EXPECT_TRUE(testing::wait_until([&] { return w.host->pump() && w.host->ready(); }));
  EXPECT_EQ(w.sums->sum("a"), 0);
}

TEST(Hostile, ABatchIsBoundedInBytes) {
  World w("hostile_bytes");
  w.boot();
  w.settle();
  const auto before = w.host->counters().batches;
  int answered = 0;
  for (int i = 0; i < 5; ++i) {
    Input in;
    in.source = Source::kWatch;
    in.name = "watched";
    in.bytes = "a=1" + std::string(10 << 20, ' ');
    ASSERT_TRUE(w.host->submit(std::move(in), [&](const auto&) { ++answered; }));
  }
  EXPECT_TRUE(w.host->pump());
  EXPECT_EQ(answered, 4) << "40 MiB, the first sum of 32 MiB or more";
  EXPECT_TRUE(w.host->pump());
  EXPECT_EQ(answered, 5);
  EXPECT_EQ(w.host->counters().batches, before + 2);
}

TEST(Hostile, ATraceThatIsTooLongIsDropped) {
  World w("hostile_trace");
  w.boot({.consumes = {"qm.in"}});
  quartermaster::v1::Envelope e;
  e.set_topic("qm.in");
  e.set_key("a");
  e.set_key_version(1);
  e.set_payload("no sum");
  e.set_trace_parent(std::string(bus::kMaxValue - 200, 't'));
  auto producer = *w.bus->producer("p");
  ASSERT_TRUE(
      producer->publish(std::vector<bus::Record>{{"qm.in", "a", e.SerializeAsString()}}, std::chrono::seconds(1)));
  w.settle();
  EXPECT_EQ(w.host->counters().poison, 1U) << "its dead letter fits without the trace";
}

TEST(Hostile, AStopAnswersTheInputsThatWereRetried) {
  World w("hostile_stop");
  w.boot();
  store::plant_outcome(*w.disk, store::CommitOutcome::kNotCommitted);
  std::string answer;
  ASSERT_TRUE(w.add("a=1", "r1", [&](Result<std::string> r) { answer = reply_of(r); }));
  EXPECT_TRUE(w.host->pump());
  w.host->stop();
  EXPECT_NE(answer.find("the service is stopping"), std::string::npos) << answer;
}

}  // namespace hostile_test
}  // namespace qm::service
