#include "lease_contract_body.hpp"
#include "qm/store/memory.hpp"
#include "store_contract_body.hpp"

namespace qm::store {
namespace memory_store_test {

Open memory_place(std::string*) {
  return [disk = make_memory_disk()] { return open_memory(disk); };
}

INSTANTIATE_TEST_SUITE_P(Memory, StoreContract, ::testing::Values(Place{"memory", &memory_place}));

Shard memory_shard(std::string*) {
  const auto disk = make_memory_disk();
  return {[disk] { return open_memory_lease(disk); }, [disk] { return open_memory(disk, true); }};
}

INSTANTIATE_TEST_SUITE_P(Memory, LeaseContract, ::testing::Values(LeasePlace{"memory", &memory_shard}));

TEST(MemoryDisk, ARestoredCopyHasItsLease) {
  const auto disk = make_memory_disk();
  const auto a = open_memory_lease(disk), b = open_memory_lease(disk);
  const auto store = open_memory(disk, true);
  ASSERT_EQ(a->claim(0, "a"), true);
  EXPECT_EQ(store->acquire("a").value().epoch, 1U);
  const auto copy = copy_disk(*disk);
  ASSERT_EQ(store->commit({.state = {{"job", "a", "1"}}}), CommitOutcome::kCommitted);
  ASSERT_EQ(b->claim(1, "b"), true);
  const auto next = open_memory(disk, true);
  EXPECT_EQ(next->acquire("b").value().epoch, 2U);
  EXPECT_EQ(position(*disk).commits, position(*disk, copy).commits + 1);

  restore_disk(*disk, copy);
  EXPECT_EQ(lease_holder(*disk), "a") << "the lease is a row of the database";
  EXPECT_EQ(next->commit({}), CommitOutcome::kRolledBack);
  EXPECT_FALSE(next->acquire("b"));
  const auto found = store->acquire("a").value();
  EXPECT_EQ(found.epoch, 2U);
  EXPECT_TRUE(found.state.empty());
  EXPECT_EQ(look_at(*disk).epoch, 2U);
}

TEST(MemoryDisk, AnEpochNumberThatIsGivenAgainIsNotThatOfTheOldLeader) {
  const auto disk = make_memory_disk();
  const auto old = open_memory(disk), next = open_memory(disk);
  const auto copy = copy_disk(*disk);
  const auto first = old->acquire("a").value();
  restore_disk(*disk, copy);
  const auto second = next->acquire("b").value();
  ASSERT_EQ(second.epoch, first.epoch);
  EXPECT_EQ(old->commit({}), CommitOutcome::kRolledBack);
  ASSERT_EQ(next->commit({.outbox = {{1, "qm.test", "k", 1, false, "v"}}}), CommitOutcome::kCommitted);
  ASSERT_TRUE(old->published(1, first.term));
  EXPECT_EQ(next->read_outbox(0, 10).value().size(), 1U) << "rows that a leader of another history read";
}

TEST(MemoryDisk, ARestoreToTheLastCommitEndsTheTerm) {
  const auto disk = make_memory_disk();
  const auto store = open_memory(disk);
  const auto first = store->acquire("a").value();
  const Commit batch{.journal_sequence = 1, .outbox = {{1, "qm.test", "k", 1, false, "v"}}};
  ASSERT_EQ(store->commit(batch), CommitOutcome::kCommitted);
  restore_disk(*disk, copy_disk(*disk));
  EXPECT_EQ(store->commit({.journal_sequence = 2}), CommitOutcome::kTermEnded);
  const auto next = store->term();
  EXPECT_NE(next.id, first.term);
  EXPECT_EQ(next.ancestors.front().term, first.term);
  EXPECT_EQ(next.ancestors.front().end, 1U);
  EXPECT_EQ(store->commit({.journal_sequence = 2}), CommitOutcome::kCommitted);
}

class PlantedOutcome : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(store_->acquire("test")); }
  std::shared_ptr<MemoryDisk> disk_ = make_memory_disk();
  std::unique_ptr<Store> store_ = open_memory(disk_);
  Commit batch_{.state = {{"job", "a", "1"}}, .appends = {{"ledger", {"n"}, {"1"}}}};
};

TEST_F(PlantedOutcome, NotCommittedLeavesNothingAndTheNextTryWorks) {
  plant_outcome(*disk_, CommitOutcome::kNotCommitted);
  EXPECT_EQ(store_->commit(batch_), CommitOutcome::kNotCommitted);
  EXPECT_TRUE(appended(*disk_).empty());
  EXPECT_EQ(store_->commit(batch_), CommitOutcome::kCommitted);
  EXPECT_EQ(appended(*disk_).size(), 1U);
}

TEST_F(PlantedOutcome, InDoubtMayOrMayNotHaveHappened) {
  for (const bool really : {false, true}) {
    plant_outcome(*disk_, CommitOutcome::kInDoubt, really);
    EXPECT_EQ(store_->commit(batch_), CommitOutcome::kInDoubt);
    EXPECT_EQ(store_->commit(batch_), CommitOutcome::kEpochLost);
    EXPECT_EQ(store_->acquire("test").value().state.empty(), !really);
  }
}

TEST_F(PlantedOutcome, EpochLostHoldsUntilTheNextAcquire) {
  plant_outcome(*disk_, CommitOutcome::kEpochLost);
  EXPECT_EQ(store_->commit(batch_), CommitOutcome::kEpochLost);
  EXPECT_EQ(store_->commit(batch_), CommitOutcome::kEpochLost);
  ASSERT_TRUE(store_->acquire("test"));
  EXPECT_EQ(store_->commit(batch_), CommitOutcome::kCommitted);
}

}  // namespace memory_store_test
}  // namespace qm::store
