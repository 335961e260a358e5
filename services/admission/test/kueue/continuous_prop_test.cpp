// Continuous decisions compared with the simplest implementation, over random trees and streams of events.
#include "qm/admission/kueue/continuous.hpp"

#include "qm/admission/kueue/any_fit.hpp"
#include "qm/admission/kueue/cycle.hpp"
#include "random_forest.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

namespace qm::admission::kueue {
namespace continuous_prop_test {

/// Reference for the decisions of run(): one workload after the other, without classes, and with a new search each
/// time. Where nothing was found for a workload, no equal one is considered before capacity is released.
struct Plain {
  QuotaState field;
  std::map<int, Work> waiting, holding;
  struct Claim {
    Work work;
    Assignment assignment;
    std::set<int> targets;
  };
  std::map<int, Claim> claims;
  struct Like {
    Node queue;
    int shape;
    std::int32_t priority;
    int alone;
    auto operator<=>(const Like&) const = default;
  };
  std::map<Like, Work> nothing;  ///< equal workloads for which nothing was found

  PreemptionGraph preemptions;
  std::set<int> alone;  ///< preemptors and victims, as of when they became pending

  explicit Plain(QuotaState f) : field(std::move(f)) { field.preemptions = &preemptions; }
  Plain(const Plain&) = delete;

