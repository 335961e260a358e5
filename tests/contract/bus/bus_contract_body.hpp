#pragma once
// The cases of BusContract. Included by one file per carrier, which then instantiates them.
#include "bus_contract.hpp"
#include "qm/testing/testing.hpp"

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>
#include <unistd.h>

namespace qm::bus {

using namespace std::chrono_literals;

inline std::string BusContract::fresh_name(const std::string& kind) {
  static std::atomic<int> number{0};
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return fmt::format("{}.{}.{}.{}", kind, ::getpid(), now, ++number);
}

inline bool BusContract::read(Reader& reader, std::size_t count) {
  return testing::wait_until([&] {
    reader.turn();
    return reader.log().size() >= count;
  });
}

/// Versions of every key in the order of arrival; a version may repeat, but none may be skipped.
inline std::map<std::string, std::int64_t> apply(const std::vector<Message>& log) {
  std::map<std::string, std::int64_t> last;
  for (const auto& message : log) {
    auto& version = last[message.key];
    const auto got = std::stoll(message.value);
    EXPECT_LE(got, version + 1) << message.key << " skips a version";
    version = std::max<std::int64_t>(version, got);
  }
  return last;
}

TEST_P(BusContract, AKeyKeepsItsOrderAndItsPartition) {
  Reader reader;
  reader.open(*bus_, group_, {topic_});
  for (std::int64_t version = 1; version <= 3; ++version) {
    std::vector<Record> batch;
    for (int key = 0; key < 40; ++key) batch.push_back(record("k" + std::to_string(key), version));
    publish(batch);
  }
  ASSERT_TRUE(read(reader, 120));
  std::map<std::string, std::vector<std::string>> versions;
  std::map<TopicPartition, std::int64_t> offsets;
  std::set<std::int32_t> used;
  for (const auto& message : reader.log()) {
    versions[message.key].push_back(message.value);
    EXPECT_EQ(message.at.topic, topic_);
    EXPECT_EQ(message.at.partition, partition_of(message.key, kPartitions));
    used.insert(message.at.partition);
    const auto [last, first_time] = offsets.try_emplace(message.at, -1);
    EXPECT_GT(message.offset, last->second);
    last->second = message.offset;
  }
  EXPECT_EQ(versions.size(), 40U);
  EXPECT_EQ(used.size(), static_cast<std::size_t>(kPartitions));
  for (const auto& [key, seen] : versions) EXPECT_EQ(seen, (std::vector<std::string>{"1", "2", "3"})) << key;
}

TEST_P(BusContract, ValuesAreAnyBytesOfAnyLength) {
  Reader reader;
  reader.open(*bus_, group_, {topic_});
  const std::string bytes("\0\xff\x80'\\\n", 6);
  const std::string longest(kMaxValue, 'x');  // above Kafka's default limit
  publish({{topic_, "a", bytes}, {topic_, "a", ""}});
  publish({{topic_, "a", longest}});
  ASSERT_TRUE(read(reader, 3));
  EXPECT_EQ(reader.log()[0].value, bytes);
  EXPECT_EQ(reader.log()[1].value, "");
  EXPECT_TRUE(reader.log()[2].value == longest);
}

/// No record of the call is sent, and later records are not blocked.
TEST_P(BusContract, ARecordThatIsTooLongIsRefusedByNameAndForEver) {
  Reader reader;
  reader.open(*bus_, group_, {topic_});
  const std::vector<Record> batch{record("a", 1), {topic_, "long", std::string(kMaxValue + 1, 'x')}};
  for (int i = 0; i < 2; ++i) {
    const auto refused = producer_->publish(batch, 5s);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Code::kOutOfRange) << refused.error().to_string();
    EXPECT_FALSE(refused.error().retryable());
    for (const auto& word : {topic_, std::string("long"), std::string("16777217"), std::string("16777216")})
      EXPECT_NE(refused.error().message.find(word), std::string::npos) << refused.error().to_string();
  }
  publish({record("a", 1), record("b", 1)});
  ASSERT_TRUE(read(reader, 2));
  EXPECT_EQ(reader.log().size(), 2U);
}

