#include "one_set.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>
#include <tuple>

namespace qm::placement::gang {

OneSet::OneSet(Fleet& fleet, const Shape::Set& set, std::int32_t count, std::span<const std::int64_t> weights,
               std::int64_t effort)
    : fleet_(fleet),
      tree_(fleet.tree()),
      set_(set),
      count_(count),
      weights_(weights),
      effort_(effort),
      reserve_(effort) {
  const auto& [slices, spread] = std::pair(set.asked.slices, set.asked.spread);
  if (slices.size > 1 && slices.level < tree_.depth()) deepest_ = slices.level;
  if (spread.most > 0 && spread.level < tree_.depth()) deepest_ = std::max(deepest_, spread.level);
  refresh();
}

void OneSet::refresh() {
  capacity_ = &fleet_.capacity(set_.kind);
  scores_.clear();
  counted_.resize(at(deepest_ + 1));
  for (Level level = deepest_; level >= kFleet; --level) {
    auto& row = counted_[at(level)];
    row.assign(tree_.size(level), 0);
    for (std::uint32_t i = 0; i < row.size(); ++i) {
      const Domain domain{level, i};
      if (level == deepest_) {
        row[i] = capacity_->takes(domain);
      } else {
        for (const auto part : tree_.parts(domain)) row[i] += takes({level + 1, part});
      }
      row[i] = rule(level, row[i]);
    }
  }
}

/// Applies slices and spread to a number of pods in a domain of the level.
std::int32_t OneSet::rule(Level level, std::int32_t pods) const {
  const auto& asked = set_.asked;
  if (asked.spread.most > 0 && asked.spread.level == level) pods = std::min(pods, asked.spread.most);
  return level <= asked.slices.level ? pods - pods % asked.slices.size : pods;
}

std::int64_t OneSet::score(NodeId node) {
  constexpr std::size_t kKept = 32;
  const auto& state = fleet_.state(node);
  for (const auto& [known, score] : scores_) {
    if (known == state) return score;
  }
  const auto score = fleet_.policy().choose(state, set_.kind.pod).score;
  if (scores_.size() == kKept) scores_.erase(scores_.begin());
  scores_.emplace_back(state, score);
  return score;
}

/// The first nodes inside that fit exactly as many pods as the bit stands for.
void OneSet::nodes_with(Domain domain, std::uint64_t bit, std::vector<NodeId>& out) const {
  if (out.size() >= kAlike || !may_hold(domain)) return;
  if (domain.level == tree_.depth()) {
    if (bit == std::uint64_t{1} << std::min(takes(domain), DomainCapacity::kLastBit)) out.push_back(domain.index);
  } else if ((capacity_->exactly(domain) & bit) != 0) {
    for (const auto part : tree_.parts(domain)) nodes_with({domain.level + 1, part}, bit, out);
  }
}

std::optional<NodeId> OneSet::best_node(Domain within) {
  if (within.level == tree_.depth()) return may_hold(within) ? std::optional(within.index) : std::nullopt;
  std::vector<NodeId> nodes;
  for (auto bits = capacity_->exactly(within) >> std::min(count_, DomainCapacity::kLastBit)
                                                     << std::min(count_, DomainCapacity::kLastBit);
       bits != 0 && nodes.empty(); bits &= bits - 1)
    nodes_with(within, bits & ~(bits - 1), nodes);
  std::optional<NodeId> best;
  const auto rank = [&](NodeId node) { return std::tuple(takes({tree_.depth(), node}), -score(node), node); };
  for (const auto node : nodes) {
    if (!best || rank(node) < rank(*best)) best = node;
  }
  return best;
}

// ---- how many pods a domain fits at a cost ----

std::int64_t OneSet::bound(Domain domain) const {
  if (domain.level == tree_.depth()) return 0;
  const auto shares = [&](std::int32_t largest) -> std::int64_t { return (count_ + largest - 1) / largest; };
  std::int64_t parts = 1, sum = 0;
  if (domain.level + 1 < tree_.depth()) {
    std::int32_t largest = 1;
    for (const auto part : tree_.parts(domain)) largest = std::max(largest, takes({domain.level + 1, part}));
    parts = shares(largest);
    for (Level level = domain.level + 1; level < tree_.depth(); ++level) sum += parts * weights_[at(level)];
  }
  return sum + std::max(parts, shares(std::max(1, capacity_->largest(domain)))) * weights_.back();
}

OneSet::Curve OneSet::of_nodes(Domain domain) const {
  std::vector<std::int32_t> takes;
  for (const auto node : tree_.parts(domain)) {
    if (const auto pods = capacity_->takes({tree_.depth(), node}); pods > 0) takes.push_back(pods);
  }
  std::ranges::sort(takes, std::greater<>());
  Curve out;
  std::int32_t pods = 0;
  std::int64_t cost = 0;
  for (const auto one : takes) {
    cost += weights_.back();
    pods += one;
    const auto kept = std::min(count_, rule(domain.level, pods));
    if (kept > (out.empty() ? 0 : out.back().pods)) out.push_back({cost, kept});
    if (kept == count_) break;
  }
  return out;
}

/// Computes, for each cost up to `most`, the pods that fit in the parts, one part after the other.
/// `split` receives the pods of each part when all are placed at the least cost; the caller knows
/// that this cost is at most `most`.
std::optional<OneSet::Curve> OneSet::of_parts(Domain domain, std::int64_t most, std::vector<std::int32_t>* split) {
  const auto weight = weights_[at(domain.level + 1)];
  const auto parts = tree_.parts(domain);
  const auto size = static_cast<std::size_t>(most) + 1;
  std::vector<std::int32_t> best(size, 0), next;
  std::vector<std::vector<std::uint16_t>> chosen;
  std::vector<Curve> curves;
  for (const auto part : parts) {
    Curve points;
    if (const Domain below{domain.level + 1, part}; takes(below) > 0 && most > weight) {
      auto made = curve(below, most - weight);
      if (!made) return std::nullopt;
      points = std::move(*made);
    }
    effort_ -= static_cast<std::int64_t>(points.size() * size);
    if (effort_ < 0) return std::nullopt;
    next = best;
    if (split) chosen.emplace_back(size, std::uint16_t{0});
    for (std::size_t p = 0; p < points.size(); ++p) {
      const auto costs = static_cast<std::size_t>(points[p].cost + weight);
      for (std::size_t c = costs; c < size; ++c) {
        const auto pods = std::min(count_, best[c - costs] + points[p].pods);
        if (pods <= next[c]) continue;
        next[c] = pods;
        if (split) chosen.back()[c] = static_cast<std::uint16_t>(p + 1);
      }
    }
    best.swap(next);
    if (split) curves.push_back(std::move(points));
  }
  Curve out;
  for (std::size_t c = 1; c < size; ++c) {
    const auto pods = rule(domain.level, best[c]);
    if (pods > (out.empty() ? 0 : out.back().pods)) out.push_back({static_cast<std::int64_t>(c), pods});
  }
  if (split) {
    split->assign(parts.size(), 0);
    std::size_t c = 0;
    while (best[c] < count_) ++c;
    for (auto i = parts.size(); i-- > 0;) {
      const auto p = chosen[i][c];
      if (p == 0) continue;
      const Point& point = curves[i][p - 1U];
      (*split)[i] = point.pods;
      c -= static_cast<std::size_t>(point.cost + weight);
    }
  }
  return out;
}

std::optional<OneSet::Curve> OneSet::curve(Domain domain, std::int64_t most) {
  if (domain.level + 1 < tree_.depth()) return of_parts(domain, most, nullptr);
  auto out = of_nodes(domain);
  while (!out.empty() && out.back().cost > most) out.pop_back();
  return out;
}

std::optional<std::int64_t> OneSet::cost(Domain domain, std::int64_t below) {
  if (domain.level == tree_.depth()) return 0;
  if (domain.level + 1 == tree_.depth()) {
    const auto points = of_nodes(domain);
    if (points.back().cost < below) return points.back().cost;
    return std::nullopt;
  }
  // The cost limit grows only as needed: first the lower bound, then about half as much again each
  // time, up to the best cost found elsewhere.
  const auto least = bound(domain);
  for (auto most = below < 3 * least ? below - 1 : least;; most += most / 2 + 8) {
    most = std::min(most, below - 1);
    const auto points = of_parts(domain, most, nullptr);
    if (!points) {
      exact_ = false;
      const auto filled = fill(domain, count_, nullptr);
      return filled < below ? std::optional(filled) : std::nullopt;
    }
    if (!points->empty() && points->back().pods >= count_) return points->back().cost;
    if (most == below - 1) return std::nullopt;
  }
}

// ---- which nodes ----

OneSet::Pods OneSet::plan(Domain domain, std::int64_t inner) {
  Pods out;
  if (domain.level == tree_.depth()) {
    out.emplace_back(domain.index, count_);
  } else if (domain.level + 1 == tree_.depth()) {
    put_on_nodes(domain, count_, out);
  } else {
    effort_ = std::max(effort_, reserve_);  // what was found is worth the time to write it down
    if (!put_on_parts(domain, count_, inner, out)) {
      exact_ = false;
      out.clear();
      (void)fill(domain, count_, &out);
    }
  }
  return out;
}

/// Uses the fewest nodes: those with most free capacity first; the last is the one with the least
/// left over.
void OneSet::put_on_nodes(Domain domain, std::int32_t pods, Pods& out) {
  struct One {
    std::int32_t takes;
    NodeId node;
  };
  std::vector<One> nodes;
  for (const auto node : tree_.parts(domain)) {
    if (const auto takes = capacity_->takes({tree_.depth(), node}); takes > 0) nodes.push_back({takes, node});
  }
  std::ranges::stable_sort(nodes, std::greater<>(), &One::takes);
  std::size_t whole = 0;  // nodes that are filled completely
  for (std::int32_t left = pods; whole < nodes.size() && nodes[whole].takes < left; ++whole) left -= nodes[whole].takes;
  const auto by_score = [&](std::int32_t takes) {
    // Nodes with equal capacity are ordered by the policy's score, then by node id.
    const auto [begin, end] = std::ranges::equal_range(nodes, takes, std::greater<>(), &One::takes);
    std::vector<std::pair<std::int64_t, NodeId>> ranked;
    for (auto it = begin; it != end; ++it) ranked.emplace_back(-score(it->node), it->node);
    std::ranges::sort(ranked);
    for (auto it = begin; it != end; ++it) it->node = ranked[static_cast<std::size_t>(it - begin)].second;
  };
  if (whole > 0 && whole < nodes.size() && nodes[whole].takes == nodes[whole - 1].takes) by_score(nodes[whole].takes);
  for (std::size_t i = 0; i < whole; ++i) {
    out.emplace_back(nodes[i].node, nodes[i].takes);
    pods -= nodes[i].takes;
  }
  // The last of the nodes that fit the remaining pods.
  auto last = nodes.size() - 1;
  while (nodes[last].takes < pods) --last;
  const auto takes = nodes[last].takes;
  if (whole == 0 || nodes[whole - 1].takes != takes) by_score(takes);
  while (last > whole && nodes[last - 1].takes == takes) --last;
  out.emplace_back(nodes[last].node, pods);
}

bool OneSet::put_on_parts(Domain domain, std::int32_t pods, std::int64_t inner, Pods& out) {
  if (domain.level + 1 == tree_.depth()) {
    put_on_nodes(domain, pods, out);
    return true;
  }
  // The same computation for this number of pods, this time with each part's share.
  const auto wanted = std::exchange(count_, pods);
  std::vector<std::int32_t> split;
  const bool made = of_parts(domain, inner, &split).has_value();
  count_ = wanted;
  if (!made) return false;
  const auto parts = tree_.parts(domain);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (split[i] > 0) order.push_back(i);
  }
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return split[i]; });
  for (const auto i : order) {
    const auto share = std::min(pods, split[i]);
    pods -= share;
    const Domain part{domain.level + 1, parts[i]};
    if (share > 0 && !put_on_parts(part, share, inner - weights_[at(part.level)], out)) return false;
  }
  QM_ASSERT(pods == 0, "{} pods of a set are left over", pods);
  return true;
}

