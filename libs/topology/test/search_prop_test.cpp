// Random clusters and gangs: every placement satisfies the request, and a required level fails only
// if no domain of it has enough capacity.
#include "world.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace qm::topology {
namespace search_prop_test {

class Random {
 public:
  explicit Random(std::uint64_t seed) : generator_(seed) {}
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(generator_() % static_cast<std::uint64_t>(n)); }
  bool coin() { return below(2) == 0; }

 private:
  std::mt19937_64 generator_;
};

struct Asked {
  PodSetRequest workers;
  std::optional<PodSetRequest> leader;
  int level = 0;        ///< of required
  Pods slice = 1;       ///< pods of a slice
  int slice_level = 2;  ///< in one domain of it
  Pods inner = 1;       ///< pods of a slice inside a slice, on one host
};

std::string cluster(Random& random) {
  std::string out;
  int host = 0;
  for (int block = 0, blocks = 1 + static_cast<int>(random.below(3)); block < blocks; ++block) {
    for (int rack = 0, racks = 1 + static_cast<int>(random.below(3)); rack < racks; ++rack) {
      for (int i = 0, hosts = 1 + static_cast<int>(random.below(4)); i < hosts; ++i) {
        out += fmt::format("b{} r{} x{} cpu={} gpu={}\n", block, rack, host++, random.below(9), random.below(5));
      }
    }
  }
  return out;
}

Asked asked(Random& random, World& world) {
  Asked out;
  const auto each = random.coin() ? "cpu=1" : random.coin() ? "cpu=2" : "cpu=1 gpu=1";
  std::vector<SliceLayer> slices;
  out.level = static_cast<int>(random.below(3));
  if (random.coin()) {
    out.slice = 1 + random.below(3);
    out.slice_level = out.level + static_cast<int>(random.below(3 - out.level));
    slices = {{kThree[static_cast<std::size_t>(out.slice_level)], out.slice}};
    if (out.slice_level < 2 && random.coin()) {
      slices[0].size = out.slice = 4;
      out.inner = 2;
      slices.push_back({kHost, out.inner});
    }
  }
  const Pods pods = out.slice * (1 + random.below(8));
  const auto& key = kThree[static_cast<std::size_t>(out.level)];
  switch (random.below(3)) {
    case 0:
      out.workers = world.pods(pods, required(key, slices), each);
      break;
    case 1:
      out.workers = world.pods(pods, preferred(key, slices), each);
      break;
    default:
      out.workers = world.pods(pods, slices.empty() ? unconstrained() : slices_only(slices), each);
  }
  const auto leader = random.coin() ? "cpu=1" : random.coin() ? "cpu=3" : "cpu=1 gpu=2";
  if (random.below(3) == 0) out.leader = world.pods(1, out.workers.topology, leader);
  return out;
}

void check(const Topology& topology, const Asked& asked, const GangPlacement& found) {
  const Tree& tree = topology.tree();
  ASSERT_EQ(pods_of(found.workers), asked.workers.count);
  ASSERT_EQ(pods_of(found.leader), asked.leader ? 1 : 0);
  AssumedUsage usage;
  assume(usage, found.workers, asked.workers.per_pod);
  if (asked.leader) assume(usage, found.leader, asked.leader->per_pod);
  for (const auto& [leaf, taken] : usage) {
    for (const Amount& a : taken) {
      ASSERT_LE(a.amount, topology.free(leaf)[static_cast<std::size_t>(a.resource)]) << tree.value(leaf);
    }
  }
  std::map<DomainId, Pods> slices;
  std::set<DomainId> domains;
  for (const auto& [leaf, pods] : found.workers) {
    ASSERT_GT(pods, 0);
    slices[tree.ancestor(leaf, asked.slice_level)] += pods;
    ASSERT_EQ(pods % asked.inner, 0) << tree.value(leaf);
    domains.insert(tree.ancestor(leaf, asked.level));
  }
  for (const auto& [leaf, pods] : found.leader) domains.insert(tree.ancestor(leaf, asked.level));
  for (const auto& [domain, pods] : slices) ASSERT_EQ(pods % asked.slice, 0) << tree.value(domain);
  if (asked.workers.topology->required) {
    ASSERT_EQ(domains.size(), 1U);
  }
}

/// Whether one domain of the level fits all slices, of pods without a leader, by direct counting.
bool has_capacity(const Topology& topology, const Asked& asked) {
  const Tree& tree = topology.tree();
  std::map<DomainId, Pods> by_slice;
  const Requests worker = usage_of(asked.workers.per_pod, 1);
  for (DomainId leaf = tree.leaves().begin; leaf < tree.leaves().end; ++leaf) {
    const Pods pods = pods_in(worker, topology.free(leaf));
    by_slice[tree.ancestor(leaf, asked.slice_level)] += pods - pods % asked.inner;
  }
  std::map<DomainId, Pods> by_level;
  for (const auto& [domain, pods] : by_slice) by_level[tree.ancestor(domain, asked.level)] += pods / asked.slice;
  return std::ranges::any_of(by_level, [&](const auto& d) { return d.second >= asked.workers.count / asked.slice; });
}

TEST(SearchProperties, WhatIsPlacedKeepsToWhatWasAskedFor) {
  int placed = 0, refused = 0;
  for (std::uint64_t seed = 1; seed <= 4000; ++seed) {
    Random random(seed);
    const Gates gates{.profile_mixed = random.coin(), .balanced = random.coin()};
    World world(kThree, cluster(random), gates);
    for (int i = 0; i < 4; ++i) {
      const Asked one = asked(random, world);
      const auto found = world.search().place(one.workers, one.leader ? &*one.leader : nullptr, {});
      const bool again = world.search().place(one.workers, one.leader ? &*one.leader : nullptr, {}).has_value();
      ASSERT_EQ(found.has_value(), again) << "seed " << seed;
      if (one.workers.topology->required && !one.leader) {
        ASSERT_EQ(found.has_value(), has_capacity(world.topology(), one)) << "seed " << seed;
      }
      if (!found) {
        ++refused;
        continue;
      }
      ++placed;
      ASSERT_NO_FATAL_FAILURE(check(world.topology(), one, *found)) << "seed " << seed;
      for (const auto& [leaf, pods] : found->workers) world.topology().take(leaf, usage_of(one.workers.per_pod, pods));
      for (const auto& [leaf, pods] : found->leader) world.topology().take(leaf, usage_of(one.leader->per_pod, pods));
    }
  }
  EXPECT_GT(placed, 4000);
  EXPECT_GT(refused, 2000);
}

}  // namespace search_prop_test
}  // namespace qm::topology
