// Cycles by hand: who is admitted, who gives way, who waits where.
#include "qm/admission/exact/cycle.hpp"

#include "qm/admission/exact/objects.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

namespace qm::admission::exact {
namespace {

Json parsed(const std::string& text) { return *Json::parse(text); }

/// Queues of one resource, "cpu" in whole units, over flavors that are only named.
class ExactCycle : public ::testing::Test {
 protected:
  void queue(const std::string& name, const std::string& cohort, const std::string& quotas,
             const std::string& more = "{}") {
    auto object = parsed(fmt::format(R"({{"metadata":{{"name":"{}"}},"spec":{{"cohortName":"{}","resourceGroups":[
        {{"coveredResources":["cpu"],"flavors":{}}}],"preemption":{{"withinClusterQueue":"LowerPriority",
        "reclaimWithinCohort":"Any"}}}}}})",
                                     name, cohort, quotas));
    object.set("spec").merge_patch(parsed(more));
    if (cohort.empty()) object.set("spec").erase("cohortName");
    objects_.add_queue(object);
  }
  std::string flavor(const std::string& name, int nominal, const std::string& more = "") {
    objects_.add_flavor(parsed(R"({"metadata":{"name":")" + name + R"("}})"));
    return fmt::format(R"({{"name":"{}","resources":[{{"name":"cpu","nominalQuota":{}{}}}]}})", name, nominal, more);
  }
  Cycle& start(bool fair = false) {
    planted_ = objects_.forest.plant();
    EXPECT_EQ(planted_.fields.size(), 1U);
    planted_.fields[0].fair_sharing = fair;
    cycle_ = std::make_unique<Cycle>(std::move(planted_.fields[0]));
    return *cycle_;
  }
  int add(const std::string& queue, int cpus, int priority = 0, int pods = 1, int least = 0) {
    auto object = parsed(fmt::format(R"({{"metadata":{{"name":"w","uid":"{0}"}},"spec":{{"priority":{1},"podSets":[
        {{"name":"main","count":{2},"template":{{"spec":{{"containers":[{{"resources":{{"requests":{{"cpu":"{3}"}}}}}}]}}}}}}
        ]}}}})",
                                     next_, priority, pods, cpus));
    if (least > 0) object.set("spec").set("podSets").items_mut()[0].set("minCount", least);
    Work work = objects_.work(object);
    work.id = next_;
    work.created = next_++;
    work.queue = planted_.queues.at(queue).second;
    cycle_->enqueue(std::move(work));
    return next_ - 1;
  }
  /// "+1 +2 -3/5" : admitted 1 and 2, 3 gives way to 5; victims leave at once.
  std::string run() {
    ++k_;
    const auto outcome = cycle_->run(k_, k_);
    std::string out;
    for (const auto& one : outcome.admitted) {
      const auto& set = one.assignment.sets.at(0);
      out += fmt::format("+{}@{}x{} ", one.id, objects_.flavors[set.flavors.at(0).flavor], set.count);
    }
    for (const auto& one : outcome.preempted) {
      out += fmt::format("-{}/{} ", one.id, one.by);
      cycle_->evicted(one.id);
    }
    if (!outcome.preempted.empty()) cycle_->requeue();
    if (!out.empty()) out.pop_back();
    return out;
  }

  Objects objects_;
  Forest::Planted planted_;
  std::unique_ptr<Cycle> cycle_;
  int next_ = 1;
  std::int64_t k_ = 0;
};

TEST_F(ExactCycle, OneHeadOfEachQueueByPriorityThenAge) {
  queue("a", "co", "[" + flavor("f", 4) + "]");
  queue("b", "co", "[" + flavor("f", 4) + "]");
  start();
  add("a", 1), add("a", 1, 5), add("b", 1), add("b", 1);
  EXPECT_EQ(run(), "+2@fx1 +3@fx1");
  EXPECT_EQ(run(), "+1@fx1 +4@fx1");
  EXPECT_EQ(run(), "");
}

TEST_F(ExactCycle, AStrictHeadBlocksAndAnotherIsPassed) {
  queue("loose", "", "[" + flavor("f", 4) + "]");
  start();
  const int big = add("loose", 5), small = add("loose", 1);
  EXPECT_EQ(run(), "");
  EXPECT_FALSE(cycle_->active(big)) << "nothing changed that could help it";
  EXPECT_TRUE(cycle_->waits(big));
  EXPECT_EQ(run(), fmt::format("+{}@fx1", small));

  objects_ = {};
  queue("strict", "", "[" + flavor("f", 4) + "]", R"({"queueingStrategy":"StrictFIFO"})");
  start();
  const int head = add("strict", 5);
  add("strict", 1);
  EXPECT_EQ(run(), "");
  EXPECT_EQ(run(), "");
  EXPECT_TRUE(cycle_->active(head));
}

TEST_F(ExactCycle, WhoIsLikeTheOneThatFoundNothingIsNotTried) {
  queue("q", "", "[" + flavor("f", 4) + "]");
  start();
  add("q", 5);
  const int twin = add("q", 5), other = add("q", 6);
  EXPECT_EQ(run(), "");
  EXPECT_FALSE(cycle_->active(twin));
  EXPECT_TRUE(cycle_->active(other));
  const int late = add("q", 5);
  EXPECT_FALSE(cycle_->active(late)) << "and who comes later neither";
  cycle_->requeue();
  EXPECT_TRUE(cycle_->active(twin) && cycle_->active(late));
}