  Like like(const Work& work) const {
    return {work.queue, work.shape, work.priority, alone.contains(work.id) ? work.id : -1};
  }
  /// Workloads that could use the released quota are considered again.
  void freed(const Amounts& usage) {
    std::erase_if(nothing, [&](const auto& one) {
      return field.fair_sharing || std::ranges::any_of(usage, [&](const Amount& a) { return uses(one.second, a.at); });
    });
  }
  bool uses(const Work& work, Cell cell) const {
    for (const auto& set : work.pod_sets) {
      for (const auto& [resource, each] : set.each) {
        const auto* group = field.rules[static_cast<std::size_t>(work.queue)].group_of(resource);
        if (group == nullptr) continue;
        for (const auto& option : group->options) {
          if (option.cells[*group->index_of(resource)] == cell) return true;
        }
      }
    }
    return false;
  }
  void enqueue(const Work& work) {
    preemptions.knows(work.id) ? (void)alone.insert(work.id) : (void)alone.erase(work.id);
    const bool first = std::ranges::none_of(waiting, [&](const auto& other) {
      return like(other.second) == like(work) && other.second.order() < work.order();
    });
    const auto& rules = field.rules[static_cast<std::size_t>(work.queue)];
    if (first && rules.within_cluster_queue == PreemptPolicy::kLowerOrNewerEqualPriority) nothing.erase(like(work));
    waiting.emplace(work.id, work);
  }
  /// A class and its search results end with the last of its works.
  void end(int id) {
    const Like gone = like(holding.contains(id)  ? holding.at(id)
                           : claims.contains(id) ? claims.at(id).work
                                                 : waiting.at(id));
    const bool bound = preemptions.knows(id);
    preemptions.forget(id);
    finish(id);
    if (bound) std::erase_if(nothing, [](const auto& other) { return other.first.alone >= 0; });
    const auto one = [&](const auto& other) { return like(other.second) == gone; };
    const auto claimed = [&](const auto& other) { return like(other.second.work) == gone; };
    if (std::ranges::none_of(waiting, one) && std::ranges::none_of(holding, one) &&
        std::ranges::none_of(claims, claimed)) {
      nothing.erase(gone);
    }
  }
  void finish(int id) {
    if (const auto holder = holding.find(id); holder != holding.end()) {
      field.release(holder->second);
      const auto usage = holder->second.usage;
      holding.erase(holder);
      return freed(usage);
    }
    if (const auto claim = claims.find(id); claim != claims.end()) {
      field.give_back(claim->second.work.queue, claim->second.assignment.usage, {});
      const auto usage = claim->second.assignment.usage;
      claims.erase(claim);
      return freed(usage);
    }
    waiting.erase(id);
  }
  void evicted(int id) {
    Work work = holding.at(id);
    finish(id);
    work.usage.clear();
    work.evicted = false;
    enqueue(work);
  }
  void hold(Work work, const Assignment& assignment, std::int64_t now) {
    work.usage = assignment.usage;
    work.reserved = now;
    preemptions.admitted(work.id);
    field.hold(holding.emplace(work.id, std::move(work)).first->second);
  }
  Nomination found_for(const Work& work) {
    auto made = nominate(field, work);
    if (made.good() && (!made.fits() || field.tree.fits(work.queue, made.assignment.usage))) return made;
    if (auto fit = any_fit(field, work)) return {std::move(*fit), {}};
    made.assignment.sets.front().fits_nothing = true;
    made.targets.clear();
    return made;
  }
  void settle(std::int64_t now, std::string& out) {
    std::vector<int> ids;
    for (const auto& [id, claim] : claims) ids.push_back(id);
    std::ranges::sort(ids, {}, [&](int id) { return claims.at(id).work.order(); });
    for (const int id : ids) {
      Claim claim = claims.at(id);
      field.give_back(claim.work.queue, claim.assignment.usage, {});
      if (field.tree.fits(claim.work.queue, claim.assignment.usage)) {
        hold(claim.work, claim.assignment, now);
        out += fmt::format("+{} ", id);
        claims.erase(id);
      } else if (std::ranges::none_of(claim.targets,
                                      [&](int t) { return holding.contains(t) && holding.at(t).evicted; })) {
        enqueue(claim.work);
        claims.erase(id);
        freed(claim.assignment.usage);
        return settle(now, out);
      } else {
        field.take(claim.work.queue, claim.assignment.usage, {});
      }
    }
  }
  std::string run(std::int64_t now) {
    std::string out;
    settle(now, out);
    // A workload that may preempt is considered again after admissions.
    while (decide(now, out)) {
      std::erase_if(nothing, [&](const auto& one) {
        const auto& rules = field.rules[static_cast<std::size_t>(one.first.queue)];
        return rules.within_cluster_queue != PreemptPolicy::kNever ||
               rules.reclaim_within_cohort != PreemptPolicy::kNever;
      });
    }
    return out;
  }
  bool decide(std::int64_t now, std::string& out) {
    for (bool any = false;; any = true) {
      std::map<Node, std::vector<const Work*>> queues;
      for (const auto& [id, work] : waiting) queues[work.queue].push_back(&work);
      std::vector<std::pair<const Work*, Nomination>> nominees;
      for (auto& [queue, works] : queues) {
        std::ranges::sort(works, {}, [](const Work* w) { return w->order(); });
        for (const auto* work : works) {
          if (nothing.contains(like(*work))) {
            if (field.rules[static_cast<std::size_t>(queue)].strict) break;
            continue;
          }
          auto made = found_for(*work);
          if (made.good()) {
            nominees.emplace_back(work, std::move(made));
            break;
          }
          nothing.emplace(like(*work), *work);
          if (field.rules[static_cast<std::size_t>(queue)].strict) break;
        }
      }
      if (nominees.empty()) return any;
      // No victim precedes its own preemptor while both are pending.
      const auto all = nominees;
      std::erase_if(nominees, [&](const auto& one) {
        return std::ranges::any_of(
            all, [&](const auto& other) { return preemptions.above(other.first->id, one.first->id); });
      });
      std::vector<Entrant> entrants;
      for (const auto& [work, made] : nominees) {
        entrants.push_back({{*work, made.assignment.borrowing, false}, made.assignment.usage});
      }
      auto& [first, made] = nominees[first_of(field.tree, entrants, field.fair_sharing, field.order)];
      const Work work = *first;
      waiting.erase(work.id);
      if (made.fits()) {
        hold(work, made.assignment, now);
        out += fmt::format("+{} ", work.id);
        continue;
      }
      Claim claim{work, made.assignment, {}};
      field.now = now;
      field.record(work, made.targets);
      for (const auto& target : made.targets) {
        claim.targets.insert(target.work->id);
        Work& victim = holding.at(target.work->id);
        if (!std::exchange(victim.evicted, true)) out += fmt::format("-{}<{} ", victim.id, work.id);
      }
      field.take(work.queue, made.assignment.usage, {});
      claims.emplace(work.id, std::move(claim));
    }
  }
};

std::string reported(const Outcome& outcome) {
  // Admissions and preemptions are two lists: the order within each one counts.
  std::string out;
  for (const auto& one : outcome.admitted) out += fmt::format("+{} ", one.id);
  for (const auto& one : outcome.preempted) out += fmt::format("-{}<{} ", one.id, one.by);
  return out;
}
std::string sorted_like(const std::string& text) {
  std::string admitted, displaced;
  std::istringstream in(text);
  std::string word;
  while (in >> word) (word[0] == '+' ? admitted : displaced) += word + " ";
  return admitted + displaced;
}

struct World {
  Forest forest = some_forest();
  std::vector<Continuous> trees;
  std::vector<std::unique_ptr<Plain>> plain;
  std::map<int, std::size_t> tree_of;
  std::map<int, Work> works;
  int next = 1;
  std::int64_t now = 0;

