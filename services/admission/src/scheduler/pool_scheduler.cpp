#include "scheduler/pool_scheduler.hpp"

#include <algorithm>

namespace qm::admission {

PoolScheduler::PoolScheduler(std::string name, kueue::QuotaState quota, volcano::Pool pool,
                             std::vector<volcano::QueueId> at, Duration waiting_time)
    : name_(std::move(name)),
      quota_(std::move(quota)),
      pool_(std::move(pool)),
      at_(std::move(at)),
      waiting_time_(waiting_time) {}

void PoolScheduler::set_waiting_time(int id, Duration time) {
  time > Duration{0} ? (void)waiting_times_.insert_or_assign(id, time) : (void)waiting_times_.erase(id);
}

std::optional<std::pair<kueue::Flavor, kueue::Cell>> PoolScheduler::offer_of(kueue::Node queue,
                                                                             kueue::Resource r) const {
  const auto* group = quota_.rules[static_cast<std::size_t>(queue)].group_of(r);
  if (group == nullptr || group->options.empty()) return std::nullopt;
  const auto& only = group->options.front();
  return std::pair(only.flavor, only.cells[*group->index_of(r)]);
}

std::optional<volcano::Pool::Job> PoolScheduler::job_of(const kueue::Work& work) const {
  volcano::Pool::Job out{work.id,       queue_at(work.queue), volcano::Resources(pool_.queues().total().size()),
                         work.priority, work.created,         work.uid->value()};
  const auto own = waiting_times_.find(work.id);
  const auto time = own == waiting_times_.end() ? waiting_time_ : own->second;
  if (time > Duration{0}) out.deadline = work.created + time.count();
  out.since = work.reserved;
  out.min_runtime_until = work.stake.min_runtime_until;
  const auto need = [&](kueue::Resource r, std::int64_t amount, const kueue::PodSet& set) {
    const auto offer = offer_of(work.queue, r);
    if (!offer || std::ranges::count(set.refused, offer->first, &kueue::Refusal::flavor) > 0) return false;
    auto& needs = out.needs[static_cast<std::size_t>(offer->second)];
    needs = kueue::plus(needs, amount);
    return true;
  };
  for (const auto& set : work.pod_sets) {
    for (const auto& [r, each] : set.each) {
      if (!need(r, each * set.count, set)) return std::nullopt;
    }
    if (quota_.pods && offer_of(work.queue, *quota_.pods) && !need(*quota_.pods, set.count, set)) return std::nullopt;
  }
  return out;
}

kueue::Assignment PoolScheduler::assignment_of(const kueue::Work& work) const {
  kueue::Assignment out;
  for (const auto& set : work.pod_sets) {
    auto& made = out.sets.emplace_back();
    made.count = set.count;
    const auto take = [&](kueue::Resource r, std::int64_t amount) {
      const auto offer = offer_of(work.queue, r);
      if (!offer) return;
      made.flavors.push_back({r, offer->first, offer->second, kueue::Mode::kFit});
      kueue::add_to(out.usage, offer->second, amount);
    };
    for (const auto& [r, each] : set.each) take(r, each * set.count);
    if (quota_.pods) take(*quota_.pods, set.count);
  }
  return out;
}

void PoolScheduler::wait(const kueue::Work& work) {
  const auto job = job_of(work);
  entries_.at(work.id).in_pool = job.has_value();
  if (job) pool_.wait(*job);
}

void PoolScheduler::enqueue(kueue::Work work) {
  const int id = work.id;
  wait(entries_.insert_or_assign(id, Entry{std::move(work)}).first->second.work);
}

/// It keeps the quota that it got, whatever would be assigned now.
void PoolScheduler::hold(kueue::Work work) {
  const int id = work.id;
  volcano::Pool::Job job{
      id,           queue_at(work.queue), volcano::Resources(pool_.queues().total().size()), work.priority,
      work.created, work.uid->value()};
  for (const auto& [cell, amount] : work.usage) job.needs[static_cast<std::size_t>(cell)] += amount;
  job.since = work.reserved;
  job.min_runtime_until = work.stake.min_runtime_until;
  pool_.hold(std::move(job));
  if (work.evicted) pool_.leave(id);
  quota_.take(work.queue, work.usage, {});
  entries_.insert_or_assign(id, Entry{std::move(work), true, true, {}});
}

/// A pool has no topologies.
void PoolScheduler::claim(const kueue::Work& work, kueue::Amounts usage, kueue::LeafUses /*on_nodes*/,
                          std::vector<int> victims) {
  auto job = job_of(work);
  if (!job) return enqueue(work);
  // From the row, because other decisions depend on it.
  std::ranges::fill(job->needs, 0);
  for (const auto& [cell, amount] : usage) job->needs[static_cast<std::size_t>(cell)] += amount;
  auto& entry = entries_.insert_or_assign(work.id, Entry{work}).first->second;
  entry.claim = assignment_of(work);
  pool_.claim(*std::move(job), std::move(victims));
}

void PoolScheduler::forget(int id) {
  const auto found = entries_.find(id);
  const auto& entry = found->second;
  if (entry.in_pool) pool_.remove(id);
  if (entry.holds) quota_.give_back(entry.work.queue, entry.work.usage, {});
  entries_.erase(found);
}

void PoolScheduler::withdraw(int id) {
  forget(id);
  waiting_times_.erase(id);
}

void PoolScheduler::finish(int id) {
  withdraw(id);
  pool_.preemptions().forget(id);
}

void PoolScheduler::evicted(int id) {
  auto work = entries_.at(id).work;
  forget(id);
  work.usage.clear();
  work.evicted = false;
  work.stake = {};
  work.reserved = 0;
  enqueue(std::move(work));
}

const kueue::Assignment* PoolScheduler::claim_of(int id) const {
  const auto& claim = entries_.at(id).claim;
  return claim ? &*claim : nullptr;
}

kueue::Outcome PoolScheduler::run(std::int64_t now) {
  using Reason = kueue::Reason;
  const auto made = pool_.run(now);
  kueue::Outcome out;
  for (const int id : made.unclaimed) {
    entries_.at(id).claim.reset();
    out.unclaimed.push_back(id);
  }
  for (const auto& one : made.displaced) {
    out.preempted.push_back(
        {one.victim, one.by,
         one.why == volcano::Pool::Why::kReclaim ? Reason::kInCohortReclamation : Reason::kInClusterQueue});
  }
  for (const int id : made.claimed) {
    auto& entry = entries_.at(id);
    entry.claim = assignment_of(entry.work);
    out.waiting.emplace_back(id, kueue::Wait::kWaitingForPreemptedWorkloads);
  }
  for (const int id : made.admitted) {
    auto& entry = entries_.at(id);
    auto assignment = assignment_of(entry.work);
    entry.work.usage = assignment.usage;
    entry.work.reserved = now;
    entry.holds = true;
    entry.claim.reset();
    quota_.take(entry.work.queue, entry.work.usage, {});
    out.admitted.push_back({id, std::move(assignment)});
  }
  return out;
}

}  // namespace qm::admission
