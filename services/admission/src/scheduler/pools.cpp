// A cohort whose quota is shared out to Volcano's queues: one tree, scheduled by the rules of a pool.
#include "qm/admission/decisions.hpp"
#include "scheduler/rule_tree.hpp"

#include <algorithm>

namespace qm::admission {

// ---- construction ----

std::unique_ptr<Decisions::Tree> Decisions::pool_of(int tree, const std::map<QueueName, ClusterQueue>& queues,
                                                    const Cohort& cohort, kueue::QuotaState field) {
  const auto& names = names_[static_cast<std::size_t>(tree)];
  volcano::Resources total;
  for (kueue::Cell c = 0; c < field.tree.cells(); ++c) total.push_back(field.tree.quota(0, c).nominal);
  const auto amounts = [&](const volcano::Named& named, std::int64_t otherwise) {
    volcano::Resources out;
    for (const auto& name : names) {
      const auto found = named.find(name.resource);
      const std::int64_t unit = name.resource == words::kGpuResource ? 1000 : 1;
      out.push_back(found == named.end() ? otherwise : std::min(found->second, kUnlimited / unit) * unit);
    }
    return out;
  };
  std::vector<volcano::Queue> rules;
  for (const auto& [name, queue] : queues) {
    if (!queue.volcano) continue;
    auto& made = rules.emplace_back(queue.volcano->rules);
    if (queue.closing) made.state = volcano::QueueState::kClosed;
    made.capability = amounts(queue.volcano->capability, kUnlimited);
    made.guarantee = amounts(queue.volcano->guarantee, 0);
    made.deserved = amounts(queue.volcano->deserved, 0);
  }
  auto planted = volcano::Queues::plant(std::move(rules), std::move(total));
  for (auto it = queues_.begin(); it != queues_.end();) {
    const auto [name, at] = *it;
    const bool here = at.tree == tree, of_volcano = queues.at(name).volcano.has_value();
    if (here && (!of_volcano || !planted)) {
      pool_errors_[name] =
          of_volcano ? planted.error().message : fmt::format("Cohort {} is a pool of Volcano queues only", cohort.name);
      it = queues_.erase(it);
    } else {
      ++it;
    }
  }
  if (!planted) return std::make_unique<ContinuousScheduler>(std::move(field), shares());
  std::vector<volcano::QueueId> at(static_cast<std::size_t>(field.tree.size()), -1);
  for (kueue::Node n = 0; n < field.tree.size(); ++n) {
    if (const auto found = planted->find(field.tree.name(n)); found && field.tree.is_queue(n)) {
      at[static_cast<std::size_t>(n)] = *found;
    }
  }
  return std::make_unique<Sharing>(cohort.name, std::move(field), volcano::Pool(*std::move(planted), *cohort.sharing),
                                   std::move(at), cohort.waiting_time);
}

std::string_view Decisions::pool_error(const QueueName& queue) const {
  const auto found = pool_errors_.find(queue);
  return found == pool_errors_.end() ? std::string_view() : found->second;
}

// ---- a tree of this kind ----

std::optional<std::pair<kueue::Flavor, kueue::Cell>> Decisions::Sharing::offer_of(kueue::Node queue,
                                                                                  kueue::Resource r) const {
  const auto* group = field_.rules[static_cast<std::size_t>(queue)].group_of(r);
  if (group == nullptr || group->options.empty()) return std::nullopt;
  const auto& only = group->options.front();
  return std::pair(only.flavor, only.cells[*group->index_of(r)]);
}

std::optional<volcano::Pool::Job> Decisions::Sharing::job_of(const kueue::Work& work) const {
  volcano::Pool::Job out{work.id,       queue_at(work.queue), volcano::Resources(pool_.queues().total().size()),
                         work.priority, work.created,         work.uid->value()};
  const auto own = patience_.find(work.id);
  const auto time = own == patience_.end() ? waiting_time_ : own->second;
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
    if (field_.pods && offer_of(work.queue, *field_.pods) && !need(*field_.pods, set.count, set)) return std::nullopt;
  }
  return out;
}

kueue::Assignment Decisions::Sharing::assignment_of(const kueue::Work& work) const {
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
    if (field_.pods) take(*field_.pods, set.count);
  }
  return out;
}

void Decisions::Sharing::wait(const kueue::Work& work) {
  const auto job = job_of(work);
  entries_.at(work.id).in_pool = job.has_value();
  if (job) pool_.wait(*job);
}

void Decisions::Sharing::enqueue(kueue::Work work) {
  const int id = work.id;
  wait(entries_.insert_or_assign(id, WorkloadEntry{std::move(work)}).first->second.work);
}

/// It keeps the quota that it got, whatever would be assigned now.
void Decisions::Sharing::hold(kueue::Work work) {
  const int id = work.id;
  volcano::Pool::Job job{
      id,           queue_at(work.queue), volcano::Resources(pool_.queues().total().size()), work.priority,
      work.created, work.uid->value()};
  for (const auto& [cell, amount] : work.usage) job.needs[static_cast<std::size_t>(cell)] += amount;
  job.since = work.reserved;
  job.min_runtime_until = work.stake.min_runtime_until;
  pool_.hold(std::move(job));
  if (work.evicted) pool_.leave(id);
  field_.take(work.queue, work.usage, {});
  entries_.insert_or_assign(id, WorkloadEntry{std::move(work), true, true, {}});
}

