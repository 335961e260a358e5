// One cycle. The head of each queue is nominated against the tree as it stands: a flavor choice, and victims where it needs
// some. Then the nominees are taken one by one, each checked against what those before it took; whoever needs victims takes
// its room now and waits for them.
#include "qm/admission/exact/cycle.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>
#include <utility>

namespace qm::admission::exact {

Cycle::Cycle(Field field, UsageShares usage) : field_(std::move(field)), usage_(std::move(usage)) {
  queues_.resize(static_cast<std::size_t>(field_.tree.size()));
}

void Cycle::activate(const Work& work) { queue_of(work).active.insert({work.order(), work.id}); }

void Cycle::enqueue(Work work) {
  auto [it, fresh] = works_.insert_or_assign(work.id, std::move(work));
  const Work& added = it->second;
  auto& queue = queue_of(added);
  if (!rules_of(added).strict && queue.hopeless.contains(added.shape)) {
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
  if (field_.displacements != nullptr) field_.displacements->forget(id);
  auto& queue = queue_of(work);
  if (queue.active.erase({work.order(), id}) + queue.inadmissible.erase(id) == 0) {
    field_.release(work);
    ++queue.generation;
  }
  if (queue.sticky == id) queue.sticky = -1;
  works_.erase(id);
}

void Cycle::evicted(int id) {
  Work& work = works_.at(id);
  field_.release(work);
  ++queue_of(work).generation;
  work.usage.clear();
  work.on_nodes.clear();
  work.evicted = false;
  work.scan.reset();
  enqueue(Work(work));
}

void Cycle::requeue() {
  for (auto& queue : queues_) {
    queue.hopeless.clear();
    for (const int id : queue.inadmissible) activate(works_.at(id));
    queue.inadmissible.clear();
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

/// Before all it counts, where the queue says so, how much its local queue has used; then comes who waits for its victims.
Cycle::Queue::Order::iterator Cycle::head_of(Queue& queue, bool by_usage) {
  auto first = queue.active.begin();
  if (queue.sticky >= 0) {
    const auto sticky = queue.active.find({works_.at(queue.sticky).order(), queue.sticky});
    if (sticky != queue.active.end()) first = sticky;
  }
  if (!by_usage) return first;
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
    const auto head = head_of(queue, rules.by_usage);
    out.push_back({.work = &works_.at(head->second)});
    queue.active.erase(head);
  }
  return out;
}

/// Nominates, and remembers how far the search through the flavors came.
void Cycle::search(Entry& entry, const Assignment* same_as, std::int64_t cycle) {
  auto made = exact::nominate(field_, *entry.work, same_as);
  entry.assignment = std::move(made.assignment);
  entry.targets = std::move(made.targets);
  entry.assignment.scan.generation = queue_of(*entry.work).generation;
  entry.assignment.scan.cycle = cycle;
  entry.assignment.scan.shape = entry.work->shape;
  entry.work->scan = entry.assignment.scan;
}

void Cycle::set_quota(Node queue, Cell cell, const Quota& quota) {
  field_.tree.set_quota(queue, cell, quota);
  if (field_.displacements != nullptr) field_.displacements->clear();
  ++queues_[static_cast<std::size_t>(queue)].generation;
}

void Cycle::place_again(int id, std::vector<Wish> wishes, std::optional<topology::Replacement> replacement) {
  again_.push_back({id, std::move(wishes), std::move(replacement)});
}

std::vector<PlacedAgain> Cycle::place_holders() {
  std::vector<PlacedAgain> out;
  for (const auto& [id, wishes, replacement] : std::exchange(again_, {})) {
    if (field_.topologies == nullptr || !works_.contains(id)) continue;
    out.push_back({id, field_.topologies->place(wishes, {.replacement = replacement ? &*replacement : nullptr})});
  }
  return out;
}

void Cycle::take_placed(const std::vector<PlacedAgain>& placed) {
  for (const auto& [id, placing] : placed) {
    if (placing.failed) continue;
    auto& work = works_.at(id);
    field_.topologies->give_back(work.on_nodes);
    work.on_nodes = field_.topologies->uses_of(placing.placed);
    field_.topologies->take(work.on_nodes);
  }
}

void Cycle::nominate(Entry& entry, std::int64_t cycle) {
  Work& work = *entry.work;
  const auto generation = queue_of(work).generation;
  if (work.scan && outdated(*work.scan, work.shape, cycle, generation, field_.order)) work.scan.reset();
  search(entry, nullptr, cycle);
}

bool Cycle::overlaps(const Entry& entry, const std::vector<const Work*>& claimed) const {
  return std::ranges::any_of(entry.targets,
                             [&](const Target& t) { return std::ranges::find(claimed, t.work) != claimed.end(); });
}

/// Those that nobody who waits with them has displaced: it made the room that both want.
std::vector<Cycle::Entry*> Cycle::uppermost(const std::vector<Entry*>& entries) const {
  auto out = entries;
  if (field_.displacements == nullptr) return out;
  std::erase_if(out, [&](const Entry* entry) {
    return std::ranges::any_of(
        entries, [&](const Entry* other) { return field_.displacements->above(other->work->id, entry->work->id); });
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
  return {*entry.work, entry.assignment.borrowing, queue.sticky == entry.work->id};
}

/// What is in its way once all who were claimed and its own victims are gone.
Cycle::Room Cycle::room_for(const Entry& entry, const std::vector<const Work*>& claimed) {
  const auto& assignment = entry.assignment;
  for (const auto* gone : claimed) field_.give_back(gone->queue, gone->usage, gone->on_nodes);
  std::vector<const Work*> more;
  for (const auto& target : entry.targets) {
    if (std::ranges::find(claimed, target.work) == claimed.end()) more.push_back(target.work);
  }
  for (const auto* gone : more) field_.give_back(gone->queue, gone->usage, gone->on_nodes);
  auto out = Room::kAll;
  if (!field_.tree.fits(entry.work->queue, assignment.usage)) {
    out = Room::kNoQuota;
  } else if (!assignment.on_nodes.empty() && !field_.topologies->fits(assignment.on_nodes)) {
    out = Room::kNoNodes;
  }
  for (const auto* gone : more) field_.take(gone->queue, gone->usage, gone->on_nodes);
  for (const auto* gone : claimed) field_.take(gone->queue, gone->usage, gone->on_nodes);
  return out;
}

void Cycle::process(Entry& entry, std::int64_t cycle, std::vector<const Work*>& claimed) {
  auto& tree = field_.tree;
  const Work& work = *entry.work;
  const auto take = [&](const Amounts& amounts) {
    field_.take(work.queue, amounts, entry.assignment.on_nodes);
    taken_.push_back({work.queue, amounts, entry.assignment.on_nodes});
  };
  if (entry.assignment.mode() == Mode::kNoFit) return;
  if (entry.assignment.mode() == Mode::kPreempt && entry.targets.empty()) {
    // What it may take back from anybody at any time needs no keeping.
    if (rules_of(work).reclaim_within_cohort != PreemptPolicy::kAny) {
      take(reserved(tree, work.queue, entry.assignment.usage, entry.assignment.mode(), entry.assignment.borrowing));
    }
    return;
  }
  const auto without_claimed = [&](const auto& then) {
    for (const auto* gone : claimed) field_.release(*gone);
    then();
    for (const auto* gone : claimed) field_.hold(*gone);
  };
  if (field_.places_again && field_.topologies != nullptr && room_for(entry, claimed) == Room::kNoNodes) {
    const Assignment nominated = entry.assignment;
    search(entry, &nominated, cycle);
    if (entry.assignment.mode() != Mode::kFit && entry.targets.empty()) {
      entry.fate = Fate::kSkipped;
      return;
    }
  }
  if (overlaps(entry, claimed)) {
    if (!field_.looks_again) {
      entry.fate = Fate::kSkipped;
      return;
    }
    without_claimed([&] {
      const Assignment nominated = entry.assignment;
      search(entry, &nominated, cycle);
    });
    const auto mode = entry.assignment.mode();
    if (mode == Mode::kFit) {
      // It will fit once those are gone, for whom it need not ask.
      take(entry.assignment.usage);
      entry.fate = Fate::kPendingPreemption;
      return;
    }
    if (entry.targets.empty()) return;
  }
  if (room_for(entry, claimed) != Room::kAll) {
    entry.fate = Fate::kSkipped;
    return;
  }
  if (!field_.permits(work, entry.targets)) {
    entry.fate = Fate::kSkipped;
    return;
  }
  field_.record(work, entry.targets);
  for (const auto& target : entry.targets) claimed.push_back(target.work);
  take(entry.assignment.usage);
  if (entry.targets.empty()) {
    entry.fate = Fate::kAssumed;
  } else {
    entry.fate = Fate::kPendingPreemption;
  }
}

/// Where a workload goes that was looked at and not admitted.
void Cycle::put_back(Entry& entry) {
  const Work& work = *entry.work;
  auto& queue = queue_of(work);
  if (entry.fate == Fate::kPendingPreemption) {
    entry.work->scan.reset();
    if (!rules_of(work).strict) queue.sticky = work.id;
  }
  if (work.fault != Work::Fault::kNone) {
    if (rules_of(work).strict && work.fault == Work::Fault::kRequests) {
      activate(work);
    } else {
      queue.inadmissible.insert(work.id);
    }
    return;
  }
  const bool again = entry.fate != Fate::kNotNominated;
  if (rules_of(work).strict || again || (work.scan && work.scan->unfinished())) {
    activate(work);
    return;
  }
  queue.inadmissible.insert(work.id);
  // Whoever is like it has nothing to hope for either.
  queue.hopeless.insert(work.shape);
  for (auto it = queue.active.begin(); it != queue.active.end();) {
    const int id = it->second;
    const bool like = works_.at(id).shape == work.shape;
    if (like) queue.inadmissible.insert(id);
    it = like ? queue.active.erase(it) : std::next(it);
  }
}

void Cycle::penalize(const Work& work) {
  UsageShares::Totals requests;
  for (const auto& [cell, amount] : work.usage) requests[field_.tree.resource(cell)] += static_cast<double>(amount);
  usage_.penalize(work.local_queue, requests);
}

Outcome Cycle::run(std::int64_t cycle, std::int64_t now) {
  field_.now = now;
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

  for (auto& entry : entries) {
    Work& work = *entry.work;
    if (entry.fate == Fate::kAssumed) {
      if (queue_of(work).sticky == work.id) queue_of(work).sticky = -1;
      work.usage = entry.assignment.usage;
      work.on_nodes = entry.assignment.on_nodes;
      work.reserved = now;
      work.scan.reset();
      if (rules_of(work).by_usage) penalize(work);
      if (field_.displacements != nullptr) field_.displacements->admitted(work.id);
      field_.hold(work);
      out.admitted.push_back({work.id, std::move(entry.assignment)});
      continue;
    }
    if (entry.fate == Fate::kPendingPreemption) {
      for (const auto& target : entry.targets) {
        works_.at(target.work->id).evicted = true;
        out.preempted.push_back({target.work->id, work.id, target.reason});
      }
    }
    out.waiting.emplace_back(work.id, wait_of(entry));
    put_back(entry);
  }
  return out;
}

Wait Cycle::wait_of(const Entry& entry) {
  if (entry.work->fault != Work::Fault::kNone) return Wait::kMisconfigured;
  if (entry.fate == Fate::kPendingPreemption) return Wait::kWaitingForPreemptedWorkloads;
  switch (entry.assignment.no_fit()) {
    case NoFit::kNoMatchingFlavor:
      return Wait::kNoMatchingFlavor;
    case NoFit::kExceedsMaxQuota:
      return Wait::kExceedsMaxQuota;
    case NoFit::kNoNodes:
      return Wait::kNoNodes;
    default:
      return Wait::kWaitingForQuota;
  }
}

}  // namespace qm::admission::exact
