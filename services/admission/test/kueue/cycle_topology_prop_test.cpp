// Laws of cycles where flavors have nodes, over random streams of events: usage of nodes is that of the admitted
// workloads and never exceeds their capacity, and gangs are complete.
#include "qm/admission/kueue/cycle.hpp"
#include "qm/admission/kueue/forest.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

namespace qm::admission::kueue {
namespace cycle_topology_prop_test {

constexpr std::int64_t kCpusOfHost = 6;
constexpr int kFlavors = 2;

int upto(int most) { return *rc::gen::inRange(0, most + 1); }
bool one_in(int n) { return *rc::gen::inRange(0, n) == 0; }

PreemptPolicy some_policy() {
  const PreemptPolicy all[] = {PreemptPolicy::kNever, PreemptPolicy::kLowerPriority, PreemptPolicy::kAny};
  return all[upto(2)];
}

/// Two flavors, each with its own hosts and some shared ones; three queues of one cohort.
struct World {
  std::shared_ptr<Topologies> topologies = std::make_shared<Topologies>();
  topology::ResourceId cpu = topologies->names().intern("cpu");
  std::unique_ptr<Cycle> cycle;
  std::set<int> known;
  int next = 1;
  std::int64_t k = 0;

  World() {
    const int hosts = 2 + upto(3);
    std::vector<topology::Node> nodes;
    for (int h = 0; h < hosts; ++h) {
      topology::Node node;
      node.name = fmt::format("h{}", h);
      node.labels = {{"rack", h % 2 == 0 ? "r0" : "r1"}, {"kubernetes.io/hostname", node.name}};
      for (int f = 0; f < kFlavors; ++f) {
        if (!one_in(3)) node.labels[fmt::format("f{}", f)] = "yes";
      }
      node.allocatable = {{cpu, kCpusOfHost}, {topology::kPods, 100}};
      nodes.push_back(node);
    }
    Forest forest;
    for (int q = 0; q < 3; ++q) {
      Forest::Queue queue;
      queue.cohort = "co";
      queue.rules.within_cluster_queue = some_policy();
      queue.rules.reclaim_within_cohort = some_policy();
      queue.rules.topology_only = one_in(2);
      queue.rules.groups = {{{0}, {{0, {}}, {1, {}}}}};
      for (int f = 0; f < kFlavors; ++f) queue.quotas.push_back({f, 0, {.nominal = 2 + upto(8)}});
      forest.queues[fmt::format("q{}", q)] = queue;
    }
    for (int f = 0; f < kFlavors; ++f) {
      topologies->add(f, {"t", {"rack", "kubernetes.io/hostname"}, {{fmt::format("f{}", f), "yes"}}, {}}, nodes);
    }
    auto planted = forest.plant();
    planted.fields[0].topologies = topologies;
    planted.fields[0].fair_sharing = one_in(2);
    planted.fields[0].places_again = !one_in(4);
    cycle = std::make_unique<Cycle>(std::move(planted.fields[0]));
  }

  void add() {
    Work work;
    work.id = next++;
    work.queue = 1 + upto(2);
    work.priority = upto(2);
    work.created = work.id;
    work.shape = work.id;
    const int sets = 1 + upto(1);
    for (int s = 0; s < sets; ++s) {
      topology::PodSetRequest nodes;
      nodes.name = fmt::format("s{}", s);
      nodes.topology.emplace();
      if (one_in(2)) {
        nodes.topology->required = one_in(2) ? "rack" : "kubernetes.io/hostname";
      } else {
        nodes.topology->preferred = "rack";
      }
      const int each = 1 + upto(3);
      nodes.per_pod = {{cpu, each}};
      PodSet set{nodes.name, 1 + upto(2), {}, {{0, each}}, {}};
      if (one_in(4)) set.min_count = 1;
      set.nodes = std::make_shared<const topology::PodSetRequest>(nodes);
      work.pod_sets.push_back(set);
    }
    known.insert(work.id);
    cycle->enqueue(std::move(work));
  }

  void end_one() {
    for (const int id : known) {
      if (cycle->work(id).usage.empty()) continue;
      cycle->finish(id);
      known.erase(id);
      cycle->requeue();
      return;
    }
  }

  void run() {
    ++k;
    const auto outcome = cycle->run(k, k);
    for (const auto& one : outcome.admitted) {
      std::map<std::size_t, std::int64_t> pods;
      for (const auto& placed : one.assignment.placed) {
        for (const auto& domain : placed.assignment.domains) pods[placed.set] += domain.count;
      }
      for (std::size_t s = 0; s < one.assignment.sets.size(); ++s) {
        RC_ASSERT(pods[s] == one.assignment.sets[s].count);
      }
    }
    std::set<int> gone;
    for (const auto& one : outcome.preempted) {
      RC_ASSERT(gone.insert(one.id).second);
      cycle->evicted(one.id);
    }
    if (!gone.empty()) cycle->requeue();
    check();
  }

  void check() const {
    for (int f = 0; f < kFlavors; ++f) {
      std::int64_t held = 0, on_hosts = 0;
      for (const int id : known) {
        for (const auto& use : cycle->work(id).on_nodes) {
          if (use.flavor != f) continue;
          for (const auto& amount : use.load.per_pod) held += amount.amount * use.load.pods;
        }
      }
      for (const auto& [host, amounts] : topologies->placed_on(f)) {
        for (const auto& amount : amounts) {
          if (amount.resource != cpu) continue;
          on_hosts += amount.amount;
          RC_ASSERT(amount.amount > 0);
          RC_ASSERT(amount.amount <= kCpusOfHost);
        }
      }
      RC_ASSERT(held == on_hosts);
    }
  }
};

RC_GTEST_PROP(KueueTopologyLaws, NodesHoldExactlyTheAdmittedWithinCapacity, ()) {
  World world;
  const int steps = 10 + upto(30);
  for (int i = 0; i < steps; ++i) {
    switch (upto(3)) {
      case 0:
      case 1:
        world.add();
        break;
      case 2:
        world.end_one();
        break;
      default:
        break;
    }
    world.run();
  }
  for (int i = 0; i < 200 && !world.known.empty(); ++i) {
    world.end_one();
    world.run();
  }
  for (const int id : world.known) RC_ASSERT(world.cycle->work(id).on_nodes.empty());
}

}  // namespace cycle_topology_prop_test
}  // namespace qm::admission::kueue
