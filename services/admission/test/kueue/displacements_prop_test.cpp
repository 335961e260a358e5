// Loop-free preemption: over random trees every plan and every admission decreases the potential, in any order. Small
// models are checked in all states. Without the relation the same worlds loop.
#include "displacement_arena.hpp"
#include "qm/admission/kueue/cycle.hpp"
#include "random_forest.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <iostream>
#include <set>

namespace qm::admission::kueue {
namespace displacements_prop_test {

/// A random tree and workloads of its queues; nothing where it has no queue.
struct World {
  QuotaState field{Tree({{}}, {}), {}, {}};
  std::vector<Work> works;
};
World some_world(int most) {
  World out;
  auto forest = some_forest();
  for (auto& [name, queue] : forest.queues) {
    if (one_in(3)) continue;
    queue.rules.within_cluster_queue = PreemptPolicy::kLowerOrNewerEqualPriority;
    queue.rules.reclaim_within_cohort = PreemptPolicy::kAny;
    queue.rules.groups[0].options.resize(1);
  }
  auto planted = forest.plant();
  std::vector<std::vector<Node>> queues(planted.fields.size());
  for (const auto& [name, place] : planted.queues) queues[place.first].push_back(place.second);
  const auto largest = std::ranges::max_element(queues, {}, &std::vector<Node>::size);
  out.field = std::move(planted.fields[static_cast<std::size_t>(largest - queues.begin())]);
  out.field.fair_sharing = one_in(2);
  const int works = 4 + upto(most - 4);
  for (int id = 1; id <= works; ++id) {
    out.works.push_back(
        some_work(id, (*largest)[static_cast<std::size_t>(upto(static_cast<int>(largest->size()) - 1))]));
  }
  return out;
}

/// Considers one workload after the other until nothing can be decided any more; true where that happens
/// within `most` steps. With `bad_luck` the workload that was displaced last is considered first, otherwise
/// the order is random.
template <class Each>
bool terminates(Arena& arena, int most, Each&& each) {
  auto order = arena.ids();
  const bool bad_luck = one_in(2);
  for (int steps = 0; steps < most; ++steps) {
    if (!bad_luck) std::rotate(order.begin(), order.begin() + upto(static_cast<int>(order.size()) - 1), order.end());
    std::optional<Arena::Happened> happened;
    const auto before = arena.potential();
    for (const int id : order) {
      happened = arena.look(id);
      if (happened) break;
    }
    if (!happened) return true;
    each(before, *happened);
    for (const auto& [id, reason] : happened->displaced) {
      std::erase(order, id);
      order.insert(order.begin(), id);
    }
  }
  return false;
}

constexpr int kWorldsEach = 10;

RC_GTEST_PROP(PreemptionGraph, EveryPlanAndAdmissionLowersThePotential, ()) {
  int plans = 0;
  for (int i = 0; i < kWorldsEach; ++i) {
    auto world = some_world(10);
    Arena arena(std::move(world.field), true);
    for (auto& work : world.works) arena.add(std::move(work));
    const bool rests = terminates(arena, 20000, [&](const Potential& before, const Arena::Happened& happened) {
      RC_ASSERT(arena.potential() < before);
      if (!happened.displaced.empty()) ++plans;
    });
    RC_ASSERT(rests);
  }
  RC_CLASSIFY(plans > 0, "with plans");
}

TEST(PreemptionGraph, WithoutThemWorkloadsPreemptInCycles) {
  int circles = 0, worlds = 0;
  const bool ran = rc::check("count", [&] {
    for (int i = 0; i < kWorldsEach; ++i) {
      auto world = some_world(10);
      Arena arena(std::move(world.field), false);
      for (auto& work : world.works) arena.add(std::move(work));
      ++worlds;
      if (!terminates(arena, 500, [](const Potential&, const Arena::Happened&) {})) ++circles;
    }
  });
  EXPECT_TRUE(ran);
  EXPECT_GT(circles, 0);
  std::cout << circles << " of " << worlds << " random models preempt in cycles without displacements\n";
}

/// In cycles, where several plans are made from one view, all victims become pending again at once.
RC_GTEST_PROP(PreemptionGraph, CyclesTerminate, ()) {
  int plans = 0;
  for (int i = 0; i < kWorldsEach; ++i) {
    auto world = some_world(12);
    PreemptionGraph preemptions;
    world.field.preemptions = &preemptions;
    Cycle cycle(std::move(world.field));
    for (const auto& work : world.works) cycle.enqueue(work);
    const auto potential = [&] {
      std::map<int, bool> holds;
      for (const auto& work : world.works) holds[work.id] = !cycle.work(work.id).usage.empty();
      return potential_of(preemptions, holds);
    };
    constexpr int kIdle = 8, kMost = 5000;
    int idle = 0;
    for (std::int64_t k = 1; idle < kIdle; ++k) {
      RC_ASSERT(k < kMost);
      const auto before = potential();
      const auto outcome = cycle.run(k, k);
      for (const auto& one : outcome.preempted) cycle.evicted(one.id);
      if (!outcome.preempted.empty()) ++plans, cycle.requeue();
      const bool happened = !outcome.admitted.empty() || !outcome.preempted.empty();
      if (happened) RC_ASSERT(potential() < before);
      idle = happened ? 0 : idle + 1;
    }
  }
  RC_CLASSIFY(plans > 0, "with plans");
}

// ---- small models ----

/// One flavor, one resource, two queues of one cohort; all states that can be reached from the empty one,
/// and all transitions.
class Model {
 public:
  struct Kind {
    std::int64_t size;
    std::int32_t priority;
    friend auto operator<=>(const Kind&, const Kind&) = default;
  };
  Model(const QuotaState& field, std::vector<Work> works, bool loop_free)
      : field_(field), works_(std::move(works)), loop_free_(loop_free) {}

