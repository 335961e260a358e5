// Scheduling without cycles. Each queue nominates the first of its classes with a result. The first nominee in the
// order of cycles is admitted or gets a claim, and then the next one is searched. Free quota only shrinks
// meanwhile, so a class without a result stays closed, and most earlier nominations stay valid.
#include "qm/admission/kueue/continuous.hpp"

#include "qm/admission/kueue/any_fit.hpp"
#include "qm/base/assert.hpp"

#include <algorithm>

namespace qm::admission::kueue {
namespace {

/// The fields that describe a holder of quota; its pod sets are those of its class.
Work holder_of(const Work& work) {
  Work out;
  out.id = work.id;
  out.queue = work.queue;
  out.local_queue = work.local_queue;
  out.priority = work.priority;
  out.raise = work.raise;
  out.overdue = work.overdue;
  out.run_us = work.run_us;
  out.created = work.created;
  out.uid = work.uid;
  out.shape = work.shape;
  out.usage = work.usage;
  out.on_nodes = work.on_nodes;
  out.reserved = work.reserved;
  out.evicted = work.evicted;
  out.stake = work.stake;
  return out;
}

}  // namespace

Continuous::Continuous(QuotaState field, UsageShares usage)
    : preemptions_(std::make_unique<PreemptionGraph>()), field_(std::move(field)), usage_(std::move(usage)) {
  field_.preemptions = preemptions_.get();
  queues_.resize(static_cast<std::size_t>(field_.tree.size()));
}

// ---- classes ----

Continuous::Class& Continuous::class_of(const Work& work) {
  auto& queue = queues_[static_cast<std::size_t>(work.queue)];
  const Key key{work.shape, work.priority, rules(work.queue).by_usage ? work.local_queue : 0,
                preemptions_->knows(work.id) ? work.id : -1, rules(work.queue).backfill ? work.run_us : 0};
  const auto [it, fresh] = queue.classes.try_emplace(key);
  Class& found = it->second;
  if (!fresh) return found;
  found.key = key;
  found.pattern = work;
  // The pattern has the requests of the workload, not its state.
  found.pattern.scan.reset();
  found.pattern.usage.clear();
  found.pattern.on_nodes.clear();
  found.pattern.evicted = false;
  found.pattern.stake = {};
  for (const auto& set : work.pod_sets) {
    for (const auto& [resource, amount] : set.each) {
      const auto* group = rules(work.queue).group_of(resource);
      Need need{amount * set.min_count.value_or(set.count), {}};
      for (std::size_t i = 0; group != nullptr && i < group->options.size(); ++i) {
        const auto& option = group->options[i];
        const Cell cell = option.cells[*group->index_of(resource)];
        found.cells.push_back(cell);
        if (!std::ranges::binary_search(set.refused, option.flavor, {}, &Refusal::flavor)) need.cells.push_back(cell);
      }
      // A replacement of other pods requests only the difference.
      if (need.least > 0 && set.before.empty()) found.needs.push_back(std::move(need));
    }
  }
  std::ranges::sort(found.cells);
  return found;
}

void Continuous::part_with(Class& from) {
  if (--from.members == 0) queues_[static_cast<std::size_t>(from.pattern.queue)].classes.erase(from.key);
}

/// Whether no workload of its queue passes the first of the class.
bool Continuous::holds_up(const Class& of) const {
  return rules(of.pattern.queue).strict || (*of.waiting.begin())->overdue;
}

/// Adds or removes the first workload of a class among the heads of its queue.
void Continuous::show(Class& shown, bool yes) {
  if (shown.waiting.empty() || (!shown.open && !holds_up(shown))) return;
  auto& heads = queues_[static_cast<std::size_t>(shown.pattern.queue)].heads;
  const Place* first = *shown.waiting.begin();
  yes ? (void)heads.emplace(first, &shown) : (void)heads.erase(first);
}

void Continuous::put_in(Class& in, const Work& work) {
  const Place& place = waiters_.emplace(work.id, Waiter{&in, place_of(work)}).place;
  const bool first = in.waiting.empty() || place < **in.waiting.begin();
  show(in, false);
  in.waiting.insert(&place);
  // Among equal priorities an older workload may preempt a newer one.
  if (first && rules(work.queue).within_cluster_queue == PreemptPolicy::kLowerOrNewerEqualPriority) in.open = true;
  if (first && in.nomination && !in.nomination->fits()) in.nomination.reset();
  show(in, true);
  if (in.open) awake_.insert(work.queue);
}

void Continuous::take_out(Class& from, const Place& place) {
  show(from, false);
  from.waiting.erase(&place);
  if (from.nomination && !from.nomination->fits()) from.nomination.reset();
  show(from, true);
  const bool held_up = rules(from.pattern.queue).strict || place.overdue;
  waiters_.erase(int{place.id});
  if (held_up) awake_.insert(from.pattern.queue);
}

void Continuous::open(Class& opened) {
  opened.nomination.reset();
  if (!opened.open) {
    show(opened, false);
    opened.open = true;
    show(opened, true);
  }
  if (!opened.waiting.empty()) awake_.insert(opened.pattern.queue);
}

void Continuous::close(Class& closed) {
  show(closed, false);
  closed.open = false;
  closed.nomination.reset();
  show(closed, true);
}

void Continuous::relax(std::int64_t instant) {
  if (preemptions_->all().empty()) return;
  preemptions_->relax(instant);
  open_alone();
}

void Continuous::look_again() {
  ++version_;
  for (auto& queue : queues_) {
    for (auto& [key, one] : queue.classes) open(one);
  }
}

/// Workloads with preemptions may get a result that was barred before.
void Continuous::open_alone() {
  for (auto& queue : queues_) {
    for (auto& [key, one] : queue.classes) {
      if (key.alone >= 0) open(one);
    }
  }
}

/// With fair sharing, any amount of any cell changes which queue has the next victim.
void Continuous::freed(const Amounts& usage) {
  ++version_;
  for (auto& queue : queues_) {
    for (auto& [key, one] : queue.classes) {
      const bool concerned = field_.fair_sharing || std::ranges::any_of(usage, [&](const Amount& a) {
                               return std::ranges::binary_search(one.cells, a.at);
                             });
      if (concerned) open(one);
    }
  }
}

// ---- state changes ----

void Continuous::enqueue(Work work) {
  auto& in = class_of(work);
  ++in.members;
  if (work.fault == Work::Fault::kNone) return put_in(in, work);
  faulty_.emplace(work.id, &in);
}

void Continuous::claim(const Work& work, Amounts usage, LeafUses on_nodes, std::vector<int> victims) {
  auto& of = class_of(work);
  ++of.members;
  Claim made{&of, place_of(work), {}, std::move(victims)};
  made.assignment.usage = std::move(usage);
  made.assignment.on_nodes = std::move(on_nodes);
  field_.take(work.queue, made.assignment.usage, made.assignment.on_nodes);
  ++version_;
  claims_.emplace(work.id, std::move(made));
}

void Continuous::hold(Work work) {
  auto& of = class_of(work);
  ++of.members;
  const auto [it, fresh] = holders_.emplace(work.id, Holder{holder_of(work), &of});
  QM_ASSERT(fresh, "workload {} holds quota already", work.id);
  hold_quota(it->second.work);
}

void Continuous::hold_quota(const Work& work) {
  field_.hold(work);
  ++queues_[static_cast<std::size_t>(work.queue)].held[work.effective_priority()];
  ++version_;
}

void Continuous::release_quota(const Work& work) {
  field_.release(work);
  auto& held = queues_[static_cast<std::size_t>(work.queue)].held;
  if (const auto at = held.find(work.effective_priority()); --at->second == 0) held.erase(at);
}

void Continuous::stake(int id, const Stake& stake) {
  auto& work = holders_.at(id).work;
  const bool free = stake.min_runtime_until < work.stake.min_runtime_until;
  work.stake = stake;
  if (free) freed(work.usage);
}

/// Its quota may be counted on from now on.
void Continuous::leave(int id) {
  auto& work = holders_.at(id).work;
  if (!std::exchange(work.evicted, true)) freed(work.usage);
}

void Continuous::finish(int id) {
  const bool bound = preemptions_->knows(id);
  preemptions_->forget(id);
  withdraw(id);
  if (bound) open_alone();
}

void Continuous::withdraw(int id) {
  if (const auto holder = holders_.find(id); holder != holders_.end()) {
    release_quota(holder->second.work);
    const auto [work, of] = std::move(holder->second);
    holders_.erase(holder);
    part_with(*of);
    return freed(work.usage);
  }
  if (const auto claim = claims_.find(id); claim != claims_.end()) {
    const auto [of, place, assignment, victims] = std::move(claim->second);
    claims_.erase(claim);
    field_.give_back(of->pattern.queue, assignment.usage, assignment.on_nodes);
    part_with(*of);
    return freed(assignment.usage);
  }
  Class* of = nullptr;
  if (const auto* waiter = waiters_.find(id)) {
    of = waiter->of;
    take_out(*of, waiter->place);
  } else {
    const auto fault = faulty_.find(id);
    QM_ASSERT(fault != faulty_.end(), "workload {} is not known", id);
    of = fault->second;
    faulty_.erase(fault);
  }
  part_with(*of);
}

void Continuous::shrink(int id, Amounts usage) {
  auto& work = holders_.at(id).work;
  release_quota(work);
  const Amounts before = std::exchange(work.usage, std::move(usage));
  hold_quota(work);
  freed(before);
}

void Continuous::evicted(int id) {
  const auto holder = holders_.find(id);
  QM_ASSERT(holder != holders_.end(), "workload {} holds no quota", id);
  release_quota(holder->second.work);
  auto [work, of] = std::move(holder->second);
  holders_.erase(holder);
  const Amounts usage = std::move(work.usage);
  wait_again(*of, place_of(work));
  freed(usage);
}

/// The results of its class may no longer hold for a workload that preempted others or was preempted.
void Continuous::wait_again(Class& of, const Place& place) {
  Work work = as_first(of, place);
  auto& now_of = class_of(work);
  ++now_of.members;
  part_with(of);
  put_in(now_of, work);
}

// ---- decisions ----

const Work& Continuous::as_first(Class& of, const Place& place) {
  if (of.pattern.id == place.id && place_of(of.pattern) == place) return of.pattern;
  std::tie(std::ignore, of.pattern.created, of.pattern.uid) = place.order;
  of.pattern.raise = -std::get<0>(place.order) - of.pattern.priority;
  of.pattern.overdue = place.overdue;
  of.pattern.run_us = place.run_us;
  of.pattern.id = place.id;
  return of.pattern;
}

Nomination Continuous::look(const Work& work) {
  auto made = nominate(field_, work);
  const bool good = made.fits() ? field_.tree.fits(work.queue, made.assignment.usage) : made.good();
  if (good) return made;
  if (auto fit = any_fit(field_, work)) return {std::move(*fit), {}};
  if (made.fits()) made.assignment.sets.front().fits_nothing = true;  // it was assumed to fit
  return made;
}

/// Whether there may be any preemption candidates for the first of a class.
bool Continuous::may_displace(const Class& of) const {
  const Node own = of.pattern.queue;
  const auto gives = [&](PreemptPolicy policy, Node queue) {
    const auto& held = queues_[static_cast<std::size_t>(queue)].held;
    if (held.empty() || policy <= PreemptPolicy::kUnset) return false;
    if (policy == PreemptPolicy::kAny) return true;
    const auto least = held.begin()->first;
    return policy == PreemptPolicy::kLowerPriority ? least < of.key.priority : least <= of.key.priority;
  };
  if (gives(rules(own).within_cluster_queue, own)) return true;
  if (rules(own).reclaim_within_cohort <= PreemptPolicy::kUnset) return false;
  for (Node queue = 0; queue < field_.tree.size(); ++queue) {
    if (queue == own || !field_.tree.is_queue(queue) || !gives(rules(own).reclaim_within_cohort, queue)) continue;
    if (field_.tree.beyond_own(queue, of.cells)) return true;
  }
  return false;
}

/// Known to be unschedulable: some of its pods fit no flavor, and there are no preemption candidates.
bool Continuous::known_unschedulable(const Class& of) const {
  if (field_.topologies != nullptr) return false;
  const auto nowhere = [&](const Need& need) {
    return std::ranges::none_of(need.cells,
                                [&](Cell c) { return need.least <= field_.tree.available(of.pattern.queue, c); });
  };
  return std::ranges::any_of(of.needs, nowhere) && !may_displace(of);
}

void Continuous::search(Class& of) {
  of.nomination = look(as_first(of, **of.waiting.begin()));
  of.seen = version_;
  const auto& [assignment, targets] = *of.nomination;
  const auto& queue = rules(of.pattern.queue);
  of.plain =
      targets.empty() && assignment.on_nodes.empty() && (!assignment.requires_borrowing() || queue.stops_at_borrowing);
  for (std::size_t i = 0; of.plain && i < assignment.sets.size(); ++i) {
    of.plain = assignment.sets[i].count == of.pattern.pod_sets[i].count &&
               std::ranges::all_of(assignment.sets[i].flavors, [&](const FlavorChoice& choice) {
                 return choice.flavor == queue.group_of(choice.resource)->options.front().flavor;
               });
  }
}

/// Whether a search would return the same result: for all pods the first flavors that the queue offers, within the
/// available amounts, at the same level of borrowing. Other assignments may have other results.
bool Continuous::stands(const Class& of) const {
  if (of.seen == version_) return true;
  if (!of.plain) return false;
  const Node queue = of.pattern.queue;
  int level = 0;
  for (const auto& [cell, amount] : of.nomination->assignment.usage) {
    if (field_.tree.available(queue, cell) < amount) return false;
    level = std::max(level, field_.tree.level(queue, cell, amount).height);
  }
  return level == of.nomination->assignment.borrowing;
}

/// Whether there is a result for the first of a class; closes the class if not.
bool Continuous::has_something(Class& of) {
  if (!of.nomination || !stands(of)) {
    if (known_unschedulable(of)) {
      close(of);
      return false;
    }
    search(of);
  }
  of.seen = version_;
  if (of.nomination->good()) return true;
  close(of);
  return false;
}

Continuous::Class* Continuous::nominee_of(Node node) {
  auto& queue = queues_[static_cast<std::size_t>(node)];
  if (rules(node).inactive) return nullptr;
  while (!queue.heads.empty()) {
    auto head = queue.heads.begin();
    if (rules(node).by_usage) {
      head = std::ranges::min_element(queue.heads, {}, [&](const auto& one) {
        return std::pair(usage_.of(one.second->pattern.local_queue), *one.first);
      });
    }
    Class& first = *head->second;
    if (!first.open) return rules(node).backfill && foresight_ ? filler_of(node) : nullptr;
    if (has_something(first)) return &first;
  }
  return nullptr;
}

/// A workload that is backfilled behind the head of a strict queue without delaying a reserved start. Reservations
/// are for workloads ahead of it in its own queue, and for the heads of other strict queues. Only the first of each
/// class is tried.
Continuous::Class* Continuous::filler_of(Node node) {
  constexpr std::size_t kDeepest = 100;
  foresight_->begin(field_);
  for (Node other = 0; other < field_.tree.size(); ++other) {
    const auto& heads = queues_[static_cast<std::size_t>(other)].heads;
    if (other == node || heads.empty() || rules(other).inactive || !rules(other).strict) continue;
    (void)foresight_->reserve(as_first(*heads.begin()->second, *heads.begin()->first));
  }
  std::vector<std::pair<const Place*, Class*>> all;
  for (auto& [key, one] : queues_[static_cast<std::size_t>(node)].classes) {
    std::size_t taken = 0;
    for (const auto* place : one.waiting) {
      if (taken++ == kDeepest) break;
      all.emplace_back(place, &one);
    }
  }
  std::ranges::sort(all, [](const auto& a, const auto& b) { return *a.first < *b.first; });
  for (std::size_t i = 0; i < all.size() && i < kDeepest; ++i) {
    const auto& [place, of] = all[i];
    const bool may = i > 0 && place == *of->waiting.begin() && of->open;
    if (may && has_something(*of) && of->nomination->fits() &&
        foresight_->passes(as_first(*of, *place), of->nomination->assignment.usage)) {
      return of;
    }
    if (!foresight_->reserve(as_first(*of, *place))) return nullptr;
  }
  return nullptr;
}

/// No workload precedes one that preempted it and is pending as well.
Continuous::Class& Continuous::next(std::vector<Class*>& nominees) {
  if (!preemptions_->all().empty()) {
    const auto all = nominees;
    const auto first_id = [](const Class* of) { return (*of->waiting.begin())->id; };
    std::erase_if(nominees, [&](const Class* one) {
      return std::ranges::any_of(
          all, [&](const Class* other) { return preemptions_->above(first_id(other), first_id(one)); });
    });
  }
  std::vector<Entrant> entrants;
  entrants.reserve(nominees.size());
  for (auto* one : nominees) {
    const auto& assignment = one->nomination->assignment;
    entrants.push_back({{as_first(*one, **one->waiting.begin()), assignment.borrowing, false}, assignment.usage});
  }
  return *nominees[first_of(field_.tree, entrants, field_.fair_sharing, field_.order)];
}

void Continuous::hold_now(Class& of, const Work& work, const Assignment& assignment, std::int64_t now) {
  Work holder = holder_of(work);
  holder.usage = assignment.usage;
  holder.on_nodes = assignment.on_nodes;
  holder.reserved = now;
  const Work& held = holders_.emplace(work.id, Holder{std::move(holder), &of}).first->second.work;
  hold_quota(held);
  preemptions_->admitted(held.id);
  if (!rules(work.queue).by_usage) return;
  UsageShares::Totals requests;
  for (const auto& [cell, amount] : held.usage) requests[field_.tree.resource(cell)] += static_cast<double>(amount);
  usage_.penalize(held.local_queue, requests);
}

void Continuous::admit(Class& of, std::int64_t now, Outcome& out) {
  const Place first = **of.waiting.begin();
  take_out(of, **of.waiting.begin());
  hold_now(of, as_first(of, first), of.nomination->assignment, now);
  out.admitted.push_back({first.id, of.nomination->assignment});
}

/// Evicts its victims. From now on it has a claim to its quota.
void Continuous::record_preemption(Class& of, Outcome& out) {
  const Place first = **of.waiting.begin();
  Claim claim{&of, first, std::move(of.nomination->assignment), {}};
  field_.record(as_first(of, first), of.nomination->targets);
  for (const auto& target : of.nomination->targets) {
    const int id = target.work->id;
    claim.victims.push_back(id);
    if (std::exchange(holders_.at(id).work.evicted, true)) continue;
    out.preempted.push_back({id, first.id, target.reason});
  }
  of.nomination.reset();
  take_out(of, **of.waiting.begin());
  field_.take(of.pattern.queue, claim.assignment.usage, claim.assignment.on_nodes);
  ++version_;
  out.waiting.emplace_back(first.id, Wait::kWaitingForPreemptedWorkloads);
  claims_.emplace(first.id, std::move(claim));
}

/// Admits a claiming workload once it fits. If its victims are gone and it still does not fit, it is pending like
/// others, and other workloads may get the claimed quota.
void Continuous::settle(std::int64_t now, Outcome& out) {
  std::vector<Claim*> claims;
  for (auto& [id, claim] : claims_) claims.push_back(&claim);
  std::ranges::sort(claims, {}, [](const Claim* c) { return c->place; });
  for (auto* claim : claims) {
    Class& of = *claim->of;
    const Node queue = of.pattern.queue;
    const auto& assignment = claim->assignment;
    const int id = claim->place.id;
    field_.give_back(queue, assignment.usage, assignment.on_nodes);
    const bool fits = field_.tree.fits(queue, assignment.usage) &&
                      (assignment.on_nodes.empty() || field_.topologies->fits(assignment.on_nodes));
    const bool hopes = std::ranges::any_of(claim->victims, [&](int victim) {
      const auto found = holders_.find(victim);
      return found != holders_.end() && found->second.work.evicted;
    });
    if (fits) {
      hold_now(of, as_first(of, claim->place), assignment, now);
      out.admitted.push_back({id, std::move(claim->assignment)});
      claims_.erase(id);
    } else if (hopes) {
      field_.take(queue, assignment.usage, assignment.on_nodes);
    } else {
      const Amounts usage = assignment.usage;
      const Place place = claim->place;
      claims_.erase(id);
      out.unclaimed.push_back(id);
      wait_again(of, place);
      freed(usage);
      return settle(now, out);
    }
  }
}

/// After admissions, workloads may have preemption candidates that had none before.
void Continuous::reopen() {
  for (Node node = 0; node < field_.tree.size(); ++node) {
    const auto& policies = rules(node);
    const auto preempts = [](PreemptPolicy policy) { return policy > PreemptPolicy::kUnset; };
    if (!preempts(policies.within_cluster_queue) && policies.reclaim_within_cohort == PreemptPolicy::kNever) continue;
    for (auto& [key, one] : queues_[static_cast<std::size_t>(node)].classes) {
      if (!one.open) open(one);
    }
  }
}

/// Admits or preempts for nominees until there are none; returns whether there were any.
bool Continuous::decide(std::int64_t now, Outcome& out) {
  std::vector<Class*> nominees;
  for (bool any = false;; any = true) {
    nominees.clear();
    for (auto it = awake_.begin(); it != awake_.end();) {
      Class* nominee = nominee_of(*it);
      if (nominee != nullptr) nominees.push_back(nominee);
      it = nominee == nullptr ? awake_.erase(it) : std::next(it);
    }
    if (nominees.empty()) return any;
    Class& first = next(nominees);
    first.nomination->fits() ? admit(first, now, out) : record_preemption(first, out);
  }
}

/// In a queue that orders by usage, victims are taken first from the local queue with the most usage.
void Continuous::weigh_holders() {
  if (std::ranges::none_of(field_.rules, &QueueRules::by_usage)) return;
  for (auto& [id, holder] : holders_) {
    if (rules(holder.work.queue).by_usage) holder.work.queue_usage = usage_.of(holder.work.local_queue);
  }
}

Outcome Continuous::run(std::int64_t now) {
  Outcome out;
  field_.now = now;
  weigh_holders();
  settle(now, out);
  while (decide(now, out)) reopen();
  return out;
}

std::int64_t Continuous::claimed(Node queue, Cell cell) const {
  std::int64_t sum = 0;
  for (const auto& [id, claim] : claims_) {
    if (claim.of->pattern.queue == queue) sum = plus(sum, amount_at(claim.assignment.usage, cell));
  }
  return sum;
}

}  // namespace qm::admission::kueue
