#include "qm/model/resources.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <numeric>

namespace qm {
namespace resources_test {

TEST(GpuShape, CountsWholeSharedAndMig) {
  EXPECT_EQ((GpuShape{.whole = 8}).total_milli(), 8000);
  EXPECT_EQ((GpuShape{.milli = 250}).total_milli(), 250);
  EXPECT_EQ((GpuShape{.mig_profile = "7g.80gb", .mig_count = 1}).total_milli(), 1000);
  EXPECT_EQ((GpuShape{.mig_profile = "3g.40gb", .mig_count = 2}).total_milli(), 857);
  EXPECT_EQ((GpuShape{.mig_profile = "1c.3g.40gb", .mig_count = 1}).total_milli(), 428);
  EXPECT_EQ((GpuShape{.mig_profile = "1g.10gb+me", .mig_count = 1}).total_milli(), 142);
  EXPECT_EQ((GpuShape{.mig_profile = "1g.10gb", .mig_count = 7}).total_milli(), 1000);
  EXPECT_EQ((GpuShape{.mig_profile = "1g.10gb", .mig_count = 1}).total_milli(7), 1000);
  EXPECT_EQ((GpuShape{.whole = 2}).total_milli(3), 6000);
  EXPECT_EQ((GpuShape{.mig_profile = "odd", .mig_count = 1}).total_milli(), 1000);
  EXPECT_TRUE(GpuShape{}.none());
  EXPECT_EQ(GpuShape{}.total_milli(), 0);
}

TEST(MigShares, ThoseThatFillAGpuComeToAllOfIt) {
  using Shares = std::vector<std::int32_t>;
  const std::string one = "1g.10gb", two = "2g.20gb", three = "3g.40gb", four = "4g.40gb";
  EXPECT_EQ(mig_shares({one, one, one, one, one, one, one}), (Shares{142, 143, 143, 143, 143, 143, 143}));
  EXPECT_EQ(mig_shares({"1g.6gb", "1g.6gb", "2g.12gb"}, 4), (Shares{250, 250, 500}));
  EXPECT_EQ(mig_shares({}), Shares{});
  EXPECT_EQ(mig_shares({three, three}), (Shares{428, 429})) << "the seventh slice is in neither";
  EXPECT_EQ(mig_shares({four, four}), (Shares{571, 429})) << "never more than the GPU";
  // Every way to fill a GPU, in every order.
  std::vector<std::string> cut;
  const std::function<void(int)> fill = [&](int left) {
    if (left == 0) {
      const auto shares = mig_shares(cut);
      EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), 0), 1000);
      for (std::size_t i = 0; i < cut.size(); ++i) {
        const int exact = 1000 * compute_slices(cut[i]);
        EXPECT_LT(std::abs(shares[i] * 7 - exact), 7) << cut[i];
      }
    }
    for (const auto& profile : {one, two, three, four}) {
      if (compute_slices(profile) > left) continue;
      cut.push_back(profile);
      fill(left - compute_slices(profile));
      cut.pop_back();
    }
  };
  fill(7);
}

