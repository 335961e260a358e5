// The admission result of the kubelet's Topology Manager for a pod, and the placement that follows from it.
#include "qm/placement/numa.hpp"

#include "script.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace qm::placement {
namespace numa_test {

using testing::node_facts;
using testing::pod_set;

/// Two sockets of four GPUs and 56 CPUs each.
NodeFacts two_sockets(TopologyPolicy policy) {
  auto facts = node_facts(8);
  facts.cpu_milli = 112'000;
  facts.numa = {policy, {{56'000, 0, {0, 1, 2, 3}}, {56'000, 0, {4, 5, 6, 7}}}};
  return facts;
}

struct Site {
  std::map<NodeName, NodeFacts> facts;
  FreeCapacity free_capacity;
  Preference preference;

  NodeCapacity& add(const std::string& name, NodeFacts made, const std::vector<std::int32_t>& taken = {}) {
    NodeCapacity capacity;
    capacity.facts = &(facts[NodeName(name)] = std::move(made));
    capacity.usable = true;
    capacity.cpu_milli = capacity.facts->cpu_milli;
    capacity.memory_bytes = capacity.facts->memory_bytes;
    capacity.free_milli.assign(static_cast<std::size_t>(capacity.facts->gpus), 1000);
    for (const auto gpu : taken) capacity.free_milli[static_cast<std::size_t>(gpu)] = 0;
    for (const auto& zone : capacity.facts->numa.zones) capacity.zones.push_back({zone.cpu_milli, zone.memory_bytes});
    return free_capacity[NodeName(name)] = capacity;
  }
  /// "a 0 1 2 3" for each pod, or the reason.
  std::string place(const PodSet& set) {
    preference.prepare(free_capacity);
    FreeCapacity then = free_capacity;
    const auto placed = place_gang({set}, then, preference);
    if (!placed.plan) return placed.shortfall.reason;
    std::string out;
    for (const auto& member : placed.plan->members) {
      out += (out.empty() ? "" : "; ") + member.node.value();
      for (const auto& device : member.devices) out += fmt::format(" {}", device.index);
    }
    return out;
  }
};

PodSet gpus_and_cpus(std::int32_t pods, std::int64_t gpus, std::int64_t cpus) {
  auto set = pod_set(pods, gpus);
  set.shape.cpu_milli = 1000 * cpus;
  return set;
}

// S-064: four GPUs come from one socket if it has them; if each socket has two left, the policy decides.
TEST(Numa, FourGpusComeFromOneSocket) {
  for (const auto policy : {TopologyPolicy::kNone, TopologyPolicy::kBestEffort, TopologyPolicy::kRestricted,
                            TopologyPolicy::kSingleNumaNode}) {
    Site site;
    site.add("a", two_sockets(policy));
    EXPECT_EQ(site.place(pod_set(1, 4)), "a 0 1 2 3") << name_of(policy);
    site.free_capacity.clear();
    site.add("a", two_sockets(policy), {0});
    EXPECT_EQ(site.place(pod_set(1, 4)), "a 4 5 6 7")
        << name_of(policy) << ": close ones even if the kubelet requires none";
    site.free_capacity.clear();
    site.add("a", two_sockets(policy), {0, 1, 4, 5});
    const bool strict = policy == TopologyPolicy::kSingleNumaNode || policy == TopologyPolicy::kRestricted;
    const auto answer = site.place(pod_set(1, 4));
    if (!strict) {
      EXPECT_EQ(answer, "a 2 3 6 7") << name_of(policy);
      continue;
    }
    EXPECT_NE(answer.find("numa-gpu"), std::string::npos) << answer;
    site.add("b", two_sockets(policy), {0});
    EXPECT_EQ(site.place(pod_set(1, 4)), "b 4 5 6 7") << name_of(policy);
  }
}

// S-066: GPUs, CPUs and memory come from one NUMA node, or the pod is placed on another node.
TEST(Numa, SixtyCpusDoNotFitASocketOf56) {
  Site site;
  site.add("a", two_sockets(TopologyPolicy::kSingleNumaNode));
  const auto answer = site.place(gpus_and_cpus(1, 4, 60));
  EXPECT_NE(answer.find("1 numa-cpu: no single NUMA node fits a pod"), std::string::npos) << answer;
  EXPECT_EQ(site.place(gpus_and_cpus(1, 4, 56)), "a 0 1 2 3");
  // Fractional CPUs come from the shared pool of all zones.
  auto parts = gpus_and_cpus(1, 4, 60);
  parts.shape.cpu_milli += 1;
  EXPECT_EQ(site.place(parts), "a 0 1 2 3");
  site.free_capacity.clear();
  auto facts = two_sockets(TopologyPolicy::kSingleNumaNode);
  for (auto& zone : facts.numa.zones) zone.memory_bytes = std::int64_t{64} << 30;
  site.add("a", facts);
  auto large = gpus_and_cpus(1, 1, 1);
  large.shape.memory_bytes = std::int64_t{65} << 30;
  const auto why = site.place(large);
  EXPECT_NE(why.find("numa-memory"), std::string::npos) << why;
}

TEST(Numa, RestrictedUsesTwoNumaNodesIfNecessary) {
  Site site;
  site.add("a", two_sockets(TopologyPolicy::kRestricted));
  EXPECT_EQ(site.place(gpus_and_cpus(1, 8, 112)), "a 0 1 2 3 4 5 6 7");
  EXPECT_EQ(site.place(gpus_and_cpus(1, 6, 100)).substr(0, 1), "a");
  // Four GPUs prefer one NUMA node, sixty CPUs two: the hints never agree.
  EXPECT_NE(site.place(gpus_and_cpus(1, 4, 60)).find("numa-cpu"), std::string::npos);
  EXPECT_EQ(site.place(gpus_and_cpus(2, 4, 56)), "a 0 1 2 3; a 4 5 6 7");
}

// S-070: without a policy zones have no effect; and one GPU is on one NUMA node in any case.
TEST(Numa, WithoutPolicyZonesAreIgnored) {
  Site site;
  site.add("a", two_sockets(TopologyPolicy::kNone), {0, 1, 4, 5});
  EXPECT_EQ(site.place(gpus_and_cpus(1, 4, 100)), "a 2 3 6 7");
  EXPECT_EQ(site.place(pod_set(1, 1)), "a 2");
  Site aligned;
  aligned.add("a", two_sockets(TopologyPolicy::kBestEffort), {0, 1, 4, 5});
  EXPECT_EQ(aligned.place(pod_set(1, 1)), site.place(pod_set(1, 1)));
}

// S-071: best-effort prefers one NUMA node, and admits the pod without it.
TEST(Numa, BestEffortPrefersAlignment) {
  Site site;
  site.add("a", two_sockets(TopologyPolicy::kBestEffort), {0});
  EXPECT_EQ(site.place(gpus_and_cpus(1, 4, 50)), "a 4 5 6 7");
  EXPECT_EQ(site.place(gpus_and_cpus(1, 4, 60)), "a 4 5 6 7") << "the CPUs are not of one node, the GPUs are";
  EXPECT_EQ(site.place(gpus_and_cpus(1, 5, 1)), "a 1 4 5 6 7") << "five are of two";
  EXPECT_EQ(site.place(gpus_and_cpus(2, 3, 56)), "a 1 2 3; a 4 5 6");
}

// In any order of pods, a pod that fits is placed where the kubelet admits it: under a strict
// policy each pod on zones with its GPUs and CPUs.
TEST(NumaLaws, CountMatchesOneByOnePlacement) {
  int some = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto upto = [&](int n) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
    auto facts = node_facts(8);
    facts.numa.policy = upto(2) == 0 ? TopologyPolicy::kRestricted : TopologyPolicy::kSingleNumaNode;
    const auto zones = 1 + upto(4);
    for (std::int64_t i = 0; i < zones; ++i) facts.numa.zones.push_back({1000 * (4 + upto(20)), 0, {}});
    for (std::int32_t gpu = 0; gpu < 8; ++gpu)
      facts.numa.zones[static_cast<std::size_t>(upto(static_cast<int>(zones)))].gpus.push_back(gpu);
    Site site;
    NodeCapacity capacity = site.add("a", facts);
    for (auto& free : capacity.free_milli) free = upto(4) == 0 ? 0 : 1000;
    capacity.cpu_milli = 0;
    for (const auto& zone : capacity.zones) capacity.cpu_milli += zone.cpu_milli;
    auto shape = pod_set(1, upto(4)).shape;
    shape.cpu_milli = 1000 * (1 + upto(8));
    const auto counted = pods_that_fit(capacity, shape);
    std::int64_t taken = 0;
    for (; pods_that_fit(capacity, shape) > 0; ++taken) {
      const auto mask = align(capacity, shape);
      ASSERT_TRUE(mask);
      const NodeCapacity before = capacity;
      const auto devices = take(capacity, NodeName("a"), shape);
      ASSERT_EQ(std::ssize(devices), shape.gpu.whole);
      std::int64_t cpu = 0;
      for (std::size_t i = 0; i < capacity.zones.size(); ++i) {
        ASSERT_GE(capacity.zones[i].cpu_milli, 0);
        cpu += before.zones[i].cpu_milli - capacity.zones[i].cpu_milli;
        const auto& gpus = capacity.facts->numa.zones[i].gpus;
        if ((*mask >> i & 1U) != 0) continue;
        ASSERT_EQ(before.zones[i].cpu_milli, capacity.zones[i].cpu_milli) << "CPUs of a zone that is not the pod's";
        for (const auto& device : devices) ASSERT_EQ(std::ranges::count(gpus, device.index), 0);
      }
      ASSERT_EQ(cpu, shape.cpu_milli);
    }
    ASSERT_EQ(counted, taken);
    some += taken > 0 ? 1 : 0;
    if (taken == 0) continue;
    ASSERT_EQ(refused_by_zones(capacity, shape).empty(), pods_that_align(capacity, shape, 1) > 0);
  }
  EXPECT_GT(some, 1000);
}

}  // namespace numa_test
}  // namespace qm::placement
