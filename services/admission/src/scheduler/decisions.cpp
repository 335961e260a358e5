// Translates rows to numbers and back. A workload has one Seat: its tree, node and state there. put() compares the seat
// with the row and updates the tree.
#include "qm/admission/decisions.hpp"

#include "qm/admission/kueue/any_fit.hpp"
#include "qm/base/assert.hpp"
#include "scheduler/rule_tree.hpp"

#include <algorithm>

namespace qm::admission {

Decisions::Decisions(Rules rules) : rules_(rules) {}
Decisions::~Decisions() = default;
Decisions::Decisions(Decisions&&) noexcept = default;
Decisions& Decisions::operator=(Decisions&&) noexcept = default;

// ---- objects ----

void Decisions::build(const std::map<QueueName, ClusterQueue>& queues, const std::map<std::string, Cohort>& cohorts,
                      const std::map<FlavorName, Flavor>& flavors, const std::map<LocalName, LocalQueue>& locals,
                      const std::set<QueueName>& idle, Instant now) {
  *this = Decisions(rules_);
  aged_ = now;
  for (const auto& [key, local] : locals) {
    const auto [it, fresh] = only_local_.try_emplace(key.first, key.second);
    if (!fresh) it->second.clear();
  }
  specs_ = flavors;
  const auto offers_of = [&](const std::vector<ResourceGroup>& groups, std::vector<kueue::QueueRules::Group>* rules) {
    std::vector<kueue::Forest::Offer> offers;
    for (const auto& group : groups) {
      kueue::QueueRules::Group made;
      for (const auto& resource : group.covered) made.resources.push_back(resources_.of(resource));
      for (const auto& flavor : group.flavors) {
        const auto id = flavors_.of(flavor.flavor.value());
        made.options.push_back({id, {}});
        for (const auto& [resource, quota] : flavor.resources) offers.push_back({id, resources_.of(resource), quota});
      }
      if (rules != nullptr) rules->push_back(std::move(made));
    }
    return offers;
  };
  std::vector<const Cohort*> pools;
  for (const auto& [name, cohort] : cohorts) {
    if (cohort.sharing) pools.push_back(&cohort);
  }
  kueue::Forest forest;
  for (const auto& [name, cohort] : cohorts) {
    forest.cohorts[name] = {cohort.parent, static_cast<double>(cohort.weight_milli) / 1000,
                            offers_of(cohort.groups, nullptr)};
  }
  for (const auto& [name, queue] : queues) {
    if (queue.volcano && pools.size() != 1) {
      pool_errors_[name] = pools.empty() ? "no Cohort is a pool of Volcano queues"
                                         : fmt::format("several Cohorts are pools of Volcano queues: {} and {}",
                                                       pools[0]->name, pools[1]->name);
      continue;
    }
    auto& out = forest.queues[name.value()];
    if (queue.volcano) {  // no quota of its own; it uses that of the pool
      out.cohort = pools[0]->name;
      (void)offers_of(pools[0]->groups, &out.rules.groups);
      continue;
    }
    out.cohort = queue.cohort;
    out.weight = static_cast<double>(queue.weight_milli) / 1000;
    out.quotas = offers_of(groups_at(queue, now), &out.rules.groups);
    out.rules.inactive = idle.contains(name);
    out.rules.backfill = queue.backfill && !rules_.exact;
    out.rules.strict = queue.strategy == Strategy::kStrictFifo || out.rules.backfill;
    if (queue.aging && !rules_.exact) aging_[name] = *queue.aging;
    out.rules.by_usage = queue.by_usage && rules_.usage.half_life > Duration{0};
    if (out.rules.by_usage) by_usage_.insert(name);
    out.rules.within_cluster_queue = queue.within_cluster_queue;
    out.rules.reclaim_within_cohort = queue.reclaim_within_cohort;
    out.rules.preempts_while_borrowing = queue.preempts_while_borrowing;
    out.rules.borrow_max_threshold = queue.borrow_max_threshold;
    out.rules.stops_at_borrowing = queue.stops_at_borrowing;
    out.rules.stops_at_preemption = queue.stops_at_preemption;
    out.rules.prefers_borrowing = queue.prefers_borrowing;
  }
  auto planted = forest.plant();
  for (const auto& [name, queue] : queues) {
    const auto at = planted.queues.find(name.value());
    if (pool_errors_.contains(name)) continue;
    if (at == planted.queues.end()) {
      cohort_cycles_.insert(name);
    } else {
      queues_[name] = {static_cast<int>(at->second.first), at->second.second};
    }
  }
  for (std::size_t i = 0; i < planted.fields.size(); ++i) {
    auto& field = planted.fields[i];
    cells_.emplace_back();
    names_.emplace_back(planted.cells[i].size());
    for (const auto& [at, cell] : planted.cells[i]) {
      FlavorResource name{FlavorName(flavors_[at.first]), resources_[at.second]};
      names_.back()[static_cast<std::size_t>(cell)] = name;
      cells_.back().emplace(std::move(name), cell);
    }
    field.fair_sharing = rules_.fair_sharing;
    field.cheaper_plan_searches = rules_.exact ? 0 : rules_.cheaper_plan_searches;
    field.pods = resources_.find("pods");
    const auto root = std::ranges::find_if(pools, [&](const Cohort* pool) { return pool->name == field.tree.name(0); });
    if (root != pools.end()) {
      trees_.push_back(pool_of(static_cast<int>(i), queues, **root, std::move(field)));
      if (trees_.back()->sharing() != nullptr) pools_.push_back(static_cast<int>(i));
    } else if (rules_.exact) {
      trees_.push_back(std::make_unique<CycleScheduler>(std::move(field), shares()));
    } else {
      trees_.push_back(std::make_unique<ContinuousScheduler>(std::move(field), shares()));
    }
  }
}

int Decisions::tree_of(const QueueName& queue) const {
  const auto found = queues_.find(queue);
  return found == queues_.end() ? -1 : found->second.tree;
}

std::optional<std::int64_t> Decisions::used(const QueueName& queue, const FlavorResource& at) const {
  const auto found = queues_.find(queue);
  if (found == queues_.end()) return std::nullopt;
  const auto [tree, node] = found->second;
  const auto& cells = cells_[static_cast<std::size_t>(tree)];
  const auto cell = cells.find(at);
  if (cell == cells.end()) return std::nullopt;
  auto& rules = *trees_[static_cast<std::size_t>(tree)];
  return rules.field().tree.used(node, cell->second) - rules.claimed(node, cell->second);
}

kueue::Amounts Decisions::amounts_of(int tree, const Usage& usage) const {
  kueue::Amounts out;
  const auto& cells = cells_[static_cast<std::size_t>(tree)];
  for (const auto& [at, amount] : usage) {
    // Usage of quota that the queue no longer has is not counted.
    if (const auto cell = cells.find(at); cell != cells.end()) kueue::add_to(out, cell->second, amount);
  }
  return out;
}

Usage Decisions::usage_of(int tree, const kueue::Amounts& amounts) const {
  Usage out;
  for (const auto& [cell, amount] : amounts) {
    out[names_[static_cast<std::size_t>(tree)][static_cast<std::size_t>(cell)]] += amount;
  }
  return out;
}

Assignment Decisions::assignment_of(int tree, const WorkloadEntry& entry, const kueue::Assignment& made) const {
  auto& last = entry.pattern->last;
  const auto same = [](const kueue::Assignment::Set& a, const kueue::Assignment::Set& b) {
    return a.count == b.count && std::ranges::equal(a.flavors, b.flavors, [](const auto& one, const auto& other) {
             return one.resource == other.resource && one.flavor == other.flavor;
           });
  };
  if (last.tree == tree && last.usage == made.usage && std::ranges::equal(last.sets, made.sets, same)) {
    return last.named;
  }
  Flavors flavors;
  Counts counts;
  bool fewer = false;
  for (std::size_t i = 0; i < made.sets.size(); ++i) {
    counts.push_back(made.sets[i].count);
    fewer = fewer || made.sets[i].count != entry.pattern->pod_sets[i].count;
    for (const auto& choice : made.sets[i].flavors) {
      flavors[entry.pattern->pod_sets[i].name][resources_[choice.resource]] = FlavorName(flavors_[choice.flavor]);
    }
  }
  if (!fewer) counts.clear();
  last = {tree, made.sets, made.usage, {std::move(flavors), usage_of(tree, made.usage), std::move(counts)}};
  return last.named;
}

// ---- workloads ----

/// A flavor refuses pods that do not tolerate one of its taints, or whose node selector differs for one of its labels.
std::optional<kueue::Refusal> Decisions::refusal(const Flavor& flavor, kueue::Flavor id, const PodShape& shape) const {
  auto tolerations = shape.tolerations;
  tolerations.insert(tolerations.end(), flavor.tolerations.begin(), flavor.tolerations.end());
  if (const Taint* taint = untolerated(flavor.node_taints, tolerations)) {
    return kueue::Refusal{id, kueue::Refusal::Why::kTaint, taint->key};
  }
  for (const auto& [key, value] : flavor.node_labels) {
    const auto found = shape.node_selector.find(key);
    if (found == shape.node_selector.end() || found->second == value) continue;
    return kueue::Refusal{id, kueue::Refusal::Why::kAffinity, key};
  }
  return std::nullopt;
}

namespace {

/// Quota requests of one pod, by resource; zero requests are omitted.
std::map<std::string, std::int64_t> requests_of(const PodShape& shape) {
  std::map<std::string, std::int64_t> out;
  const auto add = [&](const std::string& resource, std::int64_t amount) {
    if (amount > 0) out[resource] += amount;
  };
  add("cpu", shape.cpu_milli);
  add("memory", shape.memory_bytes);
  if (shape.gpu.mig_count > 0) {
    add("nvidia.com/mig-" + shape.gpu.mig_profile, shape.gpu.mig_count);
  } else {
    add(std::string(words::kGpuResource), shape.gpu.whole * 1000 + shape.gpu.milli);
  }
  for (const auto& [resource, amount] : shape.extended) add(resource, amount);
  return out;
}

}  // namespace

std::map<std::string, std::int64_t> requests_of(const WorkloadSpec& spec) {
  std::map<std::string, std::int64_t> out;
  for (const auto& set : spec.pod_sets) {
    for (const auto& [resource, amount] : requests_of(set.shape)) out[resource] += amount * set.count;
  }
  std::erase_if(out, [](const auto& one) { return one.second == 0; });
  return out;
}

namespace {

/// The minimum number of pods to start with; 0 for all. Kinds other than Job cannot be started with fewer.
std::int32_t least_of(const Spec& spec, const PodSet& set) {
  return spec.kind == "Job" && set.min_count < set.count ? set.min_count : 0;
}

/// Workloads with equal texts have equal results.
std::string text_of(const Spec& spec) {
  std::string text;
  for (const auto& set : spec.pod_sets) {
    text += fmt::format("{}*{}/{}", set.name, set.count, least_of(spec, set));
    for (const auto& [resource, amount] : requests_of(set.shape)) text += fmt::format(",{}={}", resource, amount);
    for (const auto& [key, value] : set.shape.node_selector) text += fmt::format(",@{}={}", key, value);
    for (const auto& t : set.shape.tolerations) {
      text += fmt::format(",~{}:{}:{}:{}", t.key, t.op, t.value, t.effect);
    }
    text += ';';
  }
  return text;
}

}  // namespace

const Decisions::Pattern* Decisions::pattern_of(const Spec& spec) const {
  const auto [known, unseen] = known_patterns_.try_emplace({spec.pod_sets, spec.kind == "Job"});
  if (!unseen) return known->second;
  const auto [it, fresh] = patterns_.try_emplace(text_of(spec));
  Pattern& pattern = it->second;
  known->second = &pattern;
  if (!fresh) return &pattern;
  pattern.shape = static_cast<int>(patterns_.size());
  for (const auto& set : spec.pod_sets) {
    kueue::PodSet made;
    made.name = set.name;
    made.count = set.count;
    if (const auto least = least_of(spec, set); least > 0) made.min_count = least;
    for (const auto& [resource, amount] : requests_of(set.shape))
      made.each.emplace_back(resources_.of(resource), amount);
    // Kueue processes resources in descending order of name.
    std::ranges::reverse(made.each);
    for (kueue::Flavor id = 0; id < flavors_.size(); ++id) {
      const auto spec_of = specs_.find(FlavorName(flavors_[id]));
      if (spec_of == specs_.end()) {
        made.refused.push_back({id, kueue::Refusal::Why::kNotFound, {}});
      } else if (auto no = refusal(spec_of->second, id, set.shape)) {
        made.refused.push_back(std::move(*no));
      }
    }
    pattern.pod_sets.push_back(std::move(made));
  }
  return &pattern;
}

kueue::Work Decisions::work_of(const Workload& w, const WorkloadEntry& entry) const {
  kueue::Work out;
  out.id = entry.id;
  out.queue = entry.node;
  out.priority = w.spec.priority;
  out.created = micros(w.waits_since());
  out.uid = w.spec.uid;
  out.shape = entry.pattern->shape;
  out.pod_sets = entry.pattern->pod_sets;
  if (by_usage(w.cluster_queue)) out.local_queue = number(local_of(w));
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

void Decisions::Uids::put(int id, const Uid& uid) {
  auto& page = pages_[id / kPage];
  page.uids[static_cast<std::size_t>(id % kPage)] = uid;
  page.used |= std::uint64_t{1} << (id % kPage);
}

void Decisions::Uids::erase(int id) {
  const auto page = pages_.find(id / kPage);
  page->second.uids[static_cast<std::size_t>(id % kPage)].clear();
  page->second.used &= ~(std::uint64_t{1} << (id % kPage));
  if (page->second.used == 0) pages_.erase(page);
}

const Uid* Decisions::Uids::find(int id) const {
  const auto page = pages_.find(id / kPage);
  if (page == pages_.end() || (page->second.used >> (id % kPage) & 1) == 0) return nullptr;
  return &page->second.uids[static_cast<std::size_t>(id % kPage)];
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

Decisions::At Decisions::at_of(const Workload& w) const {
  if (!queues_.contains(w.cluster_queue)) return At::kNowhere;
  if (w.holds_quota()) return w.phase == Phase::kEvicting ? At::kLeaving : At::kHolding;
  if (!w.ready()) return At::kNowhere;
  return w.claim ? At::kClaiming : At::kWaiting;
}

void Decisions::put(const Workload& w) {
  const At at = at_of(w);
  WorkloadEntry* found = entries_.find(*w.spec.uid);
  if (found == nullptr) {
    if (at == At::kNowhere) return;
    number(w.spec.uid);
    found = entries_.find(*w.spec.uid);
  }
  WorkloadEntry& entry = *found;
  const auto where = at == At::kNowhere ? Position{} : queues_.at(w.cluster_queue);
  const bool same_place = entry.tree == where.tree && entry.node == where.node && entry.priority == w.spec.priority &&
                          entry.since == w.waits_since();
  // Preemptions bind a workload in its tree only.
  if (entry.at == At::kNowhere && entry.bound >= 0 && (w.ended() || tree_of(w.cluster_queue) != entry.bound)) {
    if (auto* preemptions = trees_[static_cast<std::size_t>(entry.bound)]->preemptions()) preemptions->forget(entry.id);
    entry.bound = -1;
  }
  const auto holds = [](At what) { return what == At::kHolding || what == At::kLeaving; };
  if (at == entry.at && (at == At::kNowhere || same_place)) {
    if (at != At::kHolding) return;
    auto& known = stakes_[entry.id];
    const auto stake = stake_of(w);
    if (known == stake) return;
    known = stake;
    return trees_[static_cast<std::size_t>(entry.tree)]->stake(entry.id, stake);
  }
  Tree* before = entry.tree < 0 ? nullptr : trees_[static_cast<std::size_t>(entry.tree)].get();
  if (same_place && entry.at == At::kHolding && at == At::kLeaving) {
    before->leave(entry.id);
    entry.at = at;
    return;
  }
  if (same_place && holds(entry.at) && at == At::kWaiting) {
    stakes_.erase(entry.id);
    before->evicted(entry.id);
    entry.at = at;
    if (!aging_.contains(w.cluster_queue)) return;
    before->withdraw(entry.id);  // its age has increased meanwhile
    return enter(w, entry);
  }
  const bool comes_back = !w.ended() && (entry.tree == where.tree || at == At::kNowhere);
  stakes_.erase(entry.id);
  forget_age(w.spec.uid, entry);
  if (entry.at != At::kNowhere) comes_back ? before->withdraw(entry.id) : before->finish(entry.id);
  entry.bound = at != At::kNowhere ? where.tree : comes_back ? entry.tree : -1;
  entry.at = at;
  entry.tree = where.tree;
  entry.node = where.node;
  entry.priority = w.spec.priority;
  entry.since = w.waits_since();
  if (at != At::kNowhere) enter(w, entry);
}

void Decisions::take_out(const Workload& w) {
  const WorkloadEntry* entry = entries_.find(*w.spec.uid);
  if (entry == nullptr) return;
  const int tree = tree_of(w.cluster_queue);
  if (auto* preemptions = tree < 0 ? nullptr : trees_[static_cast<std::size_t>(tree)]->preemptions()) {
    preemptions->clear_preemptors(entry->id);
  }
  reshape(w.spec.uid);
}

void Decisions::reshape(const WorkloadUid& uid) {
  WorkloadEntry* entry = entries_.find(uid);
  if (entry == nullptr) return;
  if (entry->at != At::kNowhere) trees_[static_cast<std::size_t>(entry->tree)]->withdraw(entry->id);
  forget_age(uid, *entry);
  stakes_.erase(entry->id);
  entry->at = At::kNowhere;
  entry->tree = -1;
  entry->pattern = nullptr;
}

void Decisions::look_again(int tree) {
  if (tree < 0) return;
  auto& at = *trees_[static_cast<std::size_t>(tree)];
  at.look_again();
  if (auto* preemptions = at.preemptions()) (void)preemptions->take_changed();
}

void Decisions::shrink(const Workload& w) {
  const WorkloadEntry* entry = entries_.find(*w.spec.uid);
  if (entry == nullptr || entry->tree < 0) return;
  trees_[static_cast<std::size_t>(entry->tree)]->shrink(entry->id, amounts_of(entry->tree, w.usage));
}

void Decisions::enter(const Workload& w, WorkloadEntry& entry) {
  Tree& tree = *trees_[static_cast<std::size_t>(entry.tree)];
  if (entry.pattern == nullptr) entry.pattern = pattern_of(w.spec);
  refresh_age(w, entry);
  auto work = work_of(w, entry);
  tree.set_waiting_time(entry.id, w.waiting_time);
  switch (entry.at) {
    case At::kNowhere:
      return;
    case At::kWaiting:
      return tree.enqueue(std::move(work));
    case At::kClaiming: {
      std::vector<int> victims;
      for (const auto& victim : w.claim->victims) victims.push_back(number(victim));
      return tree.claim(work, amounts_of(entry.tree, w.claim->usage), std::move(victims));
    }
    case At::kHolding:
    case At::kLeaving:
      work.usage = amounts_of(entry.tree, w.usage);
      work.reserved = micros(w.quota_reserved);
      work.evicted = entry.at == At::kLeaving;
      work.stake = stakes_[entry.id] = stake_of(w);
      return tree.hold(std::move(work));
  }
}

void Decisions::recall(const Workload& w) {
  const int tree = tree_of(w.cluster_queue);
  if (w.preemptors.empty() || tree < 0) return;
  auto* preemptions = trees_[static_cast<std::size_t>(tree)]->preemptions();
  if (preemptions == nullptr) return;
  kueue::PreemptionGraph::Pairs pairs;
  for (const auto& [by, how] : w.preemptors) pairs[number(by, tree)] = {micros(how.at), how.settled};
  preemptions->restore(number(w.spec.uid, tree), pairs);
}

void Decisions::drop(const WorkloadUid& uid) {
  const WorkloadEntry* found = entries_.find(uid);
  if (found == nullptr) return;
  QM_ASSERT(found->at == At::kNowhere, "workload {} is removed and has quota or is pending", uid);
  uids_.erase(found->id);
  entries_.erase(uid);
}

// ---- decisions ----

Decisions::Scheduled Decisions::decide(int tree, Instant now) {
  Scheduled made;
  auto& rules = *trees_[static_cast<std::size_t>(tree)];
  const auto outcome = rules.run(micros(now));
  const auto seat_of = [&](int id) -> WorkloadEntry& { return *entries_.find(uid_of(id)); };
  for (const int id : outcome.unclaimed) {
    seat_of(id).at = At::kWaiting;
    made.unclaimed.push_back(uid_of(id));
  }
  for (const auto& one : outcome.preempted) {
    seat_of(one.id).at = At::kLeaving;
    made.displaced.push_back({uid_of(one.id), uid_of(one.by), name_of(one.reason)});
  }
  for (const auto& [id, wait] : outcome.waiting) {
    if (wait != kueue::Wait::kWaitingForPreemptedWorkloads) continue;
    const auto* claim = rules.claim_of(id);
    if (claim == nullptr) continue;
    auto& entry = seat_of(id);
    entry.at = At::kClaiming;
    auto assignment = assignment_of(tree, entry, *claim);
    Scheduled::Claimed claimed{
        uid_of(id), {std::move(assignment.flavors), std::move(assignment.usage), std::move(assignment.counts), {}}};
    for (const int victim : rules.victims_of(id)) claimed.claim.victims.push_back(uid_of(victim));
    made.claimed.push_back(std::move(claimed));
  }
  for (const auto& one : outcome.admitted) {
    auto& entry = seat_of(one.id);
    entry.at = At::kHolding;
    stakes_[one.id] = {};
    forget_age(uid_of(one.id), entry);
    made.admitted.push_back({uid_of(one.id), assignment_of(tree, entry, one.assignment)});
  }
  return made;
}

bool Decisions::may_displace(const WorkloadUid& by, const WorkloadUid& victim) const {
  const WorkloadEntry* one = entries_.find(by);
  const WorkloadEntry* other = entries_.find(victim);
  if (one == nullptr || other == nullptr || one->tree < 0 || one->tree != other->tree) return false;
  auto& tree = *trees_[static_cast<std::size_t>(one->tree)];
  // A holder keeps the priority that aging raised while it was pending.
  for (const auto* work : tree.field().holders[static_cast<std::size_t>(other->node)]) {
    if (work->id == other->id && work->effective_priority() >= one->priority) return false;
  }
  const auto* preemptions = tree.preemptions();
  return preemptions == nullptr || !preemptions->excluded_victims(one->id).contains(other->id);
}

bool Decisions::record_preemption(const WorkloadUid& by, const WorkloadUid& victim, Instant now) {
  if (!may_displace(by, victim)) return false;
  const WorkloadEntry* one = entries_.find(by);
  if (auto* preemptions = trees_[static_cast<std::size_t>(one->tree)]->preemptions())
    preemptions->displaced(one->id, entries_.find(victim)->id, micros(now));
  return true;
}

void Decisions::release_old_preemptions(const QueueName& queue, Instant now) {
  const int tree = tree_of(queue);
  if (tree >= 0) trees_[static_cast<std::size_t>(tree)]->relax(micros(now - rules_.rest));
}

std::vector<std::pair<WorkloadUid, Preemptors>> Decisions::take_preemptors() {
  std::vector<std::pair<WorkloadUid, Preemptors>> out;
  for (auto& tree : trees_) {
    auto* preemptions = tree->preemptions();
    if (preemptions == nullptr) continue;
    for (const int id : preemptions->take_changed()) {
      const Uid* uid = uids_.find(id);
      if (uid == nullptr) continue;
      Preemptors preemptors;
      for (const auto& [by, how] : preemptions->preemptors_of(id)) {
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
    d.entries_.each([&](const WorkloadUid& uid, const Decisions::WorkloadEntry& entry) {
      if (entry.at != Decisions::At::kNowhere) out[uid] = {static_cast<int>(entry.at), entry.tree, entry.node};
    });
    return out;
  };
  const auto leaving = [](const Decisions& d, std::size_t tree) {
    std::set<WorkloadUid> out;
    for (const auto& holders : d.trees_[tree]->field().holders) {
      for (const auto* work : holders) {
        if (work->evicted) out.insert(d.uid_of(work->id));
      }
    }
    return out;
  };
  const auto preemptors = [](const Decisions& d, std::size_t tree) {
    std::map<WorkloadUid, std::map<WorkloadUid, std::pair<std::int64_t, bool>>> out;
    const auto* known = d.trees_[tree]->preemptions();
    if (known == nullptr) return out;
    d.entries_.each([&](const WorkloadUid& uid, const Decisions::WorkloadEntry& entry) {
      for (const auto& [by, how] : known->preemptors_of(entry.id)) out[uid][d.uid_of(by)] = {how.at, how.settled};
    });
    return out;
  };
  if (snapshot(a) != snapshot(b) || a.trees_.size() != b.trees_.size()) return false;
  for (std::size_t i = 0; i < a.trees_.size(); ++i) {
    if (leaving(a, i) != leaving(b, i) || preemptors(a, i) != preemptors(b, i)) return false;
    const auto& one = a.trees_[i]->field().tree;
    const auto& other = b.trees_[i]->field().tree;
    if ((a.trees_[i]->sharing() == nullptr) != (b.trees_[i]->sharing() == nullptr)) return false;
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
