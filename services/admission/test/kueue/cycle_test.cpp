// Cycles by hand: admissions, victims, and the state of pending workloads.
#include "cycle_fixture.hpp"

namespace qm::admission::kueue {
namespace cycle_test {

TEST_F(KueueCycle, OneHeadOfEachQueueByPriorityThenAge) {
  queue("a", "co", "[" + flavor("f", 4) + "]");
  queue("b", "co", "[" + flavor("f", 4) + "]");
  start();
  add("a", 1), add("a", 1, 5), add("b", 1), add("b", 1);
  EXPECT_EQ(run(), "+2@fx1 +3@fx1");
  EXPECT_EQ(run(), "+1@fx1 +4@fx1");
  EXPECT_EQ(run(), "");
}

TEST_F(KueueCycle, StrictHeadBlocksAndBestEffortDoesNot) {
  queue("loose", "", "[" + flavor("f", 4) + "]");
  start();
  const int big = add("loose", 5), small = add("loose", 1);
  EXPECT_EQ(run(), "");
  EXPECT_FALSE(cycle_->active(big)) << "no relevant change";
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

TEST_F(KueueCycle, EqualToInadmissibleWorkloadIsNotTried) {
  queue("q", "", "[" + flavor("f", 4) + "]");
  start();
  add("q", 5);
  const int twin = add("q", 5), other = add("q", 6);
  EXPECT_EQ(run(), "");
  EXPECT_FALSE(cycle_->active(twin));
  EXPECT_TRUE(cycle_->active(other));
  const int late = add("q", 5);
  EXPECT_FALSE(cycle_->active(late)) << "neither do later ones";
  cycle_->requeue();
  EXPECT_TRUE(cycle_->active(twin) && cycle_->active(late));
}

TEST_F(KueueCycle, VictimsAreOrderedAndSparedWhereUnneeded) {
  queue("q", "", "[" + flavor("f", 6) + "]");
  start();
  const int two = add("q", 2, 1), one = add("q", 1, 2), three = add("q", 3, 3);
  EXPECT_EQ(run(), fmt::format("+{}@fx1", three));
  EXPECT_EQ(run(), fmt::format("+{}@fx1", one));
  EXPECT_EQ(run(), fmt::format("+{}@fx1", two));
  const int urgent = add("q", 3, 9);
  EXPECT_EQ(run(), fmt::format("-{}/{} -{}/{}", two, urgent, one, urgent)) << "lowest first, and as few as possible";
  EXPECT_EQ(run(), fmt::format("+{}@fx1", urgent)) << "it is next, before the evicted ones";
}

TEST_F(KueueCycle, QueueReclaimsLentQuotaAndNoMore) {
  queue("lender", "co", "[" + flavor("f", 4) + "]");
  queue("taker", "co", "[" + flavor("f", 2) + "]");
  start();
  for (int i = 0; i < 3; ++i) add("taker", 2, 5);
  EXPECT_EQ(run(), "+1@fx1");
  EXPECT_EQ(run(), "+2@fx1");
  EXPECT_EQ(run(), "+3@fx1") << "borrowed";
  const int own = add("lender", 4);
  EXPECT_EQ(run(), fmt::format("-3/{} -2/{}", own, own)) << "at any priority";
  EXPECT_EQ(run(), fmt::format("+{}@fx1", own));
}

TEST_F(KueueCycle, FlavorsInOrderAndPartialAdmission) {
  queue("q", "", "[" + flavor("spot", 2) + "," + flavor("reserved", 4) + "]");
  start();
  add("q", 3);
  EXPECT_EQ(run(), "+1@reservedx1");
  add("q", 1, 0, 4, 1);
  EXPECT_EQ(run(), "+2@spotx2") << "four would have to be on one flavor";
}

TEST_F(KueueCycle, SmallerShareGoesFirstWithFairSharing) {
  queue("a", "co", "[" + flavor("f", 0) + "]");
  queue("b", "co", "[" + flavor("f", 0) + "]");
  queue("lender", "co", "[" + flavor("f", 4) + "]");
  start(true);
  add("a", 2, 9);
  EXPECT_EQ(run(), "+1@fx1");
  add("a", 2, 9), add("b", 2);
  EXPECT_EQ(run(), "+3@fx1") << "b uses nothing yet, so priority does not matter";
}

TEST_F(KueueCycle, TwoPreemptorsDoNotShareVictim) {
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

TEST(KueueObjects, PodRequestsContainersOrLargestInitContainer) {
  const auto spec =
      parsed(R"({"containers":[{"resources":{"requests":{"cpu":"500m"},"limits":{"cpu":"1","memory":"1Gi"}}},
      {"resources":{"requests":{"cpu":"250m"}}}],"initContainers":[
      {"restartPolicy":"Always","resources":{"requests":{"cpu":"100m"}}},
      {"resources":{"requests":{"cpu":"2"}}}],"overhead":{"cpu":"10m"}})");
  const auto asked = pod_requests(spec);
  EXPECT_EQ(asked.at("cpu"), 2110) << "the second init container with the sidecar, and the overhead";
  EXPECT_EQ(asked.at("memory"), std::int64_t{1} << 30) << "a limit is used as the request";
}

TEST(KueueObjects, FlavorsRefuseByTaintsAndTheirLabelKeys) {
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
      << "flavors without the label ignore zone";
  EXPECT_EQ(
      refused(R"({"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
      {"matchExpressions":[{"key":"type","operator":"NotIn","values":["owned"]}]}]}}}})"),
      "spot owned ");
}