TEST_P(BusContract, ManyRecordsGoInOneCall) {
  Reader reader;
  reader.open(*bus_, group_, {topic_});
  std::vector<Record> batch;
  for (std::int64_t i = 0; i < 5000; ++i) batch.push_back(record("k" + std::to_string(i % 7), i / 7 + 1));
  publish(batch);
  publish({});
  ASSERT_TRUE(read(reader, 5000));
  apply(reader.log());
}

TEST_P(BusContract, TopicsAreMadeOnceAndNeverChanged) {
  const std::vector<std::string> topics{topic_, topic_ + ".more"};
  EXPECT_TRUE(bus_->ensure_topics(topics, kPartitions));
  EXPECT_TRUE(bus_->ensure_topics(topics, kPartitions));
  const auto refused = bus_->ensure_topics(topics, kPartitions + 1);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kFailedPrecondition);
  EXPECT_NE(refused.error().message.find(topic_), std::string::npos);
}

TEST_P(BusContract, AnUnknownTopicIsRefusedByName) {
  const std::vector<Record> batch{record("a", 1), {"never.made", "a", "1"}};
  const auto refused = producer_->publish(batch, 5s);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kNotFound) << refused.error().to_string();
  EXPECT_NE(refused.error().message.find("never.made"), std::string::npos);
  publish({record("a", 1)});
}

TEST_P(BusContract, TheStoredCursorDecidesNotTheReport) {
  Reader reader;
  reader.open(*bus_, group_, {topic_});
  publish({record("a", 1), record("a", 2), record("a", 3), record("a", 4)});
  ASSERT_TRUE(read(reader, 4));
  const auto at = reader.log()[1].at;
  reader.consumer().report(at, reader.log()[3].offset + 1);
  reader.close();

  Reader next;
  next.cursors()[at] = reader.log()[2].offset;
  next.open(*bus_, group_, {topic_});
  ASSERT_TRUE(read(next, 2));
  EXPECT_EQ(next.log()[0].value, "3");
  EXPECT_EQ(next.log()[1].value, "4");
}

TEST_P(BusContract, EveryGroupReadsEverything) {
  publish({record("a", 1), record("b", 1)});
  for (const char* suffix : {".one", ".two"}) {
    Reader reader;
    reader.open(*bus_, group_ + suffix, {topic_});
    ASSERT_TRUE(read(reader, 2));
    EXPECT_EQ(reader.log().size(), 2U);
  }
}

TEST_P(BusContract, ACursorThatTheLogDoesNotHaveStartsAtTheOldest) {
  publish({record("a", 1), record("a", 2)});
  Reader reader;
  reader.cursors()[{topic_, partition_of("a", kPartitions)}] = 1'000'000;
  reader.open(*bus_, group_, {topic_});
  ASSERT_TRUE(read(reader, 2));
  EXPECT_EQ(reader.log()[0].value, "1");
}

TEST_P(BusContract, SeveralTopicsAreReadByOneConsumer) {
  const std::vector<std::string> more{topic_ + ".b"};
  ASSERT_TRUE(bus_->ensure_topics(more, 1));
  Reader reader;
  reader.open(*bus_, group_, {topic_, more[0]});
  publish({record("a", 1), {more[0], "a", "1"}});
  ASSERT_TRUE(read(reader, 2));
  EXPECT_NE(reader.log()[0].at.topic, reader.log()[1].at.topic);
  EXPECT_EQ(reader.consumer().assignment().size(), static_cast<std::size_t>(kPartitions) + 1);
}

TEST_P(BusContract, AnEmptyPollIsNoErrorAndEnds) {
  Reader reader;
  reader.open(*bus_, group_, {topic_});
  const auto start = std::chrono::steady_clock::now();
  const auto got = reader.consumer().poll(10, 30ms);
  ASSERT_TRUE(got.has_value()) << got.error().to_string();
  EXPECT_TRUE(got->empty());
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
}

TEST_P(BusContract, APollGivesNoMoreThanAskedFor) {
  publish({record("a", 1), record("b", 1), record("c", 1), record("d", 1), record("e", 1)});
  Reader reader;
  reader.open(*bus_, group_, {topic_});
  EXPECT_TRUE(testing::wait_until([&] {
    EXPECT_LE(reader.turn(2), 2U);
    return reader.log().size() == 5;
  }));
}

