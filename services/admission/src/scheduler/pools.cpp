// Queries about pools of Volcano's queues.
#include "scheduler/decisions.hpp"
#include "scheduler/pool_scheduler.hpp"

#include <algorithm>

namespace qm::admission {

std::string_view Decisions::pool_error(const QueueName& queue) const {
  const auto found = pool_errors_.find(queue);
  return found == pool_errors_.end() ? std::string_view() : found->second;
}

const PoolScheduler* Decisions::pool_of(const QueueName& queue) const {
  const auto pool = pools_.find(tree_of(queue));
  return pool == pools_.end() ? nullptr : pool->second;
}

std::optional<PoolShare> Decisions::pool_share(const QueueName& queue) const {
  const auto* shared = pool_of(queue);
  if (shared == nullptr) return std::nullopt;
  const auto [tree, node] = queues_.at(queue);
  const auto& pool = shared->pool();
  const auto at = shared->queue_at(node);
  const auto deserved = pool.deserved(at);
  const auto& use = pool.queues().use(at);
  const auto& names = names_.names_of(tree);
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
  for (const auto& [tree, scheduler] : pools_) {
    const auto alarm = scheduler->pool().alarm(micros(after));
    if (alarm && *alarm <= micros(now)) out.push_back(tree);
  }
  return out;
}

std::optional<Instant> Decisions::alarm(Instant after) const {
  std::optional<std::int64_t> out;
  if (const auto change = ages_.next_change()) out = micros(*change);
  for (const auto& [tree, scheduler] : pools_) {
    const auto alarm = scheduler->pool().alarm(micros(after));
    if (alarm && (!out || *alarm < *out)) out = alarm;
  }
  return out ? std::optional(from_micros(*out)) : std::nullopt;
}

std::vector<QuotaShortfall> Decisions::pool_shortfalls(int tree, const PoolScheduler& pool,
                                                       const kueue::Work& work) const {
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
        s.resource = names_.resources[r];
        s.requested = each * set.count;
        continue;
      }
      s.flavor = FlavorName(names_.flavors[offer->first]);
      s.kind = refused->why == kueue::Refusal::Why::kNotFound ? Kind::kFlavorMissing
               : refused->why == kueue::Refusal::Why::kTaint  ? Kind::kTaint
                                                              : Kind::kSelector;
      s.detail = refused->detail;
    }
  }
  const auto job = pool.job_of(work);
  if (!job) return out;
  const auto& names = names_.names_of(tree);
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
