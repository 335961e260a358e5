// Volcano's rules one by one, with manually computed numbers.
#include "qm/admission/volcano/capacity.hpp"
#include "qm/admission/volcano/drf.hpp"
#include "qm/admission/volcano/enqueue.hpp"
#include "qm/admission/volcano/gang.hpp"
#include "qm/admission/volcano/proportion.hpp"

#include <gtest/gtest.h>

namespace qm::admission::volcano {
namespace rules_test {

using std::chrono::minutes;

/// A queue with one resource; all other settings have Volcano's defaults.
struct Line {
  std::string name;
  std::int32_t weight = 1;
  Resources request = {};
  Resources capability = {};
  Resources guarantee = {};
  Resources deserved = {};
  std::string parent = {};
};

Queues plant(const std::vector<Line>& lines, Resources total) {
  std::vector<Queue> list;
  for (const auto& line : lines) {
    Queue queue;
    queue.name = line.name;
    queue.parent = line.parent;
    queue.weight = line.weight;
    queue.capability = line.capability;
    queue.guarantee = line.guarantee;
    queue.deserved = line.deserved;
    list.push_back(queue);
  }
  auto out = *Queues::plant(std::move(list), std::move(total));
  for (const auto& line : lines) {
    if (!line.request.empty()) out.ask(*out.find(line.name), line.request);
  }
  return out;
}

std::vector<std::int64_t> deserved(const std::vector<Line>& lines, std::int64_t total) {
  const auto queues = plant(lines, {total});
  const Proportion rule(queues);
  std::vector<std::int64_t> out;
  for (const auto& line : lines) out.push_back(rule.deserved(*queues.find(line.name))[0]);
  return out;
}

using Gpus = std::vector<std::int64_t>;

TEST(Proportion, SharesByWeightAndRedistributesSurplus) {
  EXPECT_EQ(deserved({{"a", 50, {96}}, {"b", 100, {96}}}, 96), (Gpus{32, 64}));
  EXPECT_EQ(deserved({{"a", 50, {10}}, {"b", 100, {96}}}, 96), (Gpus{10, 86}));
  EXPECT_EQ(deserved({{"a", 50, {0}}, {"b", 100, {20}}}, 96), (Gpus{0, 20})) << "nothing is deserved without a request";
  EXPECT_EQ(deserved({{"a", 1, {9}}, {"b", 2, {90}}, {"c", 3, {90}}}, 96), (Gpus{9, 35, 52}));
}

TEST(Proportion, CapabilityLimitsAndGuaranteeOfOthersIsReserved) {
  EXPECT_EQ(deserved({{"a", 1, {96}, {20}}, {"b", 1, {96}}}, 96), (Gpus{20, 76}));
  EXPECT_EQ(deserved({{"a", 1, {0}, {}, {16}}, {"b", 1, {96}}}, 96), (Gpus{16, 80}));
  const auto queues = plant({{"a", 1, {0}, {}, {16}}, {"b", 1, {96}, {90}}}, {96});
  EXPECT_EQ(Proportion(queues).real_capability(*queues.find("b")), Resources{80});
  EXPECT_EQ(Proportion(queues).real_capability(*queues.find("a")), Resources{96});
}

TEST(Proportion, GuaranteeReducesSharesOfOthers) {
  // Volcano's first round would distribute 30 + 45 + 45 of 100.
  EXPECT_EQ(deserved({{"a", 10, {100}, {}, {30}}, {"b", 45, {100}}, {"c", 45, {100}}}, 100), (Gpus{30, 35, 35}));
  // Where the guarantees fit, the rest is distributed in addition to them: 30 + 5 · 10/55, 45 + 5 · 45/55.
  EXPECT_EQ(deserved({{"a", 10, {100}, {}, {30}}, {"b", 45, {20}}, {"c", 45, {100}}}, 100), (Gpus{31, 20, 49}));
  // Guarantees above the total: each queue gets its guarantee.
  EXPECT_EQ(deserved({{"a", 1, {9}, {}, {6}}, {"b", 1, {9}, {}, {7}}}, 10), (Gpus{6, 7}));
}

TEST(Proportion, LastUnitsGoToLargestDeficitThenByName) {
  EXPECT_EQ(deserved({{"b", 1, {9}}, {"a", 1, {9}}, {"c", 1, {9}}}, 4), (Gpus{1, 2, 1}));
  EXPECT_EQ(deserved({{"a", 50, {97}}, {"b", 100, {97}}}, 97), (Gpus{32, 65})) << "33/50 is further than 65/100";
  EXPECT_EQ(deserved({{"a", 1, {900}}, {"b", 999, {100}}}, 500), (Gpus{400, 100}))
      << "a small weight is not rounded away";
}

TEST(Proportion, OrderAndOverusedQueues) {
  auto queues = plant({{"a", 1, {10, 10}}, {"b", 1, {10, 10}}}, {10, 20});
  const auto a = *queues.find("a"), b = *queues.find("b");
  const Proportion rule(queues);
  EXPECT_TRUE(rule.before(queues, a, b)) << "equal shares: by name";
  queues.allocate(a, {1, 0});
  EXPECT_TRUE(rule.before(queues, b, a));
  EXPECT_EQ(rule.share(queues, a), (Share{1, 5}));
  EXPECT_TRUE(rule.allocatable(queues, a, {4, 10}));
  EXPECT_FALSE(rule.allocatable(queues, a, {5, 0}));
  queues.allocate(a, {6, 0});
  EXPECT_TRUE(rule.allocatable(queues, a, {0, 1})) << "only requested resources count";
  queues.allocate(a, {0, 10});
  EXPECT_TRUE(rule.may_reclaim(queues, b, {5, 1}));
  EXPECT_FALSE(rule.may_reclaim(queues, b, {6, 1}));
  EXPECT_TRUE(rule.gives(queues, a, {2, 0}, b, {1, 0}));
  EXPECT_TRUE(rule.gives(queues, a, {2, 0}, b, {80, 0})) << "others may give the rest";
  EXPECT_FALSE(rule.gives(queues, a, {0, 2}, b, {1, 0})) << "nothing in common with the need";
  queues.allocate(b, {5, 10});
  EXPECT_FALSE(rule.gives(queues, b, {1, 0}, a, {1, 0})) << "it is within its deserved amount";
}

TEST(Proportion, QueueKeepsItsGuarantee) {
  auto queues = plant({{"a", 1, {10}, {}, {6}}, {"b", 9, {10}}}, {10});
  const auto a = *queues.find("a"), b = *queues.find("b");
  const Proportion rule(queues);
  queues.allocate(a, {8});
  EXPECT_TRUE(rule.gives(queues, a, {2}, b, {1}));
  EXPECT_FALSE(rule.gives(queues, a, {3}, b, {1}));
}

TEST(Capacity, LimitsFollowFromTree) {
  const auto queues = plant({{"org", 1, {}, {80}, {20}, {60}},
                             {"a", 1, {}, {}, {10}, {30}, "org"},
                             {"b", 1, {}, {50}, {}, {70}, "org"},
                             {"c", 1, {}, {}, {6}, {2}, "org"},
                             {"free", 1}},
                            {96});
  const Capacity rule(queues);
  const auto real = [&](const char* q) { return rule.real_capability(*queues.find(q))[0]; };
  const auto due = [&](const char* q) { return rule.deserved(*queues.find(q))[0]; };
  EXPECT_EQ(real("root"), 96);
  EXPECT_EQ(real("org"), 80);
  EXPECT_EQ(real("free"), 76) << "96 minus the guarantee of org";
  EXPECT_EQ(real("a"), 74) << "80 - 16 + 10";
  EXPECT_EQ(real("b"), 50);
  EXPECT_EQ(due("a"), 30);
  EXPECT_EQ(due("b"), 50) << "clipped by the real capability";
  EXPECT_EQ(due("c"), 6) << "at least the guarantee";
}

TEST(Capacity, OrderPutsBestEffortAfterDeserving) {
  auto queues = plant({{"a", 1, {}, {}, {}, {10}}, {"b"}, {"c", 1, {}, {}, {}, {10}}}, {96});
  const auto a = *queues.find("a"), b = *queues.find("b"), c = *queues.find("c");
  const Capacity rule(queues);
  queues.allocate(a, {5});
  EXPECT_EQ(rule.share(queues, b), (Share{1, 1}));
  EXPECT_TRUE(rule.before(queues, c, a));
  EXPECT_TRUE(rule.before(queues, a, b));
  queues.allocate(a, {5});
  EXPECT_TRUE(rule.before(queues, a, b)) << "equal shares: the queue with a deserved amount goes first";
  queues.allocate(a, {1});
  EXPECT_TRUE(rule.before(queues, b, a));
  EXPECT_FALSE(rule.before(queues, a, b));
}

TEST(Capacity, PriorityComesBeforeShareAndBranchesBeforeLeaves) {
  Queue urgent;
  urgent.name = "urgent";
  urgent.priority = 1;
  auto queues = *Queues::plant({urgent, Queue{.name = "plain"}}, {8});
  EXPECT_TRUE(Capacity(queues).before(queues, *queues.find("urgent"), *queues.find("plain")));
  EXPECT_FALSE(Capacity(queues).before(queues, *queues.find("plain"), *queues.find("urgent")));

  auto tree = plant({{"x", 1, {}, {}, {}, {10}},
                     {"y", 1, {}, {}, {}, {10}},
                     {"x1", 1, {}, {}, {}, {5}, "x"},
                     {"x2", 1, {}, {}, {}, {5}, "x"},
                     {"y1", 1, {}, {}, {}, {5}, "y"}},
                    {20});
  tree.allocate(*tree.find("x2"), {4});
  tree.allocate(*tree.find("y1"), {3});
  const Capacity rule(tree);
  EXPECT_TRUE(rule.before(tree, *tree.find("y1"), *tree.find("x1"))) << "x has more than y, though x1 has nothing";
  EXPECT_TRUE(rule.before(tree, *tree.find("x1"), *tree.find("x2")));
}

TEST(Capacity, EveryLevelNeedsFreeCapacity) {
  auto queues =
      plant({{"org", 1, {}, {40, kUnlimited}}, {"a", 1, {}, {32, 256}, {}, {}, "org"}, {"b", 1, {}, {}, {}, {}, "org"}},
            {96, 1000});
  const auto a = *queues.find("a"), b = *queues.find("b");
  const Capacity rule(queues);
  queues.allocate(a, {31, 10});
  EXPECT_TRUE(rule.allocatable(queues, a, {1, 246}));
  EXPECT_FALSE(rule.allocatable(queues, a, {2, 0}));
  EXPECT_FALSE(rule.allocatable(queues, b, {10, 0})) << "org has 9 left";
  EXPECT_FALSE(rule.allocatable(queues, *queues.find("org"), {1, 1})) << "only leaves have jobs";
  EXPECT_EQ(rule.insufficient_resources(queues, a, {2, 300}), (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(rule.insufficient_resources(queues, b, {10, 5}), (std::vector<std::size_t>{0}));
}

TEST(Capacity, ClosedQueueAdmitsNothing) {
  Queue closed{.name = "a", .state = QueueState::kClosed};
  closed.deserved = {8};
  const auto queues = *Queues::plant({closed}, {8});
  const Capacity rule(queues);
  EXPECT_FALSE(rule.allocatable(queues, 1, {1}));
  EXPECT_FALSE(rule.may_reclaim(queues, 1, {1}));
  EXPECT_FALSE(Proportion(queues).may_reclaim(queues, 1, {1}));
}

TEST(Capacity, ReclaimsWithinDeservedOfOneResource) {
  auto queues = plant({{"a", 1, {}, {8, 100}, {}, {4, 10}}, {"b", 1, {}, {}, {6, 0}, {8, 0}}}, {16, 100});
  const auto a = *queues.find("a"), b = *queues.find("b");
  const Capacity rule(queues);
  EXPECT_TRUE(rule.may_reclaim(queues, a, {5, 10})) << "10 of the second are deserved";
  EXPECT_FALSE(rule.may_reclaim(queues, a, {5, 11}));
  EXPECT_FALSE(rule.may_reclaim(queues, a, {9, 1})) << "beyond its capability";

  queues.allocate(b, {9, 7});
  EXPECT_TRUE(rule.gives(queues, b, {2, 0}, a, {1, 0}));
  EXPECT_FALSE(rule.gives(queues, b, {2, 0}, a, {0, 1})) << "nothing in common with the need";
  EXPECT_FALSE(rule.gives(queues, b, {4, 0}, a, {1, 0})) << "it would have less than its guarantee";
  EXPECT_TRUE(rule.gives(queues, b, {0, 7}, a, {1, 1})) << "it deserves nothing of that";
  queues.release(b, {1, 0});
  EXPECT_FALSE(rule.gives(queues, b, {2, 0}, a, {1, 0})) << "8 are deserved";
}

TEST(Capacity, ReclaimsAcrossBranchesByAncestorLevels) {
  auto queues = plant({{"x", 1, {}, {}, {}, {8}},
                       {"y", 1, {}, {}, {}, {8}},
                       {"x1", 1, {}, {}, {}, {4}, "x"},
                       {"x2", 1, {}, {}, {}, {4}, "x"},
                       {"y1", 1, {}, {}, {}, {2}, "y"},
                       {"y2", 1, {}, {}, {}, {}, "y"},
                       {"y3", 1, {}, {}, {}, {}, "y"}},
                      {16});
  const auto id = [&](const char* name) { return *queues.find(name); };
  const Capacity flat(queues), deep(queues, 1);
  queues.allocate(id("x1"), {6});
  queues.allocate(id("y2"), {5});
  EXPECT_FALSE(flat.may_reclaim(queues, id("y2"), {2})) << "it deserves nothing itself";
  EXPECT_TRUE(deep.may_reclaim(queues, id("y2"), {2})) << "y has 5 of 8";
  EXPECT_FALSE(deep.may_reclaim(queues, id("y2"), {4}));
  EXPECT_TRUE(flat.gives(queues, id("x1"), {2}, id("y1"), {2}));
  EXPECT_FALSE(deep.gives(queues, id("x1"), {2}, id("y1"), {2})) << "x has 6 of 8";
  EXPECT_TRUE(deep.gives(queues, id("x1"), {2}, id("x2"), {2})) << "below one ancestor only the leaf counts";
  queues.allocate(id("x2"), {3});
  EXPECT_TRUE(deep.gives(queues, id("x1"), {2}, id("y1"), {2})) << "x has 9 of 8";
  EXPECT_TRUE(flat.gives(queues, id("y2"), {1}, id("y3"), {1}));
  EXPECT_FALSE(deep.gives(queues, id("y2"), {1}, id("y3"), {1})) << "neither deserves anything";
}

TEST(Drf, VictimsJobKeepsLargerShare) {
  const Resources total{100, 100};
  EXPECT_TRUE(drf::gives({20, 5}, {10, 0}, {0, 0}, {10, 10}, total));
  EXPECT_FALSE(drf::gives({20, 5}, {11, 0}, {0, 0}, {10, 10}, total));
  EXPECT_FALSE(drf::gives({20, 5}, {10, 0}, {0, 5}, {10, 10}, total)) << "its dominant resource is the second";
}

TEST(Hdrf, ComparesAtFirstDifferingLevel) {
  auto queues = plant({{"eng", 2}, {"sci", 1}, {"dev", 1, {}, {}, {}, {}, "eng"}, {"prod", 1, {}, {}, {}, {}, "eng"}},
                      {100, 100});
  const auto id = [&](const char* name) { return *queues.find(name); };
  const Hdrf hdrf(queues,
                  {{id("dev"), {20, 0}, {50, 0}}, {id("prod"), {0, 10}, {0, 50}}, {id("sci"), {8, 0}, {50, 0}}});
  EXPECT_EQ(hdrf.share(id("dev")), 200'000'000);
  EXPECT_EQ(hdrf.share(id("eng")), 100'000'000) << "dev is scaled down to prod's share";
  EXPECT_EQ(hdrf.share(id("sci")), 80'000'000);
  EXPECT_TRUE(hdrf.before(id("dev"), id("sci"))) << "0.1 / 2 is less than 0.08 / 1";
  EXPECT_TRUE(hdrf.before(id("prod"), id("dev")));
  EXPECT_FALSE(hdrf.before(id("dev"), id("prod")));
}

TEST(Hdrf, SaturatedQueuesComeLastAndEqualOnesByNumber) {
  auto queues = plant({{"a"}, {"b"}, {"c"}}, {10, 10});
  const auto id = [&](const char* name) { return *queues.find(name); };
  const Hdrf hdrf(queues, {{id("a"), {2, 0}, {2, 0}}, {id("b"), {8, 0}, {9, 0}}, {id("c"), {0, 3}, {0, 9}}});
  EXPECT_TRUE(hdrf.saturated(id("a"))) << "it has all it requests";
  EXPECT_TRUE(hdrf.saturated(id("b"))) << "the first resource is used up";
  EXPECT_FALSE(hdrf.saturated(id("c")));
  EXPECT_TRUE(hdrf.before(id("c"), id("a")));
  EXPECT_FALSE(hdrf.before(id("a"), id("c")));
  EXPECT_TRUE(hdrf.before(id("a"), id("b")));
  const Hdrf full(queues, {{id("a"), {1, 0}, {1, 0}}, {id("a"), {0, 4}, {0, 9}}});
  EXPECT_EQ(full.share(id("a")), 400'000'000) << "a queue without demand does not scale others down";
  const Hdrf idle(queues, {});
  EXPECT_TRUE(idle.before(id("a"), id("b")));
  EXPECT_FALSE(idle.before(id("b"), id("a")));
}

TEST(Gang, IsValidAndReadyWithMinimumOfPods) {
  const Gang gang{5, {{"master", 1}, {"worker", 3}}, {}};
  EXPECT_EQ(gang.lacks({{"worker", 9}}), Gang::Lack::kPodsOfTask);
  EXPECT_EQ(gang.lacks({{"master", 1}, {"worker", 3}}), Gang::Lack::kTasks);
  EXPECT_EQ(gang.lacks({{"master", 1}, {"worker", 4}}), Gang::Lack::kNone);
  EXPECT_FALSE(gang.ready({{"master", 1}, {"worker", 3}}));
  const Gang loose{2, {{"master", 1}, {"worker", 3}}, {}};
  EXPECT_TRUE(loose.ready({{"worker", 2}})) << "minima of tasks beyond min_member do not count";
}

TEST(Gang, OnlyPodsAboveMinimumArePreempted) {
  const Gang gang{5, {{"master", 1}, {"worker", 3}}, {}};
  EXPECT_EQ(gang.spare({{"master", 1}, {"worker", 8}}, "worker"), 4);
  EXPECT_EQ(gang.spare({{"master", 1}, {"worker", 8}}, "master"), 0) << "the only master stays";
  EXPECT_EQ(gang.spare({{"master", 1}, {"worker", 4}}, "worker"), 0);
  EXPECT_EQ(gang.spare({{"master", 1}}, "worker"), 0);
  EXPECT_EQ((Gang{2, {}, {}}.spare({{"worker", 3}}, "worker")), 1);
}

TEST(Gang, NeedsMinResourcesIdle) {
  const Gang gang{8, {}, {8, 64'000}};
  EXPECT_EQ(gang.short_of({8, 63'000}), (std::vector<std::size_t>{1}));
  EXPECT_TRUE(gang.short_of({8, 64'000}).empty());
  EXPECT_TRUE((Gang{8, {}, {}}.short_of({0, 0}).empty()));
}

TEST(Sla, AdmitsAfterWaitingTime) {
  const Instant start = from_micros(0);
  const Sla rule{minutes(10)};
  EXPECT_EQ(rule.deadline({start, {}}), start + minutes(10));
  EXPECT_EQ(rule.deadline({start, minutes(3)}), start + minutes(3)) << "its own time counts first";
  EXPECT_EQ(Sla{}.deadline({start, {}}), std::nullopt) << "no time, no limit";
  EXPECT_TRUE(rule.before({start, {}}, {start + minutes(1), {}}));
  EXPECT_FALSE(rule.before({start, {}}, {start + minutes(1), minutes(1)}));
  EXPECT_TRUE((Sla{}.before({start + minutes(9), minutes(1)}, {start, {}}))) << "a job with a waiting time goes first";
  EXPECT_FALSE((Sla{}.before({start, {}}, {start + minutes(9), minutes(1)})));
}

TEST(Sla, ReservesIdleResources) {
  const std::vector<Resources> overdue{{5, 0}, {4, 2}};
  EXPECT_EQ(Sla::keep({12, 3}, overdue), (Resources{3, 1}));
  EXPECT_EQ(Sla::keep({6, 3}, overdue), (Resources{0, 1}));
}

}  // namespace rules_test
}  // namespace qm::admission::volcano
