// Classic preemption. Candidates of other queues come first: those whose quota belongs to the workload's own part
// of the tree (hierarchical), then those that only borrow; then those of its own queue.
#include "qm/admission/kueue/victims.hpp"

#include "qm/admission/kueue/cheapest.hpp"

#include <algorithm>
#include <tuple>

namespace qm::admission::kueue {
namespace {

bool uses(const Work& work, const std::vector<Cell>& cells) {
  return std::ranges::any_of(work.usage, [&](const Amount& a) { return std::ranges::binary_search(cells, a.at); });
}

/// Subtracts the unused amount of a subtree from `rest`; returns whether the subtree has all of it.
bool fits_in(const Tree& tree, Node n, Amounts& rest) {
  bool all = true;
  for (auto& a : rest) {
    all = all && plus(tree.used(n, a.at), a.amount) <= tree.subtree(n, a.at);
    a.amount = at_least_zero(minus(a.amount, tree.local_available(n, a.at)));
  }
  return all;
}

}  // namespace

std::string_view name_of(Reason reason) {
  switch (reason) {
    case Reason::kInClusterQueue:
      return "InClusterQueue";
    case Reason::kInCohortReclamation:
      return "InCohortReclamation";
    case Reason::kInCohortReclaimWhileBorrowing:
      return "InCohortReclaimWhileBorrowing";
    case Reason::kInCohortFairSharing:
      return "InCohortFairSharing";
    case Reason::kFlavorMigration:
      return "FlavorMigration";
  }
  return "";
}

PreemptPolicy policy_of(std::string_view word) {
  if (word == "LowerPriority") return PreemptPolicy::kLowerPriority;
  if (word == "LowerOrNewerEqualPriority") return PreemptPolicy::kLowerOrNewerEqualPriority;
  if (word == "Any") return PreemptPolicy::kAny;
  return word.empty() ? PreemptPolicy::kUnset : PreemptPolicy::kNever;
}

void QuotaState::take(Node queue, const Amounts& usage, const LeafUses& on_nodes) {
  tree.add(queue, usage);
  if (topologies != nullptr && !on_nodes.empty()) topologies->take(on_nodes);
}

void QuotaState::give_back(Node queue, const Amounts& usage, const LeafUses& on_nodes) {
  tree.remove(queue, usage);
  if (topologies != nullptr && !on_nodes.empty()) topologies->give_back(on_nodes);
}

void QuotaState::hold(const Work& work) {
  take(work.queue, work.usage, work.on_nodes);
  auto& own = holders[static_cast<std::size_t>(work.queue)];
  work.held_at = own.size();
  own.push_back(&work);
}

void QuotaState::release(const Work& work) {
  give_back(work.queue, work.usage, work.on_nodes);
  auto& own = holders[static_cast<std::size_t>(work.queue)];
  auto at = own.begin() + static_cast<std::ptrdiff_t>(std::min(work.held_at, own.size()));
  if (at == own.end() || *at != &work) at = std::ranges::find(own, &work);  // another field has it as well
  if (at == own.end()) return;
  own.back()->held_at = static_cast<std::size_t>(at - own.begin());
  *at = own.back();
  own.pop_back();
}

bool QuotaState::permits(const Work& by, const std::vector<Target>& plan) const {
  if (preemptions == nullptr || plan.empty()) return true;
  const auto excluded_victims = preemptions->excluded_victims(by.id);
  return std::ranges::none_of(
      plan, [&](const Target& t) { return !t.work->evicted && excluded_victims.contains(t.work->id); });
}

void QuotaState::record(const Work& by, const std::vector<Target>& plan) {
  if (preemptions == nullptr) return;
  for (const auto& target : plan) {
    if (!target.work->evicted) preemptions->displaced(by.id, target.work->id, now);
  }
}

struct Victims::Candidate {
  const Work* work = nullptr;
  Node top = 0;  ///< the lowest cohort that contains both queues
  Reason reason = Reason::kInClusterQueue;
  bool never_while_borrowing = false;  ///< only for a workload that does not borrow itself
};

struct Victims::Lists {
  std::vector<Candidate> hierarchical, priority, own;
};

bool Victims::allowed(PreemptPolicy policy, const Work& by, const Work& candidate) {
  switch (policy) {
    case PreemptPolicy::kNever:
    case PreemptPolicy::kUnset:
      return false;
    case PreemptPolicy::kLowerPriority:
      return candidate.effective_priority() < by.priority;
    case PreemptPolicy::kLowerOrNewerEqualPriority:
      return candidate.effective_priority() < by.priority ||
             (candidate.effective_priority() == by.priority && by.created < candidate.created);
    case PreemptPolicy::kAny:
      return true;
  }
  return false;
}

bool Victims::sooner(const Work& a, const Work& b, Node queue) {
  const auto key = [&](const Work& w) { return std::tuple(!w.evicted, w.queue == queue); };
  if (key(a) != key(b)) return key(a) < key(b);
  // Within one queue, the local queue with more usage has the first victims.
  if (a.queue == b.queue && a.queue_usage != b.queue_usage) return a.queue_usage > b.queue_usage;
  if (a.effective_priority() != b.effective_priority()) return a.effective_priority() < b.effective_priority();
  return a.reserved != b.reserved ? a.reserved > b.reserved : a.uid < b.uid;
}

bool Victims::may_be_preempted(const Work& candidate) const {
  return candidate.evicted || (candidate.stake.min_runtime_until <= field_.now && !barred_.contains(candidate.id));
}

void Victims::collect_from(const Contest& contest, Node queue, Node top, bool advantage, std::vector<Candidate>& out) {
  const auto& by = contest.work;
  const auto& rules = field_.rules[static_cast<std::size_t>(by.queue)];
  const bool own = queue == by.queue;
  for (const auto* work : field_.holders[static_cast<std::size_t>(queue)]) {
    if (!uses(*work, contest.contested)) continue;
    if (!allowed(own ? rules.within_cluster_queue : rules.reclaim_within_cohort, by, *work)) continue;
    if (!may_be_preempted(*work)) continue;
    Candidate candidate{work, top, Reason::kInClusterQueue, false};
    if (!own) {
      candidate.reason = Reason::kInCohortReclamation;
      const bool borrower_may =
          rules.preempts_while_borrowing && work->effective_priority() < by.priority &&
          (!rules.borrow_max_threshold || work->effective_priority() <= *rules.borrow_max_threshold);
      if (!advantage) {
        candidate.never_while_borrowing = !borrower_may;
        if (borrower_may) candidate.reason = Reason::kInCohortReclaimWhileBorrowing;
      }
    }
    out.push_back(candidate);
  }
}

void Victims::collect_in(const Contest& contest, Node cohort, Node top, Node skip, bool advantage,
                         std::vector<Candidate>& out) {
  for (const Node child : field_.tree.children(cohort)) {
    if (child == skip || child == contest.work.queue || !field_.tree.beyond_own(child, contest.contested)) continue;
    if (field_.tree.is_queue(child)) {
      collect_from(contest, child, top, advantage, out);
    } else {
      collect_in(contest, child, top, skip, advantage, out);
    }
  }
}

Victims::Lists Victims::collect(const Contest& contest) {
  Lists out;
  const auto& rules = field_.rules[static_cast<std::size_t>(contest.work.queue)];
  if (rules.within_cluster_queue != PreemptPolicy::kNever) {
    collect_from(contest, contest.work.queue, contest.work.queue, false, out.own);
  }
  if (rules.reclaim_within_cohort != PreemptPolicy::kNever) {
    Amounts rest = contest.usage;
    bool advantage = fits_in(field_.tree, contest.work.queue, rest);
    Node before = contest.work.queue;
    for (Node n = field_.tree.parent(before); n >= 0; n = field_.tree.parent(n)) {
      collect_in(contest, n, n, before, advantage, advantage ? out.hierarchical : out.priority);
      advantage = fits_in(field_.tree, n, rest) || advantage;
      before = n;
    }
  }
  for (auto* list : {&out.hierarchical, &out.priority, &out.own}) {
    std::ranges::sort(
        *list, [&](const Candidate& a, const Candidate& b) { return sooner(*a.work, *b.work, contest.work.queue); });
  }
  return out;
}

/// A queue that borrows must still be beyond its own quota, on all levels.
bool Victims::still_counts(const Contest& contest, const Candidate& candidate, bool borrowing) const {
  if (candidate.work->queue == contest.work.queue) return true;
  if (borrowing && candidate.never_while_borrowing) return false;
  for (Node n = candidate.work->queue; n != candidate.top; n = field_.tree.parent(n)) {
    if (!field_.tree.beyond_own(n, contest.contested)) return false;
  }
  return true;
}

bool Victims::fits(const Contest& contest, bool borrowing) const {
  const Node queue = contest.work.queue;
  const bool quota = std::ranges::all_of(contest.usage, [&](const Amount& a) {
    if (!borrowing && field_.tree.borrows_with(queue, a.at, a.amount)) return false;
    return a.amount <= field_.tree.available(queue, a.at);
  });
  return quota && (contest.node_requests.empty() || !field_.topologies->place(contest.node_requests, {}).failed);
}

/// Quota that is given back stays in its queue, so the other victims may be taken as before.
Plan Victims::admit_in_order(const Contest& contest, const std::vector<Candidate>& candidates, bool borrowing,
                             const Spared& spared) {
  Plan out;
  for (const auto& candidate : candidates) {
    if (spared.contains(candidate.work) || !still_counts(contest, candidate, borrowing)) continue;
    take(*candidate.work);
    out.targets.push_back({candidate.work, candidate.reason});
    out.enough = fits(contest, borrowing);
    if (out.enough) break;
  }
  if (out.enough) give_back(contest, out.targets, borrowing, [](const Work&) { return true; });
  for (const auto& target : out.targets) revert(*target.work);
  return out;
}

Plan Victims::classic(const Contest& contest, int cheaper_plan_searches) {
  const auto lists = collect(contest);
  std::vector<Candidate> all;
  for (const bool evicted : {true, false}) {
    for (const auto* list : {&lists.hierarchical, &lists.priority, &lists.own}) {
      std::ranges::copy_if(*list, std::back_inserter(all),
                           [&](const Candidate& c) { return c.work->evicted == evicted; });
    }
  }
  const auto& rules = field_.rules[static_cast<std::size_t>(contest.work.queue)];
  const bool others = !lists.hierarchical.empty() || !lists.priority.empty();
  const bool under_nominal = std::ranges::all_of(contest.contested, [&](Cell c) {
    return field_.tree.used(contest.work.queue, c) < field_.tree.quota(contest.work.queue, c).nominal;
  });
  std::vector<bool> attempts{true, false};
  if (!others || (!rules.preempts_while_borrowing && !under_nominal)) {
    attempts = {true};
  } else if (!rules.preempts_while_borrowing && lists.hierarchical.empty()) {
    attempts = {false, true};
  }
  for (const bool borrowing : attempts) {
    auto plan = admit_in_order(contest, all, borrowing, {});
    if (!plan.enough) continue;
    if (cheaper_plan_searches == 0) return plan;
    std::vector<const Work*> candidates;
    for (const auto& candidate : all) candidates.push_back(candidate.work);
    return cheapest({field_, contest, candidates, cheaper_plan_searches}, std::move(plan),
                    [&](const Spared& spared) { return admit_in_order(contest, all, borrowing, spared); })
        .plan;
  }
  return {};
}

std::vector<Target> Victims::search(const Contest& contest, int cheaper_plan_searches) {
  barred_.clear();
  if (field_.preemptions != nullptr) barred_ = field_.preemptions->excluded_victims(contest.work.id);
  auto plan = field_.fair_sharing ? FairVictims(*this).find(contest, cheaper_plan_searches)
                                  : classic(contest, cheaper_plan_searches);
  if (!plan.enough) plan.targets.clear();
  return std::move(plan.targets);
}

std::vector<Target> Victims::find(const Contest& contest) { return search(contest, field_.cheaper_plan_searches); }

/// The assignment of flavors does not depend on the loss of victims.
Fitting Victims::simulate(const Work& work, Cell cell, std::int64_t amount) {
  const auto targets = search({work, {cell}, {{cell, amount}}}, 0);
  const auto level = [&] { return field_.tree.level(work.queue, cell, amount).height; };
  if (targets.empty()) return {Mode::kNoCandidates, level()};
  for (const auto& target : targets) take(*target.work);
  const int after = level();
  for (const auto& target : targets) revert(*target.work);
  const bool own = std::ranges::any_of(targets, [&](const Target& t) { return t.work->queue == work.queue; });
  return {own ? Mode::kPreempt : Mode::kReclaim, after};
}

}  // namespace qm::admission::kueue
