// A lead that is lost while a commit is in doubt, and a database that lost commits.
#include "sums.hpp"

#include <gtest/gtest.h>

#include <optional>

namespace qm::service {
namespace lead_test {

/// Inputs reported to a host before the rollback are lost with the commits, so it ends and another one starts.
TEST(Host, AHostWhoseDatabaseLostCommitsEndsAndTheNextSendsItsOutboxAgain) {
  World w("rollback");
  HostOptions options;
  int lost = 0, rollbacks = 0;
  options.on_lost = [&] { ++lost; };
  options.on_rollback = [&] { ++rollbacks; };
  options.rollbacks = 2;
  w.boot(options);
  ASSERT_TRUE(w.add("a=1", "r1"));
  w.settle();
  const auto copy = store::copy_disk(*w.disk);
  for (const char* id : {"r2", "r3", "r4", "r5", "r6"}) ASSERT_TRUE(w.add("b=1", id));
  w.settle();
  EXPECT_EQ(w.host->counters().published, 6U);
  store::restore_disk(*w.disk, copy);
  std::string reply;
  ASSERT_TRUE(w.add("c=7", "r7", [&](Result<std::string> r) { reply = reply_of(r); }));
  w.settle();
  EXPECT_EQ(reply, "UNAVAILABLE: the database lost commits; send the call again");
  EXPECT_EQ(w.host->counters().rollbacks, 3U) << "goes on from those of the hosts before";
  EXPECT_EQ(lost, 1);
  EXPECT_EQ(rollbacks, 1);
  EXPECT_FALSE(w.host->alive());
  w.boot();
  ASSERT_TRUE(w.add("c=7", "r7", [&](Result<std::string> r) { reply = reply_of(r); }));
  w.settle();
  EXPECT_EQ(reply, "7") << "decided again on what is there";
  EXPECT_EQ(w.sums->sum("a"), 1);
  EXPECT_EQ(w.sums->sum("b"), 0) << "the database has lost it";
  EXPECT_TRUE(w.host->ready());
  EXPECT_EQ(w.host->counters().published, 1U) << "its outbox sequence is 2, and rows up to 6 were sent before";
  EXPECT_TRUE(store::open_memory(w.disk)->read_outbox(0, 10).value().empty());
}

TEST(Host, AfterARollbackTheBusIsReadAgainFromTheOlderCursor) {
  World w("rollback2");
  HostOptions options;
  options.consumes = {"qm.in"};
  w.boot(options);
  const auto producer = *w.bus->producer("p");
  std::uint64_t version = 0;
  const auto publish = [&] {
    ++version;
    const std::vector<bus::Record> one{{"qm.in", "a", envelope("a", version, "a=1")}};
    ASSERT_TRUE(producer->publish(one, std::chrono::seconds(1)));
  };
  publish();
  w.settle();
  const auto copy = store::copy_disk(*w.disk);
  for (int i = 0; i < 3; ++i) publish();
  w.settle();
  EXPECT_EQ(w.sums->sum("a"), 4);
  publish();
  EXPECT_TRUE(w.host->consume_once()) << "read, and not applied before the restore";
  store::restore_disk(*w.disk, copy);
  w.settle();
  EXPECT_EQ(w.host->counters().rollbacks, 1U);
  w.boot(options);
  w.settle();
  EXPECT_EQ(w.sums->sum("a"), 5) << "what was applied in the lost commits, and what was read then, comes again";
  w.boot(options);
  publish();
  w.settle();
  EXPECT_EQ(w.sums->sum("a"), 6);
}

TEST(Host, ARollbackThatACommitInDoubtFindsIsCountedToo) {
  World w("rollback3");
  w.boot();
  ASSERT_TRUE(w.add("a=1", "r1"));
  w.settle();
  const auto copy = store::copy_disk(*w.disk);
  ASSERT_TRUE(w.add("a=1", "r2"));
  w.settle();
  ASSERT_TRUE(w.add("a=1", "r3"));
  store::plant_outcome(*w.disk, store::CommitOutcome::kInDoubt, false);
  store::plant_rollback(*w.disk, copy);
  w.settle();
  EXPECT_EQ(w.host->counters().rollbacks, 1U);
  EXPECT_EQ(w.sums->sum("a"), 1) << "r3 is to be sent again";
  EXPECT_FALSE(w.host->alive());
}

/// The numbers of the other history have reached those of the batch that is in doubt.
TEST(Host, ACommitInDoubtIsNotThatOfAnotherHistory) {
  World w("rollback4");
  w.boot();
  ASSERT_TRUE(w.add("a=1", "r1"));
  w.settle();
  const auto before = store::copy_disk(*w.disk);
  ASSERT_TRUE(w.add("a=1", "r2"));
  w.settle();
  const auto mine = store::copy_disk(*w.disk);
  store::restore_disk(*w.disk, before);
  const auto other = store::open_memory(w.disk);
  const auto found = other->acquire("other").value();
  for (std::uint64_t i = 1; i <= 3; ++i)
    ASSERT_EQ(other->commit({.journal_sequence = found.journal_sequence + i}), store::CommitOutcome::kCommitted);
  const auto theirs = store::copy_disk(*w.disk);
  store::restore_disk(*w.disk, mine);
  std::string reply;
  ASSERT_TRUE(w.add("b=1", "r3", [&](Result<std::string> r) { reply = reply_of(r); }));
  while (reply.empty()) w.host->pump();
  ASSERT_EQ(reply, "1") << "of a new term";
  reply.clear();
  ASSERT_TRUE(w.add("a=1", "r4", [&](Result<std::string> r) { reply = reply_of(r); }));
  store::plant_outcome(*w.disk, store::CommitOutcome::kInDoubt, false);
  store::plant_rollback(*w.disk, theirs);
  w.settle();
  EXPECT_EQ(w.host->counters().rollbacks, 1U);
  EXPECT_EQ(reply, "UNAVAILABLE: the database lost commits; send the call again");
  EXPECT_FALSE(w.host->alive());
}

/// A store whose lease another process has taken while a commit was in doubt.
class Deposed final : public store::Store {
 public:
  explicit Deposed(std::unique_ptr<store::Store> inner) : inner_(std::move(inner)) {}
  Result<store::Loaded> acquire(const std::string& holder) override {
    if (acquired_++ > 0) return fail(Code::kFailedPrecondition, "{} does not hold the lease", holder);
    return inner_->acquire(holder);
  }
  Result<store::CommitOutcome> commit(const store::Commit& batch) override { return inner_->commit(batch); }
  [[nodiscard]] store::Term term() const override { return inner_->term(); }
  Result<std::vector<store::OutboxRow>> read_outbox(std::uint64_t after, std::size_t max) override {
    return inner_->read_outbox(after, max);
  }
  Status published(std::uint64_t sequence, std::uint64_t term) override { return inner_->published(sequence, term); }
  Result<std::vector<store::OutboxRow>> snapshot(const std::string& topic, const std::string& after, std::size_t max,
                                                 const std::string& key, bool ended) override {
    return inner_->snapshot(topic, after, max, key, ended);
  }
  Result<std::vector<JournalRow>> read_journal(std::uint64_t after, std::size_t max) override {
    return inner_->read_journal(after, max);
  }