  World() {
    const bool fair = one_in(2);
    for (auto& field : forest.plant().fields) {
      field.fair_sharing = fair;
      plain.push_back(std::make_unique<Plain>(field));
      trees.emplace_back(std::move(field));
    }
  }
  void add() {
    const auto planted = forest.plant();
    auto queue = planted.queues.begin();
    std::advance(queue, upto(static_cast<int>(planted.queues.size()) - 1));
    Work work = some_work(next++, queue->second.second);
    // Often of a shape that exists already, and sometimes older than the pending workloads.
    if (!works.empty() && one_in(2)) {
      auto like = works.begin();
      std::advance(like, upto(static_cast<int>(works.size()) - 1));
      work.pod_sets = like->second.pod_sets;
      work.shape = like->second.shape;
    }
    if (one_in(3)) work.created = upto(next);
    work.uid = WorkloadUid(fmt::format("{:03}", work.id));
    tree_of[work.id] = queue->second.first;
    works.emplace(work.id, work);
    plain[queue->second.first]->enqueue(work);
    trees[queue->second.first].enqueue(std::move(work));
  }
  void end_one() {
    if (works.empty()) return;
    auto it = works.begin();
    std::advance(it, upto(static_cast<int>(works.size()) - 1));
    plain[tree_of.at(it->first)]->end(it->first);
    trees[tree_of.at(it->first)].finish(it->first);
    works.erase(it);
  }
  void relax() {
    for (std::size_t i = 0; i < trees.size(); ++i) {
      const auto instant = now - upto(3);
      plain[i]->preemptions.relax(instant);
      std::erase_if(plain[i]->nothing, [](const auto& one) { return one.first.alone >= 0; });
      trees[i].relax(instant);
    }
  }
  /// Evicts some workloads for external reasons.
  void order_off() {
    for (const auto& [id, work] : works) {
      auto& tree = trees[tree_of.at(id)];
      if (!tree.holds(id) || !one_in(4)) continue;
      tree.leave(id);
      auto& from = *plain[tree_of.at(id)];
      if (!std::exchange(from.holding.at(id).evicted, true)) from.freed(from.holding.at(id).usage);
    }
  }
  void release_evicted() {
    for (const auto& [id, work] : works) {
      auto& tree = trees[tree_of.at(id)];
      if (!tree.holds(id) || !tree.holder(id).evicted || one_in(3)) continue;
      tree.evicted(id);
      plain[tree_of.at(id)]->evicted(id);
    }
  }
  /// The same tree restored: from workloads with quota, claims, pending workloads, and the displacement relation.
  Continuous rebuild(std::size_t i) const {
    const auto& from = *plain[i];
    QuotaState field = forest.plant().fields[i];
    field.fair_sharing = from.field.fair_sharing;
    Continuous out(std::move(field));
    for (const auto& [id, preemptors] : from.preemptions.all()) out.preemptions().restore(id, preemptors);
    for (const auto& [id, work] : from.holding) out.hold(work);
    for (const auto& [id, claim] : from.claims) {
      out.claim(claim.work, claim.assignment.usage, {}, {claim.targets.begin(), claim.targets.end()});
    }
    for (const auto& [id, work] : from.waiting) out.enqueue(work);
    return out;
  }
  void run() {
    ++now;
    for (std::size_t i = 0; i < trees.size(); ++i) {
      auto twin = rebuild(i);
      const auto wanted = sorted_like(plain[i]->run(now));
      RC_ASSERT(reported(trees[i].run(now)) == wanted);
      RC_ASSERT(reported(trees[i].run(now)).empty());
      RC_ASSERT(reported(twin.run(now)) == wanted);
      const auto& tree = trees[i].field().tree;
      for (Cell c = 0; c < tree.cells(); ++c) RC_ASSERT(!plain[i]->claims.empty() || tree.available(0, c) >= 0);
      for (Node n = 0; n < tree.size(); ++n) {
        for (Cell c = 0; c < tree.cells(); ++c) {
          RC_ASSERT(tree.used(n, c) == plain[i]->field.tree.used(n, c));
        }
      }
    }
  }
  /// Nothing can be decided for any pending workload, of a strict queue for its first one.
  void rested() {
    std::map<Node, std::pair<decltype(Work().order()), int>> first;
    for (const auto& [id, work] : works) {
      auto& tree = trees[tree_of.at(id)];
      RC_ASSERT(int{tree.waits(id)} + int{tree.claims(id)} + int{tree.holds(id)} == 1);
    }
    for (std::size_t i = 0; i < trees.size(); ++i) {
      std::map<Node, std::vector<const Work*>> queues;
      for (const auto& [id, work] : works) {
        if (tree_of.at(id) == i && trees[i].waits(id)) queues[work.queue].push_back(&work);
      }
      for (auto& [queue, waiting] : queues) {
        std::ranges::sort(waiting, {}, [](const Work* w) { return w->order(); });
        if (trees[i].field().rules[static_cast<std::size_t>(queue)].strict) waiting.resize(1);
        for (const auto* work : waiting) RC_ASSERT(!trees[i].look(*work).good());
      }
    }
  }
};

RC_GTEST_PROP(ContinuousLaws, DecideLikeModelAndAdmitAllThatFit, ()) {
  World world;
  const int steps = *rc::gen::inRange(1, 60);
  for (int i = 0; i < steps; ++i) {
    const int what = upto(9);
    if (what < 5) {
      world.add();
    } else if (what < 6) {
      world.end_one();
    } else if (what < 7) {
      if (one_in(3)) world.order_off();
      world.release_evicted();
      if (one_in(4)) world.relax();
    } else {
      world.run();
      world.rested();
    }
  }
}

/// With one queue and no preemption, cycles that run until nothing changes admit the same workloads in
/// the same order.
RC_GTEST_PROP(ContinuousLaws, OneQueueIsDecidedAsInCycles, ()) {
  Forest forest;
  auto& queue = forest.queues["q"];
  queue.quotas = {{0, 0, {upto(12), {}, {}}}};
  queue.rules.strict = one_in(2);
  queue.rules.groups = {{{0}, {{0, {}}}}};
  auto field = forest.plant().fields[0];
  Continuous flowing{field};
  Cycle cycles{std::move(field)};
  std::int64_t k = 0;
  std::vector<int> known;
  const int steps = *rc::gen::inRange(1, 60);
  for (int i = 0; i < steps; ++i) {
    const int what = upto(3);
    if (what < 2) {
      Work work;
      work.id = i;
      work.created = one_in(3) ? upto(i) : i;
      work.uid = WorkloadUid(fmt::format("{:03}", i));
      work.priority = upto(2);
      const int amount = 1 + upto(4);
      work.shape = amount * 10 + work.priority;
      work.pod_sets = {{"main", 1, {}, {{0, amount}}, {}}};
      flowing.enqueue(work);
      cycles.enqueue(std::move(work));
      known.push_back(i);
    } else if (!known.empty()) {
      const auto at = known.begin() + upto(static_cast<int>(known.size()) - 1);
      flowing.finish(*at);
      cycles.finish(*at);
      cycles.requeue();
      known.erase(at);
    }
    Outcome in_cycles;
    for (bool rests = false; !rests;) {
      const auto before = cycles.active_works();
      ++k;
      auto one = cycles.run(k, k);
      rests = one.admitted.empty() && cycles.active_works() == before;
      std::ranges::move(one.admitted, std::back_inserter(in_cycles.admitted));
    }
    RC_ASSERT(reported(flowing.run(k)) == reported(in_cycles));
  }
}

}  // namespace continuous_prop_test
}  // namespace qm::admission::kueue
