// Each resource separately: real capability, then the first round as in Volcano, then the common level.
#include "qm/admission/volcano/proportion.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace qm::admission::volcano {
namespace {

/// A queue in the distribution of one resource.
struct Taker {
  std::int64_t weight = 1;
  std::int64_t limit = 0;  ///< min(request, real capability)
  std::int64_t floor = 0;  ///< guarantee
  std::int64_t has = 0;
};

/// floor(amount · weight / weights)
std::int64_t part_of(std::int64_t amount, std::int64_t weight, std::int64_t weights) {
  return static_cast<std::int64_t>(Wide(amount) * weight / weights);
}

/// Distributes the pool in addition to what the queues have, in proportion to their weights, up to their limits.
void fill(std::int64_t pool, std::vector<Taker*> takers) {
  std::erase_if(takers, [](const Taker* t) { return t->has >= t->limit; });
  const auto room = [](const Taker* t) { return t->limit - t->has; };
  std::ranges::stable_sort(
      takers, [&](const Taker* a, const Taker* b) { return Wide(room(a)) * b->weight < Wide(room(b)) * a->weight; });
  std::int64_t weights = 0;
  for (const auto* t : takers) weights += t->weight;
  // A queue that reaches its limit below the level leaves its remaining share to the others, and the level rises.
  auto open = takers.begin();
  for (; open != takers.end() && Wide(room(*open)) * weights <= Wide(pool) * (*open)->weight; ++open) {
    pool -= room(*open);
    weights -= (*open)->weight;
    (*open)->has = (*open)->limit;
  }
  takers.erase(takers.begin(), open);
  std::vector<std::int64_t> got;
  std::int64_t left = pool;
  for (auto* t : takers) {
    got.push_back(part_of(pool, t->weight, weights));
    t->has += got.back();
    left -= got.back();
  }
  for (; left > 0; --left) {
    std::optional<std::size_t> next;
    const auto behind = [&](std::size_t i) { return std::pair(Share{got[i] + 1, takers[i]->weight}, takers[i]); };
    for (std::size_t i = 0; i < takers.size(); ++i) {
      if (takers[i]->has < takers[i]->limit && (!next || behind(i) < behind(*next))) next = i;
    }
    if (!next) return;
    ++got[*next];
    ++takers[*next]->has;
  }
}

/// max(floor, min(limit, λ · weight)): a queue that would get less than its floor gets its floor, and the level falls
/// for the others.
void level_above_floors(std::int64_t total, std::vector<Taker>& takers) {
  std::vector<char> at_floor(takers.size(), 0);
  for (bool again = true; again;) {
    again = false;
    std::int64_t pool = total;
    std::vector<Taker*> others;
    for (std::size_t i = 0; i < takers.size(); ++i) {
      Taker& t = takers[i];
      t.has = at_floor[i] != 0 ? t.floor : 0;
      pool -= t.has;
      if (at_floor[i] == 0) others.push_back(&t);
    }
    fill(kueue::at_least_zero(pool), others);
    for (std::size_t i = 0; i < takers.size(); ++i) {
      if (takers[i].has >= takers[i].floor) continue;
      at_floor[i] = 1;
      again = true;
    }
  }
}

void share_out(std::int64_t total, std::vector<Taker>& takers) {
  std::int64_t weights = 0;
  for (const auto& t : takers) weights += t.weight;
  bool raised = false;
  Wide given = 0;
  for (auto& t : takers) {
    const auto share = std::min(t.limit, part_of(total, t.weight, weights));
    raised = raised || t.floor > share;
    t.has = std::max(share, t.floor);
    given += t.has;
  }
  std::vector<Taker*> all;
  for (auto& t : takers) all.push_back(&t);
  if (given > total) return level_above_floors(total, takers);
  if (!raised) {  // no floor matters: one common level, rounded once
    for (auto& t : takers) t.has = 0;
    return fill(total, all);
  }
  fill(total - static_cast<std::int64_t>(given), all);
}

}  // namespace

Proportion::Proportion(const Queues& queues)
    : deserved_(static_cast<std::size_t>(queues.size()), Resources(queues.total().size())), real_(deserved_) {
  const auto leaves = queues.leaves();
  for (std::size_t r = 0; r < queues.total().size(); ++r) {
    std::int64_t guarantees = 0;
    for (const auto q : leaves) guarantees = kueue::plus(guarantees, queues[q].guarantee[r]);
    std::vector<Taker> takers;
    for (const auto q : leaves) {
      const auto own = queues[q].guarantee[r];
      const auto unpromised = kueue::at_least_zero(kueue::minus(queues.total()[r], guarantees));
      auto& real = real_[static_cast<std::size_t>(q)][r];
      real = std::min(queues[q].capability[r], kueue::plus(unpromised, own));
      takers.push_back({std::max(1, queues[q].weight), std::min(queues.use(q).request[r], real), own, 0});
    }
    if (takers.empty()) continue;
    share_out(queues.total()[r], takers);
    for (std::size_t i = 0; i < leaves.size(); ++i) deserved_[static_cast<std::size_t>(leaves[i])][r] = takers[i].has;
  }
}

Share Proportion::share(const Queues& now, QueueId leaf) const {
  return dominant(now.use(leaf).allocated, deserved(leaf));
}

bool Proportion::before(const Queues& now, QueueId a, QueueId b) const {
  const auto order = share(now, a) <=> share(now, b);
  return order != 0 ? order < 0 : a < b;
}

bool Proportion::allocatable(const Queues& now, QueueId leaf, const Resources& amounts) const {
  return beyond(sum(now.use(leaf).allocated, amounts), deserved(leaf), amounts).empty();
}

bool Proportion::may_reclaim(const Queues& now, QueueId leaf, const Resources& need) const {
  return now[leaf].state == QueueState::kOpen && allocatable(now, leaf, need);
}

bool Proportion::gives(const Queues& now, QueueId from, const Resources& piece, QueueId, const Resources& need) const {
  const auto& allocated = now.use(from).allocated;
  return in_common(piece, need) && !within(allocated, deserved(from)) &&
         within(now[from].guarantee, rest(allocated, piece));
}

}  // namespace qm::admission::volcano
