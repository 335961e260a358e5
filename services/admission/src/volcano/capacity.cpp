#include "qm/admission/volcano/capacity.hpp"

#include <algorithm>

namespace qm::admission::volcano {
namespace {

/// The queues with limits that apply to `leaf`: itself, then its ancestors without the root. The root is left out:
/// a job may be enqueued although the pool is fully used, and is pending until others release quota.
std::vector<QueueId> limiting(const Queues& queues, QueueId leaf) {
  auto out = queues.ancestors(leaf);
  out.push_back(leaf);
  out.erase(out.begin());
  std::ranges::reverse(out);
  return out;
}

}  // namespace

Capacity::Capacity(const Queues& queues, int ancestor_levels)
    : levels_(std::max(0, ancestor_levels)),
      deserved_(static_cast<std::size_t>(queues.size()), Resources(queues.total().size())),
      real_(deserved_) {
  real_[0] = least(queues.total(), queues[0].capability);
  deserved_[0] = real_[0];
  for (QueueId q = 0; q < queues.size(); ++q) {  // parents precede their children
    const auto& parent = real_capability(q);
    Resources guarantees(queues.total().size());
    for (const auto child : queues.children(q)) add(guarantees, queues[child].guarantee);
    for (const auto child : queues.children(q)) {
      const auto& own = queues[child];
      auto& real = real_[static_cast<std::size_t>(child)];
      real = least(sum(rest(parent, guarantees), own.guarantee), own.capability);
      deserved_[static_cast<std::size_t>(child)] = most(least(own.deserved, real), own.guarantee);
    }
  }
}

Share Capacity::share(const Queues& now, QueueId q) const {
  if (nothing(deserved(q))) return {1, 1};
  return dominant(now.use(q).allocated, deserved(q));
}

bool Capacity::before(const Queues& now, QueueId a, QueueId b) const {
  if (now[a].priority != now[b].priority) return now[a].priority > now[b].priority;
  const auto level = static_cast<std::size_t>(now.common(a, b));
  const auto branch = [&](QueueId q) {
    const auto up = now.ancestors(q);
    return level < up.size() ? up[level] : q;
  };
  const auto left = branch(a), right = branch(b);
  const auto order = share(now, left) <=> share(now, right);
  if (order != 0) return order < 0;
  const bool empty_left = nothing(deserved(left)), empty_right = nothing(deserved(right));
  return empty_left != empty_right ? empty_right : a < b;
}

bool Capacity::allocatable(const Queues& now, QueueId leaf, const Resources& amounts) const {
  if (now[leaf].state != QueueState::kOpen || !now.is_leaf(leaf)) return false;
  auto path = now.ancestors(leaf);
  path.push_back(leaf);
  return std::ranges::all_of(
      path, [&](QueueId q) { return beyond(sum(now.use(q).allocated, amounts), real_capability(q), amounts).empty(); });
}

std::vector<std::size_t> Capacity::insufficient_resources(const Queues& now, QueueId leaf,
                                                          const Resources& least) const {
  for (const auto q : limiting(now, leaf)) {
    const auto& use = now.use(q);
    const auto then = sum(sum(use.allocated, use.inqueue), least);
    if (auto lack = beyond(then, real_capability(q), least); !lack.empty()) return lack;
  }
  return {};
}

bool Capacity::may_reclaim(const Queues& now, QueueId leaf, const Resources& need) const {
  if (now[leaf].state != QueueState::kOpen) return false;
  if (!beyond(sum(now.use(leaf).allocated, need), real_capability(leaf), need).empty()) return false;
  const auto below_deserved = [&](QueueId q) {
    const auto then = sum(now.use(q).allocated, need);
    for (std::size_t r = 0; r < need.size(); ++r) {
      if (need[r] > 0 && then[r] <= deserved(q)[r]) return true;
    }
    return false;
  };
  for (int level = 0; level <= levels_; ++level) {
    if (const auto q = now.ancestor(leaf, level); q && below_deserved(*q)) return true;
  }
  return false;
}

bool Capacity::has_too_much(const Queues& now, QueueId q, const Resources& piece) const {
  return !in_common(piece, deserved(q)) || !beyond(now.use(q).allocated, deserved(q), piece).empty();
}

bool Capacity::gives(const Queues& now, QueueId from, const Resources& piece, QueueId to, const Resources& need) const {
  if (!in_common(piece, need)) return false;
  if (!within(now[from].guarantee, rest(now.use(from).allocated, piece))) return false;
  if (!has_too_much(now, from, piece)) return false;
  if (levels_ == 0) return true;
  const bool none_deserved = !in_common(piece, deserved(from)) && !in_common(need, deserved(to));
  for (int a = 1; a <= levels_; ++a) {
    const auto above = now.ancestor(from, a);
    if (!above) continue;
    for (int b = 1; none_deserved && b <= levels_; ++b) {
      if (now.ancestor(to, b) == above) return false;  // queues below a common ancestor do not compete with each other
    }
    if (now.ancestor(to, a) != above && !has_too_much(now, *above, piece)) return false;
  }
  return true;
}

}  // namespace qm::admission::volcano
