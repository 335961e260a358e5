// Logs that are not the ones that were read before.
#include "reader.hpp"

namespace qm::service {
namespace log_identity_test {

/// Another log under the same name: recreated, and filled again.
struct Recreated {
  static constexpr int kRead = 3;
  Recreated(const std::string& name, int messages) : first(name), after(name + "-2") {
    first.boot();
    Reader reader(first);
    for (int i = 1; i <= kRead; ++i) add(first, i);
    reader.settle();
    EXPECT_EQ(reader.snapshots, 0);
    // The owner continues, and sends to the new log from now on.
    after.disk = first.disk;
    first.host.reset();
    after.boot();
    for (int i = kRead + 1; i <= kRead + messages; ++i) add(after, i);
    Reader second(after);
    second.disk = reader.disk;
    second.boot();
    second.settle();
    snapshots = second.snapshots;
    text = second.mirror->text();
  }
  static void add(World& w, int i) {
    EXPECT_TRUE(w.add("a=1", fmt::format("r{}", i)));
    w.settle();
  }
  World first, after;
  int snapshots = 0;
  std::string text;
};

TEST(HostHistory, ARecreatedLogIsAGapWhateverItsLength) {
  for (const int messages : {1, Recreated::kRead - 1, Recreated::kRead, Recreated::kRead + 1, 3 * Recreated::kRead}) {
    const Recreated r(fmt::format("recreated-{}", messages), messages);
    EXPECT_EQ(r.snapshots, 1) << messages;
    EXPECT_EQ(r.text, fmt::format("a={}", Recreated::kRead + messages)) << messages;
  }
}

/// A log that is deleted and created again while its reader is open. When the reader polls again, the log has more
/// messages than before, so no offset is missing; and the last event of another key of the partition was in the old
/// log.
struct GrownPast {
  explicit GrownPast(const std::string& name) : producer(name), reader(producer) {
    while (bus::partition_of(other, 4) != bus::partition_of("a", 4)) other += 'b';
    producer.boot();
    add(other + "=1");
    for (int i = 0; i < 3; ++i) add("a=1");
    reader.settle();
    EXPECT_EQ(reader.mirror->text(), text(3, 1));
    add(other + "=1");
    bus::plant_recreation(*producer.bus, "qm.test");
    for (int i = 0; i < 5; ++i) add("a=1");
  }
  void add(const std::string& change) {
    EXPECT_TRUE(producer.add(change, fmt::format("r{}", ++requests)));
    producer.settle();
  }
  /// A message arrives with each poll, as on a busy log. In this number of polls each of the four partitions is
  /// checked once.
  void poll(int polls) {
    for (int i = 0; i < polls; ++i) {
      add("a=1");
      reader.host->consume_once();
      while (reader.host->pump()) {
      }
    }
  }
  [[nodiscard]] std::string text(int a, int b) const { return fmt::format("a={} {}={}", a, other, b); }
  static constexpr int kPolls = 40;
  World producer;
  Reader reader;
  std::string other = "b";
  int requests = 0;
};

TEST(HostHistory, ALogThatIsRecreatedWhileItIsReadIsAGap) {
  GrownPast log("grown-past");
  log.poll(1);
  EXPECT_EQ(log.reader.mirror->text(), log.text(9, 1)) << "it reads on without an error";
  log.poll(GrownPast::kPolls);
  EXPECT_EQ(log.reader.snapshots, 1);
  log.poll(GrownPast::kPolls);
  EXPECT_EQ(log.reader.snapshots, 1) << "the new log is known by now";
  log.reader.settle();
  EXPECT_EQ(log.reader.mirror->text(), log.text(89, 2));
}

TEST(HostHistory, ALogThatIsRecreatedWhileItIsReadIsAGapToTheNextLeaderToo) {
  GrownPast log("grown-past-leader");
  log.poll(1);
  EXPECT_EQ(log.reader.mirror->text(), log.text(9, 1));
  log.reader.boot();  // its cursors refer to messages of the new log
  log.poll(GrownPast::kPolls);
  EXPECT_EQ(log.reader.snapshots, 1);
  log.reader.settle();
  EXPECT_EQ(log.reader.mirror->text(), log.text(49, 2));
}

TEST(HostHistory, ALogThatIsRecreatedWhileItIsReadIsPausedUntilItsOwnerAnswers) {
  GrownPast log("grown-past-away");
  log.reader.owner_away = true;
  log.poll(GrownPast::kPolls);
  EXPECT_EQ(log.reader.host->counters().paused_topics, 1U);
  log.reader.owner_away = false;
  EXPECT_TRUE(testing::wait_until([&] {
    log.reader.settle();
    return log.reader.host->counters().paused_topics == 0;
  }));
  log.poll(GrownPast::kPolls);
  log.reader.settle();
  EXPECT_EQ(log.reader.mirror->text(), log.text(88, 2));
}

/// Retention has deleted the message that identifies the log, and with it one that was never read.
TEST(HostHistory, ALogWhoseLastAppliedMessageIsGoneMayBeAnotherOne) {
  World w("log-trimmed");
  // In the partition of announcements: a short log would be a gap.
  std::string a = "a", b = "b";
  for (auto* key : {&a, &b})
    while (bus::partition_of(*key, 4) != bus::partition_of("", 4)) key->push_back('+');
  w.boot();
  Reader reader(w);
  publish(w, reader, a + "=1", "r1");
  ASSERT_EQ(reader.mirror->text(), a + "=1");
  bus::plant_recreation(*w.bus, "qm.test");
  for (const auto& change : {b + "=1", a + "=1", a + "=1"}) {
    ASSERT_TRUE(w.add(change, change + std::to_string(w.host->counters().batches)));
    w.settle();
  }
  bus::plant_truncation(*w.bus, "qm.test", 2);  // its offsets begin at the reader's position
  reader.boot();
  EXPECT_TRUE(reader.comes_to(fmt::format("{}=3 {}=1", a, b))) << reader.mirror->text();
  EXPECT_EQ(reader.snapshots, 1);
}

/// It is also deleted in an engine that orders by version.
TEST(HostHistory, AKeyThatTheSnapshotAfterAGapOmitsEnds) {
  GrownPast log("grown-past-omitted");
  log.reader.forgotten = {log.other};
  log.poll(GrownPast::kPolls);
  log.reader.settle();
  EXPECT_EQ(log.reader.mirror->text(), "a=48");
}

/// Its offset may be one that the old log also had, below the cursor.
TEST(HostHistory, WhatIsPublishedAfterTheSnapshotOfAnotherLogIsRead) {
  World w("recreated-shorter");
  w.boot();
  Reader reader(w);
  publish(w, reader, "b=1", "r1");
  bus::plant_recreation(*w.bus, "qm.test");
  reader.boot();
  ASSERT_TRUE(testing::wait_until([&] {
    reader.host->consume_once();
    return reader.snapshots == 1;
  }));
  ASSERT_TRUE(w.add("b=1", "r2"));
  w.settle();
  EXPECT_TRUE(reader.comes_to("b=2")) << reader.mirror->text();
}

/// If retention has deleted the anchor, the log may be another one. That is checked once.
TEST(HostHistory, ALogThatLosesItsAnchorMayBeAnotherOne) {
  GrownPast log("anchor-gone");
  for (int i = 0; i < 12; ++i) log.add(fmt::format("k{}=1", i));  // no partition is shorter than it was
  log.poll(1);
  const auto last = fmt::format("{}=2", log.other);
  EXPECT_EQ(log.reader.mirror->text().find(last), std::string::npos) << "it reads on without an error";
  bus::plant_truncation(*log.producer.bus, "qm.test", 1000);
  log.poll(2 * GrownPast::kPolls);
  EXPECT_EQ(log.reader.snapshots, 1);
  log.reader.settle();
  EXPECT_NE(log.reader.mirror->text().find(last), std::string::npos) << log.reader.mirror->text();
  bus::plant_truncation(*log.producer.bus, "qm.test", 1000);  // from the same log
  log.poll(2 * GrownPast::kPolls);
  EXPECT_EQ(log.reader.snapshots, 2);
}

}  // namespace log_identity_test
}  // namespace qm::service