 private:
  std::unique_ptr<store::Store> inner_;
  int acquired_ = 0;
};

TEST(Host, WithoutTheLeaseACommitInDoubtIsNotReloaded) {
  World w("deposed");
  int lost = 0;
  HostOptions options;
  options.service = "test";
  options.holder = "a";
  options.on_lost = [&] { ++lost; };
  Host host(options, std::make_unique<Sums>(), std::make_unique<Deposed>(store::open_memory(w.disk)), nullptr, w.clock,
            nullptr);
  ASSERT_TRUE(host.open());
  store::plant_outcome(*w.disk, store::CommitOutcome::kInDoubt, true);
  Input in;
  in.source = Source::kRequest;
  in.id = "r1";
  in.bytes = "a=1";
  std::optional<Code> code;
  ASSERT_TRUE(host.submit(in, [&](Result<std::string> r) {
    if (!r) code = r.error().code;
  }));
  while (host.pump()) {
  }
  EXPECT_EQ(code, Code::kUnknown);
  EXPECT_EQ(lost, 1) << "the process releases its lease and becomes a standby";
  EXPECT_FALSE(host.alive());
  EXPECT_FALSE(host.submit(in));
  // A process that claims the lease and loses it before it has read its state becomes a standby too.
  Host late(options, std::make_unique<Sums>(), std::make_unique<Deposed>(store::open_memory(w.disk)), nullptr, w.clock,
            nullptr);
  ASSERT_TRUE(late.open());
  const auto again = late.open();
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::kAborted);
}

}  // namespace lead_test
}  // namespace qm::service