  [[nodiscard]] bool turns_in_circles() { return visit({}); }
  [[nodiscard]] std::size_t states() const { return seen_.size(); }

 private:
  struct State {
    std::set<int> holders;
    std::set<std::pair<int, int>> above,
        unsettled;  ///< all that decisions depend on: the displacement relation, and which preemptors are pending
    friend auto operator<=>(const State&, const State&) = default;
  };
  bool visit(const State& state) {
    const auto [seen, fresh] = seen_.emplace(state, true);
    if (!fresh) return seen->second;
    for (const auto& work : works_) {
      if (state.holders.contains(work.id)) continue;
      const auto next = after(state, work.id);
      if (next && visit(*next)) return true;
    }
    seen_.at(state) = false;
    return false;
  }
  /// Instants are left out of the model, as otherwise no state would occur twice.
  std::optional<State> after(const State& state, int id) {
    Arena arena(field_, loop_free_);
    for (const auto& work : works_) {
      if (state.holders.contains(work.id)) {
        arena.hold(work, {{0, work.pod_sets[0].each[0].second}});
      } else {
        arena.add(work);
      }
    }
    for (const auto& pair : state.above) {
      arena.preemptions.restore(pair.second, {{pair.first, {0, !state.unsettled.contains(pair)}}});
    }
    if (!arena.look(id)) return {};
    State out;
    for (const auto& work : works_) {
      if (arena.holds(work.id)) out.holders.insert(work.id);
    }
    for (const auto& one : works_) {
      for (const auto& other : works_) {
        if (arena.preemptions.above(other.id, one.id)) out.above.emplace(other.id, one.id);
      }
      for (const auto& [by, pair] : arena.preemptions.preemptors_of(one.id)) {
        if (!pair.settled) out.unsettled.emplace(by, one.id);
      }
    }
    return out;
  }

  const QuotaState& field_;
  std::vector<Work> works_;
  bool loop_free_;
  std::map<State, bool> seen_;  ///< true while it is on the present path
};

struct Count {
  int models = 0, circles = 0;
  std::size_t states = 0;
};

/// All lists of `many` workloads of size and priority 1 or 2.
std::vector<std::vector<Model::Kind>> choices_of(int many) {
  std::vector<std::vector<Model::Kind>> out{{}};
  for (int i = 0; i < many; ++i) {
    std::vector<std::vector<Model::Kind>> longer;
    for (const auto& some : out) {
      for (const auto& kind : {Model::Kind{1, 1}, {1, 2}, {2, 1}, {2, 2}}) {
        if (!some.empty() && kind < some.back()) continue;
        longer.push_back(some);
        longer.back().push_back(kind);
      }
    }
    out = std::move(longer);
  }
  return out;
}

/// Models with these numbers of workloads in two queues; of all of them, every `stride`th.
Count check_models(int in_a, int in_b, int stride) {
  Count out;
  int number = 0;
  for (const bool fair : {false, true}) {
    for (const auto& [one, other] : {std::pair(2, 0), std::pair(1, 1), std::pair(2, 1)}) {
      for (const auto within : {PreemptPolicy::kNever, PreemptPolicy::kLowerOrNewerEqualPriority}) {
        Forest forest;
        for (const auto& [name, nominal] : {std::pair("a", one), std::pair("b", other)}) {
          Forest::Queue queue;
          queue.cohort = "co";
          queue.quotas = {{0, 0, {nominal, {}, {}}}};
          queue.rules.groups = {{{0}, {{0, {}}}}};
          queue.rules.within_cluster_queue = within;
          queue.rules.reclaim_within_cohort = PreemptPolicy::kAny;
          queue.rules.preempts_while_borrowing = true;
          forest.queues[name] = std::move(queue);
        }
        const auto planted = forest.plant();
        QuotaState field = planted.fields.at(0);
        field.fair_sharing = fair;
        for (const auto& left : choices_of(in_a)) {
          for (const auto& right : choices_of(in_b)) {
            if (++number % stride != 0) continue;
            std::vector<Work> works;
            for (const auto* side : {&left, &right}) {
              for (const auto& kind : *side) {
                Work work;
                work.id = static_cast<int>(works.size()) + 1;
                work.uid = WorkloadUid(std::to_string(work.id));
                work.created = work.id <= in_a ? work.id * 2 : (work.id - in_a) * 2 + 1;  // alternates
                work.queue = planted.queues.at(side == &left ? "a" : "b").second;
                work.priority = kind.priority;
                work.pod_sets = {{"main", 1, {}, {{0, kind.size}}, {}}};
                works.push_back(std::move(work));
              }
            }
            ++out.models;
            out.circles += Model(field, works, false).turns_in_circles() ? 1 : 0;
            Model model(field, works, true);
            EXPECT_FALSE(model.turns_in_circles());
            out.states += model.states();
          }
        }
      }
    }
  }
  return out;
}

TEST(PreemptionGraph, NoStateOfSmallModelIsReachedFromItself) {
  struct Models {
    int in_a, in_b, stride;
  };
  for (const auto& [in_a, in_b, stride] : {Models{1, 1, 1}, {2, 1, 1}, {2, 2, 1}, {3, 2, 199}, {3, 3, 1999}}) {
    const auto count = check_models(in_a, in_b, stride);
    EXPECT_GT(count.circles, 0);
    std::cout << in_a << " and " << in_b << " workloads: " << count.models << " models, " << count.states << " states; "
              << count.circles << " models preempt in cycles without displacements" << std::endl;
  }
}

}  // namespace displacements_prop_test
}  // namespace qm::admission::kueue
