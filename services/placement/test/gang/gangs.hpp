#pragma once
// Random fleets and gangs, and the laws that every result must keep, checked independently.
#include "qm/placement/gang/request.hpp"

#include <gtest/gtest.h>

#include <random>

namespace qm::placement::gang::testing {

class Random {
 public:
  explicit Random(std::uint64_t seed) : generator_(seed) {}
  std::int32_t below(std::int32_t n) { return static_cast<std::int32_t>(generator_() % static_cast<std::uint64_t>(n)); }
  std::int32_t between(std::int32_t low, std::int32_t high) { return low + below(high - low + 1); }
  bool one_in(std::int32_t n) { return below(n) == 0; }

 private:
  std::mt19937_64 generator_;
};

inline const pack::Policy& best_fit() {
  static const auto policy = pack::make_policy("bestfit", {});
  return *policy;
}

/// A node with all devices free: 12 cores and 96 bytes for each GPU, and some more.
inline pack::NodeState empty_node(std::int32_t gpus) {
  pack::NodeState node;
  node.cpu_milli = 12'000 * gpus + 4'000;
  node.memory_bytes = 96 * gpus + 32;
  node.pods = 20;
  node.gpus = static_cast<std::uint8_t>(gpus);
  std::fill_n(node.free.begin(), gpus, std::uint16_t{pack::kDevice});
  return node;
}

inline pack::PodClass gpu_pod(std::int32_t gpus) {
  pack::PodClass pod;
  pod.gpus = gpus;
  pod.cpu_milli = 4'000 * std::max(1, gpus);
  return pod;
}

inline PodSet set_of(const pack::PodClass& pod, std::int32_t count) {
  PodSet set;
  set.pod = pod;
  set.count = count;
  return set;
}

struct World {
  Fleet fleet;
  std::vector<pack::NodeState> empty;
};

/// What other pods leave free on a node.
inline pack::NodeState some_use(pack::NodeState node, Random& random, bool shares) {
  if (random.one_in(4)) return node;
  auto used = random.below(node.gpus + 1);
  while (used-- > 0 && node.cpu_milli >= 4'000 && node.pods > 1) {
    pack::PodClass pod = gpu_pod(1);
    if (shares && random.one_in(3)) pod.gpu_milli = 100 * random.between(1, 9);
    if (!pack::fits(node, pod)) break;
    node = pack::with(node, pod, node.free[0]);
  }
  if (random.one_in(5)) node.cpu_milli -= node.cpu_milli / 2;
  if (random.one_in(8)) node.pods = static_cast<std::int32_t>(random.below(4));
  return node;
}

struct WorldSize {
  std::int32_t most_nodes = 64;
  bool shares = true;
};

inline World some_world(Random& random, WorldSize size) {
  const auto levels = random.between(1, 2);
  const auto nodes = random.between(3, size.most_nodes);
  World world{
      Fleet(levels == 1 ? std::vector<std::string>{"rack"} : std::vector<std::string>{"block", "rack"}, best_fit()),
      {}};
  const auto per_rack = random.between(2, std::max(2, nodes / 3)), per_block = random.between(1, 4);
  const auto gpus = std::int32_t{1} << random.between(1, size.shares ? 2 : 3);
  for (std::int32_t i = 0; i < nodes; ++i) {
    const auto rack = random.one_in(10) ? random.below(1 + nodes / per_rack) : i / per_rack;
    std::vector<std::string> path{"r" + std::to_string(rack)};
    if (levels == 2) path.insert(path.begin(), "b" + std::to_string(rack / per_block));
    world.empty.push_back(empty_node(random.one_in(5) ? gpus / 2 : gpus));
    world.empty.back().model = static_cast<std::uint8_t>(random.one_in(4) ? 1 : 0);
    const auto node = world.fleet.add(path, "n" + std::to_string(i), world.empty.back());
    world.fleet.set(node, some_use(world.empty.back(), random, size.shares));
    if (random.one_in(6)) world.fleet.set_gate(node, static_cast<std::uint8_t>(random.between(1, 2)));
  }
  return world;
}

inline PodSet some_set(Random& random, const Tree& tree, std::int32_t most_pods, bool shares) {
  PodSet set;
  const auto gpus = random.one_in(6) ? 0 : std::int32_t{1} << random.below(3);
  set.pod = gpu_pod(gpus);
  if (shares && gpus == 1 && random.one_in(2)) set.pod.gpu_milli = 100 * random.between(2, 9);
  if (random.one_in(3)) set.pod.memory_bytes = 32;
  if (random.one_in(5)) set.pod.models = static_cast<pack::Models>(random.between(1, 2));
  set.count = random.between(1, std::max(1, most_pods / std::max(1, gpus)));
  if (random.one_in(3)) {
    set.slices = {random.between(2, 4), random.between(1, tree.depth())};
    set.count += (set.slices.size - set.count % set.slices.size) % set.slices.size;
  }
  if (random.one_in(4)) set.gates = static_cast<Gates>(random.between(1, 7));
  if (random.one_in(4)) set.spread = {random.between(2, 6), random.between(1, tree.depth())};
  return set;
}

struct GangSize {
  std::int32_t sets = 1;
  std::int32_t most_pods = 60;
  bool shares = false;
  bool elastic = false;
  bool groups = false;
};

inline Request some_gang(Random& random, const Tree& tree, GangSize size) {
  Request request;
  const auto levels = [&](Group& group) {
    if (random.one_in(2)) group.required = random.between(0, tree.depth() - (random.one_in(4) ? 0 : 1));
    if (random.one_in(2)) group.preferred = random.between(0, tree.depth());
  };
  levels(request.gang);
  request.exclusive = random.one_in(6);
  for (std::int32_t i = 0; i < size.sets; ++i) {
    auto set = some_set(random, tree, i == 0 ? size.most_pods : size.most_pods / 4, size.shares);
    if (size.elastic && random.one_in(2))
      set.min_count = set.slices.size * random.between(1, set.count / set.slices.size);
    if (size.groups && i > 0 && random.one_in(2)) {
      Group child;
      levels(child);
      child.sets.push_back(set);
      request.gang.children.push_back(child);
    } else {
      request.gang.sets.push_back(set);
    }
  }
  if (request.gang.sets.size() + request.gang.children.size() > 1 && random.one_in(3)) {
    // A leader.
    if (!request.gang.sets.empty()) request.gang.sets.back().count = 1, request.gang.sets.back().min_count = 0;
    if (!request.gang.sets.empty()) request.gang.sets.back().slices = {};
  }
  return request;
}

struct FlatGroup {
  Level required, preferred;
  std::vector<std::int32_t> sets;
};

inline void flatten(const Group& group, std::vector<PodSet>& sets, std::vector<FlatGroup>& groups) {
  const auto self = groups.size();
  groups.push_back({group.required, std::max(group.required, group.preferred), {}});
  const auto first = static_cast<std::int32_t>(sets.size());
  for (const auto& set : group.sets) sets.push_back(set);
  for (const auto& child : group.children) flatten(child, sets, groups);
  for (auto i = first; i < static_cast<std::int32_t>(sets.size()); ++i) groups[self].sets.push_back(i);
}

inline std::int64_t usual_weight(const Tree& tree, Level level) {
  std::int64_t weight = 1;
  for (; level < tree.depth(); ++level) weight *= 8;
  return weight;
}

/// Checks every law for a gang that was placed.
inline void satisfies_laws(const World& world, const Request& request, const Answer& answer) {
  const Tree& tree = world.fleet.tree();
  std::vector<PodSet> sets;
  std::vector<FlatGroup> groups;
  flatten(request.gang, sets, groups);
  // Complete: every set has the ranks from 0 up to the requested number.
  std::vector<std::vector<Member>> of(sets.size());
  std::int32_t last = 0;
  for (const auto& member : answer.members) {
    ASSERT_GE(member.set, last);
    last = member.set;
    auto& own = of[static_cast<std::size_t>(member.set)];
    ASSERT_EQ(member.rank, static_cast<std::int32_t>(own.size()));
    own.push_back(member);
  }
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const auto count = static_cast<std::int32_t>(of[i].size());
    ASSERT_LE(count, sets[i].count);
    ASSERT_GE(count, sets[i].min_count > 0 ? sets[i].min_count : sets[i].count);
    ASSERT_EQ(count % sets[i].slices.size, 0);
  }
  // No capacity is exceeded, and an exclusive gang shares its nodes with no other pods.
  std::map<NodeId, pack::NodeState> states;
  for (const bool shares : {false, true}) {
    for (const auto& member : answer.members) {
      const auto& pod = sets[static_cast<std::size_t>(member.set)].pod;
      if (pod.shares() != shares) continue;
      auto& state = states.try_emplace(member.node, world.fleet.state(member.node)).first->second;
      ASSERT_TRUE(pack::fits(state, pod));
      const auto gates = sets[static_cast<std::size_t>(member.set)].gates;
      ASSERT_EQ(gates >> world.fleet.gate(member.node) & 1U, 1U) << "node " << member.node << " is behind another gate";
      state = pack::with(state, pod, shares ? member.device_milli : pack::kDevice);
      ASSERT_TRUE(!request.exclusive || world.fleet.state(member.node) == world.empty[member.node]);
    }
  }
  // Groups.
  ASSERT_EQ(answer.levels.size(), groups.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    ASSERT_GE(answer.levels[g], groups[g].required);
    std::set<Domain> domains;
    for (const auto set : groups[g].sets) {
      for (const auto& member : of[static_cast<std::size_t>(set)])
        domains.insert(tree.above({tree.depth(), member.node}, answer.levels[g]));
    }
    ASSERT_EQ(domains.size(), 1U) << "group " << g;
  }
  // Slices, spread, and consecutive ranks in each domain.
  std::set<Domain> used;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    std::map<Domain, std::int32_t> pods;
    std::set<Domain> left;
    for (std::size_t rank = 0; rank < of[i].size(); ++rank) {
      for (Level level = 1; level <= tree.depth(); ++level) {
        const Domain here = tree.above({tree.depth(), of[i][rank].node}, level);
        ++pods[here];
        used.insert(here);
        const Domain before = rank == 0 ? here : tree.above({tree.depth(), of[i][rank - 1].node}, level);
        if (before != here) {
          ASSERT_TRUE(left.insert(before).second);
          ASSERT_FALSE(left.contains(here)) << "ranks of set " << i << " come back to a domain";
        }
        const bool inside = rank % static_cast<std::size_t>(sets[i].slices.size) != 0;
        ASSERT_TRUE(level != sets[i].slices.level || !inside || before == here) << "a slice of set " << i << " is torn";
      }
    }
    for (const auto& [domain, count] : pods) {
      ASSERT_TRUE(sets[i].spread.most == 0 || domain.level != sets[i].spread.level || count <= sets[i].spread.most);
    }
  }
  std::int64_t cost = 0;
  for (const Domain domain : used) cost += usual_weight(tree, domain.level);
  ASSERT_EQ(answer.cost, cost);
}

}  // namespace qm::placement::gang::testing
