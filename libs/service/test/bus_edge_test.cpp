// The host and the bus: unreadable messages, retention, and fenced consumers.
#include "quartermaster/v1/journal.pb.h"
#include "sums.hpp"

namespace qm::service {
namespace bus_edge_test {

namespace pb = quartermaster::v1;

TEST(HostAtTheBus, PoisonThatDidNotComeFromTheBusHasATopicToo) {
  World w("shell_poison");
  w.boot();
  Input fact;
  fact.source = Source::kWatch;
  fact.name = "fact";
  fact.key = "node-1";
  fact.bytes = "rubbish";
  std::string answer = "nothing";
  ASSERT_TRUE(w.host->submit(fact, [&](Result<std::string> r) { answer = reply_of(r); }));
  ASSERT_TRUE(w.add("a=1", "r1"));
  w.settle();
  EXPECT_EQ(answer, "");
  EXPECT_EQ(w.sums->sum("a"), 1);
  EXPECT_EQ(w.host->counters().poison, 1u);
  EXPECT_EQ(w.host->counters().outbox_backlog, 0u) << "a letter without a topic would hold up every later event";
  auto consumer = *w.bus->consumer({"check", {"qm.inputs.test.dlq"}, [](const auto&) { return std::int64_t{-1}; }});
  const auto letters = *consumer->poll(10, std::chrono::milliseconds(10));
  ASSERT_EQ(letters.size(), 1u);
  EXPECT_EQ(letters[0].key, "fact/node-1");
  pb::Envelope e;
  pb::DeadLetter letter;
  ASSERT_TRUE(e.ParseFromString(letters[0].value));
  ASSERT_TRUE(letter.ParseFromString(e.payload()));
  EXPECT_EQ(letter.message().topic(), "fact");
  EXPECT_EQ(letter.message().payload(), "rubbish");
}

TEST(HostAtTheBus, AnEnvelopeThatNamesAnotherTopicIsJudgedByWhereItCame) {
  World w("misnamed");
  w.boot({.consumes = {"qm.in"}});
  pb::Envelope e;
  e.set_shard("default");
  e.set_topic("no.such.topic");
  e.set_key("a");
  e.set_key_version(1);
  e.set_payload("rubbish");
  auto producer = *w.bus->producer("p");
  ASSERT_TRUE(
      producer->publish(std::vector<bus::Record>{{"qm.in", "a", e.SerializeAsString()}}, std::chrono::seconds(1)));
  w.settle();
  EXPECT_EQ(w.host->counters().poison, 1u);
  EXPECT_EQ(w.host->counters().outbox_backlog, 0u) << "its letter went to the dead-letter topic of qm.in";
}

TEST(HostAtTheBus, WhatIsNoEnvelopeIsShownToNoCodec) {
  World w("no_envelope");
  w.boot({.consumes = {"qm.in"}});
  auto producer = *w.bus->producer("p");
  // This service would accept it: as the bytes of a payload it adds five.
  ASSERT_TRUE(
      producer->publish(std::vector<bus::Record>{{"qm.in", "x", "x=5"}, {"qm.in", "y", envelope("y", 1, "y=1")}},
                        std::chrono::seconds(1)));
  w.settle();
  EXPECT_EQ(w.sums->sum("x"), 0);
  EXPECT_EQ(w.sums->sum("y"), 1);
  EXPECT_EQ(w.host->counters().poison, 1u);
  auto consumer = *w.bus->consumer({"check", {"qm.in.dlq"}, [](const auto&) { return std::int64_t{-1}; }});
  const auto letters = *consumer->poll(10, std::chrono::milliseconds(10));
  ASSERT_EQ(letters.size(), 1u);
  pb::Envelope e;
  pb::DeadLetter letter;
  ASSERT_TRUE(e.ParseFromString(letters[0].value));
  ASSERT_TRUE(letter.ParseFromString(e.payload()));
  EXPECT_EQ(letter.message().payload(), "x=5");
  EXPECT_NE(letter.reason().find("3 bytes are not an Envelope"), std::string::npos) << letter.reason();
  w.boot({.consumes = {"qm.in"}});
  EXPECT_FALSE(w.host->consume_once()) << "the cursor is past it";
}

TEST(HostAtTheBus, AVersionOutOfRangeBlocksNoKey) {
  World w("version_range");
  w.boot({.consumes = {"qm.in"}});
  auto producer = *w.bus->producer("p");
  ASSERT_TRUE(producer->publish(std::vector<bus::Record>{{"qm.in", "x", envelope("x", std::uint64_t{1} << 40, "x=5")},
                                                         {"qm.in", "x", envelope("x", ~std::uint64_t{0}, "x=5")},
                                                         {"qm.in", "x", envelope("x", 1, "x=1")}},
                                std::chrono::seconds(1)));
  w.settle();
  EXPECT_EQ(w.sums->sum("x"), 1);
  EXPECT_EQ(w.host->counters().poison, 2u);
}

/// `end=` deletes a key of the test's topic: Sums publishes a tombstone for sums that are zero.
TEST(HostAtTheBus, KeysThatEndedAreForgottenWhenTheBusHasForgottenThem) {
  World w("forget");
  const HostOptions at_once{.consumes = {"qm.in"}, .forget_after = SteadyDuration(0)};
  const HostOptions late{.consumes = {"qm.in"}};
  auto producer = *w.bus->producer("p");
  const auto hear = [&](std::uint64_t version, const std::string& payload, bool tombstone) {
    pb::Envelope e;
    ASSERT_TRUE(e.ParseFromString(envelope("x", version, payload)));
    e.set_tombstone(tombstone);
    ASSERT_TRUE(
        producer->publish(std::vector<bus::Record>{{"qm.in", "x", e.SerializeAsString()}}, std::chrono::seconds(1)));
    w.settle();
  };
  const auto rows = [&] { return *store::open_memory(w.disk)->acquire("look"); };
  w.boot(late);
  hear(1, "own=5", false);
  hear(2, "own=-5", true);  // the consumed key and the own key are both deleted
  ASSERT_EQ(rows().seen.size(), 1u);
  ASSERT_TRUE(rows().seen[0].gone);
  ASSERT_EQ(rows().published.size(), 1u);
  ASSERT_TRUE(rows().published[0].gone);

  w.boot(late);
  hear(2, "own=100", true);
  EXPECT_EQ(w.sums->sum("own"), 0) << "a repeat within the retention is known as one";
  w.boot(at_once);
  ASSERT_TRUE(w.add("other=1", "r1"));  // any batch includes the removal
  w.settle();
  EXPECT_TRUE(rows().seen.empty());
  ASSERT_EQ(rows().published.size(), 1u) << "the key that lives";
  EXPECT_EQ(rows().floors.at(0).version, 2u);

  w.boot(late);
  hear(3, "own=7", false);
  auto consumer = *w.bus->consumer({"check", {"qm.test"}, [](const auto&) { return std::int64_t{-1}; }});
  std::vector<std::uint64_t> versions;
  const auto reported = *consumer->poll(10, std::chrono::milliseconds(10));
  for (const auto& message : reported) {
    pb::Envelope e;
    ASSERT_TRUE(e.ParseFromString(message.value));
    if (e.key() == "own") versions.push_back(e.key_version());
  }
  EXPECT_EQ(versions, (std::vector<std::uint64_t>{1, 2, 3}))
      << "a key that lives again goes on above every forgotten version";
}

TEST(HostAtTheBus, AReaderThatLostItsMembershipReadsOnOnlyIfItLeads) {
  World w("place");
  w.boot({.consumes = {"qm.in"}});
  w.settle();
  const auto intruder = [&] {
    auto made =
        w.bus->consumer({.group = "test/default", .topics = {"qm.in"}, .cursor = {}, .instance = "test/default"});
    return std::move(*made);
  };
  (void)intruder();  // the other consumer joined by mistake: it leaves again, and this host still leads
  auto producer = *w.bus->producer("p");
  ASSERT_TRUE(
      producer->publish(std::vector<bus::Record>{{"qm.in", "a", envelope("a", 1, "a=1")}}, std::chrono::seconds(1)));
  w.settle();
  w.settle();
  EXPECT_EQ(w.sums->sum("a"), 1);
  EXPECT_TRUE(w.host->ready());

  const auto successor = store::open_memory(w.disk);
  ASSERT_TRUE(successor->acquire("new leader"));
  const auto reader = intruder();
  w.settle();  // fenced
  w.settle();  // and checks whether it leads
  EXPECT_FALSE(w.host->alive()) << "an empty commit has shown that another replica leads";
  EXPECT_FALSE(w.host->consume_once());
  EXPECT_TRUE(reader->poll(1, std::chrono::milliseconds(1))) << "and the new leader is not driven out in return";
}

TEST(HostAtTheBus, PoisonGoesToTheDeadLetterTopicAndOtherKeysGoOn) {
  World w("poison");
  w.boot({.consumes = {"qm.in"}});
  auto producer = *w.bus->producer("p");
  ASSERT_TRUE(producer->publish(std::vector<bus::Record>{{"qm.in", "bad", envelope("bad", 1, "rubbish")},
                                                         {"qm.in", "bad", "no envelope at all \xff\xff"},
                                                         {"qm.in", "bad", envelope("bad", 2, "bad=4")},
                                                         {"qm.in", "a", envelope("a", 1, "a=1")}},
                                std::chrono::seconds(1)));
  w.settle();
  EXPECT_EQ(w.sums->sum("a"), 1);
  EXPECT_EQ(w.sums->sum("bad"), 4) << "a later good message of the key is applied";
  EXPECT_EQ(w.host->counters().poison, 2u);
  auto consumer = *w.bus->consumer({"check", {"qm.in.dlq"}, [](const auto&) { return std::int64_t{-1}; }});
  const auto letters = *consumer->poll(10, std::chrono::milliseconds(10));
  ASSERT_EQ(letters.size(), 2u);
  pb::Envelope e;
  pb::DeadLetter letter;
  ASSERT_TRUE(e.ParseFromString(letters[0].value));
  ASSERT_TRUE(letter.ParseFromString(e.payload()));
  EXPECT_EQ(letter.message().payload(), "rubbish");
  EXPECT_EQ(letter.consumer(), "test/default");
  EXPECT_NE(letter.reason().find("no key=n"), std::string::npos);
}

}  // namespace bus_edge_test
}  // namespace qm::service
