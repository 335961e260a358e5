// One cycle. The head of each queue is nominated in the current state of the tree: a flavor assignment, and victims
// if it needs them. Then the nominees are processed one by one, each checked against what earlier ones reserved. A
// nominee that needs victims reserves its quota now and waits for them.
#include "qm/admission/kueue/cycle.hpp"

#include "qm/admission/kueue/variants.hpp"

#include <algorithm>
#include <utility>

namespace qm::admission::kueue {

Cycle::Cycle(QuotaState field, UsageShares usage) : field_(std::move(field)), usage_(std::move(usage)) {
  queues_.resize(static_cast<std::size_t>(field_.tree.size()));
}

void Cycle::activate(const Work& work) { queue_of(work).active.insert({work.order(), work.id}); }

void Cycle::enqueue(Work work, bool backs_off) {
  auto [it, fresh] = works_.insert_or_assign(work.id, std::move(work));
  const Work& added = it->second;
  auto& queue = queue_of(added);
  queue.inadmissible.erase(added.id);
  queue.backing_off.erase(added.id);
  if (backs_off) queue.backing_off.insert(added.id);
  if (backs_off || (!rules_of(added).strict && queue.known_unschedulable.contains(added.shape))) {
    queue.inadmissible.insert(added.id);
  } else {
    activate(added);
  }
}

void Cycle::hold(Work work) {
  auto [it, fresh] = works_.insert_or_assign(work.id, std::move(work));
  field_.hold(it->second);
}

void Cycle::finish(int id) {
  const Work& work = works_.at(id);
  if (field_.preemptions != nullptr) field_.preemptions->forget(id);
  auto& queue = queue_of(work);
  queue.backing_off.erase(id);
  if (queue.active.erase({work.order(), id}) + queue.inadmissible.erase(id) == 0) {
    field_.release(work);
    ++queue.generation;
  }
  if (queue.preemptor == id) queue.preemptor = -1;
  works_.erase(id);
}

void Cycle::shrink(int id, Amounts usage) {
  Work& work = works_.at(id);
  field_.release(work);
  work.usage = std::move(usage);
  field_.hold(work);
  ++queue_of(work).generation;
}

void Cycle::evicted(int id) {
  Work& work = works_.at(id);
  field_.release(work);
  ++queue_of(work).generation;
  work.usage.clear();
  work.on_nodes.clear();
  work.reserved = 0;
  work.evicted = false;
  work.admitted = false;
  work.scan.reset();
  enqueue(Work(work));
}

void Cycle::requeue() {
  for (auto& queue : queues_) {
    queue.known_unschedulable.clear();
    for (const int id : queue.inadmissible) {
      if (!queue.backing_off.contains(id)) activate(works_.at(id));
    }
    queue.inadmissible = queue.backing_off;
  }
}

bool Cycle::active(int id) const {
  const Work& work = works_.at(id);
  return queues_[static_cast<std::size_t>(work.queue)].active.contains({work.order(), id});
}
std::size_t Cycle::active_works() const {
  std::size_t sum = 0;
  for (const auto& queue : queues_) sum += queue.active.size();
  return sum;
}
bool Cycle::waits(int id) const {
  return active(id) || queues_[static_cast<std::size_t>(works_.at(id).queue)].inadmissible.contains(id);
}

/// Usage of the local queue comes first, if the queue orders by it; then the workload that waits for its victims.
Cycle::Queue::Order::iterator Cycle::head_of(Queue& queue, const QueueRules& rules) {
  auto first = queue.active.begin();
  if (queue.preemptor >= 0 && !rules.strict) {
    const auto waiting = queue.active.find({works_.at(queue.preemptor).order(), queue.preemptor});
    if (waiting != queue.active.end()) first = waiting;
  }
  if (!rules.by_usage) return first;
  const auto used = [&](auto at) { return usage_.of(works_.at(at->second).local_queue); };
  auto head = first;
  for (auto it = queue.active.begin(); it != queue.active.end(); ++it) {
    if (used(it) < used(head)) head = it;
  }
  return head;
}

std::vector<Cycle::Entry> Cycle::heads() {
  std::vector<Entry> out;
  out.reserve(queues_.size());
  for (std::size_t node = 0; node < queues_.size(); ++node) {
    auto& queue = queues_[node];
    const auto& rules = field_.rules[node];
    if (queue.active.empty() || rules.inactive) continue;
    const auto head = head_of(queue, rules);
    out.push_back({.work = &works_.at(head->second)});
    queue.active.erase(head);
  }
  return out;
}

/// Nominates, and records the progress of the flavor search.
void Cycle::search(Entry& entry, const Assignment* same_as, std::int64_t cycle) {
  auto made = kueue::nominate(field_, *entry.work, same_as);
  entry.assignment = std::move(made.assignment);
  entry.targets = std::move(made.targets);
  entry.assignment.scan.generation = queue_of(*entry.work).generation;
  entry.assignment.scan.cycle = cycle;
  entry.assignment.scan.shape = entry.work->shape;
  entry.work->scan = entry.assignment.scan;
}

void Cycle::set_quota(Node queue, Cell cell, const Quota& quota) {
  field_.tree.set_quota(queue, cell, quota);
  if (field_.preemptions != nullptr) field_.preemptions->clear();
  for (auto& one : queues_) ++one.generation;  // the lendable amounts change for all queues
}

void Cycle::place_again(int id, std::vector<NodeRequest> node_requests,
                        std::optional<topology::Replacement> replacement) {
  again_.push_back({id, std::move(node_requests), std::move(replacement)});
}

Placing Cycle::place(const Again& again) {
  return field_.topologies->place(again.node_requests,
                                  {.replacement = again.replacement ? &*again.replacement : nullptr});
}

std::vector<PlacedAgain> Cycle::place_holders() {
  placing_ = std::exchange(again_, {});
  std::erase_if(placing_, [&](const Again& a) { return field_.topologies == nullptr || !works_.contains(a.id); });
  std::ranges::stable_sort(placing_, [&](const Again& a, const Again& b) {
    return goes_before({works_.at(a.id)}, {works_.at(b.id)}, field_.order);
  });
  std::vector<PlacedAgain> out;
  for (const auto& again : placing_) out.push_back({again.id, place(again)});
  return out;
}

/// Until the end of the cycle, both the old and the new nodes count as used.
void Cycle::take_placed(std::vector<PlacedAgain>& placed) {
  for (std::size_t i = 0; i < placed.size(); ++i) {
    const auto& work = works_.at(placed[i].id);
    auto& placing = placed[i].placing;
    if (placing.failed) continue;
    auto more = beyond(field_.topologies->uses_of(placing.placed), work.on_nodes);
    if (!field_.topologies->fits(more)) {
      placing = field_.places_again ? place(placing_[i]) : Placing{};
      if (placing.failed) continue;
      more = beyond(field_.topologies->uses_of(placing.placed), work.on_nodes);
    }
    field_.topologies->take(more);
    taken_.push_back({work.queue, {}, std::move(more)});
  }
}

void Cycle::keep_placed(const std::vector<PlacedAgain>& placed) {
  for (const auto& [id, placing] : placed) {
    if (placing.placed.empty()) continue;
    auto& work = works_.at(id);
    field_.topologies->give_back(work.on_nodes);
    work.on_nodes = field_.topologies->uses_of(placing.placed);
    field_.topologies->take(work.on_nodes);
    ++queue_of(work).generation;
  }
}

void Cycle::nominate(Entry& entry, std::int64_t cycle) {
  Work& work = *entry.work;
  const auto generation = queue_of(work).generation;
  if (work.scan && outdated(*work.scan, work.shape, cycle, generation, field_.order)) work.scan.reset();
  if (work.ties != nullptr && work.ties->replaces >= 0) {
    const auto old = works_.find(work.ties->replaces);
    if (old != works_.end() && old->second.queue == work.queue && !old->second.usage.empty()) {
      entry.replaces = &old->second;
    } else {
      for (auto& set : work.pod_sets) {
        set.before.clear();
        set.pods_before = 0;
      }
    }
  }
  search(entry, nullptr, cycle);
}

bool Cycle::overlaps(const Entry& entry, const std::vector<const Work*>& claimed) const {
  const auto taken = [&](const Work* work) { return std::ranges::find(claimed, work) != claimed.end(); };
  return std::ranges::any_of(entry.targets, taken, &Target::work) ||
         (entry.replaces != nullptr && taken(entry.replaces));
}

/// Nominees without a preemptor among the other nominees: the preemptor freed the quota that both request.
std::vector<Cycle::Entry*> Cycle::uppermost(const std::vector<Entry*>& entries) const {
  auto out = entries;
  if (field_.preemptions == nullptr) return out;
  std::erase_if(out, [&](const Entry* entry) {
    return std::ranges::any_of(
        entries, [&](const Entry* other) { return field_.preemptions->above(other->work->id, entry->work->id); });
  });
  return out;
}

std::size_t Cycle::next(const std::vector<Entry*>& entries) {
  std::vector<Entrant> entrants;
  entrants.reserve(entries.size());
  for (const auto* entry : entries) entrants.push_back({nominee_of(*entry), entry->assignment.usage});
  return first_of(field_.tree, entrants, field_.fair_sharing, field_.order);
}

Nominee Cycle::nominee_of(const Entry& entry) const {
  const auto& queue = queues_[static_cast<std::size_t>(entry.work->queue)];
  return {*entry.work, entry.assignment.borrowing, queue.preemptor == entry.work->id};
}

/// What blocks it once all claimed workloads and its own victims are gone.
Cycle::FitResult Cycle::check_fit(const Entry& entry, const std::vector<const Work*>& claimed) {
  const auto& assignment = entry.assignment;
  for (const auto* gone : claimed) field_.give_back(gone->queue, gone->usage, gone->on_nodes);
  std::vector<const Work*> more;
  const auto goes = [&](const Work* work) {
    if (std::ranges::find(claimed, work) == claimed.end()) more.push_back(work);
  };
  for (const auto& target : entry.targets) goes(target.work);
  if (entry.replaces != nullptr) goes(entry.replaces);
  for (const auto* gone : more) field_.give_back(gone->queue, gone->usage, gone->on_nodes);
  auto out = FitResult::kAll;
  if (!field_.tree.fits(entry.work->queue, assignment.usage)) {
    out = FitResult::kNoQuota;
  } else if (!assignment.on_nodes.empty() && !field_.topologies->fits(assignment.on_nodes)) {
    out = FitResult::kNoNodes;
  }
  for (const auto* gone : more) field_.take(gone->queue, gone->usage, gone->on_nodes);
  for (const auto* gone : claimed) field_.take(gone->queue, gone->usage, gone->on_nodes);
  return out;
}

/// A variant of a better flavor is admitted already.
bool Cycle::passed_over(Entry& entry) const {
  if (better_variant(field_, *entry.work) == nullptr) return false;
  entry.fate = Fate::kSkipped;
  entry.wait = Wait::kPendingEvaluation;
  return true;
}

/// If other workloads use its nodes, it is nominated again in the state of the cycle, with the same flavors.
void Cycle::recompute_placement(Entry& entry, std::int64_t cycle, const std::vector<const Work*>& claimed) {
  if (!field_.places_again || entry.assignment.on_nodes.empty() || check_fit(entry, claimed) != FitResult::kNoNodes)
    return;
  const Assignment nominated = entry.assignment;
  search(entry, &nominated, cycle);
}

/// If others have claimed its victims; returns false if it has to wait for the next cycle.
bool Cycle::look_again(Entry& entry, std::int64_t cycle, const std::vector<const Work*>& claimed) {
  if (!overlaps(entry, claimed)) return true;
  if (!field_.looks_again) {
    entry.fate = Fate::kSkipped;
    return false;
  }
  for (const auto* gone : claimed) field_.release(*gone);
  const Assignment nominated = entry.assignment;
  search(entry, &nominated, cycle);
  for (const auto* gone : claimed) field_.hold(*gone);
  if (entry.assignment.mode() == Mode::kFit) {
    // It will fit once the claimed workloads are gone, without victims of its own.
    field_.take(entry.work->queue, entry.assignment.usage, entry.assignment.on_nodes);
    taken_.push_back({entry.work->queue, entry.assignment.usage, entry.assignment.on_nodes});
    entry.targets.clear();
    entry.requeue = Requeue::kPendingPreemption;
    return false;
  }
  if (entry.targets.empty()) entry.requeue = Requeue::kNoCandidates;
  return !entry.targets.empty();
}

void Cycle::process(Entry& entry, std::int64_t cycle, std::vector<const Work*>& claimed) {
  const Work& work = *entry.work;
  const auto& rules = rules_of(work);
  const auto take = [&](const Amounts& amounts) {
    field_.take(work.queue, amounts, entry.assignment.on_nodes);
    taken_.push_back({work.queue, amounts, entry.assignment.on_nodes});
  };
  if (passed_over(entry)) return;
  recompute_placement(entry, cycle, claimed);
  if (entry.assignment.mode() == Mode::kNoFit) {
    entry.requeue = Requeue::kNoFit;
    return;
  }
  if (entry.assignment.mode() == Mode::kPreempt && entry.targets.empty()) {
    entry.requeue = Requeue::kNoCandidates;
    // Quota that it may reclaim from any workload at any time need not be reserved.
    if (rules.reclaim_within_cohort != PreemptPolicy::kAny) {
      take(reserved(field_.tree, work.queue, entry.assignment.usage, entry.assignment.mode(),
                    entry.assignment.borrowing));
    }
    return;
  }
  const auto gated = [&] {
    if (entry.assignment.mode() != Mode::kPreempt || work.ties == nullptr || !work.ties->gated) return false;
    entry.fate = Fate::kGated;
    entry.requeue = Requeue::kPreemptionGated;
    entry.wait = Wait::kAdmissionGated;
    return true;
  };
  if (gated() || !look_again(entry, cycle, claimed) || gated()) return;
  if (check_fit(entry, claimed) != FitResult::kAll || !field_.permits(work, entry.targets)) {
    entry.fate = Fate::kSkipped;
    return;
  }
  field_.record(work, entry.targets);
  for (const auto& target : entry.targets) claimed.push_back(target.work);
  if (entry.replaces != nullptr) claimed.push_back(entry.replaces);
  take(entry.assignment.usage);
  if (!entry.targets.empty()) {
    entry.requeue = preempting(static_cast<int>(entry.targets.size()), 0).reason;
    return;
  }
  if (const auto* worse = worse_variant(field_, work); worse != nullptr) {
    entry.wait = Wait::kPendingEvaluation;
    if (!may_migrate(rules, work)) return;
    entry.wait = Wait::kWaitingForPreemptedWorkloads;
    entry.moves = worse;
    entry.requeue = Requeue::kPendingMigration;
    return;
  }
  entry.fate = Fate::kAssumed;
}

Return Cycle::revert(int id, Fate fate, Requeue reason) {
  Work& work = works_.at(id);
  auto& queue = queue_of(work);
  queue.active.erase({work.order(), id});
  const auto out = returned(fate, reason, rules_of(work).strict, work.scan && work.scan->unfinished());
  const bool preempts = out.reason == Requeue::kPendingPreemption || out.reason == Requeue::kPendingMigration;
  // It stays the preemptor until it is admitted or gone, whatever blocks it meanwhile.
  if (preempts) queue.preemptor = id;
  if (preempts || out.reason == Requeue::kPreemptionFailed) work.scan.reset();
  if (out.at_once) {
    activate(work);
    return out;
  }
  queue.inadmissible.insert(id);
  if (!out.closes_shape || work.shape < 0) return out;
  queue.known_unschedulable.insert(work.shape);
  for (auto it = queue.active.begin(); it != queue.active.end();) {
    const bool like = works_.at(it->second).shape == work.shape;
    if (like) queue.inadmissible.insert(it->second);
    it = like ? queue.active.erase(it) : std::next(it);
  }
  return out;
}

void Cycle::admission_failed(int id, bool gone) {
  Work& work = works_.at(id);
  const auto& rules = rules_of(work);
  if (rules.by_usage) usage_.penalize(work.local_queue, requests_of(work), -1);
  field_.release(work);
  work.usage.clear();
  work.on_nodes.clear();
  work.reserved = 0;
  work.admitted = false;
  if (gone) {
    works_.erase(id);
  } else {
    revert(id, Fate::kAssumed, Requeue::kGeneric);
  }
}

void Cycle::preemption_failed(int id, const std::vector<int>& spared) {
  for (const int one : spared) works_.at(one).evicted = false;
  revert(id, Fate::kNotNominated, preempting(0, static_cast<int>(spared.size())).reason);
}

UsageShares::Totals Cycle::requests_of(const Work& work) const {
  UsageShares::Totals out;
  for (const auto& [cell, amount] : work.usage) out[field_.tree.resource(cell)] += static_cast<double>(amount);
  return out;
}

/// In a queue that orders by usage, victims are taken first from the local queue with the most usage.
void Cycle::weigh_holders() {
  if (std::ranges::none_of(field_.rules, &QueueRules::by_usage)) return;
  for (auto& [id, work] : works_) {
    if (rules_of(work).by_usage) work.queue_usage = usage_.of(work.local_queue);
  }
}

Outcome Cycle::run(std::int64_t cycle, std::int64_t now) {
  field_.now = now;
  weigh_holders();
  auto entries = heads();
  auto holders = place_holders();
  std::vector<Entry*> left;
  for (auto& entry : entries) {
    if (entry.work->fault != Work::Fault::kNone) continue;
    nominate(entry, cycle);
    left.push_back(&entry);
  }
  Outcome out;
  out.placed_again = std::move(holders);
  take_placed(out.placed_again);
  std::vector<const Work*> claimed;
  while (!left.empty()) {
    const auto nominees = uppermost(left);
    auto* first = nominees[next(nominees)];
    process(*first, cycle, claimed);
    std::erase(left, first);
  }
  for (const auto& [queue, usage, on_nodes] : taken_) field_.give_back(queue, usage, on_nodes);
  taken_.clear();

  keep_placed(out.placed_again);
  for (auto& entry : entries) settle(entry, out);
  return out;
}

void Cycle::settle(Entry& entry, Outcome& out) {
  Work& work = *entry.work;
  if (entry.fate == Fate::kAssumed) {
    auto& queue = queue_of(work);
    if (queue.preemptor == work.id) queue.preemptor = -1;
    ++queue.generation;  // as in Kueue's cache, which replaces a workload once its admission is confirmed
    const bool counts = entry_counts(rules_of(work), work);
    work.usage = entry.assignment.usage;
    if (entry.replaces != nullptr) add_before(work, entry.assignment);
    work.on_nodes = entry.assignment.on_nodes;
    work.reserved = field_.now;
    work.admitted = !rules_of(work).checked;
    work.scan.reset();
    if (counts) usage_.penalize(work.local_queue, requests_of(work));
    if (field_.preemptions != nullptr) field_.preemptions->admitted(work.id);
    field_.hold(work);
    if (entry.replaces != nullptr) out.replaced.emplace_back(entry.replaces->id, work.id);
    out.admitted.push_back({work.id, std::move(entry.assignment)});
    return;
  }
  for (const auto& target : entry.targets) {
    if (entry.requeue != Requeue::kPendingPreemption) break;
    works_.at(target.work->id).evicted = true;
    out.preempted.push_back({target.work->id, work.id, target.reason});
  }
  if (entry.moves != nullptr) {
    works_.at(entry.moves->id).evicted = true;
    out.preempted.push_back({entry.moves->id, work.id, Reason::kFlavorMigration});
  }
  if (work.fault == Work::Fault::kNamespace) entry.requeue = Requeue::kNamespaceMismatch;
  out.waiting.emplace_back(work.id, wait_of(entry));
  revert(work.id, entry.fate, entry.requeue);
}

/// The usage that it inherits from the slice that it replaces.
void Cycle::add_before(Work& work, const Assignment& assignment) {
  for (std::size_t i = 0; i < assignment.sets.size(); ++i) {
    for (const auto& choice : assignment.sets[i].flavors) {
      for (const auto& before : work.pod_sets[i].before) {
        if (before.resource == choice.resource) add_to(work.usage, choice.cell, before.amount);
      }
    }
    work.pod_sets[i].before.clear();
    work.pod_sets[i].pods_before = 0;
  }
}

Wait Cycle::wait_of(const Entry& entry) {
  if (entry.work->fault == Work::Fault::kChecks) return Wait::kPendingEvaluation;
  if (entry.work->fault != Work::Fault::kNone) return Wait::kMisconfigured;
  if (entry.wait) return *entry.wait;
  if (entry.requeue == Requeue::kPendingPreemption) return Wait::kWaitingForPreemptedWorkloads;
  switch (entry.assignment.no_fit()) {
    case NoFit::kNoMatchingFlavor:
      return Wait::kNoMatchingFlavor;
    case NoFit::kExceedsMaxQuota:
      return Wait::kExceedsMaxQuota;
    case NoFit::kTopologyPlacementFailed:
      return Wait::kTopologyPlacementFailed;
    default:
      return Wait::kWaitingForQuota;
  }
}

}  // namespace qm::admission::kueue
