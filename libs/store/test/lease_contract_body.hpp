#pragma once
// The cases of LeaseContract: the requirements for all carriers of a lease. One file per carrier includes and
// instantiates them.
#include "qm/store/lease.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

namespace qm::store {

/// A durable shard: every call opens another lease, or another fenced store, on it.
struct Shard {
  std::function<std::unique_ptr<Lease>()> lease;
  std::function<std::unique_ptr<Store>()> store;
};
/// Without a lease, with the reason, if the environment has none.
struct LeasePlace {
  const char* name;
  Shard (*make)(std::string* why_not);
  friend std::ostream& operator<<(std::ostream& out, const LeasePlace& place) { return out << place.name; }
};

class LeaseContract : public ::testing::TestWithParam<LeasePlace> {
 protected:
  void SetUp() override {
    std::string why_not;
    shard_ = GetParam().make(&why_not);
    if (!shard_.lease) GTEST_SKIP() << why_not;
  }
  std::unique_ptr<Lease> lease() const { return shard_.lease(); }
  Shard shard_;
};

TEST_P(LeaseContract, OneClaimsRenewsAndReleases) {
  const auto a = lease();
  auto view = a->look();
  ASSERT_TRUE(view) << view.error().to_string();
  EXPECT_TRUE(view->holder.empty());
  EXPECT_EQ(a->claim(view->beat, "a"), true);
  EXPECT_TRUE(a->renew("a", "10.0.0.1:7101")->holds);

  const auto b = lease();
  view = b->look();
  ASSERT_TRUE(view);
  EXPECT_EQ(view->holder, "a");
  EXPECT_EQ(view->address, "10.0.0.1:7101");
  EXPECT_EQ(view->terms, 1U);
  EXPECT_TRUE(view->session);
  EXPECT_FALSE(view->released);
  EXPECT_FALSE(b->renew("b", "")->holds) << "it is not the holder";

  ASSERT_TRUE(a->release("a"));
  view = b->look();
  ASSERT_TRUE(view);
  EXPECT_TRUE(view->released);
  EXPECT_TRUE(view->address.empty());
  EXPECT_FALSE(a->renew("a", "x:1")->holds) << "a renewal does not claim a released lease";
}

TEST_P(LeaseContract, OfManyClaimsOneWins) {
  const auto seen = lease()->look();
  ASSERT_TRUE(seen);
  std::atomic<int> won = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const auto claimed = lease()->claim(seen->beat, std::to_string(i));
      if (claimed && *claimed) ++won;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(won, 1);
}

TEST_P(LeaseContract, ABeatBetweenLookAndClaimKeepsTheLead) {
  const auto a = lease(), b = lease();
  ASSERT_EQ(a->claim(0, "a"), true);
  const auto seen = b->look();
  ASSERT_TRUE(seen);
  EXPECT_TRUE(a->renew("a", "a:1")->holds);
  EXPECT_EQ(b->claim(seen->beat, "b"), false);
  EXPECT_TRUE(a->renew("a", "a:1")->holds);
}

TEST_P(LeaseContract, AReplicaThatWasOvertakenLearnsItAtTheNextBeat) {
  const auto a = lease(), b = lease();
  ASSERT_EQ(a->claim(0, "a"), true);
  const auto seen = b->look();
  ASSERT_EQ(b->claim(seen->beat, "b"), true);
  EXPECT_FALSE(a->renew("a", "a:1")->holds);
  ASSERT_TRUE(a->release("a"));
  const auto view = b->look();
  ASSERT_TRUE(view);
  EXPECT_EQ(view->holder, "b");
  EXPECT_EQ(view->terms, 2U);
  EXPECT_FALSE(view->released) << "a release by the old holder does not end the lead of the new one";
}

TEST_P(LeaseContract, TheEndOfAProcessShowsAsTheEndOfItsSession) {
  auto a = lease();
  const auto b = lease();
  ASSERT_EQ(a->claim(0, "a"), true);
  a.reset();
  EXPECT_TRUE(testing::wait_until([&] {
    const auto view = b->look();
    return view && !view->session;
  }));
}

TEST_P(LeaseContract, OnlyTheHolderOfTheLeaseRaisesTheEpoch) {
  const auto store = shard_.store(), other = shard_.store();
  const auto refused = store->acquire("a");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kFailedPrecondition) << refused.error().to_string();
  const auto held = lease();
  ASSERT_EQ(held->claim(0, "a"), true);
  const auto first = store->acquire("a").value().epoch;
  EXPECT_GT(store->acquire("a").value().epoch, first) << "the holder reloads as often as it must";
  ASSERT_EQ(store->commit({}), CommitOutcome::kCommitted);

  ASSERT_EQ(held->claim(1, "b"), true);
  EXPECT_FALSE(store->acquire("a")) << "deposed";
  EXPECT_EQ(store->commit({}), CommitOutcome::kEpochLost) << "a refused reload leads no more";
  ASSERT_TRUE(other->acquire("b"));
  EXPECT_EQ(other->commit({}), CommitOutcome::kCommitted);
  ASSERT_TRUE(held->release("b"));
  EXPECT_FALSE(other->acquire("b")) << "released";
}

}  // namespace qm::store
