// Events of a producer whose database lost commits, and logs that are not the ones that were read.
#include "qm/bus/memory.hpp"
#include "qm/testing/testing.hpp"
#include "sums.hpp"

#include <gtest/gtest.h>

namespace qm::service {
namespace history_test {

/// Keeps the newest payload of each key; a tombstone ends the key.
class Mirror final : public Shell {
 public:
  Status load(std::span<const store::StateRow> rows) override {
    keys_.clear();
    for (const auto& row : rows) keys_.restore(row.key, *row.value);
    return {};
  }
  void step(std::span<const Input> batch, Instant, Effects& out, std::vector<std::pair<std::size_t, Error>>&) override {
    for (const auto& in : batch) {
      if (in.source != Source::kBus) continue;
      auto& version = versions_[in.key];
      if (in.version <= version) continue;  // as engines do that order facts by themselves
      version = in.version;
      if (in.tombstone) {
        keys_.erase(in.key);
      } else {
        keys_.edit(in.key) = in.bytes;
      }
    }
    keys_.changed([&](const std::string& key, const std::string* value) {
      out.state.push_back({"key", key, value == nullptr ? std::nullopt : std::optional(*value)});
    });
  }
  void undo() override { keys_.rollback(); }
  void commit() override { keys_.commit(); }
  [[nodiscard]] std::uint64_t digest() const override {
    Digest d;
    for (const auto& [key, value] : keys_) d.add(key).add(value);
    return d.value();
  }
  void debug_state(StateDump&) const override {}
  [[nodiscard]] std::string text() const {
    std::string out;
    for (const auto& [key, value] : keys_) out += fmt::format("{}{}={}", out.empty() ? "" : " ", key, value);
    return out;
  }

 private:
  Table<std::string, std::string> keys_;
  std::map<std::string, std::uint64_t> versions_;
};

/// A consumer of qm.test, which keeps its disk over its lives.
struct Reader {
  explicit Reader(World& from) : producer(from) { boot(); }

  void boot() {
    host.reset();
    HostOptions options;
    options.service = "reader";
    options.consumes = {"qm.test"};
    options.snapshot = [this](const std::string& topic, const auto&) -> Result<Snapshot> {
      ++snapshots;
      if (owner_away) return fail(Code::kUnavailable, "its owner is away");
      QM_ASSIGN(const auto rows, producer.host->snapshot(topic, "", 1000, "", true));
      Snapshot out{{}, producer.host->history()};
      for (const auto& row : rows) {
        if (!forgotten.contains(row.key)) out.entries.push_back(row.value);
      }
      return out;
    };
    options.confirm_after = confirm_after;
    if (keeps) {
      options.last_state = [](const auto&, const auto&, bool rolled_back) {
        return rolled_back ? std::nullopt : std::optional(std::string());
      };
    }
    auto shell = std::make_unique<Mirror>();
    mirror = shell.get();
    host = std::make_unique<Host>(options, std::move(shell), store::open_memory(disk), producer.bus, producer.clock,
                                  nullptr);
    const auto opened = host->open();
    ASSERT_TRUE(opened) << opened.error().to_string();
  }
  void settle() {
    while (host->pump() || host->consume_once()) {
    }
  }
  /// Until the text is `expected`, with snapshots that are taken meanwhile.
  bool comes_to(const std::string& expected) {
    return testing::wait_until(
        [&] {
          settle();
          return mirror->text() == expected && host->counters().mailbox == 0;
        },
        std::chrono::seconds(10));
  }

  World& producer;
  std::shared_ptr<store::MemoryDisk> disk = store::make_memory_disk();
  Mirror* mirror = nullptr;
  std::unique_ptr<Host> host;
  int snapshots = 0;
  bool owner_away = false;
  std::set<std::string> forgotten;  ///< keys that snapshots omit
  bool keeps = false;               ///< what a snapshot of another history omits
  SteadyDuration confirm_after = std::chrono::hours(1);
};

/// The producer begins again on a database that lost what came after the copy.
void restore(World& w, std::size_t copy) {
  w.host.reset();
  store::restore_disk(*w.disk, copy);
  w.boot();
}

/// The producer commits and publishes one input, and the reader applies what that leads to.
void publish(World& w, Reader& reader, const std::string& bytes, const std::string& id) {
  ASSERT_TRUE(w.add(bytes, id));
  w.settle();
  reader.settle();
}

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

  w.host.reset();  // the process is down while the copy is put in place: only consumers can find out
  store::restore_disk(*w.disk, copy);
  w.boot();
  publish(w, reader, "c=5", "r4");
  EXPECT_EQ(reader.mirror->text(), "a=1 c=5") << "versions of a are lower than known, b is unknown to its owner";
  EXPECT_GE(reader.snapshots, 1);