/// Parts with most free capacity first, the last part by best fit: the fallback when the effort is
/// used up.
std::int64_t OneSet::fill(Domain domain, std::int32_t pods, Pods* out) {
  if (domain.level + 1 == tree_.depth()) {
    const auto wanted = std::exchange(count_, pods);
    const auto cost = of_nodes(domain).back().cost;
    count_ = wanted;
    if (out) put_on_nodes(domain, pods, *out);
    return cost;
  }
  std::vector<Domain> parts;
  for (const auto part : tree_.parts(domain)) parts.push_back({domain.level + 1, part});
  std::ranges::stable_sort(parts, std::greater<>(), [&](Domain part) { return takes(part); });
  std::int64_t cost = 0;
  for (auto part = parts.begin(); pods > 0; ++part) {
    QM_ASSERT(part != parts.end(), "{} pods of a set are left over", pods);
    auto last = part;
    while (last + 1 != parts.end() && takes(last[1]) >= pods) ++last;  // the tightest part that fits the rest
    const auto share = std::min(pods, takes(*last));
    cost += weights_[at(last->level)] + fill(*last, share, out);
    pods -= share;
    if (pods == 0) break;
    QM_ASSERT(last == part, "a part fits fewer pods than counted");
  }
  return cost;
}

}  // namespace qm::placement::gang
