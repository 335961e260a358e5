// Events of a producer whose database lost commits.
#include "reader.hpp"

namespace qm::service {
namespace history_test {

TEST(HostHistory, ANewLeaderContinuesTheHistory) {
  World w("history-leaders");
  w.boot();
  Reader reader(w);
  for (int life = 0; life < 6; ++life) {
    ASSERT_TRUE(w.add("a=1", fmt::format("r{}", life)));
    w.settle();
    if (life % 2 == 0) reader.settle();
    w.boot();
  }
  reader.settle();
  EXPECT_EQ(reader.mirror->text(), "a=6");
  EXPECT_EQ(reader.snapshots, 0);
}

TEST(HostHistory, WhatAProducersDatabaseLostIsReplacedByItsSnapshot) {
  World w("history-lost");
  w.boot();
  Reader reader(w);
  ASSERT_TRUE(w.add("a=1", "r1"));
  w.settle();
  const auto copy = store::copy_disk(*w.disk);
  ASSERT_TRUE(w.add("a=1", "r2"));
  publish(w, reader, "b=7", "r3");
  EXPECT_EQ(reader.mirror->text(), "a=2 b=7");

  w.host.reset();  // the process is stopped while the copy is restored: only consumers can detect it
  store::restore_disk(*w.disk, copy);
  w.boot();
  publish(w, reader, "c=5", "r4");
  EXPECT_EQ(reader.mirror->text(), "a=1 c=5") << "versions of a are lower than known, b is unknown to its owner";
  EXPECT_GE(reader.snapshots, 1);

  // b starts again at version 1, which is lower than the applied version of the other b.
  const int before = reader.snapshots;
  ASSERT_TRUE(w.add("b=3", "r5"));
  publish(w, reader, "a=1", "r6");
  EXPECT_EQ(reader.mirror->text(), "a=2 b=3 c=5");
  EXPECT_EQ(reader.snapshots, before) << "all partitions were settled at once";
  reader.boot();
  reader.settle();
  EXPECT_EQ(reader.mirror->text(), "a=2 b=3 c=5");
}

// Its leader announces its term, with the last event that the database has.
TEST(HostHistory, WhatADatabaseLostIsFoundAlthoughItsProducerPublishesNothing) {
  for (const bool whole_term : {false, true}) {
    World w(fmt::format("history-silent-{}", whole_term));
    w.boot();
    Reader reader(w);
    ASSERT_TRUE(w.add("a=1", "r1"));
    w.settle();
    const auto copy = store::copy_disk(*w.disk);
    if (whole_term) w.boot();
    ASSERT_TRUE(w.add("a=1", "r2"));
    ASSERT_TRUE(w.add("b=7", "r3"));
    w.settle();
    reader.settle();
    EXPECT_EQ(reader.mirror->text(), "a=2 b=7");
    w.host.reset();
    store::restore_disk(*w.disk, copy);
    w.boot();
    w.settle();
    reader.settle();
    EXPECT_EQ(reader.mirror->text(), "a=1") << whole_term;
    const int before = reader.snapshots;
    for (int i = 0; i < 6; ++i) {
      w.boot();
      w.settle();
    }
    reader.settle();
    EXPECT_EQ(reader.snapshots, before) << "further leaders, of the same history";
    EXPECT_EQ(reader.host->counters().history_breaks, 1U);
  }
}

// Announcements are in one partition of the topic, so they may be read after events of later leaders.
TEST(HostHistory, LeadersThatPublishNothingBreakNoHistory) {
  World w("history-announced");
  w.boot();
  Reader reader(w);
  for (int life = 0; life < 4; ++life) {
    for (int i = 0; i < 8; ++i) ASSERT_TRUE(w.add(fmt::format("k{}=1", i), fmt::format("r{}/{}", life, i)));
    w.settle();
    for (int i = 0; i < 7; ++i) {
      w.boot();
      w.settle();
    }
    if (life == 1) reader.settle();
  }
  reader.settle();
  EXPECT_EQ(reader.host->counters().history_breaks, 0U);
  EXPECT_EQ(reader.mirror->text(), "k0=4 k1=4 k2=4 k3=4 k4=4 k5=4 k6=4 k7=4");
}

// Keys that the owner may publish again are kept for some time; keys that it has not published then are deleted.
TEST(HostHistory, KeysThatWereKeptOverABreakEndWhereTheirOwnerDoesNotPublishThemAgain) {
  for (const bool restarted : {false, true}) {
    World w(fmt::format("history-kept-{}", restarted));
    w.boot();
    Reader reader(w);
    reader.keeps = true;
    if (!restarted) reader.confirm_after = SteadyDuration(0);
    reader.boot();
    ASSERT_TRUE(w.add("a=1", "r1"));
    w.settle();
    const auto copy = store::copy_disk(*w.disk);
    ASSERT_TRUE(w.add("b=7", "r2"));
    ASSERT_TRUE(w.add("d=9", "r3"));
    w.settle();
    reader.settle();
    w.host.reset();
    store::restore_disk(*w.disk, copy);
    w.boot();
    w.settle();
    if (restarted) {
      reader.settle();
      EXPECT_EQ(reader.mirror->text(), "a=1 b=7 d=9") << "they are kept";
      reader.confirm_after = SteadyDuration(0);
      reader.boot();
    }
    ASSERT_TRUE(w.add("d=3", "r4"));
    w.settle();
    EXPECT_TRUE(reader.comes_to("a=1 d=3")) << restarted << ": " << reader.mirror->text();
    ASSERT_TRUE(w.add("b=2", "r5"));
    w.settle();
    EXPECT_TRUE(reader.comes_to("a=1 b=2 d=3")) << "b is created again: " << reader.mirror->text();
    const int before = reader.snapshots;
    reader.boot();
    reader.settle();
    EXPECT_EQ(reader.snapshots, before) << "nothing is left to confirm";
  }
}

// Its owner numbers the versions of its keys from 1 again, also for a reader that is restarted meanwhile.
TEST(HostHistory, ABreakWhoseSnapshotIsEmptyIsCountedAfterARestart) {
  for (const bool keeps : {false, true}) {
    World w(fmt::format("history-empty-{}", keeps));
    w.boot();
    const auto copy = store::copy_disk(*w.disk);
    Reader reader(w);
    reader.keeps = keeps;
    reader.boot();
    publish(w, reader, "a=1", "r1");
    publish(w, reader, "a=1", "r2");
    restore(w, copy);
    w.settle();
    reader.settle();
    EXPECT_EQ(reader.mirror->text(), keeps ? "a=2" : "");
    bus::plant_recreation(*w.bus, "qm.test");  // the snapshot for the gap also omits it
    reader.boot();
    reader.settle();
    publish(w, reader, "a=5", "r3");
    EXPECT_EQ(reader.mirror->text(), "a=5") << keeps << ": version 1";
  }
}

// The term that lost them has published nothing yet.
TEST(HostHistory, LostEventsThatAreReadAgainAfterTheBreakAreDropped) {
  World w("history-again");
  w.boot();
  Reader reader(w);
  publish(w, reader, "a=1", "r1");
  const auto copy = store::copy_disk(*w.disk);
  ASSERT_TRUE(w.add("a=1", "r2"));
  w.settle();
  restore(w, copy);
  w.settle();
  for (int i = 0; i < 2; ++i) {
    while (reader.host->consume_once()) {
    }
    auto other = *w.bus->consumer({.group = "reader/default", .topics = {"qm.test"}, .cursor = {}});
    (void)other->poll(1, std::chrono::milliseconds(1));
  }
  reader.settle();
  EXPECT_EQ(reader.mirror->text(), "a=1");
}

TEST(HostHistory, ABreakIsOfAllPartitionsAfterARestartToo) {
  World w("history-partitions");
  w.boot();
  Reader reader(w);
  for (int i = 0; i < 12; ++i) ASSERT_TRUE(w.add(fmt::format("k{}=1", i), fmt::format("r{}", i)));
  w.settle();
  const auto copy = store::copy_disk(*w.disk);
  publish(w, reader, "k0=5", "lost");
  restore(w, copy);
  ASSERT_TRUE(w.add("k0=2", "s0"));  // the break is detected in the partition of k0
  w.settle();
  reader.settle();
  reader.boot();  // the other partitions have not been committed since
  for (int i = 0; i < 12; ++i) ASSERT_TRUE(w.add(fmt::format("k{}=10", i), fmt::format("t{}", i)));
  w.settle();
  reader.settle();
  std::string expected = "k0=13 k1=11 k10=11 k11=11";
  for (int i = 2; i < 10; ++i) expected += fmt::format(" k{}=11", i);
  EXPECT_EQ(reader.mirror->text(), expected);
}

TEST(HostHistory, ALogThatWasShortIsReadFromItsBeginningEvenIfItGrowsBeforeItsSnapshotIsApplied) {
  World w("history-short");
  w.boot();
  Reader reader(w);
  publish(w, reader, "a=1", "r1");
  bus::plant_recreation(*w.bus, "qm.test");
  reader.boot();
  while (reader.snapshots == 0) reader.host->consume_once();
  ASSERT_TRUE(w.add("a=1", "r2"));  // as many messages as the previous log had
  w.settle();
  for (int i = 0; i < 3; ++i) reader.host->consume_once();
  reader.settle();
  EXPECT_EQ(reader.mirror->text(), "a=2");
  EXPECT_EQ(reader.snapshots, 1);
  reader.boot();
  reader.settle();
  EXPECT_EQ(reader.snapshots, 1);
}

/// Of two leaders the database has the first. It has lost nothing and continues; but a reader has a snapshot of the
/// second, in which the term of the first had ended.
TEST(HostHistory, ALeaderThatGoesOnInARestoredDatabaseBeginsATerm) {
  World w("history-goes-on");
  w.boot();
  ASSERT_TRUE(w.add("a=1", "r0"));
  w.settle();
  ASSERT_TRUE(w.add("a=1", "r1"));
  w.settle();
  const auto copy = store::copy_disk(*w.disk);
  auto first = std::exchange(w.host, nullptr);
  w.boot();
  bus::plant_truncation(*w.bus, "qm.test", 1);
  Reader reader(w);
  reader.settle();
  ASSERT_EQ(reader.snapshots, 1);
  ASSERT_EQ(reader.mirror->text(), "a=2");
  store::restore_disk(*w.disk, copy);
  w.host = std::move(first);
  ASSERT_TRUE(w.add("a=1", "r2"));
  EXPECT_TRUE(testing::wait_until([&] {
    w.settle();
    reader.settle();
    return reader.mirror->text() == "a=3";
  })) << reader.mirror->text();
  EXPECT_EQ(w.host->counters().rollbacks, 0U);
  EXPECT_EQ(w.host->counters().reloads, 0U);
  EXPECT_EQ(reader.host->counters().abandoned, 0U);
}

/// A reader whose first start is a gap: only the snapshot has the first message, and b=7, whose event is not on the
/// bus yet.
struct AheadOfTheBus {
  explicit AheadOfTheBus(const std::string& name) : w(name), reader(booted(w)) {
    while (bus::partition_of(other, 4) != bus::partition_of("a", 4)) other += 'c';
    EXPECT_TRUE(w.add(other + "=5", "r0"));
    EXPECT_TRUE(w.add("a=1", "r1"));
    EXPECT_TRUE(w.add("a=1", "r2"));
    w.settle();
    bus::plant_truncation(*w.bus, "qm.test", 1);  // from each partition
    copy = store::copy_disk(*w.disk);
    EXPECT_TRUE(w.add("b=7", "r3"));
    w.host->pump();
  }
  static World& booted(World& producer) {
    producer.boot();
    return producer;
  }
  /// None of it is committed yet.
  void take_snapshot() {
    ASSERT_TRUE(testing::wait_until([&] {
      reader.host->consume_once();
      return reader.snapshots == 1 && reader.host->counters().mailbox != 0;
    }));
  }
  [[nodiscard]] std::string text(int b) const { return fmt::format("a=2 b={} {}=5", b, other); }
  World w;
  Reader reader;
  std::size_t copy = 0;  ///< of the producer's disk, without b
  std::string other = "c";
};

/// State that arrives with a snapshot before its event is on the bus may be lost with the database, too.
void lose_what_a_snapshot_had(const std::string& name, bool restarted) {
  AheadOfTheBus ahead(name);
  auto& w = ahead.w;
  auto& reader = ahead.reader;
  reader.settle();
  EXPECT_EQ(reader.snapshots, 1);
  EXPECT_EQ(reader.mirror->text(), ahead.text(7));
  if (restarted) reader.boot();

  restore(w, ahead.copy);
  publish(w, reader, "b=3", "r4");
  EXPECT_EQ(reader.mirror->text(), ahead.text(3)) << "version 1 of b, as the one that is lost";
  EXPECT_EQ(reader.host->counters().history_breaks, 1U);
}
TEST(HostHistory, WhatASnapshotHadIsOfTheHistoryToo) {
  lose_what_a_snapshot_had("history-snapshot", false);
  lose_what_a_snapshot_had("history-snapshot-restart", true);
}

// The keys of a snapshot are committed before omitted keys are deleted. Its history is known even if only the keys
// were committed.
TEST(HostHistory, TheHistoryOfASnapshotIsCommittedWithItsKeys) {
  AheadOfTheBus ahead("history-between");
  auto& w = ahead.w;
  auto& reader = ahead.reader;
  ahead.take_snapshot();
  while (reader.mirror->text() != ahead.text(7)) ASSERT_TRUE(reader.host->pump());
  reader.boot();
  EXPECT_EQ(reader.mirror->text(), ahead.text(7));

  restore(w, ahead.copy);
  publish(w, reader, "b=3", "r4");
  EXPECT_EQ(reader.mirror->text(), ahead.text(3)) << "version 1 of b, as the one that is lost";
  EXPECT_EQ(reader.host->counters().history_breaks, 1U);
}

// A snapshot that was fetched before the reader reloaded is fetched again: otherwise its history would be missing.
TEST(HostHistory, ASnapshotOfBeforeAReloadIsNotApplied) {
  AheadOfTheBus ahead("history-reload");
  auto& w = ahead.w;
  auto& reader = ahead.reader;
  ahead.take_snapshot();
  store::plant_outcome(*reader.disk, store::CommitOutcome::kInDoubt, false);
  ASSERT_TRUE(testing::wait_until([&] {
    reader.host->pump();
    return reader.host->counters().reloads == 1;
  }));
  while (reader.host->pump()) {
  }
  EXPECT_EQ(reader.mirror->text(), "");

  restore(w, ahead.copy);
  ASSERT_TRUE(w.add("b=3", "r4"));
  w.settle();
  EXPECT_TRUE(reader.comes_to(ahead.text(3))) << reader.mirror->text() << ": version 1 of b, as the one that is lost";
}

// The same for the snapshot that confirms the kept keys.
TEST(HostHistory, WhatAConfirmationHadIsOfTheHistoryToo) {
  for (const bool restarted : {false, true}) {
    World w(fmt::format("history-confirmed-{}", restarted));
    w.boot();
    Reader reader(w);
    reader.keeps = true;
    reader.boot();
    ASSERT_TRUE(w.add("a=1", "r1"));
    w.settle();
    auto copy = store::copy_disk(*w.disk);
    publish(w, reader, "b=7", "r2");
    restore(w, copy);
    w.settle();
    reader.settle();
    ASSERT_EQ(reader.mirror->text(), "a=1 b=7") << "b is kept";
    copy = store::copy_disk(*w.disk);
    ASSERT_TRUE(w.add("c=7", "r3"));
    w.host->pump();  // its event is not on the bus
    reader.confirm_after = SteadyDuration(0);
    reader.boot();
    ASSERT_TRUE(reader.comes_to("a=1 c=7")) << reader.mirror->text();
    if (restarted) reader.boot();
    restore(w, copy);
    publish(w, reader, "c=3", "r4");
    EXPECT_EQ(reader.mirror->text(), "a=1 c=3") << "version 1 of c, as the one that is lost";
  }
}

TEST(HostHistory, ARebalanceDoesNotMoveTheHistoryBackToASnapshot) {
  World w("history-rebalance");
  w.boot();
  Reader reader(w);
  publish(w, reader, "a=1", "r1");
  bus::plant_recreation(*w.bus, "qm.test");  // a short log
  reader.boot();
  reader.settle();
  EXPECT_EQ(reader.snapshots, 1);
  const auto copy = store::copy_disk(*w.disk);
  publish(w, reader, "a=1", "r2");
  EXPECT_EQ(reader.mirror->text(), "a=2");
  // Other members of the group get partitions and leave.
  std::vector<std::unique_ptr<bus::Consumer>> others;
  for (int i = 0; i < 3; ++i) {
    others.push_back(*w.bus->consumer({.group = "reader/default", .topics = {"qm.test"}, .cursor = {}}));
    (void)others.back()->poll(1, std::chrono::milliseconds(1));
    reader.settle();
  }
  others.clear();
  reader.settle();
  restore(w, copy);
  publish(w, reader, "a=10", "r3");
  EXPECT_EQ(reader.mirror->text(), "a=11") << "version 2, as the one that is lost";
}

TEST(HostHistory, ASnapshotForAGapShowsABreak) {
  World w("history-gap");
  w.boot();
  Reader reader(w);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(w.add("a=1", fmt::format("r{}", i)));
  w.settle();
  const auto copy = store::copy_disk(*w.disk);
  publish(w, reader, "a=10", "lost");
  EXPECT_EQ(reader.mirror->text(), "a=13");
  restore(w, copy);
  bus::plant_recreation(*w.bus, "qm.test");
  reader.boot();
  reader.settle();
  EXPECT_EQ(reader.mirror->text(), "a=3") << "the owner has published nothing since";
  EXPECT_EQ(reader.snapshots, 1);
}

TEST(HostHistory, ATermThatTheDatabaseLostWholeIsABreak) {
  World w("history-term");
  w.boot();
  Reader reader(w);
  ASSERT_TRUE(w.add("a=1", "r1"));
  w.settle();
  const auto copy = store::copy_disk(*w.disk);
  w.boot();
  publish(w, reader, "a=1", "r2");
  EXPECT_EQ(reader.mirror->text(), "a=2");
  restore(w, copy);
  publish(w, reader, "a=10", "r3");
  EXPECT_EQ(reader.mirror->text(), "a=11") << "version 2, as the one that is lost";
}

TEST(HostHistory, EventsThatTheDatabaseLostAreDroppedWhereTheyComeLater) {
  World w("history-abandoned");
  w.boot();
  Reader reader(w);
  publish(w, reader, "a=1", "r1");
  const auto copy = store::copy_disk(*w.disk);
  ASSERT_TRUE(w.add("a=1", "r2"));
  w.host->pump();
  const auto late = w.host->snapshot("qm.test", "", 10, {}, false).value();  // the event of r2, not on the bus yet
  ASSERT_EQ(late.size(), 1U);
  restore(w, copy);
  publish(w, reader, "a=10", "r3");
  EXPECT_EQ(reader.mirror->text(), "a=11");
  EXPECT_EQ(reader.snapshots, 0) << "nothing that was applied is lost";
  // A process from before the restore sends its remaining records.
  const std::vector<bus::Record> record{{"qm.test", "a", late[0].value}};
  ASSERT_TRUE((*w.bus->producer("late"))->publish(record, std::chrono::seconds(1)));
  reader.settle();
  EXPECT_EQ(reader.mirror->text(), "a=11");
  EXPECT_EQ(reader.host->counters().abandoned, 1U);
}

TEST(HostHistory, EventsOfATermThatTheDatabaseLostWholeAreDroppedWhereTheyComeLater) {
  World w("history-zombie");
  w.boot();
  Reader reader(w);
  publish(w, reader, "a=1", "r1");
  const auto copy = store::copy_disk(*w.disk);
  w.boot();
  ASSERT_TRUE(w.add("a=1", "r2"));
  ASSERT_TRUE(w.add("z=9", "r3"));
  w.host->pump();
  const auto late = w.host->snapshot("qm.test", "", 10, {}, false).value();
  ASSERT_EQ(late.size(), 2U);
  restore(w, copy);
  publish(w, reader, "a=10", "r4");
  EXPECT_EQ(reader.snapshots, 0);
  for (const auto& row : late) {
    const std::vector<bus::Record> record{{"qm.test", row.key, row.value}};
    ASSERT_TRUE((*w.bus->producer("late"))->publish(record, std::chrono::seconds(1)));
  }
  reader.settle();
  EXPECT_EQ(reader.mirror->text(), "a=11") << "the history of the owner counts, not the one that came last";
  EXPECT_EQ(reader.snapshots, 1) << "the term is known as abandoned then";
  EXPECT_EQ(reader.host->counters().abandoned, 2U);
  publish(w, reader, "a=10", "r5");
  EXPECT_EQ(reader.mirror->text(), "a=21");
  EXPECT_EQ(reader.snapshots, 1);
}

TEST(HostHistory, ABrokenHistoryPausesTheTopicWhileItsOwnerIsAway) {
  World w("history-paused");
  w.boot();
  Reader reader(w);
  ASSERT_TRUE(w.add("a=1", "r1"));
  w.settle();
  const auto copy = store::copy_disk(*w.disk);
  publish(w, reader, "a=1", "r2");
  restore(w, copy);
  ASSERT_TRUE(w.add("a=10", "r3"));
  w.settle();
  reader.owner_away = true;
  reader.settle();
  EXPECT_EQ(reader.mirror->text(), "a=2");
  EXPECT_EQ(reader.host->counters().paused_topics, 1U);
  reader.boot();
  reader.settle();
  EXPECT_EQ(reader.host->counters().paused_topics, 1U) << "the cursor did not pass the break";
  reader.owner_away = false;
  reader.boot();
  reader.settle();
  EXPECT_EQ(reader.mirror->text(), "a=11");
  EXPECT_EQ(reader.host->counters().paused_topics, 0U);
}

}  // namespace history_test
}  // namespace qm::service