TEST(WorkloadSpec, AddsUpItsPodSets) {
  WorkloadSpec spec;
  spec.pod_sets = {PodSet{.name = "master", .count = 1, .shape = {.gpu = {.whole = 1}}},
                   PodSet{.name = "worker", .count = 4, .shape = {.gpu = {.whole = 8}}}};
  EXPECT_EQ(spec.total_gpu_milli(), 33'000);
  EXPECT_EQ(spec.total_pods(), 5);
}

// Each row: the toleration, and whether it covers nvidia.com/gpu=present:NoSchedule.
TEST(Tolerates, AsKubernetes) {
  const Taint taint{"nvidia.com/gpu", "present", "NoSchedule"};
  const std::vector<std::pair<Toleration, bool>> rows{
      {{"nvidia.com/gpu", "Exists", "", ""}, true},
      {{"nvidia.com/gpu", "Exists", "", "NoSchedule"}, true},
      {{"nvidia.com/gpu", "Exists", "", "NoExecute"}, false},
      {{"nvidia.com/gpu", "Equal", "present", "NoSchedule"}, true},
      {{"nvidia.com/gpu", "", "present", ""}, true},
      {{"nvidia.com/gpu", "Equal", "true", "NoSchedule"}, false},
      {{"nvidia.com/gpu", "", "", ""}, false},
      {{"", "Exists", "", ""}, true},
      {{"", "Exists", "", "NoExecute"}, false},
      {{"gpu-online", "Exists", "", ""}, false},
      {{"nvidia.com/gpu", "Sometimes", "present", ""}, false},
  };
  for (const auto& [toleration, covered] : rows) {
    EXPECT_EQ(tolerates(toleration, taint), covered)
        << toleration.key << " " << toleration.op << " " << toleration.value;
  }
}

TEST(Resources, ATaintAsText) {
  EXPECT_EQ(text_of(Taint{"gpu", "true", "NoSchedule"}), "gpu=true:NoSchedule");
  EXPECT_EQ(text_of(Taint{"gpu", "", "NoExecute"}), "gpu:NoExecute");
  EXPECT_EQ(text_of(Taint{"gpu", "true", ""}), "gpu=true:");
  EXPECT_EQ(text_of(Taint{"gpu", "", ""}), "gpu");
}

TEST(Untolerated, FindsTheFirstHardTaintThatNothingCovers) {
  const std::vector<Taint> taints{{"soft", "", "PreferNoSchedule"}, {"a", "1", "NoSchedule"}, {"b", "2", "NoExecute"}};
  const auto* first = untolerated(taints, {});
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->key, "a");
  const auto* second = untolerated(taints, {{"a", "Exists", "", ""}});
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->key, "b");
  EXPECT_EQ(untolerated(taints, {{"", "Exists", "", ""}}), nullptr);
  EXPECT_EQ(untolerated({{"soft", "", "PreferNoSchedule"}}, {}), nullptr);
}

struct SelectorRow {
  const char* text;
  Labels labels;
  bool matches;
};

TEST(LabelSelector, MatchesAsKubernetes) {
  const Labels x{{"app", "web"}, {"tier", "gold"}, {"empty", ""}};
  const std::vector<SelectorRow> rows{
      {"", x, true},
      {"app=web", x, true},
      {"app==web", x, true},
      {"app=db", x, false},
      {"app!=db", x, true},
      {"app!=web", x, false},
      {"none!=web", x, true},
      {"app in (db, web)", x, true},
      {"app in (db)", x, false},
      {"none in (db)", x, false},
      {"app notin (db)", x, true},
      {"app notin (db,web)", x, false},
      {"none notin (db)", x, true},
      {"tier", x, true},
      {"none", x, false},
      {"!none", x, true},
      {"!tier", x, false},
      {"empty=", x, true},
      {" app = web , tier in ( gold ) ,!x", x, true},
      {"app=web,tier=silver", x, false},
      {"kueue.x-k8s.io/queue-name=a", {{"kueue.x-k8s.io/queue-name", "a"}}, true},
      {"in=in", {{"in", "in"}}, true},
  };
  for (const SelectorRow& row : rows) {
    const auto parsed = LabelSelector::parse(row.text);
    ASSERT_TRUE(parsed) << parsed.error().to_string();
    EXPECT_EQ(parsed->matches(row.labels), row.matches) << row.text;
  }
}

TEST(LabelSelector, ReportsThePositionOfTheError) {
  for (const char* text : {"a=b,", ",a=b", "a=b c=d", "a in b", "a in (b", "a ! b", "a > 5", "=b", "!", "a=b;c=d"}) {
    const auto parsed = LabelSelector::parse(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, Code::kInvalid);
  }
  EXPECT_EQ(LabelSelector::parse("a in b").error().message,
            "label selector \"a in b\": expected \"(\" before the values at position 6");
}

}  // namespace resources_test
}  // namespace qm