void Decisions::Sharing::claim(const kueue::Work& work, kueue::Amounts usage, std::vector<int> victims) {
  auto job = job_of(work);
  if (!job) return enqueue(work);
  // From the row, because other decisions depend on it.
  std::ranges::fill(job->needs, 0);
  for (const auto& [cell, amount] : usage) job->needs[static_cast<std::size_t>(cell)] += amount;
  auto& entry = entries_.insert_or_assign(work.id, WorkloadEntry{work}).first->second;
  entry.claim = assignment_of(work);
  pool_.claim(*std::move(job), std::move(victims));
}

void Decisions::Sharing::forget(int id) {
  const auto found = entries_.find(id);
  const auto& entry = found->second;
  if (entry.in_pool) pool_.remove(id);
  if (entry.holds) field_.give_back(entry.work.queue, entry.work.usage, {});
  entries_.erase(found);
}

void Decisions::Sharing::withdraw(int id) {
  forget(id);
  patience_.erase(id);
}

void Decisions::Sharing::finish(int id) {
  withdraw(id);
  pool_.preemptions().forget(id);
}

void Decisions::Sharing::evicted(int id) {
  auto work = entries_.at(id).work;
  forget(id);
  work.usage.clear();
  work.evicted = false;
  work.stake = {};
  work.reserved = 0;
  enqueue(std::move(work));
}

const kueue::Assignment* Decisions::Sharing::claim_of(int id) const {
  const auto& claim = entries_.at(id).claim;
  return claim ? &*claim : nullptr;
}

kueue::Outcome Decisions::Sharing::run(std::int64_t now) {
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
    field_.take(entry.work.queue, entry.work.usage, {});
    out.admitted.push_back({id, std::move(assignment)});
  }
  return out;
}

// ---- queries ----

const Decisions::Sharing* Decisions::sharing_of(const QueueName& queue) const {
  const int tree = tree_of(queue);
  return tree < 0 ? nullptr : trees_[static_cast<std::size_t>(tree)]->sharing();
}

std::optional<Decisions::PoolShare> Decisions::pool_share(const QueueName& queue) const {
  const auto* shared = sharing_of(queue);
  if (shared == nullptr) return std::nullopt;
  const auto [tree, node] = queues_.at(queue);
  const auto& pool = shared->pool();
  const auto at = shared->queue_at(node);
  const auto deserved = pool.deserved(at);
  const auto& use = pool.queues().use(at);
  const auto& names = names_[static_cast<std::size_t>(tree)];
  PoolShare out;
  for (std::size_t r = 0; r < names.size(); ++r) {
    out.used[names[r].resource] = use.allocated[r];
    out.deserved[names[r].resource] = deserved[r];
  }
  const auto share = volcano::dominant(use.allocated, pool.queues().total());
  out.dominant_share = static_cast<double>(share.part) / static_cast<double>(std::max<std::int64_t>(1, share.whole));
  return out;
}

std::vector<int> Decisions::overdue(Instant after, Instant now) const {
  std::vector<int> out;
  for (const int tree : pools_) {
    const auto alarm = trees_[static_cast<std::size_t>(tree)]->sharing()->pool().alarm(micros(after));
    if (alarm && *alarm <= micros(now)) out.push_back(tree);
  }
  return out;
}

std::optional<Instant> Decisions::alarm(Instant after) const {
  std::optional<std::int64_t> out;
  if (!ages_.empty()) out = micros(ages_.begin()->first);
  for (const int tree : pools_) {
    const auto alarm = trees_[static_cast<std::size_t>(tree)]->sharing()->pool().alarm(micros(after));
    if (alarm && (!out || *alarm < *out)) out = alarm;
  }
  return out ? std::optional(from_micros(*out)) : std::nullopt;
}

std::vector<QuotaShortfall> Decisions::pool_shortfalls(int tree, const Sharing& pool, const kueue::Work& work) const {
  using Kind = QuotaShortfall::Kind;
  std::vector<QuotaShortfall> out;
  for (const auto& set : work.pod_sets) {
    for (const auto& [r, each] : set.each) {
      const auto offer = pool.offer_of(work.queue, r);
      const auto refused =
          offer ? std::ranges::find(set.refused, offer->first, &kueue::Refusal::flavor) : set.refused.end();
      if (offer && refused == set.refused.end()) continue;
      auto& s = out.emplace_back();
      s.pod_set = set.name;
      if (!offer) {
        s.kind = Kind::kNotCovered;
        s.resource = resources_[r];
        s.requested = each * set.count;
        continue;
      }
      s.flavor = FlavorName(flavors_[offer->first]);
      s.kind = refused->why == kueue::Refusal::Why::kNotFound ? Kind::kFlavorMissing
               : refused->why == kueue::Refusal::Why::kTaint  ? Kind::kTaint
                                                              : Kind::kSelector;
      s.detail = refused->detail;
    }
  }
  const auto job = pool.job_of(work);
  if (!job) return out;
  const auto& names = names_[static_cast<std::size_t>(tree)];
  for (const auto& one : pool.pool().obstacles(*job)) {
    using Obstacle = volcano::Pool::Obstacle::Kind;
    if (one.kind == Obstacle::kClosed) continue;  // inactive_reason() reports it
    auto& s = out.emplace_back();
    s.kind = one.kind == Obstacle::kNever        ? Kind::kNeverFits
             : one.kind == Obstacle::kCapability ? Kind::kCapability
             : one.kind == Obstacle::kShare      ? Kind::kShare
                                                 : Kind::kPool;
    s.flavor = names[one.resource].flavor;
    s.resource = names[one.resource].resource;
    s.requested = one.asked;
    s.available = one.left;
    s.detail = pool.name();
  }
  return out;
}

}  // namespace qm::admission
