#include "many_sets.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>
#include <numeric>
#include <set>

namespace qm::placement::gang {
namespace {

constexpr std::uint64_t kVectors = 1 << 16;  // number of vectors of counts; above it, sets are placed one by one
constexpr std::uint32_t kFewVectors = 32;    // so few vectors cost less than a search set by set
constexpr std::size_t kStates = 64;          // states tracked for a node after its pods are placed
constexpr std::int32_t kTrials = 16;         // domains of a level in which sets are placed one by one
constexpr std::int32_t kFills = 512;         // domains that a group is tried in, for all levels together
constexpr std::size_t kSeats = 8;            // domains tried for a group inside another
constexpr auto kNever = std::numeric_limits<std::int64_t>::max();

}  // namespace

ManySets::ManySets(Fleet& fleet, const Shape& shape, std::span<const Level> levels,
                   std::span<const std::int32_t> counts, std::span<const std::int64_t> weights, std::int64_t effort,
                   bool any)
    : fleet_(fleet),
      tree_(fleet.tree()),
      shape_(shape),
      levels_(levels),
      counts_(counts),
      weights_(weights),
      effort_(effort),
      trials_(kTrials),
      fills_(kFills),
      any_(any) {
  std::uint64_t all = 1;
  for (std::size_t i = 0; i < shape.sets.size(); ++i) {
    alone_.emplace_back(fleet, shape.sets[i], counts[i], weights, effort);
    order_.push_back(i);
    stride_.push_back(static_cast<Index>(all));
    all = std::min(kVectors + 1, all * (static_cast<std::uint64_t>(counts[i]) + 1));
  }
  std::int64_t devices = 0, cores = 0;
  for (std::size_t i = 0; i < shape.sets.size(); ++i) {
    const auto& pod = shape.sets[i].kind.pod;
    devices += pod.shares() ? 0 : std::int64_t{pod.gpus} * counts[i];
    cores += pod.cpu_milli * counts[i];
  }
  const auto add_total = [&](Kind::Unit unit, std::int64_t count) {
    if (count < 1 || count > std::numeric_limits<std::int32_t>::max()) return;
    Shape::Set& set = totals_[total_.size()];
    set.kind.exclusive = shape.exclusive;
    set.kind.unit = unit;
    total_.emplace_back(fleet, set, static_cast<std::int32_t>(count), weights, effort);
  };
  add_total(Kind::Unit::kDevices, devices);
  add_total(Kind::Unit::kCores, (cores + 999) / 1000);
  by_vectors_ = all <= kVectors;
  all_ = static_cast<Index>(all);
  std::ranges::stable_sort(order_, {}, [&](std::size_t set) { return shape.sets[set].kind.pod.shares(); });
}

bool ManySets::may_hold(Domain domain) const {
  const auto holds = [&](const OneSet& set) { return set.may_hold(domain); };
  return std::ranges::all_of(total_, holds) && std::ranges::all_of(alone_, holds);
}

std::int64_t ManySets::leftover(Domain domain) const {
  if (!total_.empty()) return total_.front().leftover(domain);
  std::int64_t sum = 0;
  for (const auto& set : alone_) sum += set.leftover(domain);
  return sum;
}

std::int64_t ManySets::bound(Domain domain) const {
  std::int64_t most = 0;
  for (const auto& set : total_) most = std::max(most, set.bound(domain));
  for (const auto& set : alone_) most = std::max(most, set.bound(domain));
  return most;
}

std::optional<std::int64_t> ManySets::cost(Domain domain, std::int64_t below) {
  plans_.erase(domain);
  // The placement found set by set is often optimal: it is if its cost equals the lower bound.
  std::optional<std::vector<Load>> loads;
  auto inner = kNever;
  if (all_ > kFewVectors) {
    loads = by_trial(domain);
    if (loads) inner = inner_cost(domain, *loads);
    if (loads && (any_ || inner == bound(domain))) return keep(domain, inner, below, std::move(*loads));
  }
  if (by_vectors_) {
    Table table{domain, {}, {}, {}};
    if (build(table, below - 1)) {
      const auto whole = std::ranges::find(table.entries, all_ - 1, &Entry::index);
      if (whole == table.entries.end() || whole->cost >= below) return std::nullopt;
      loads.emplace();
      unfold(table, all_ - 1, *loads);
      return keep(domain, whole->cost, below, std::move(*loads));
    }
    by_vectors_ = false;
  }
  exact_ = false;
  if (all_ <= kFewVectors) loads = by_trial(domain);
  if (!loads) return std::nullopt;
  return keep(domain, inner_cost(domain, *loads), below, std::move(*loads));
}

std::int64_t ManySets::inner_cost(Domain domain, std::span<const Load> loads) const {
  auto cost = cost_of(tree_, weights_, loads);
  for (Level level = 1; level <= domain.level; ++level) cost -= weights_[at(level)];
  return cost;
}

std::optional<std::int64_t> ManySets::keep(Domain domain, std::int64_t cost, std::int64_t below,
                                           std::vector<Load> loads) {
  if (cost >= below) return std::nullopt;
  plans_.emplace(domain, std::move(loads));
  return cost;
}

// ---- by vectors of counts ----

/// True if one domain of the level may hold these pods.
bool ManySets::allowed(Level level, Index index) const {
  for (std::size_t i = 0; i < shape_.sets.size(); ++i) {
    const auto& asked = shape_.sets[i].asked;
    const auto pods = digit(index, i);
    if (level <= asked.slices.level && pods % asked.slices.size != 0) return false;
    if (level == asked.spread.level && asked.spread.most > 0 && pods > asked.spread.most) return false;
  }
  for (std::size_t t = 0; t < shape_.teams.size(); ++t) {
    if (levels_[t] != level) continue;
    // The domain holds the whole team or no pod of it.
    bool some = false, lacks = false;
    for (auto i = static_cast<std::size_t>(shape_.teams[t].first_set);
         i < static_cast<std::size_t>(shape_.teams[t].end_set); ++i) {
      some = some || digit(index, i) > 0;
      lacks = lacks || digit(index, i) < counts_[i];
    }
    if (some && lacks) return false;
  }
  return true;
}

/// The states of the node after one more pod, for every possible device.
std::vector<pack::NodeState> ManySets::one_more(const std::vector<pack::NodeState>& states, const pack::PodClass& pod) {
  std::vector<pack::NodeState> out;
  for (const auto& state : states) {
    if (!pack::fits(state, pod)) continue;
    if (!pod.shares()) {
      out.push_back(pack::with(state, pod, pack::kDevice));
      continue;
    }
    for (std::size_t d = 0; d < state.gpus && state.free[d] >= pod.gpu_milli; ++d) {
      if (d == 0 || state.free[d] != state.free[d - 1]) out.push_back(pack::with(state, pod, state.free[d]));
    }
  }
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  if (out.size() > kStates) {
    out.resize(kStates);
    exact_ = false;
  }
  effort_ -= static_cast<std::int64_t>(20 * states.size());
  return out;
}

void ManySets::enumerate(std::size_t step, std::uint8_t gate, const std::vector<pack::NodeState>& states, Index index,
                         std::vector<Entry>& out) {
  if (step == order_.size()) {
    if (index > 0 && allowed(tree_.depth(), index)) out.push_back({index, 0});
    return;
  }
  const auto set = order_[step];
  const Kind& kind = shape_.sets[set].kind;
  const auto most = (kind.gates >> gate & 1U) == 0 ? 0 : std::min(counts_[set], kind.most);
  std::vector<pack::NodeState> now = states;
  for (std::int32_t pods = 0; !now.empty(); ++pods) {
    enumerate(step + 1, gate, now, index + static_cast<Index>(pods) * stride_[set], out);
    if (pods == most || effort_ < 0) break;
    now = one_more(now, kind.pod);
  }
}

const std::vector<ManySets::Entry>& ManySets::on_node(NodeId node) {
  const pack::NodeState& state = fleet_.state(node);
  const std::uint8_t gate = fleet_.gate(node);
  auto& known = on_node_[gate];
  if (const auto* entries = known.find(state)) return *entries;
  std::vector<Entry> out;
  enumerate(0, gate, {state}, 0, out);
  return known.emplace(state, std::move(out));
}

/// Returns false if the effort is used up.
bool ManySets::build(Table& table, std::int64_t most) {
  const Domain domain = table.domain;
  if (domain.level == tree_.depth()) {
    table.entries = on_node(domain.index);
    return effort_ >= 0;
  }
  const auto weight = weights_[at(domain.level + 1)];
  std::vector<std::int64_t> cost(all_, kNever);
  std::vector<Index> reached{0};
  cost[0] = 0;
  for (const auto part : tree_.parts(domain)) {
    const Domain below{domain.level + 1, part};
    if (std::ranges::none_of(alone_, [&](const OneSet& set) { return set.takes(below) > 0; })) continue;
    Table& next = table.parts.emplace_back(Table{below, {}, {}, {}});
    if (!build(next, most - weight)) return false;
    effort_ -= static_cast<std::int64_t>(reached.size() * next.entries.size() + all_ / 4);
    if (effort_ < 0) return false;
    auto& pick = table.pick.emplace_back(all_, 0U);
    const auto before = cost;
    const auto known = reached.size();
    for (std::uint32_t e = 0; e < next.entries.size(); ++e) {
      const Entry& entry = next.entries[e];
      for (std::size_t r = 0; r < known; ++r) {
        const auto sum = before[reached[r]] + weight + entry.cost;
        const auto index = reached[r] + entry.index;
        if (sum > most || index >= all_ || sum >= cost[index]) continue;
        bool carries = false;  // a digit above its set's count
        for (std::size_t i = 0; i < counts_.size() && !carries; ++i)
          carries = digit(reached[r], i) + digit(entry.index, i) > counts_[i];
        if (carries) continue;
        if (cost[index] == kNever) reached.push_back(index);
        cost[index] = sum;
        pick[index] = e + 1;
      }
    }
  }
  for (const Index index : reached) {
    if (index > 0 && allowed(domain.level, index)) table.entries.push_back({index, cost[index]});
  }
  return true;
}

void ManySets::unfold(const Table& table, Index index, std::vector<Load>& out) const {
  if (table.domain.level == tree_.depth()) {
    Load load{table.domain.index, {}};
    for (std::size_t i = 0; i < counts_.size(); ++i) load.pods.push_back(digit(index, i));
    out.push_back(std::move(load));
    return;
  }
  for (auto i = table.parts.size(); i-- > 0;) {
    const auto pick = table.pick[i][index];
    if (pick == 0) continue;
    const auto part = table.parts[i].entries[pick - 1].index;
    unfold(table.parts[i], part, out);
    index -= part;
  }
  QM_ASSERT(index == 0, "vector {} of a domain has no owner", index);
}

// ---- one by one ----

std::optional<std::vector<Load>> ManySets::by_trial(Domain domain) {
  if (domain.level != trials_at_) trials_ = kTrials, trials_at_ = domain.level;
  if (trials_-- <= 0) return std::nullopt;
  std::optional<std::vector<Load>> out;
  if (fill(0, domain)) {
    std::map<NodeId, std::vector<std::int32_t>> by_node;
    for (const auto& [node, before, set, pods] : tried_) {
      auto& row = by_node.try_emplace(node, counts_.size(), 0).first->second;
      row[set] += pods;
    }
    out.emplace();
    for (auto& [node, pods] : by_node) out->push_back({node, std::move(pods)});
  }
  give_back(0);
  refresh();
  return out;
}

void ManySets::refresh() {
  for (auto& set : alone_) set.refresh();
  for (auto& set : total_) set.refresh();
}

void ManySets::give_back(std::size_t mark) {
  while (tried_.size() > mark) {
    const NodeId node = tried_.back().node;
    fleet_.set(node, tried_.back().before);
    tried_.pop_back();
    if (std::ranges::find(tried_, node, &Tried::node) == tried_.end()) fleet_.lend(node, false);
  }
}

std::vector<std::size_t> ManySets::largest_first(std::int32_t first, std::int32_t end) const {
  std::vector<std::size_t> sets;
  for (auto i = first; i < end; ++i) sets.push_back(static_cast<std::size_t>(i));
  std::ranges::stable_sort(sets, std::greater<>(),
                           [&](std::size_t set) { return demand(shape_.sets[set], counts_[set]); });
  return sets;
}

std::int32_t ManySets::one_after_another(Domain domain) {
  std::int32_t sum = 0;
  for (const auto set : largest_first(0, static_cast<std::int32_t>(counts_.size()))) {
    const OneSet one(fleet_, shape_.sets[set], counts_[set], weights_, effort_);
    const auto pods = std::min(one.takes(domain), counts_[set]);
    if (pods > 0 && put(set, pods, domain)) sum += pods;
  }
  give_back(0);
  refresh();
  return sum;
}

/// Places the team's own sets, the largest first, after its children, each child in a domain
/// inside; then tries the reverse order.
bool ManySets::fill(std::size_t team, Domain domain) {
  if (fills_-- <= 0) return false;
  const auto& it = shape_.teams[team];
  auto sets = largest_first(it.first_set, it.end_own);
  const auto own = [&] {
    return std::ranges::all_of(sets, [&](std::size_t set) { return put(set, counts_[set], domain); });
  };
  const auto below = [&] {
    for (std::size_t child = team + 1; child < shape_.teams.size(); ++child) {
      if (shape_.teams[child].parent == static_cast<std::int32_t>(team) && !seat(child, domain)) return false;
    }
    return true;
  };
  const auto mark = tried_.size();
  if (below() && own()) return true;
  give_back(mark);
  std::ranges::reverse(sets);
  if (own() && below()) return true;
  give_back(mark);
  return false;
}

bool ManySets::seat(std::size_t team, Domain inside) {
  const Level level = std::max(levels_[team], inside.level);
  const auto& it = shape_.teams[team];
  std::vector<OneSet> sets;
  for (auto i = static_cast<std::size_t>(it.first_set); i < static_cast<std::size_t>(it.end_set); ++i)
    sets.emplace_back(fleet_, shape_.sets[i], counts_[i], weights_, effort_);
  std::vector<std::pair<std::int64_t, Domain>> seats;
  const auto visit = [&](auto&& self, Domain domain) -> void {
    if (!std::ranges::all_of(sets, [&](const OneSet& set) { return set.may_hold(domain); })) return;
    if (domain.level < level) {
      for (const auto part : tree_.parts(domain)) self(self, {domain.level + 1, part});
      return;
    }
    std::int64_t left = 0;
    for (const auto& set : sets) left += set.leftover(domain);
    seats.emplace_back(left, domain);
  };
  visit(visit, inside);
  std::ranges::sort(seats);
  for (std::size_t i = 0; i < std::min(seats.size(), kSeats); ++i) {
    if (fill(team, seats[i].second)) return true;
  }
  return false;
}

bool ManySets::put(std::size_t set, std::int32_t count, Domain domain) {
  OneSet one(fleet_, shape_.sets[set], count, weights_, std::max<std::int64_t>(effort_, 100'000));
  if (!one.may_hold(domain)) return false;
  if (put_on_used_nodes(set, count, domain)) return true;
  const auto best = best_domain(tree_, one, weights_, domain, domain.level);
  QM_ASSERT(best.has_value(), "a domain does not fit its {} pods", count);
  auto inner = best->cost;
  for (Level level = 1; level <= best->domain.level; ++level) inner -= weights_[at(level)];
  for (const auto& [node, pods] : one.plan(best->domain, inner)) put_on(set, pods, node);
  return true;
}

/// Places the pods on nodes of the domain that the gang already uses, if these have capacity for
/// all of them: that adds no cost.
bool ManySets::put_on_used_nodes(std::size_t set, std::int32_t count, Domain domain) {
  const auto& [asked, kind, group] = shape_.sets[set];
  const auto ruled = [&](Level level) { return level > kFleet && level < tree_.depth(); };
  if ((asked.slices.size > 1 && ruled(asked.slices.level)) || (asked.spread.most > 0 && ruled(asked.spread.level)))
    return false;
  std::vector<std::pair<NodeId, std::int32_t>> capacity;
  for (const auto& tried : tried_) {
    const auto seen = [&](const auto& one) { return one.first == tried.node; };
    if (count == 0 || !tree_.within({tree_.depth(), tried.node}, domain) || std::ranges::any_of(capacity, seen))
      continue;
    const auto pods = std::min(count, fleet_.takes(tried.node, kind));
    if (pods == 0) continue;
    capacity.emplace_back(tried.node, pods);
    count -= pods;
  }
  if (count > 0) return false;
  for (const auto& [node, pods] : capacity) put_on(set, pods, node);
  return true;
}

void ManySets::put_on(std::size_t set, std::int32_t pods, NodeId node) {
  auto state = fleet_.state(node);
  tried_.push_back({node, state, set, pods});
  for (std::int32_t i = 0; i < pods; ++i) {
    const auto& pod = shape_.sets[set].kind.pod;
    state = pack::with(state, pod, fleet_.policy().choose(state, pod).device_milli);
  }
  fleet_.set(node, state);
  fleet_.lend(node, true);
}

// ---- nodes and devices ----

std::optional<std::vector<std::vector<std::int32_t>>> devices_for(const pack::Policy& policy, const Shape& shape,
                                                                  const pack::NodeState& state,
                                                                  std::span<const std::int32_t> pods) {
  struct Step {
    std::size_t set;
    std::int32_t left;  // pods of the set that are left, including this one
  };
  std::vector<Step> steps;
  for (const bool shares : {false, true}) {
    for (std::size_t set = 0; set < pods.size(); ++set) {
      if (shape.sets[set].kind.pod.shares() != shares) continue;
      for (auto left = pods[set]; left > 0; --left) steps.push_back({set, left});
    }
  }
  std::vector<std::vector<std::int32_t>> out(pods.size());
  std::set<std::pair<std::size_t, pack::NodeState>> dead;  // states from which the search failed
  const auto go_on = [&](auto&& self, std::size_t step, const pack::NodeState& now) -> bool {
    if (step == steps.size()) return true;
    const auto& pod = shape.sets[steps[step].set].kind.pod;
    if (!pack::fits(now, pod) || dead.contains({step, now})) return false;
    const auto liked = policy.choose(now, pod).device_milli;
    const auto on = [&](std::int32_t device) {
      out[steps[step].set].push_back(pod.shares() ? device : 0);
      if (self(self, step + 1, pack::with(now, pod, device))) return true;
      out[steps[step].set].pop_back();
      return false;
    };
    if (on(liked)) return true;
    for (std::size_t d = 0; pod.shares() && d < now.gpus && now.free[d] >= pod.gpu_milli; ++d) {
      if (now.free[d] != liked && (d == 0 || now.free[d] != now.free[d - 1]) && on(now.free[d])) return true;
    }
    dead.emplace(step, now);
    return false;
  };
  if (!go_on(go_on, 0, state)) return std::nullopt;
  return out;
}

std::int64_t cost_of(const Tree& tree, std::span<const std::int64_t> weights, std::span<const Load> loads) {
  std::int64_t cost = 0;
  std::vector<std::uint32_t> used;
  for (const auto& load : loads) used.push_back(load.node);
  for (Level level = tree.depth(); level > kFleet; --level) {
    std::ranges::sort(used);
    used.erase(std::unique(used.begin(), used.end()), used.end());
    cost += weights[at(level)] * static_cast<std::int64_t>(used.size());
    for (auto& index : used) index = tree.parent({level, index});
  }
  return cost;
}

}  // namespace qm::placement::gang