TEST_P(BusContract, APollGivesNoMoreBytesThanItsBoundButOneMessageAtLeast) {
  constexpr std::size_t kLong = kPollBytes / 4;
  constexpr std::int64_t kMessages = 9;
  for (std::int64_t i = 0; i < kMessages; ++i)
    publish({{topic_, "a", std::string(i == 0 ? kMaxValue : kLong, static_cast<char>('a' + i))}});
  Reader reader;
  reader.open(*bus_, group_, {topic_});
  std::size_t most = 0;
  EXPECT_TRUE(testing::wait_until([&] {
    const auto before = reader.log().size();
    reader.turn();
    std::size_t bytes = 0;
    for (auto i = before; i < reader.log().size(); ++i) bytes += reader.log()[i].value.size();
    most = std::max(most, bytes);
    return reader.log().size() == kMessages;
  }));
  EXPECT_LT(most, kPollBytes + kLong + 1);
  for (std::int64_t i = 0; i < kMessages; ++i)
    EXPECT_EQ(reader.log()[static_cast<std::size_t>(i)].value[0], static_cast<char>('a' + i));
}

TEST_P(BusContract, LagCountsWhatIsNotRead) {
  std::vector<Record> batch;
  for (std::int64_t i = 1; i <= 50; ++i) batch.push_back(record("a", i));
  publish(batch);
  Reader reader;
  reader.open(*bus_, group_, {topic_});
  ASSERT_TRUE(testing::wait_until([&] { return reader.turn(1) == 1; }));
  ASSERT_TRUE(testing::wait_until([&] { return reader.consumer().lag() >= 0; }));
  EXPECT_EQ(reader.consumer().lag(), 49);
  std::int64_t all = 0;
  for (const auto& [at, end] : reader.consumer().ends()) all += end;
  EXPECT_EQ(all, 50) << "the ends of the logs, wherever the reader is";
  EXPECT_TRUE(testing::wait_until([&] {
    reader.turn();
    return reader.consumer().lag() == 0;
  }));
}

/// A consumer compares the message with what it read before, to detect that the log was replaced.
TEST_P(BusContract, AMessageIsReadAgainWithoutMovingThePosition) {
  Reader reader;
  reader.open(*bus_, group_, {topic_});
  publish({record("a", 1), record("a", 2), record("a", 3)});
  ASSERT_TRUE(read(reader, 2));
  const auto at = reader.log()[0].at;
  const auto value_at = [&](std::int64_t offset) { return reader.consumer().value_at(at, offset, 20s); };
  for (std::int64_t offset = 0; offset < 3; ++offset) {
    const auto value = value_at(offset);
    ASSERT_TRUE(value.has_value()) << value.error().to_string();
    EXPECT_EQ(*value, std::to_string(offset + 1));
  }
  for (const std::int64_t offset : {3, 1000}) {
    const auto beyond = value_at(offset);
    ASSERT_FALSE(beyond.has_value()) << offset;
    EXPECT_EQ(beyond.error().code, Code::kOutOfRange) << beyond.error().to_string();
    EXPECT_NE(beyond.error().message.find("ends at offset 3"), std::string::npos) << beyond.error().to_string();
  }
  publish({record("a", 4)});
  ASSERT_TRUE(read(reader, 4));
  EXPECT_EQ(reader.log().size(), 4U) << "each was polled once";
  const auto none = reader.consumer().value_at({"never.made", 0}, 0, 5s);
  ASSERT_FALSE(none.has_value());
  EXPECT_TRUE(none.error().code == Code::kNotFound || none.error().code == Code::kUnavailable)
      << none.error().to_string() << ": or it may come to be known yet";
}

