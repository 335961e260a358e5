// Laws of cycles over random forests and streams of events.
#include "qm/admission/kueue/cycle.hpp"
#include "random_forest.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

namespace qm::admission::kueue {
namespace cycle_laws_prop_test {

struct World {
  Forest forest = some_forest();
  bool fair = one_in(2);
  std::vector<Cycle> cycles;
  std::map<int, std::size_t> cycle_of;
  std::vector<int> known;
  int next = 1;
  std::int64_t k = 0;

  World() {
    for (auto& field : forest.plant().fields) {
      field.fair_sharing = fair;
      cycles.emplace_back(std::move(field));
    }
  }
  void add() {
    const auto planted = forest.plant();
    auto queue = planted.queues.begin();
    std::advance(queue, upto(static_cast<int>(planted.queues.size()) - 1));
    Work work = some_work(next++, queue->second.second);
    cycle_of[work.id] = queue->second.first;
    known.push_back(work.id);
    cycles[queue->second.first].enqueue(std::move(work));
  }
  void end_one() {
    std::vector<int> holding;
    for (const int id : known) {
      if (holds(id)) holding.push_back(id);
    }
    if (holding.empty()) return;
    const int id = holding[static_cast<std::size_t>(upto(static_cast<int>(holding.size()) - 1))];
    auto& cycle = cycles[cycle_of.at(id)];
    cycle.finish(id);
    cycle.requeue();
    std::erase(known, id);
  }
  bool holds(int id) const { return !cycles[cycle_of.at(id)].work(id).usage.empty(); }

  void run() {
    ++k;
    for (auto& cycle : cycles) {
      std::set<int> waited;
      for (const int id : known) {
        if (&cycles[cycle_of.at(id)] == &cycle && cycle.waits(id)) waited.insert(id);
      }
      const auto outcome = cycle.run(k, k);
      for (const auto& one : outcome.admitted) {
        RC_ASSERT(waited.contains(one.id));
        whole(cycle.work(one.id), one.assignment);
      }
      std::set<int> gone;
      for (const auto& one : outcome.preempted) {
        RC_ASSERT(gone.insert(one.id).second);  // no workload is preempted twice
        RC_ASSERT(!waited.contains(one.id));
        RC_ASSERT(cycle.waits(one.by));
      }
      for (const int id : gone) cycle.evicted(id);
      if (!gone.empty()) cycle.requeue();
    }
  }
  /// All pod sets have a flavor for all of their requests, and at least their minimum count.
  static void whole(const Work& work, const Assignment& assignment) {
    RC_ASSERT(assignment.sets.size() == work.pod_sets.size());
    Amounts sum;
    for (std::size_t i = 0; i < work.pod_sets.size(); ++i) {
      const auto& set = work.pod_sets[i];
      const auto& made = assignment.sets[i];
      RC_ASSERT(made.count <= set.count && made.count >= set.min_count.value_or(set.count));
      RC_ASSERT(made.flavors.size() == set.each.size());
      for (const auto& choice : made.flavors) {
        for (const auto& [resource, each] : set.each) {
          if (resource == choice.resource) add_to(sum, choice.cell, each * made.count);
        }
      }
    }
    RC_ASSERT(sum == work.usage);
  }
  /// Usage at every node is that of the workloads with quota; no workload is lost or in two states; no
  /// tree is overdrawn.
  void laws() const {
    auto planted = forest.plant();
    for (const int id : known) {
      const auto& cycle = cycles[cycle_of.at(id)];
      RC_ASSERT(holds(id) != cycle.waits(id));
      if (holds(id)) planted.fields[cycle_of.at(id)].hold(cycle.work(id));
    }
    for (std::size_t i = 0; i < cycles.size(); ++i) {
      const auto& tree = cycles[i].tree();
      for (Node n = 0; n < tree.size(); ++n) {
        for (Cell c = 0; c < tree.cells(); ++c) {
          RC_ASSERT(tree.used(n, c) == planted.fields[i].tree.used(n, c));
          if (tree.is_queue(n)) RC_ASSERT(tree.used(n, c) <= tree.potential(n, c));
        }
      }
      for (Cell c = 0; c < tree.cells(); ++c) RC_ASSERT(tree.available(0, c) >= 0);
    }
  }
};

RC_GTEST_PROP(KueueCycleLaws, HoldAfterEveryEvent, ()) {
  World world;
  for (int i = 0; i < 40; ++i) {
    const int what = upto(9);
    if (what < 4) {
      world.add();
    } else if (what < 5) {
      world.end_one();
    } else {
      world.run();
    }
    world.laws();
  }
}

RC_GTEST_PROP(KueueCycleLaws, AreDeterministic, ()) {
  const Forest forest = some_forest();
  const auto trace = [&] {
    std::string out;
    auto planted = forest.plant();
    for (auto& field : planted.fields) {
      Cycle cycle(std::move(field));
      for (int id = 1; id <= 12; ++id) {
        Work work;
        work.id = id;
        work.created = id;
        work.shape = id;
        for (Node n = 0; n < cycle.tree().size(); ++n) {
          if (cycle.tree().is_queue(n)) work.queue = n;
        }
        if (!cycle.tree().is_queue(work.queue)) break;
        work.priority = id % 3;
        work.pod_sets = {{"main", id % 4 + 1, {}, {{0, 1}}, {}}};
        cycle.enqueue(std::move(work));
        const auto outcome = cycle.run(id, id);
        for (const auto& one : outcome.admitted) out += fmt::format("+{} ", one.id);
        for (const auto& one : outcome.preempted) out += fmt::format("-{} ", one.id), cycle.evicted(one.id);
      }
    }
    return out;
  };
  RC_ASSERT(trace() == trace());
}

}  // namespace cycle_laws_prop_test
}  // namespace qm::admission::kueue
