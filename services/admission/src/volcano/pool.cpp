// Decisions for one pool, event by event: which job is admitted, which jobs are preempted, and which job has a claim
// until its victims are gone.
#include "qm/admission/volcano/pool.hpp"

#include "qm/admission/volcano/drf.hpp"
#include "qm/admission/volcano/enqueue.hpp"
#include "qm/admission/volcano/reclaim.hpp"
#include "qm/base/assert.hpp"

#include <algorithm>

namespace qm::admission::volcano {

std::optional<Sharing> sharing_of(std::string_view word) {
  if (word == "proportion") return Sharing::kProportion;
  if (word == "capacity") return Sharing::kCapacity;
  if (word == "drf") return Sharing::kDrf;
  return std::nullopt;
}

/// Rule of Sharing::kDrf: queues are limited by their capabilities only and ordered by hierarchical shares, in which
/// a queue counts as one job.
struct Pool::Drf {
  explicit Drf(const Queues& queues) : limits(queues) {}
  [[nodiscard]] bool allocatable(const Queues& now, QueueId leaf, const Resources& amounts) const {
    return limits.allocatable(now, leaf, amounts);
  }
  [[nodiscard]] const Resources& real_capability(QueueId q) const { return limits.real_capability(q); }
  Capacity limits;
};

namespace {

template <class Rule>
std::vector<QueueId> order(const Rule& rule, const Queues& now) {
  auto out = now.leaves();
  if constexpr (requires { rule.before(now, 0, 0); }) {
    std::ranges::sort(out, [&](QueueId a, QueueId b) { return rule.before(now, a, b); });
  } else {
    std::vector<Hdrf::Job> jobs;
    for (const auto q : out) jobs.push_back({q, now.use(q).allocated, now.use(q).request});
    const Hdrf shares(now, jobs);
    std::ranges::sort(out, [&](QueueId a, QueueId b) { return shares.before(a, b); });
  }
  return out;
}

template <class Rule>
bool has_too_much(const Rule& rule, const Queues& now, QueueId queue) {
  if constexpr (requires { rule.deserved(queue); }) return !within(now.use(queue).allocated, rule.deserved(queue));
  return false;
}

/// Amount that the rule still allows the queue to allocate.
template <class Rule>
Resources room(const Rule& rule, const Queues& now, QueueId queue) {
  auto out = rest(rule.real_capability(queue), now.use(queue).allocated);
  if constexpr (std::is_same_v<Rule, Proportion>) {
    return least(std::move(out), rest(rule.deserved(queue), now.use(queue).allocated));
  }
  for (const auto q : now.ancestors(queue)) {
    if (q != 0) out = least(std::move(out), rest(rule.real_capability(q), now.use(q).allocated));
  }
  return out;
}

}  // namespace

template <class Then>
auto Pool::by_rule(Then&& then) const {
  switch (by_) {
    case Sharing::kProportion:
      return then(Proportion(queues_));
    case Sharing::kCapacity:
      return then(Capacity(queues_));
    case Sharing::kDrf:
      break;
  }
  return then(Drf(queues_));
}

// ---- state of jobs ----

void Pool::enter(const WorkloadEntry& entry) {
  const auto& [job, at, victims] = entry;
  queues_.ask(job.queue, job.needs);  // also for a job that is leaving: it will be pending again
  switch (at) {
    case At::kWaiting:
      line_of(job).shapes[job.needs].insert(key_of(job));
      if (job.deadline) line_of(job).deadlines.emplace(*job.deadline, job.id);
      break;
    case At::kClaiming:
      queues_.allocate(job.queue, job.needs);
      claims_.insert(key_of(job));
      break;
    case At::kHolding:
      queues_.allocate(job.queue, job.needs);
      held_.allocate(job.queue, job.needs);
      break;
    case At::kLeaving:
      held_.allocate(job.queue, job.needs);
      break;
  }
}

void Pool::depart(const WorkloadEntry& entry) {
  const auto& [job, at, victims] = entry;
  queues_.ask_no_more(job.queue, job.needs);
  switch (at) {
    case At::kWaiting: {
      auto& shapes = line_of(job).shapes;
      const auto shape = shapes.find(job.needs);
      shape->second.erase(key_of(job));
      if (shape->second.empty()) shapes.erase(shape);
      if (job.deadline) line_of(job).deadlines.erase({*job.deadline, job.id});
      break;
    }
    case At::kClaiming:
      queues_.release(job.queue, job.needs);
      claims_.erase(key_of(job));
      break;
    case At::kHolding:
      queues_.release(job.queue, job.needs);
      held_.release(job.queue, job.needs);
      break;
    case At::kLeaving:
      held_.release(job.queue, job.needs);
      break;
  }
}

void Pool::sit(Job job, At at, std::vector<int> victims) {
  const int id = job.id;
  const auto [it, fresh] = entries_.emplace(id, WorkloadEntry{std::move(job), at, std::move(victims)});
  QM_ASSERT(fresh, "job {} is in the pool already", id);
  enter(it->second);
}

void Pool::move(WorkloadEntry& entry, At at) {
  depart(entry);
  entry.at = at;
  entry.victims.clear();
  enter(entry);
}

void Pool::wait(Job job) { sit(std::move(job), At::kWaiting); }
void Pool::claim(Job job, std::vector<int> victims) { sit(std::move(job), At::kClaiming, std::move(victims)); }
void Pool::hold(Job job) { sit(std::move(job), At::kHolding); }
void Pool::leave(int id) { move(entries_.at(id), At::kLeaving); }
void Pool::remove(int id) {
  const auto found = entries_.find(id);
  depart(found->second);
  entries_.erase(found);
}

std::optional<std::int64_t> Pool::alarm(std::int64_t after) const {
  std::optional<std::int64_t> out;
  for (const auto& line : lines_) {
    const auto next = line.deadlines.lower_bound({after + 1, -1});
    if (next != line.deadlines.end() && (!out || next->first < *out)) out = next->first;
  }
  return out;
}

std::vector<int> Pool::leaving() const {
  std::vector<int> out;
  for (const auto& [id, entry] : entries_) {
    if (entry.at == At::kLeaving) out.push_back(id);
  }
  return out;
}

// ---- free capacity ----

/// Amounts that will be idle when all leaving jobs have left, less what is reserved for overdue jobs
/// that precede `job`.
Resources Pool::idle_for(const Job& job) const {
  std::vector<Resources> before;
  for (const auto& [turn, needs] : kept_) {
    if (!overdue(job) || turn < deadline_key(job)) before.push_back(needs);
  }
  return Sla::keep(rest(queues_.total(), queues_.use(0).allocated), before);
}

/// Whether `job` fits in addition to all running and leaving jobs: in the pool, and within the capabilities of its
/// queue and of its ancestors.
bool Pool::fits_now(const Job& job) const {
  auto path = held_.ancestors(job.queue);
  path.push_back(job.queue);
  return within(job.needs, rest(held_.total(), held_.use(0).allocated)) && std::ranges::all_of(path, [&](QueueId q) {
           return beyond(sum(held_.use(q).allocated, job.needs), held_[q].capability, job.needs).empty();
         });
}

/// Reserves the needs of overdue jobs. A job that needs more than the real capability of its queue
/// gets no reservation.
template <class Rule>
void Pool::reserve_for_overdue(const Rule& rule) {
  kept_.clear();
  for (const auto& line : lines_) {
    for (const auto& [deadline, id] : line.deadlines) {
      if (deadline > now_) break;
      const Job& job = entries_.at(id).job;
      if (within(job.needs, rule.real_capability(job.queue))) kept_.push_back({deadline_key(job), job.needs});
    }
  }
}

/// The next job of the queue: the first overdue job, else the first among the first jobs of each shape not yet found
/// unschedulable in this run. A job that takes part in a displacement is considered on its own, not by its shape.
const Pool::Job* Pool::first(QueueId queue, const Tried& tried) const {
  const auto& line = lines_[static_cast<std::size_t>(queue)];
  const Job* out = nullptr;
  for (const auto& [deadline, id] : line.deadlines) {
    const Job& job = entries_.at(id).job;
    if (deadline > now_) break;
    if (!tried.jobs.contains(id) && (out == nullptr || deadline_key(job) < deadline_key(*out))) out = &job;
  }
  if (out != nullptr) return out;
  const auto consider = [&](int id) {
    const Job& job = entries_.at(id).job;
    if (out == nullptr || key_of(job) < key_of(*out)) out = &job;
  };
  for (const auto& [needs, waiting] : line.shapes) {
    const bool closed = tried.shapes.contains(needs);
    if (closed && preemptions_.all().empty()) continue;
    for (const auto& key : waiting) {
      const int id = std::get<int>(key);
      if (tried.jobs.contains(id) || (closed && !preemptions_.knows(id))) continue;
      consider(id);
      break;
    }
  }
  return out;
}

void Pool::give_up(const Job& job, Tried& tried) const {
  tried.blocked = queues_[job.queue].strict;
  if (overdue(job) || preemptions_.knows(job.id)) {
    tried.jobs.insert(job.id);
  } else {
    tried.shapes.insert(job.needs);
  }
}

// ---- decisions ----

Pool::Outcome Pool::run(std::int64_t now) {
  now_ = now;
  admitted_now_.clear();
  Outcome out;
  const auto claims = claims_;
  (void)admit_claims();
  // A claim can be met before its victims are gone, by victims of another claim. An admitted job may in turn
  // be a victim.
  do {
    serve_all(out);
  } while (admit_claims());
  std::ranges::sort(out.claimed);
  out.claimed.erase(std::ranges::unique(out.claimed).begin(), out.claimed.end());
  std::erase_if(out.claimed, [&](int id) { return entries_.at(id).at != At::kClaiming; });
  for (const auto& key : claims) {
    if (entries_.at(std::get<int>(key)).at == At::kWaiting) out.unclaimed.push_back(std::get<int>(key));
  }
  for (const int id : admitted_now_) preemptions_.admitted(id);
  out.admitted.assign(admitted_now_.begin(), admitted_now_.end());
  std::ranges::sort(out.admitted, {}, [&](int id) { return key_of(entries_.at(id).job); });
  return out;
}

/// Serves all jobs that the rule has capacity for, in the order of the rule.
void Pool::serve_all(Outcome& out) {
  by_rule([&](const auto& rule) {
    const std::vector<Tried> none_tried(static_cast<std::size_t>(queues_.size()));
    auto tried = none_tried;
    for (auto served = Served::kFromIdle; served != Served::kNone;) {
      served = Served::kNone;
      reserve_for_overdue(rule);
      bool retry_all = false;
      for (const auto queue : order(rule, queues_)) {
        served = serve(rule, queue, tried[static_cast<std::size_t>(queue)], out);
        retry_all =
            served == Served::kFromVictims || (served == Served::kFromIdle && has_too_much(rule, queues_, queue));
        if (served != Served::kNone) break;
      }
      // Victims may free more than was needed, and a queue above its deserved share may lose jobs: consider
      // all jobs again.
      if (retry_all) tried = none_tried;
    }
  });
}

/// Admits a claiming job that fits by now; cancels a claim that can never fit because the pool has become smaller.
bool Pool::admit_claims() {
  bool any = false;
  const auto claims = claims_;
  for (const auto& key : claims) {
    WorkloadEntry& entry = entries_.at(std::get<int>(key));
    if (!beyond(queues_.use(0).allocated, queues_.total(), entry.job.needs).empty()) {
      move(entry, At::kWaiting);
    } else if (fits_now(entry.job)) {
      entry.job.since = now_;
      move(entry, At::kHolding);
      admitted_now_.insert(entry.job.id);
      any = true;
    }
  }
  return any;
}

/// Admits the first job of the queue that fits, or gives it a claim where it can preempt.
template <class Rule>
Pool::Served Pool::serve(const Rule& rule, QueueId queue, Tried& tried, Outcome& out) {
  if (queues_[queue].state != QueueState::kOpen) return Served::kNone;
  while (!tried.blocked) {
    const Job* job = first(queue, tried);
    if (job == nullptr) break;
    if (rule.allocatable(queues_, queue, job->needs) && within(job->needs, idle_for(*job))) {
      carry_out(job->id, {}, out);
      return Served::kFromIdle;
    }
    if (const auto victims = plan(rule, *job); !victims.empty()) {
      carry_out(job->id, victims, out);
      return Served::kFromVictims;
    }
    give_up(*job, tried);
  }
  return Served::kNone;
}

/// The victims that `job` needs: jobs of other queues by the rule (reclaim), or of its own queue by priority.
template <class Rule>
std::vector<Pool::Displaced> Pool::plan(const Rule& rule, const Job& job) const {
  const auto idle = idle_for(job);
  bool reclaims = false;
  if constexpr (!std::is_same_v<Rule, Drf>) reclaims = rule.may_reclaim(queues_, job.queue, job.needs);
  const bool preempts = queues_[job.queue].preemptable;
  if (!reclaims && !preempts) return {};

  const auto excluded_victims = preemptions_.excluded_victims(job.id);
  std::vector<Running> running;
  std::vector<int> ids;
  for (const auto& [id, entry] : entries_) {
    if (entry.at != At::kHolding || (!reclaims && entry.job.queue != job.queue)) continue;
    const bool may_go = entry.job.preemptable && entry.job.min_runtime_until <= now_ && !excluded_victims.contains(id);
    running.push_back({entry.job.queue, {entry.job.uid, entry.job.priority, entry.job.since, entry.job.needs}, may_go});
    ids.push_back(id);
  }
  const auto named = [&](const Reclaimed& taken, Why why) {
    std::vector<Displaced> out;
    for (const auto i : taken) out.push_back({ids[i], job.id, why});
    return out;
  };
  if constexpr (!std::is_same_v<Rule, Drf>) {
    const auto taken = reclaim(rule, queues_, running, job.queue, job.needs, idle);
    if (!taken.empty()) return named(taken, Why::kReclaim);
  }
  // Preemption within the queue must also bring it below its own limits.
  const auto taken =
      preempt(queues_, running, job.queue, job.priority, job.needs, least(idle, room(rule, queues_, job.queue)));
  auto then = queues_;
  for (const auto i : taken) then.release(job.queue, running[i].piece.frees);
  if (taken.empty() || !rule.allocatable(then, job.queue, job.needs)) return {};
  return named(taken, Why::kPriority);
}

/// A victim that was admitted in this same run returns to pending without an eviction.
void Pool::carry_out(int id, const std::vector<Displaced>& plan, Outcome& out) {
  WorkloadEntry& entry = entries_.at(id);
  std::vector<int> victims;
  for (const auto& one : plan) {
    preemptions_.displaced(id, one.victim, now_);
    if (admitted_now_.erase(one.victim) > 0) {
      move(entries_.at(one.victim), At::kWaiting);
    } else {
      leave(one.victim);
      victims.push_back(one.victim);
      out.displaced.push_back(one);
    }
  }
  if (victims.empty() && fits_now(entry.job)) {
    entry.job.since = now_;
    move(entry, At::kHolding);
    admitted_now_.insert(id);
  } else {
    move(entry, At::kClaiming);
    entry.victims = std::move(victims);
    out.claimed.push_back(id);
  }
}

// ---- queries ----

Resources Pool::deserved(QueueId queue) const {
  return by_rule([&](const auto& rule) {
    if constexpr (requires { rule.deserved(queue); })
      return rule.deserved(queue);
    else
      return rule.real_capability(queue);
  });
}

std::vector<Pool::Obstacle> Pool::obstacles(const Job& job) const {
  using Kind = Obstacle::Kind;
  if (queues_[job.queue].state != QueueState::kOpen || !queues_.is_leaf(job.queue)) return {{Kind::kClosed, 0, 0, 0}};
  return by_rule([&](const auto& rule) {
    std::vector<Obstacle> out;
    const auto look = [&](Kind kind, const Resources& limit, const Resources& used) {
      const auto left = rest(limit, used);
      for (const auto r : beyond(job.needs, left, job.needs)) {
        if (std::ranges::find(out, r, &Obstacle::resource) == out.end())
          out.push_back({kind, r, job.needs[r], left[r]});
      }
    };
    const Resources nothing_used(job.needs.size());
    look(Kind::kNever, least(rule.real_capability(job.queue), queues_.total()), nothing_used);
    auto path = queues_.ancestors(job.queue);
    path.push_back(job.queue);
    for (const auto q : path) {
      if (q != 0) look(Kind::kCapability, rule.real_capability(q), queues_.use(q).allocated);
    }
    if constexpr (std::is_same_v<std::decay_t<decltype(rule)>, Proportion>) {
      look(Kind::kShare, rule.deserved(job.queue), queues_.use(job.queue).allocated);
    }
    look(Kind::kIdle, idle_for(job), nothing_used);
    return out;
  });
}

std::vector<int> Pool::holders_to_finish(const Job& job) const {
  using Kind = Obstacle::Kind;
  constexpr std::int64_t kSteps = 20'000;
  Resources missing(job.needs.size());
  bool of_its_own = false;
  for (const auto& one : obstacles(job)) {
    if (one.kind == Kind::kClosed || one.kind == Kind::kNever) return {};
    missing[one.resource] = std::max(missing[one.resource], one.asked - one.left);
    of_its_own = of_its_own || one.kind != Kind::kIdle;
  }
  std::vector<Candidate> candidates;
  std::vector<int> ids;
  for (const auto& [id, entry] : entries_) {
    if (entry.at != At::kHolding || (of_its_own && entry.job.queue != job.queue)) continue;
    candidates.push_back({entry.job.uid, entry.job.priority, entry.job.since, entry.job.needs});
    ids.push_back(id);
  }
  std::vector<int> out;
  for (const auto i : choose(VictimPolicy::kBestFit, candidates, missing, kSteps).chosen) out.push_back(ids[i]);
  Pool then = *this;
  for (const int id : out) then.remove(id);
  if (!then.entries_.contains(job.id)) then.wait(job);
  return std::ranges::count(then.run(now_).admitted, job.id) > 0 ? out : std::vector<int>();
}

}  // namespace qm::admission::volcano