TEST_F(ExactCycle, VictimsGoInOrderAndAreSparedWhereItFitsWithoutThem) {
  queue("q", "", "[" + flavor("f", 6) + "]");
  start();
  const int two = add("q", 2, 1), one = add("q", 1, 2), three = add("q", 3, 3);
  EXPECT_EQ(run(), fmt::format("+{}@fx1", three));
  EXPECT_EQ(run(), fmt::format("+{}@fx1", one));
  EXPECT_EQ(run(), fmt::format("+{}@fx1", two));
  const int urgent = add("q", 3, 9);
  EXPECT_EQ(run(), fmt::format("-{}/{} -{}/{}", two, urgent, one, urgent)) << "lowest first, as few as do";
  EXPECT_EQ(run(), fmt::format("+{}@fx1", urgent)) << "it is next, before those that left";
}

TEST_F(ExactCycle, AQueueTakesBackWhatItLentAndNoMore) {
  queue("lender", "co", "[" + flavor("f", 4) + "]");
  queue("taker", "co", "[" + flavor("f", 2) + "]");
  start();
  for (int i = 0; i < 3; ++i) add("taker", 2, 5);
  EXPECT_EQ(run(), "+1@fx1");
  EXPECT_EQ(run(), "+2@fx1");
  EXPECT_EQ(run(), "+3@fx1") << "borrowed";
  const int own = add("lender", 4);
  EXPECT_EQ(run(), fmt::format("-3/{} -2/{}", own, own)) << "whatever their priority";
  EXPECT_EQ(run(), fmt::format("+{}@fx1", own));
}

TEST_F(ExactCycle, FlavorsAreTriedInOrderAndFewerPodsWhereTheyWillDo) {
  queue("q", "", "[" + flavor("spot", 2) + "," + flavor("reserved", 4) + "]");
  start();
  add("q", 3);
  EXPECT_EQ(run(), "+1@reservedx1");
  add("q", 1, 0, 4, 1);
  EXPECT_EQ(run(), "+2@spotx2") << "four would have to be on one flavor";
}

TEST_F(ExactCycle, WithFairSharingTheSmallerShareGoesFirst) {
  queue("a", "co", "[" + flavor("f", 0) + "]");
  queue("b", "co", "[" + flavor("f", 0) + "]");
  queue("lender", "co", "[" + flavor("f", 4) + "]");
  start(true);
  add("a", 2, 9);
  EXPECT_EQ(run(), "+1@fx1");
  add("a", 2, 9), add("b", 2);
  EXPECT_EQ(run(), "+3@fx1") << "b has nothing yet, whatever the priority";
}

TEST_F(ExactCycle, TwoThatClaimOneVictimDoNotBothTakeIt) {
  queue("a", "co", "[" + flavor("f", 2) + "]");
  queue("b", "co", "[" + flavor("f", 2) + "]");
  queue("taker", "co", "[" + flavor("f", 0) + "]");
  start();
  const int borrower = add("taker", 4);
  EXPECT_EQ(run(), fmt::format("+{}@fx1", borrower));
  const int first = add("a", 2), second = add("b", 2);
  EXPECT_EQ(run(), fmt::format("-{}/{}", borrower, first));
  EXPECT_TRUE(cycle_->active(second)) << "it will fit when that one is gone";
  EXPECT_EQ(run(), fmt::format("+{}@fx1 +{}@fx1", first, second));
}

TEST(ExactObjects, APodAsksForItsContainersOrItsLargestInitContainer) {
  const auto spec =
      parsed(R"({"containers":[{"resources":{"requests":{"cpu":"500m"},"limits":{"cpu":"1","memory":"1Gi"}}},
      {"resources":{"requests":{"cpu":"250m"}}}],"initContainers":[
      {"restartPolicy":"Always","resources":{"requests":{"cpu":"100m"}}},
      {"resources":{"requests":{"cpu":"2"}}}],"overhead":{"cpu":"10m"}})");
  const auto asked = pod_requests(spec);
  EXPECT_EQ(asked.at("cpu"), 2110) << "the second init container beside the sidecar, and the overhead";
  EXPECT_EQ(asked.at("memory"), std::int64_t{1} << 30) << "a limit stands for the request";
}

TEST(ExactObjects, FlavorsRefuseByTaintsAndByTheKeysTheySpeakOf) {
  Objects objects;
  objects.add_flavor(parsed(R"({"metadata":{"name":"plain"}})"));
  objects.add_flavor(parsed(R"({"metadata":{"name":"spot"},"spec":{"nodeLabels":{"type":"spot"},
      "nodeTaints":[{"key":"spot","value":"yes","effect":"NoSchedule"}]}})"));
  objects.add_flavor(parsed(R"({"metadata":{"name":"owned"},"spec":{"nodeLabels":{"type":"owned"}}})"));
  const auto refused = [&](const std::string& pod_spec) {
    const auto work = objects.work(parsed(
        R"({"metadata":{},"spec":{"podSets":[{"name":"main","count":1,"template":{"spec":)" + pod_spec + "}}]}}"));
    std::string out;
    for (const auto& refusal : work.pod_sets.at(0).refused) out += objects.flavors[refusal.flavor] + " ";
    return out;
  };
  EXPECT_EQ(refused("{}"), "spot ");
  EXPECT_EQ(refused(R"({"tolerations":[{"operator":"Exists"}]})"), "");
  EXPECT_EQ(refused(R"({"tolerations":[{"operator":"Exists"}],"nodeSelector":{"type":"spot","zone":"a"}})"), "owned ")
      << "zone says nothing to flavors that do not know it";
  EXPECT_EQ(
      refused(R"({"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
      {"matchExpressions":[{"key":"type","operator":"NotIn","values":["owned"]}]}]}}}})"),
      "spot owned ");
}

}  // namespace
}  // namespace qm::admission::exact