TEST_F(KueueCycle, AdmissionRestartsFlavorScanOfNonHead) {
  const auto alone = R"({"queueingStrategy":"StrictFIFO","preemption":{"withinClusterQueue":"Never",
      "reclaimWithinCohort":"Never"}})";
  queue("strict", "co", "[" + flavor("first", 3) + "," + flavor("second", 4) + "]", alone);
  queue("borrower", "co", "[" + flavor("second", 0) + "]");
  start();
  const int borrowed = add("borrower", 1);
  EXPECT_EQ(run(), "+1@secondx1");
  // Its second pod set has to wait for borrowed quota, so the next search continues after the flavor of the first.
  const auto two_sets = [](Work& work) {
    work.pod_sets.push_back(work.pod_sets.front());
    work.pod_sets[0].each[0].second = 1000;
  };
  const int head = add("strict", 4, 0, 1, 0, two_sets);
  EXPECT_EQ(run(), "");
  EXPECT_TRUE(cycle_->work(head).scan->unfinished());
  cycle_->finish(borrowed);
  cycle_->requeue();
  add("strict", 1, 9);
  EXPECT_EQ(run(), "+3@firstx1") << "of higher priority";
  EXPECT_EQ(run(), "+2@firstx1") << "the usage of its queue changed, so the scan starts at the first flavor";
}

TEST_F(KueueCycle, ChangedQuotaRestartsFlavorScansOfTree) {
  const auto strict = R"({"queueingStrategy":"StrictFIFO","preemption":{"withinClusterQueue":"Never",
      "reclaimWithinCohort":"Never"}})";
  queue("strict", "co", "[" + flavor("first", 3) + "," + flavor("second", 4) + "]", strict);
  queue("lender", "co", "[" + flavor("second", 1) + "]");
  start();
  Scan scan;
  scan.tried = {{{*objects_.resources.find("cpu"), 0}}};
  scan.cycle = 1;
  const int head = add("strict", 2, 0, 1, 0, [&](Work& work) {
    scan.shape = work.shape;
    work.scan = scan;
  });
  k_ = 5;
  const auto [field, node] = planted_.queues.at("lender");
  const Cell second = planted_.cells.at(field).at({*objects_.flavors.find("second"), *objects_.resources.find("cpu")});
  cycle_->set_quota(node, second, {.nominal = 2000});
  EXPECT_EQ(run(), fmt::format("+{}@firstx1", head));
}

}  // namespace cycle_test
}  // namespace qm::admission::kueue
