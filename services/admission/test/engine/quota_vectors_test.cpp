// The quota tree against quota trees recorded from Kueue: what is available and potentially available at each queue.
#include "qm/admission/quota.hpp"
#include "qm/base/json.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

namespace qm::admission {
namespace {

std::int64_t amount(const Json& v) { return v.is_string() ? kUnlimited : v.integer(); }

FlavorResource at(const std::string& text) {
  const auto slash = text.find('/');
  return {FlavorName(text.substr(0, slash)), text.substr(slash + 1)};
}

std::vector<ResourceGroup> groups(const Json& quotas) {
  ResourceGroup group;
  for (const auto& [key, q] : quotas.members()) {
    Quota quota{amount(q["nominal"]), {}, {}};
    if (q.contains("borrowingLimit")) quota.borrowing_limit = amount(q["borrowingLimit"]);
    if (q.contains("lendingLimit")) quota.lending_limit = amount(q["lendingLimit"]);
    group.flavors.push_back({at(key).flavor, {{at(key).resource, quota}}});
  }
  return {group};
}

// Builds the tree of one recorded case, applies the usage that it names, and compares every figure that it holds.
int compare(const Json& tree, const Json& objects, const std::string& name) {
  std::map<std::string, Cohort> cohorts;
  for (const auto& [cohort, state] : tree["cohorts"].members()) {
    cohorts[cohort] = {cohort, "", groups(state["quotas"]), ""};
  }
  for (const auto& object : objects.items()) {
    const auto& cohort = object.path("metadata.name").string();
    if (cohorts.contains(cohort)) {
      cohorts[cohort].parent = object.path("spec.parentName").string();
    }
  }
  std::map<QueueName, ClusterQueue> queues;
  for (const auto& [queue, state] : tree["clusterQueues"].members()) {
    auto& q = queues[QueueName(queue)];
    q.name = QueueName(queue);
    q.cohort = state["cohort"].string();
    q.groups = groups(state["quotas"]);
  }
  QuotaTree ours;
  ours.build(queues, cohorts);
  for (const auto& [queue, state] : tree["clusterQueues"].members()) {
    Usage usage;
    for (const auto& [key, used] : state["usage"].members()) usage[at(key)] = amount(used);
    ours.add(QueueName(queue), usage);
  }
  int figures = 0;
  for (const auto& [queue, state] : tree["clusterQueues"].members()) {
    for (const auto& [key, expected] : state["available"].members()) {
      EXPECT_EQ(ours.available(QueueName(queue), at(key)), amount(expected))
          << name << ": available of " << queue << " " << key;
      ++figures;
    }
    for (const auto& [key, expected] : state["potentialAvailable"].members()) {
      EXPECT_EQ(ours.potential(QueueName(queue), at(key)), amount(expected))
          << name << ": potential of " << queue << " " << key;
      ++figures;
    }
  }
  return figures;
}

TEST(AdmissionQuota, AgreesWithRecordedTrees) {
  const auto shared = qm::testing::shared_dir();
  if (!shared) GTEST_SKIP() << qm::testing::no_shared();
  int figures = 0;
  for (const char* file : {"quota.json", "preemption.json", "cycle.json"}) {
    const auto cases = Json::parse(qm::testing::read_file(*shared + "/vectors/kueue/" + file));
    ASSERT_TRUE(cases) << cases.error().to_string();
    for (const auto& c : cases->items()) {
      const auto& cohorts = c["input"]["cohorts"];
      const std::string name = c["test"].string() + "/" + c["name"].string();
      for (const auto* tree : {&c["derived"]["quotaTreeBefore"], &c["observed"]["quotaTreeAfterUsage"],
                               &c["observed"]["quotaTreeAfter"]}) {
        if (tree->is_object()) figures += compare(*tree, cohorts, name);
      }
    }
  }
  EXPECT_GT(figures, 500);
  RecordProperty("figures", figures);
}

TEST(AdmissionQuota, ChangesAreTakenBackExactly) {
  std::map<QueueName, ClusterQueue> queues;
  for (const char* name : {"a", "b"}) {
    auto& q = queues[QueueName(name)];
    q.name = QueueName(name);
    q.cohort = "pool";
    q.groups = {{{"cpu"}, {{FlavorName("f"), {{"cpu", Quota{10, 5, 4}}}}}}};
  }
  QuotaTree tree;
  tree.build(queues, {});
  const QuotaTree fresh = tree;
  const FlavorResource cpu{FlavorName("f"), "cpu"};
  tree.add(QueueName("a"), {{cpu, 12}});
  EXPECT_EQ(tree.available(QueueName("a"), cpu), 2);  // lent: 4 of b, of which 2 are taken
  EXPECT_EQ(tree.available(QueueName("b"), cpu), 8);  // 6 that it never lends, 2 left in the pool
  EXPECT_TRUE(tree.borrows(QueueName("a"), {{cpu, 0}}));
  tree.remove(QueueName("a"), {{cpu, 12}});
  EXPECT_TRUE(tree == fresh);
}

TEST(AdmissionQuota, AmountsForPeople) {
  EXPECT_EQ(show_amount("cpu", 1500), "1.5");
  EXPECT_EQ(show_amount("nvidia.com/gpu", 8000), "8");
  EXPECT_EQ(show_amount("nvidia.com/gpu", -250), "-0.25");
  EXPECT_EQ(show_amount("memory", std::int64_t{16} << 30), "16Gi");
  EXPECT_EQ(show_amount("memory", 1000), "1000");
  EXPECT_EQ(show_amount("pods", 3), "3");
  EXPECT_EQ(show_amount("pods", kUnlimited), "unlimited");
}

}  // namespace
}  // namespace qm::admission
