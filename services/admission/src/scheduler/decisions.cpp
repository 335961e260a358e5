// Translates rows to numbers and back. A workload has one entry: its tree, node and state there. put() compares the entry
// with the row and updates the tree.
#include "scheduler/decisions.hpp"

#include "qm/base/assert.hpp"
#include "scheduler/pool_scheduler.hpp"

#include <algorithm>

namespace qm::admission {

Decisions::Decisions(Rules rules) : rules_(rules) {}
Decisions::~Decisions() = default;
Decisions::Decisions(Decisions&&) noexcept = default;
Decisions& Decisions::operator=(Decisions&&) noexcept = default;

kueue::PreemptionGraph* Decisions::preemptions(int tree) const {
  auto* displacements = tree < 0 ? nullptr : scheduler(tree).displacements();
  return displacements == nullptr ? nullptr : &displacements->preemptions();
}

int Decisions::tree_of(const QueueName& queue) const {
  const auto found = queues_.find(queue);
  return found == queues_.end() ? -1 : found->second.tree;
}

std::optional<std::int64_t> Decisions::used(const QueueName& queue, const FlavorResource& at) const {
  const auto found = queues_.find(queue);
  if (found == queues_.end()) return std::nullopt;
  const auto [tree, node] = found->second;
  const auto& cells = names_.cells_of(tree);
  const auto cell = cells.find(at);
  if (cell == cells.end()) return std::nullopt;
  auto& rules = scheduler(tree);
  return rules.held(node, cell->second);
}

// ---- workloads ----

kueue::Work Decisions::work_of(const Workload& w, const WorkloadEntry& entry) const {
  kueue::Work out;
  out.id = entry.id;
  out.queue = entry.node;
  out.priority = w.spec.priority;
  out.created = micros(w.waits_since());
  out.uid = w.spec.uid;
  out.shape = entry.pattern->shape;
  out.pod_sets = entry.pattern->pod_sets;
  if (by_usage(w.cluster_queue)) out.local_queue = names_.number(local_of(w));
  out.raise = entry.raise;
  out.overdue = entry.overdue;
  out.run_us = w.planned.count();
  return out;
}

/// A workload without pods loses nothing.
kueue::Stake Decisions::stake_of(const Workload& w) const {
  kueue::Stake out;
  if (const auto may = w.spec.labels.find(std::string(volcano::kPreemptable));
      may != w.spec.labels.end() && may->second == "false") {
    out.min_runtime_until = std::numeric_limits<std::int64_t>::max();
  }
  if (w.phase != Phase::kAdmitted) return out;
  out.gpu_milli = w.running_gpu_milli();
  out.saved = micros(std::max(w.admitted, w.saved));
  out.restart_us = rules_.restart.count();
  if (w.min_runtime_until != Instant{})
    out.min_runtime_until = std::max(out.min_runtime_until, micros(w.min_runtime_until));
  return out;
}

int Decisions::number(const Uid& uid, int bound) {
  WorkloadEntry& entry = entries_.emplace(uid, {});
  if (bound >= 0) entry.bound = bound;
  if (entry.id < 0) {
    entry.id = next_++;
    uids_.put(entry.id, uid);
  }
  return entry.id;
}

Presence Decisions::at_of(const Workload& w) const {
  if (!queues_.contains(w.cluster_queue)) return Presence::kNowhere;
  if (w.holds_quota()) return w.phase == Phase::kEvicting ? Presence::kLeaving : Presence::kHolding;
  if (!w.ready()) return Presence::kNowhere;
  return w.claim ? Presence::kClaiming : Presence::kWaiting;
}

void Decisions::put(const Workload& w) {
  const Presence at = at_of(w);
  WorkloadEntry* found = entries_.find(*w.spec.uid);
  if (found == nullptr) {
    if (at == Presence::kNowhere) return;
    number(w.spec.uid);
    found = entries_.find(*w.spec.uid);
  }
  WorkloadEntry& entry = *found;
  const auto where = at == Presence::kNowhere ? Position{} : queues_.at(w.cluster_queue);
  const bool same_place = entry.tree == where.tree && entry.node == where.node && entry.priority == w.spec.priority &&
                          entry.since == w.waits_since();
  // Preemptions bind a workload in its tree only.
  if (entry.at == Presence::kNowhere && entry.bound >= 0 && (w.ended() || tree_of(w.cluster_queue) != entry.bound)) {
    if (auto* graph = preemptions(entry.bound)) graph->forget(entry.id);
    entry.bound = -1;
  }
  const auto holds = [](Presence what) { return what == Presence::kHolding || what == Presence::kLeaving; };
  if (at == entry.at && (at == Presence::kNowhere || same_place)) {
    if (at != Presence::kHolding) return;
    auto& known = stakes_[entry.id];
    const auto stake = stake_of(w);
    if (known == stake) return;
    known = stake;
    if (auto* displacements = scheduler(entry.tree).displacements()) displacements->stake(entry.id, stake);
    return;
  }
  Scheduler* before = entry.tree < 0 ? nullptr : &scheduler(entry.tree);
  if (same_place && entry.at == Presence::kHolding && at == Presence::kLeaving) {
    before->leave(entry.id);
    entry.at = at;
    return;
  }
  if (same_place && holds(entry.at) && at == Presence::kWaiting) {
    stakes_.erase(entry.id);
    before->evicted(entry.id);
    entry.at = at;
    if (!ages_.has_rule(w.cluster_queue)) return;
    before->withdraw(entry.id);  // its age has increased meanwhile
    return enter(w, entry);
  }
  const bool comes_back = !w.ended() && (entry.tree == where.tree || at == Presence::kNowhere);
  stakes_.erase(entry.id);
  ages_.forget(w.spec.uid, entry);
  if (entry.at != Presence::kNowhere) comes_back ? before->withdraw(entry.id) : before->finish(entry.id);
  entry.bound = at != Presence::kNowhere ? where.tree : comes_back ? entry.tree : -1;
  entry.at = at;
  entry.tree = where.tree;
  entry.node = where.node;
  entry.priority = w.spec.priority;
  entry.since = w.waits_since();
  if (at != Presence::kNowhere) enter(w, entry);
}

void Decisions::take_out(const Workload& w) {
  const WorkloadEntry* entry = entries_.find(*w.spec.uid);
  if (entry == nullptr) return;
  if (auto* graph = preemptions(tree_of(w.cluster_queue))) graph->clear_preemptors(entry->id);
  reshape(w.spec.uid);
}

void Decisions::reshape(const WorkloadUid& uid) {
  WorkloadEntry* entry = entries_.find(uid);
  if (entry == nullptr) return;
  if (entry->at != Presence::kNowhere) scheduler(entry->tree).withdraw(entry->id);
  ages_.forget(uid, *entry);
  stakes_.erase(entry->id);
  entry->at = Presence::kNowhere;
  entry->tree = -1;
  entry->pattern = nullptr;
}

void Decisions::look_again(int tree) {
  if (tree < 0) return;
  if (auto* results = scheduler(tree).search_results()) results->discard_results();
  if (auto* graph = preemptions(tree)) (void)graph->take_changed();
}

void Decisions::resize(const Workload& w) {
  const WorkloadEntry* entry = entries_.find(*w.spec.uid);
  if (entry == nullptr || entry->tree < 0) return;
  if (auto* resizing = scheduler(entry->tree).resizing()) {
    resizing->resize(entry->id, names_.amounts_of(entry->tree, w.usage));
  }
}

void Decisions::enter(const Workload& w, WorkloadEntry& entry) {
  Scheduler& tree = scheduler(entry.tree);
  if (entry.pattern == nullptr) entry.pattern = patterns_.of(w.spec, names_, nodes_);
  ages_.refresh(w, entry);
  auto work = work_of(w, entry);
  if (const auto pool = pools_.find(entry.tree); pool != pools_.end()) {
    pool->second->set_waiting_time(entry.id, w.waiting_time);
  }
  switch (entry.at) {
    case Presence::kNowhere:
      return;
    case Presence::kWaiting:
      return tree.enqueue(std::move(work));
    case Presence::kClaiming: {
      // Without claims it is nominated again.
      if (tree.claims() == nullptr) return tree.enqueue(std::move(work));
      std::vector<int> victims;
      for (const auto& victim : w.claim->victims) victims.push_back(number(victim));
      return tree.claims()->claim(work, names_.amounts_of(entry.tree, w.claim->usage),
                                  nodes_.uses_of(w.spec, w.claim->flavors, w.claim->nodes, names_.flavors),
                                  std::move(victims));
    }
    case Presence::kHolding:
    case Presence::kLeaving:
      work.usage = names_.amounts_of(entry.tree, w.usage);
      work.on_nodes = nodes_.uses_of(w.spec, w.flavors, w.nodes(), names_.flavors);
      work.reserved = micros(w.quota_reserved);
      work.evicted = entry.at == Presence::kLeaving;
      work.stake = stakes_[entry.id] = stake_of(w);
      return tree.hold(std::move(work));
  }
}

void Decisions::recall(const Workload& w) {
  const int tree = tree_of(w.cluster_queue);
  if (w.preemptors.empty() || tree < 0) return;
  auto* graph = preemptions(tree);
  if (graph == nullptr) return;
  kueue::PreemptionGraph::Pairs pairs;
  for (const auto& [by, how] : w.preemptors) pairs[number(by, tree)] = {micros(how.at), how.settled};
  graph->restore(number(w.spec.uid, tree), pairs);
}

void Decisions::drop(const WorkloadUid& uid) {
  const WorkloadEntry* found = entries_.find(uid);
  if (found == nullptr) return;
  QM_ASSERT(found->at == Presence::kNowhere, "workload {} is removed and has quota or is pending", uid);
  uids_.erase(found->id);
  entries_.erase(uid);
}

// ---- aging ----

std::vector<int> Decisions::age(Instant now, const std::function<const Workload&(const WorkloadUid&)>& row) {
  std::vector<int> out;
  ages_.advance(now);
  while (const auto uid = ages_.due()) {
    auto& entry = *entries_.find(*uid);
    scheduler(entry.tree).withdraw(entry.id);
    enter(row(*uid), entry);
    out.push_back(entry.tree);
  }
  return out;
}

// ---- decisions ----

Scheduled Decisions::decide(int tree, Instant now) {
  Scheduled made;
  auto& rules = scheduler(tree);
  if (auto* results = nodes_.used() ? rules.search_results() : nullptr) results->discard_results();
  const auto outcome = rules.run(micros(now));
  const auto entry_of = [&](int id) -> WorkloadEntry& { return *entries_.find(uid_of(id)); };
  for (const int id : outcome.unclaimed) {
    entry_of(id).at = Presence::kWaiting;
    made.unclaimed.push_back(uid_of(id));
  }
  for (const auto& one : outcome.preempted) {
    entry_of(one.id).at = Presence::kLeaving;
    made.displaced.push_back({uid_of(one.id), uid_of(one.by), name_of(one.reason)});
  }
  for (const auto& [id, wait] : outcome.waiting) {
    if (wait != kueue::Wait::kWaitingForPreemptedWorkloads) continue;
    const auto* claim = rules.claims() == nullptr ? nullptr : rules.claims()->claim_of(id);
    if (claim == nullptr) continue;
    auto& entry = entry_of(id);
    entry.at = Presence::kClaiming;
    auto assignment = assignment_of(names_, tree, *entry.pattern, *claim);
    Scheduled::Claimed claimed{uid_of(id),
                               {std::move(assignment.flavors),
                                std::move(assignment.usage),
                                std::move(assignment.counts),
                                TopologyNodes::assignments_of(entry.pattern->pod_sets, claim->placed),
                                {}}};
    for (const int victim : rules.claims()->victims_of(id)) claimed.claim.victims.push_back(uid_of(victim));
    made.claimed.push_back(std::move(claimed));
  }
  for (const auto& one : outcome.admitted) {
    auto& entry = entry_of(one.id);
    entry.at = Presence::kHolding;
    stakes_[one.id] = {};
    ages_.forget(uid_of(one.id), entry);
    auto assignment = assignment_of(names_, tree, *entry.pattern, one.assignment);
    assignment.nodes = TopologyNodes::assignments_of(entry.pattern->pod_sets, one.assignment.placed);
    made.admitted.push_back({uid_of(one.id), std::move(assignment)});
  }
  return made;
}

bool Decisions::may_displace(const WorkloadUid& by, const WorkloadUid& victim) const {
  const WorkloadEntry* one = entries_.find(by);
  const WorkloadEntry* other = entries_.find(victim);
  if (one == nullptr || other == nullptr || one->tree < 0 || one->tree != other->tree) return false;
  auto& tree = scheduler(one->tree);
  // A holder keeps the priority that aging raised while it was pending.
  for (const auto* work : tree.quota().holders[static_cast<std::size_t>(other->node)]) {
    if (work->id == other->id && work->effective_priority() >= one->priority) return false;
  }
  const auto* graph = preemptions(one->tree);
  return graph == nullptr || !graph->excluded_victims(one->id).contains(other->id);
}

bool Decisions::record_preemption(const WorkloadUid& by, const WorkloadUid& victim, Instant now) {
  if (!may_displace(by, victim)) return false;
  const WorkloadEntry* one = entries_.find(by);
  if (auto* graph = preemptions(one->tree)) graph->displaced(one->id, entries_.find(victim)->id, micros(now));
  return true;
}

void Decisions::release_old_preemptions(const QueueName& queue, Instant now) {
  const int tree = tree_of(queue);
  auto* displacements = tree < 0 ? nullptr : scheduler(tree).displacements();
  if (displacements != nullptr) displacements->relax(micros(now - rules_.preemption_cooldown));
}

std::vector<std::pair<WorkloadUid, Preemptors>> Decisions::take_preemptors() {
  std::vector<std::pair<WorkloadUid, Preemptors>> out;
  for (int tree = 0; tree < std::ssize(trees_); ++tree) {
    auto* graph = preemptions(tree);
    if (graph == nullptr) continue;
    for (const int id : graph->take_changed()) {
      const Uid* uid = uids_.find(id);
      if (uid == nullptr) continue;
      Preemptors preemptors;
      for (const auto& [by, how] : graph->preemptors_of(id)) {
        preemptors[uid_of(by)] = {from_micros(how.at), how.settled};
      }
      out.emplace_back(**uid, std::move(preemptors));
    }
  }
  std::ranges::sort(out, {}, [](const auto& one) -> const WorkloadUid& { return one.first; });
  return out;
}

bool operator==(const Decisions& a, const Decisions& b) {
  const auto snapshot = [](const Decisions& d) {
    std::map<WorkloadUid, std::tuple<int, int, int>> out;
    d.entries_.each([&](const WorkloadUid& uid, const WorkloadEntry& entry) {
      if (entry.at != Presence::kNowhere) out[uid] = {static_cast<int>(entry.at), entry.tree, entry.node};
    });
    return out;
  };
  const auto leaving = [](const Decisions& d, std::size_t tree) {
    std::set<WorkloadUid> out;
    for (const auto& holders : d.trees_[tree]->quota().holders) {
      for (const auto* work : holders) {
        if (work->evicted) out.insert(d.uid_of(work->id));
      }
    }
    return out;
  };
  const auto preemptors = [](const Decisions& d, std::size_t tree) {
    std::map<WorkloadUid, std::map<WorkloadUid, std::pair<std::int64_t, bool>>> out;
    const auto* known = d.preemptions(static_cast<int>(tree));
    if (known == nullptr) return out;
    d.entries_.each([&](const WorkloadUid& uid, const WorkloadEntry& entry) {
      for (const auto& [by, how] : known->preemptors_of(entry.id)) out[uid][d.uid_of(by)] = {how.at, how.settled};
    });
    return out;
  };
  if (snapshot(a) != snapshot(b) || a.trees_.size() != b.trees_.size()) return false;
  if (a.nodes_.usage() != b.nodes_.usage()) return false;
  for (std::size_t i = 0; i < a.trees_.size(); ++i) {
    if (leaving(a, i) != leaving(b, i) || preemptors(a, i) != preemptors(b, i)) return false;
    const auto& one = a.trees_[i]->quota().tree;
    const auto& other = b.trees_[i]->quota().tree;
    if (a.pools_.contains(static_cast<int>(i)) != b.pools_.contains(static_cast<int>(i))) return false;
    if (one.size() != other.size() || one.cells() != other.cells()) return false;
    for (kueue::Node n = 0; n < one.size(); ++n) {
      for (kueue::Cell c = 0; c < one.cells(); ++c) {
        if (one.used(n, c) != other.used(n, c) || one.subtree(n, c) != other.subtree(n, c)) return false;
      }
    }
  }
  return true;
}

}  // namespace qm::admission