/// A topic that was deleted and created again, and has grown past the position of its reader.
TEST_P(BusContract, ARecreatedLogHasOtherMessagesAtTheOffsetsThatWereRead) {
  if (!place_.recreate) GTEST_SKIP() << "topics of the " << bus_->name() << " bus cannot be deleted from here";
  Reader reader;
  reader.open(*bus_, group_, {topic_});
  publish({record("a", 1), record("a", 2), record("a", 3)});
  ASSERT_TRUE(read(reader, 3));
  const auto last = reader.log().back();
  const auto again = reader.consumer().value_at(last.at, last.offset, 20s);
  ASSERT_TRUE(again.has_value()) << again.error().to_string();
  EXPECT_EQ(*again, "3");
  place_.recreate(*bus_, topic_, kPartitions);
  EXPECT_TRUE(testing::wait_until([&] {
    const auto beyond = reader.consumer().value_at(last.at, last.offset, 1s);
    return !beyond.has_value() && beyond.error().code == Code::kOutOfRange;
  })) << "the new log is shorter";
  ASSERT_TRUE(testing::wait_until([&] {
    const std::vector<Record> more{record("a", 11), record("a", 12), record("a", 13), record("a", 14)};
    return producer_->publish(more, 5s).has_value();
  }));
  EXPECT_TRUE(testing::wait_until([&] {
    const auto other = reader.consumer().value_at(last.at, last.offset, 1s);
    return other.has_value() && *other && **other != "3";
  }));
}

TEST_P(BusContract, PoisonGoesAsideAndTheRestGoesOn) {
  const std::vector<std::string> aside{dead_letter(topic_)};
  ASSERT_TRUE(bus_->ensure_topics(aside, 1));
  publish({record("a", 1), {topic_, "a", "poison"}, record("a", 2)});
  Reader reader;
  reader.open(*bus_, group_, {topic_});
  ASSERT_TRUE(read(reader, 3));
  std::vector<Message> good;
  for (const auto& message : reader.log()) {
    if (message.value == "poison") {
      publish({{aside[0], message.key, message.value}});
    } else {
      good.push_back(message);
    }
  }
  EXPECT_EQ(apply(good)["a"], 2);
  Reader judge;
  judge.open(*bus_, group_ + ".dlq", aside);
  ASSERT_TRUE(read(judge, 1));
  EXPECT_EQ(judge.log()[0].value, "poison");
}

/// Two members over one store while records arrive; then one leaves. Nothing is lost and no version skipped.
TEST_P(BusContract, MembersShareThePartitionsAndTakeThemBack) {
  Reader first, second;
  second.share(first);
  first.open(*bus_, group_, {topic_});
  std::int64_t version = 0;
  const auto more = [&] {
    ++version;
    std::vector<Record> batch;
    for (int key = 0; key < 20; ++key) batch.push_back(record("k" + std::to_string(key), version));
    publish(batch);
  };
  const auto parts = [](Reader& reader) { return reader.consumer().assignment(); };
  ASSERT_TRUE(testing::wait_until([&] {
    first.turn();
    return parts(first).size() == 4;
  }));
  more();
  second.open(*bus_, group_, {topic_});
  ASSERT_TRUE(testing::wait_until([&] {
    if (version < 20) more();
    first.turn();
    second.turn();
    return parts(first).size() == 2 && parts(second).size() == 2;
  }));
  for (const auto& at : parts(first))
    for (const auto& other : parts(second)) EXPECT_NE(at, other);
  for (int i = 0; i < 5; ++i) {
    more();
    first.turn();
    second.turn();
  }
  second.close();
  more();
  ASSERT_TRUE(testing::wait_until([&] {
    first.turn();
    return parts(first).size() == 4;
  }));
  EXPECT_TRUE(testing::wait_until([&] {
    first.turn();
    const auto last = apply(first.log());
    return last.size() == 20 && std::ranges::all_of(last, [&](const auto& item) { return item.second == version; });
  }));
}

TEST_P(BusContract, AMemberMoreThanPartitionsWaitsForItsTurn) {
  const std::vector<std::string> one{topic_ + ".one"};
  ASSERT_TRUE(bus_->ensure_topics(one, 1));
  Reader first, second;
  second.share(first);
  first.open(*bus_, group_, one);
  second.open(*bus_, group_, one);
  publish({{one[0], "a", "1"}});
  ASSERT_TRUE(testing::wait_until([&] {
    first.turn();
    second.turn();
    return !first.log().empty() && first.consumer().assignment().size() + second.consumer().assignment().size() == 1;
  }));
  Reader& owner = first.consumer().assignment().empty() ? second : first;
  Reader& spare = &owner == &first ? second : first;
  owner.close();
  publish({{one[0], "a", "2"}});
  ASSERT_TRUE(testing::wait_until([&] {
    spare.turn();
    return spare.log().back().value == "2";
  }));
}

