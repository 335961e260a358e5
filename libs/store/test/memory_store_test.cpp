#include "store_contract_body.hpp"

namespace qm::store {
namespace memory_store_test {

Open memory_place(std::string*) {
  return [disk = make_memory_disk()] { return open_memory(disk); };
}

INSTANTIATE_TEST_SUITE_P(Memory, StoreContract, ::testing::Values(Place{"memory", &memory_place}));

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
