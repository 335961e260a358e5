// Gangs that compete for a fleet too small for all of them, on fleets and in orders from a thousand seeds.
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace qm::placement::testing {
namespace gang_prop_test {

using Random = std::mt19937_64;

int between(Random& random, int low, int high) { return std::uniform_int_distribution(low, high)(random); }

WorkloadUpdated wants(const std::string& uid, std::vector<PodSet> pod_sets) {
  WorkloadUpdated latest;
  latest.spec.uid = WorkloadUid(uid);
  latest.spec.name = uid;
  latest.spec.pod_sets = std::move(pod_sets);
  latest.attempt = 1;
  latest.phase = WorkloadPhase::kQuotaReserved;
  return latest;
}

/// A fleet of a number of GPUs in nodes of one to eight, and the lists that complete it.
std::vector<Command> fleet(Random& random, int gpus) {
  std::vector<Command> out;
  NodesSynced all;
  for (int n = 0; gpus > 0; ++n) {
    const int size = std::min(gpus, between(random, 1, 8));
    const NodeName name(fmt::format("n{}", n));
    out.emplace_back(NodeUpdated{name, node_facts(size)});
    all.nodes.insert(name);
    gpus -= size;
  }
  std::ranges::shuffle(out, random);
  out.emplace_back(all);
  out.emplace_back(PodsSynced{});
  return out;
}

std::size_t live_members(const Engine& engine, const std::string& uid) {
  const Assignment* row = engine.tables().assignments.find(attempt_id(uid + "/1"));
  if (row == nullptr) return 0;
  return static_cast<std::size_t>(std::ranges::count_if(row->members, [](const Member& m) { return m.live(); }));
}

// S-075: two gangs of eight and twelve GPUs: always exactly one is placed, and never a part of one.
TEST(GangRace, OneOfTwoGangsRunsWhole) {
  int first = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    Random random(seed);
    Script script;
    std::vector<Command> commands = fleet(random, 12);
    for (const char* uid : {"a", "b"}) {
      const auto at = static_cast<std::ptrdiff_t>(between(random, 0, static_cast<int>(commands.size())));
      commands.insert(commands.begin() + at, wants(uid, {pod_set(8, 1)}));
    }
    for (std::size_t i = 0; i < commands.size();) {
      const auto n = std::min(commands.size() - i, static_cast<std::size_t>(between(random, 1, 4)));
      (void)script.step(
          {commands.begin() + static_cast<std::ptrdiff_t>(i), commands.begin() + static_cast<std::ptrdiff_t>(i + n)});
      i += n;
      for (const char* uid : {"a", "b"}) {
        const auto live = live_members(script.engine(), uid);
        ASSERT_TRUE(live == 0 || live == 8) << "seed " << seed << ": " << live << " pods of " << uid;
      }
    }
    const bool a = live_members(script.engine(), "a") == 8, b = live_members(script.engine(), "b") == 8;
    ASSERT_NE(a, b) << "seed " << seed;
    first += a ? 1 : 0;
  }
  EXPECT_GT(first, 0);
  EXPECT_LT(first, 1000);
}

// S-377: a pod that needs no GPU and does not tolerate the taint is never placed on a GPU node,
// however full the others are.
TEST(GpuTaint, KeepsOtherPodsOffGpuNodes) {
  std::size_t placed = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    Random random(seed);
    Script script;
    std::vector<Command> batch;
    NodesSynced all;
    std::set<NodeName> with_gpus;
    for (int n = 0; n < 6; ++n) {
      const NodeName name(fmt::format("n{}", n));
      auto facts = node_facts(between(random, 0, 1) == 0 ? 0 : 8);
      facts.cpu_milli = 1000 * between(random, 1, 8);
      if (facts.gpus > 0) {
        facts.taints = {{"nvidia.com/gpu", between(random, 0, 1) == 0 ? "present" : "true", "NoSchedule"}};
        with_gpus.insert(name);
      }
      batch.emplace_back(NodeUpdated{name, facts});
      all.nodes.insert(name);
    }
    batch.emplace_back(all);
    batch.emplace_back(PodsSynced{});
    (void)script.step(batch);
    for (int w = 0; w < 5; ++w) {
      PodSet set = pod_set(between(random, 1, 4), 0);
      set.shape.cpu_milli = 1000 * between(random, 1, 3);
      (void)script.step({wants(fmt::format("w{}", w), {set})});
    }
    for (const auto& [id, row] : script.engine().tables().assignments) {
      for (const auto& member : row.members) {
        ++placed;
        ASSERT_FALSE(with_gpus.contains(member.node))
            << "seed " << seed << ": " << id.to_string() << " on " << member.node;
      }
    }
  }
  EXPECT_GT(placed, 1000U);
}

}  // namespace gang_prop_test
}  // namespace qm::placement::testing