  // b starts again at version 1, which is lower than what was applied of the other b.
  const int before = reader.snapshots;
  ASSERT_TRUE(w.add("b=3", "r5"));
  publish(w, reader, "a=1", "r6");
  EXPECT_EQ(reader.mirror->text(), "a=2 b=3 c=5");
  EXPECT_EQ(reader.snapshots, before) << "all partitions were settled at once";
  reader.boot();
  reader.settle();
  EXPECT_EQ(reader.mirror->text(), "a=2 b=3 c=5");
}

// Its leader announces its term, which says what the database kept.
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

// What the owner may publish again is kept for some time; then what it has not published ends.
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
    EXPECT_TRUE(reader.comes_to("a=1 b=2 d=3")) << "b begins anew: " << reader.mirror->text();
    const int before = reader.snapshots;
    reader.boot();
    reader.settle();
    EXPECT_EQ(reader.snapshots, before) << "nothing is left to confirm";
  }
}

// Its owner numbers the versions of its keys from 1 again, also to a reader that is restarted meanwhile.
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
    reader.boot();
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
  ASSERT_TRUE(w.add("k0=2", "s0"));  // the break is seen in the partition of k0
  w.settle();
  reader.settle();
  reader.boot();  // the other partitions have stored nothing since
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
  ASSERT_TRUE(w.add("a=1", "r2"));  // as many messages as the log of before had
  w.settle();
  for (int i = 0; i < 3; ++i) reader.host->consume_once();
  reader.settle();
  EXPECT_EQ(reader.mirror->text(), "a=2");
  EXPECT_EQ(reader.snapshots, 1);
  reader.boot();
  reader.settle();
  EXPECT_EQ(reader.snapshots, 1);
}

/// What comes with a snapshot before its event is on the bus may be lost with the database, too.
void lose_what_a_snapshot_had(const std::string& name, bool restarted) {
  World w(name);
  w.boot();
  Reader reader(w);
  ASSERT_TRUE(w.add("a=1", "r1"));
  ASSERT_TRUE(w.add("a=1", "r2"));
  w.settle();
  bus::plant_truncation(*w.bus, "qm.test", 1);  // the first start is a gap
  const auto copy = store::copy_disk(*w.disk);
  ASSERT_TRUE(w.add("b=7", "r3"));
  w.host->pump();
  reader.settle();
  EXPECT_EQ(reader.snapshots, 1);
  EXPECT_EQ(reader.mirror->text(), "a=2 b=7");
  if (restarted) reader.boot();

  restore(w, copy);
  publish(w, reader, "b=3", "r4");
  EXPECT_EQ(reader.mirror->text(), "a=2 b=3") << "version 1 of b, as the one that is lost";
  EXPECT_EQ(reader.host->counters().history_breaks, 1U);
}
TEST(HostHistory, WhatASnapshotHadIsOfTheHistoryToo) {
  lose_what_a_snapshot_had("history-snapshot", false);
  lose_what_a_snapshot_had("history-snapshot-restart", true);
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
  // Other members of the group take partitions and leave.
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
  // A process of before the restore sends what it still had.
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

/// A log under the same name that is another one: recreated, and filled again.
struct Recreated {
  static constexpr int kRead = 3;
  Recreated(const std::string& name, int messages) : first(name), after(name + "-2") {
    first.boot();
    Reader reader(first);
    for (int i = 1; i <= kRead; ++i) add(first, i);
    reader.settle();
    EXPECT_EQ(reader.snapshots, 0);
    // The owner goes on, and what it sends from now on goes to the new log.
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

/// A log that is deleted and created again while its reader is open. When the reader polls again, the log has more messages than
/// before, so no offset is missing; and the last event of another key of the partition was in the old log.
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
  /// With each poll a message comes, as on a log that is busy. In so many polls each of the four partitions is looked at once.
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
  log.reader.boot();  // its cursors are of messages of the new log
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

/// It ends for an engine that orders by version too.
TEST(HostHistory, AKeyThatTheSnapshotAfterAGapOmitsEnds) {
  GrownPast log("grown-past-omitted");
  log.reader.forgotten = {log.other};
  log.poll(GrownPast::kPolls);
  log.reader.settle();
  EXPECT_EQ(log.reader.mirror->text(), "a=48");
}

/// Its offset may be one that the old log had too, and below the cursor.
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

/// What retention has removed cannot be compared, and is no gap.
TEST(HostHistory, ALogThatLosesMessagesThatWereReadIsTheSameLog) {
  World w("retention-behind");
  w.boot();
  Reader reader(w);
  int requests = 0;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(w.add("a=1", fmt::format("r{}", ++requests)));
    w.settle();
    reader.host->consume_once();
    while (reader.host->pump()) {
    }
    bus::plant_truncation(*w.bus, "qm.test", 1000);
  }
  EXPECT_EQ(reader.mirror->text(), "a=100");
  EXPECT_EQ(reader.snapshots, 0);
}

}  // namespace history_test
}  // namespace qm::service
