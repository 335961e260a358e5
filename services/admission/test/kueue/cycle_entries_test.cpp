// Results of workloads that were considered, where events outside the decision matter: failed writes, gates, variants
// of one workload, and slices of one that scales up.
#include "cycle_fixture.hpp"

namespace qm::admission::kueue {
namespace cycle_entries_test {

TEST_F(KueueCycle, FailedAdmissionIsRetried) {
  queue("q", "", "[" + flavor("f", 4) + "]");
  start();
  const int id = add("q", 3);
  EXPECT_EQ(run(), fmt::format("+{}@fx1", id));
  cycle_->admission_failed(id, false);
  EXPECT_TRUE(cycle_->active(id));
  EXPECT_EQ(cycle_->tree().used(0, 0), 0);
  EXPECT_EQ(run(), fmt::format("+{}@fx1", id));
  cycle_->admission_failed(id, true);
  const int next = add("q", 4);
  EXPECT_EQ(run(), fmt::format("+{}@fx1", next)) << "the other is removed and holds nothing";
}

TEST_F(KueueCycle, VictimsStayWhenPreemptionFails) {
  queue("q", "", "[" + flavor("f", 4) + "]");
  start();
  const int low = add("q", 3);
  run();
  const int high = add("q", 3, 5);
  const auto outcome = cycle_->run(2, 2);
  ASSERT_EQ(outcome.preempted.size(), 1U);
  cycle_->preemption_failed(high, {low});
  EXPECT_FALSE(cycle_->work(low).evicted);
  EXPECT_TRUE(cycle_->active(high)) << "it tries again at once";
  EXPECT_EQ(run(), fmt::format("-{}/{}", low, high));
}

TEST_F(KueueCycle, BackedOffWorkloadIsSkipped) {
  queue("q", "", "[" + flavor("f", 4) + "]");
  start();
  const int off = add("q", 1, 9, 1, 0, nullptr, true), other = add("q", 1);
  EXPECT_EQ(run(), fmt::format("+{}@fx1", other));
  cycle_->requeue();
  EXPECT_EQ(run(), "");
  cycle_->enqueue(Work(cycle_->work(off)));
  EXPECT_EQ(run(), fmt::format("+{}@fx1", off));
}

TEST_F(KueueCycle, ClosedGateAdmitsWithoutPreemption) {
  queue("q", "", "[" + flavor("f", 4) + "]");
  start();
  const int low = add("q", 3);
  run();
  const auto gated = [](Work& work) { work.ties = std::make_shared<const Ties>(Ties{.gated = true}); };
  const int high = add("q", 3, 5, 1, 0, gated);
  const auto outcome = cycle_->run(2, 2);
  EXPECT_TRUE(outcome.preempted.empty());
  ASSERT_EQ(outcome.waiting.size(), 1U);
  EXPECT_EQ(name_of(outcome.waiting[0].second), "AdmissionGated");
  EXPECT_FALSE(cycle_->active(high)) << "until something changes";
  cycle_->finish(low);
  cycle_->requeue();
  EXPECT_EQ(run(), fmt::format("+{}@fx1", high));
}

/// A queue with two flavors, and a workload with a variant for each.
class Variants : public KueueCycle {
 protected:
  Change variant(const std::string& flavor) {
    const auto liked = *objects_.flavors.find(flavor);
    return [this, liked](Work& work) {
      work.ties = std::make_shared<const Ties>(Ties{.parent = "job", .flavor = liked});
      for (Flavor other = 0; other < objects_.flavors.size(); ++other) {
        if (other != liked) work.pod_sets[0].refused.push_back({other, Refusal::Why::kNotAllowed, {}});
      }
    };
  }
};

TEST_F(Variants, BetterVariantReplacesWorseOne) {
  queue("q", "", "[" + flavor("good", 4) + "," + flavor("bad", 4) + "]");
  start();
  const int other = add("q", 4);  // has the preferred flavor
  run();
  const int bad = add("q", 2, 0, 1, 0, variant("bad"));
  EXPECT_EQ(run(), fmt::format("+{}@badx1", bad));
  const int good = add("q", 2, 0, 1, 0, variant("good"));
  EXPECT_EQ(run(), "") << "it does not fit";
  cycle_->finish(other);
  cycle_->requeue();
  auto outcome = cycle_->run(7, 7);
  ASSERT_EQ(outcome.preempted.size(), 1U);
  EXPECT_EQ(outcome.preempted[0].id, bad);
  EXPECT_EQ(name_of(outcome.preempted[0].reason), "FlavorMigration");
  cycle_->evicted(bad);
  EXPECT_EQ(run(), fmt::format("+{}@goodx1", good)) << "it is ahead of the older one";
  outcome = cycle_->run(9, 9);
  ASSERT_EQ(outcome.waiting.size(), 1U);
  EXPECT_EQ(name_of(outcome.waiting[0].second), "PendingEvaluation");
  EXPECT_TRUE(cycle_->active(bad));
}

TEST_F(Variants, NoMigrationBeyondLastAcceptableFlavor) {
  objects_.variants = true;
  const auto three = "[" + flavor("best", 1) + "," + flavor("good", 4) + "," + flavor("bad", 4) + "]";
  queue("q", "", three,
        R"({"concurrentAdmissionPolicy":{"migration":{"constraints":{"lastAcceptableFlavorName":"best"}}}})");
  start();
  const int bad = add("q", 2, 0, 1, 0, variant("bad"));
  run();
  add("q", 2, 0, 1, 0, variant("good"));
  const auto outcome = cycle_->run(2, 2);
  EXPECT_TRUE(outcome.preempted.empty());
  EXPECT_TRUE(outcome.admitted.empty());
  EXPECT_FALSE(cycle_->work(bad).evicted);
}

TEST_F(KueueCycle, NewSliceReplacesOldOneAndRequestsTheDifference) {
  queue("q", "", "[" + flavor("f", 10) + "]");
  start();
  const int old = add("q", 1, 0, 6);
  run();
  const auto slice = [&](Work& work) {
    work.ties = std::make_shared<const Ties>(Ties{.replaces = old});
    const auto resource = work.pod_sets[0].each[0].first;
    work.pod_sets[0].before.push_back({resource, *objects_.flavors.find("f"), 6000});
  };
  const int grown = add("q", 1, 0, 9, 0, slice);
  const auto outcome = cycle_->run(2, 2);
  ASSERT_EQ(outcome.admitted.size(), 1U) << "only three more are needed";
  ASSERT_EQ(outcome.replaced.size(), 1U);
  EXPECT_EQ(outcome.replaced[0], std::pair(old, grown));
  cycle_->finish(old);
  EXPECT_EQ(cycle_->tree().used(0, 0), 9000) << "all that the new one has";

  const int lost = add("q", 1, 0, 9, 0, slice);
  EXPECT_EQ(run(), "") << "the slice is gone, so it requests all";
  EXPECT_TRUE(cycle_->waits(lost));
}

TEST(NewNodes, CountForAddedPods) {
  const auto on = [](topology::DomainId leaf, topology::Pods pods) { return LeafUse{0, {leaf, pods, {}}, false}; };
  const auto more = beyond({on(1, 3), on(2, 2), on(3, 1)}, {on(1, 1), on(2, 4)});
  ASSERT_EQ(more.size(), 2U);
  EXPECT_EQ(more[0].load.leaf, 1);
  EXPECT_EQ(more[0].load.pods, 2);
  EXPECT_EQ(more[1].load.leaf, 3);
}

}  // namespace cycle_entries_test
}  // namespace qm::admission::kueue