/// A restarted process does not wait until its former instance is expired; if that one is still alive, it gets an
/// error.
TEST_P(BusContract, AReaderOfTheSameInstanceTakesThePlaceAtOnce) {
  constexpr auto kFarAway = 30s;
  Reader first, second;
  second.share(first);
  first.open(*bus_, group_, {topic_}, "leader", kFarAway);
  ASSERT_TRUE(testing::wait_until([&] {
    first.turn();
    return first.consumer().assignment().size() == 4;
  }));
  publish({record("a", 1), record("b", 1), record("c", 1)});
  const auto start = std::chrono::steady_clock::now();
  second.open(*bus_, group_, {topic_}, "leader", kFarAway);
  ASSERT_TRUE(read(second, 3));
  EXPECT_EQ(second.consumer().assignment().size(), 4U);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s)
      << "a third of the time after which a silent one is given up";
  EXPECT_TRUE(testing::wait_until([&] {
    first.turn();
    return first.last_error_.code == Code::kAborted;
  })) << first.last_error_.to_string();
  publish({record("a", 2)});
  ASSERT_TRUE(read(second, 4)) << "a message sent before does not come between";
}

/// A new release of a service that reads one topic more than the old one.
TEST_P(BusContract, AReaderOfTheSameInstanceMayComeBackWithMoreTopics) {
  const std::vector<std::string> more{topic_ + ".more"};
  ASSERT_TRUE(bus_->ensure_topics(more, kPartitions));
  Reader first, second;
  second.share(first);
  first.open(*bus_, group_, {topic_}, "leader");
  ASSERT_TRUE(testing::wait_until([&] {
    first.turn();
    return first.consumer().assignment().size() == 4;
  }));
  first.close();
  publish({record("a", 1), {more[0], "a", "1"}});
  second.open(*bus_, group_, {topic_, more[0]}, "leader");
  ASSERT_TRUE(read(second, 2));
  EXPECT_EQ(second.consumer().assignment().size(), 8U);
}

TEST_P(BusContract, ATimedOutSendMayBeRepeated) {
  if (!place_.freeze) GTEST_SKIP() << "nothing can hold up a send on the " << bus_->name() << " bus";
  Reader reader;
  reader.open(*bus_, group_, {topic_});
  publish({record("a", 1)});
  place_.freeze();
  const std::vector<Record> batch{record("a", 2), record("b", 1)};
  const auto held = producer_->publish(batch, 1s);
  place_.thaw();
  ASSERT_FALSE(held.has_value());
  EXPECT_TRUE(held.error().code == Code::kUnknown || held.error().code == Code::kUnavailable)
      << held.error().to_string();
  publish(batch);
  publish({record("a", 3)});
  EXPECT_TRUE(testing::wait_until([&] {
    reader.turn();
    auto last = apply(reader.log());
    return last["a"] == 3 && last["b"] == 1;
  }));
}

TEST_P(BusContract, TheServerMayDieAndComeBack) {
  if (!place_.crash) GTEST_SKIP() << "the server of the " << bus_->name() << " bus cannot be ended from here";
  Reader reader;
  reader.open(*bus_, group_, {topic_});
  publish({record("a", 1)});
  ASSERT_TRUE(read(reader, 1));
  place_.crash();
  const std::vector<Record> batch{record("a", 2)};
  const auto away = producer_->publish(batch, 500ms);
  ASSERT_FALSE(away.has_value());
  EXPECT_TRUE(away.error().code == Code::kUnknown || away.error().code == Code::kUnavailable)
      << away.error().to_string();
  reader.turn();
  // The producer retries while the server restarts.
  std::atomic<bool> sent{false};
  std::thread sender(
      [&] { testing::wait_until([&] { return sent = producer_->publish(batch, 2s).has_value(); }, 60s); });
  place_.restore();
  sender.join();
  ASSERT_TRUE(sent);
  publish({record("a", 3)});
  EXPECT_TRUE(testing::wait_until([&] {
    reader.turn();
    return apply(reader.log())["a"] == 3;
  }));
}

}  // namespace qm::bus
