// Splits a lifetime into slices. The boundaries come from the facts alone (prices, node states, stays, full hours, the
// end), so the slices do not depend on when and in which order the facts were received.
#include "timeline.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>

namespace qm::cost {
namespace {

/// The last entry at or before t, else the first: the first known value also applies to the time before.
template <class Map>
typename Map::const_iterator in_effect(const Map& map, Instant t) {
  auto it = map.upper_bound(t);
  return it == map.begin() ? it : std::prev(it);
}

std::map<NodeKey, NodeRow>::const_iterator node_row(const State& state, const InstanceId& id) {
  const auto& rows = state.nodes.rows();
  const auto it = rows.lower_bound(NodeKey{id, NodeName{}});
  return it != rows.end() && it->first.instance == id ? it : rows.end();
}

}  // namespace

Rates::Rates(const State& state, const InstanceRow& row) : origin_(row.launched) {
  const auto add = [&](Instant from, HourlyRate rate) {
    if (segments_.empty()) segments_.emplace_back(origin_, rate);
    if (segments_.back().second != rate) segments_.emplace_back(from, rate);
  };
  if (row.capacity_type == kSpot) {
    const auto* points = state.spot.find(SpotPool{row.type, row.zone});
    if (points != nullptr && !points->empty()) {
      for (auto it = in_effect(*points, origin_); it != points->end(); ++it) add(it->first, it->second.rate);
      return;
    }
  }
  const auto& plans = state.plans.rows();
  if (plans.empty()) {
    priced_ = false;
    add(origin_, HourlyRate{});
    return;
  }
  for (auto it = in_effect(plans, origin_); it != plans.end(); ++it) {
    const auto rate = planned_rate(it->second, row.type, row.capacity_type, row.zone);
    priced_ = rate.has_value();
    add(it->first, rate.value_or(HourlyRate{}));
  }
}

Money Rates::bill(Instant from, Instant until) const {
  Money sum;
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const Instant begin = i == 0 ? from : std::max(from, segments_[i].first);
    const Instant end = i + 1 < segments_.size() ? std::min(until, segments_[i + 1].first) : until;
    if (begin >= end) continue;
    const auto& rate = segments_[i].second;
    sum += rate.accrued(origin_, end) - rate.accrued(origin_, begin);
  }
  return sum;
}

HourlyRate Rates::at(Instant t) const {
  HourlyRate rate = segments_.front().second;
  for (const auto& [from, next] : segments_) {
    if (from <= t) rate = next;
  }
  return rate;
}

NodeName node_of(const State& state, const InstanceId& id, const InstanceRow& row) {
  const auto it = node_row(state, id);
  return it != state.nodes.end() ? it->first.node : row.node;
}

Timeline::Timeline(const State& state, const Engine::Index& index, const InstanceId& id, Instant from, Instant until)
    : row_(*state.instances.find(id)),
      rates_(state, row_),
      gpus_(row_.gpus),
      compute_slices_(compute_slices_of(row_.type)),
      from_(from),
      until_(std::min(until, end_of_life(row_))) {
  const NodeName node = node_of(state, id, row_);
  node_ = node.empty() ? id.value() : node.value();
  if (const auto it = node_row(state, id); it != state.nodes.end()) {
    points_ = &it->second.points;
    if (it->second.gpus > 0) gpus_ = it->second.gpus;
  }
  if (from_ >= until_) return;

  // The last piece may end after `until`, so the facts are read up to the next full hour.
  const Instant edge = std::min(next_hour(until_), end_of_life(row_));
  const auto cut = [&](Instant t) {
    if (t > from_ && t < edge) cuts_.push_back(t);
  };
  for (const auto& segment : rates_.segments()) cut(segment.first);
  if (points_ != nullptr) {
    for (const auto& [since, point] : *points_) cut(since);
  }
  const auto here = index.assignments.find(node);
  if (here != index.assignments.end()) {
    for (const auto& attempt : here->second) {
      const auto* assignment = state.assignments.find(attempt);
      for (const auto& member : assignment->members) {
        const Instant end = member.released == Instant{} ? kNever : member.released;
        // Node names are reused: a stay belongs to the instance that existed when it began.
        if (member.node != node || member.bound < row_.launched || member.bound >= edge) continue;
        if (end <= from_ || end <= member.bound) continue;
        stays_.push_back({member.bound, end, &assignment->owner, &member.devices});
        cut(member.bound);
        cut(end);
      }
    }
  }
  std::sort(cuts_.begin(), cuts_.end());
  cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
}

std::vector<Timeline::Piece> Timeline::pieces(std::size_t max) const {
  std::vector<Piece> out;
  auto next_boundary = cuts_.begin();
  for (Instant t = from_; t < until_ && out.size() < max;) {
    while (next_boundary != cuts_.end() && *next_boundary <= t) ++next_boundary;
    Instant end = std::min(next_hour(t), end_of_life(row_));
    if (next_boundary != cuts_.end()) end = std::min(end, *next_boundary);
    out.push_back({t, end});
    t = end;
  }
  return out;
}

std::string_view Timeline::pool_at(Instant t) const {
  if (points_ == nullptr) return pools::kStarting;
  const auto after = points_->upper_bound(t);
  if (after == points_->begin()) return pools::kStarting;
  switch (std::prev(after)->second.state) {
    case NodeState::kReady:
      return gpus_ > 0 ? pools::kIdle : pools::kSystem;
    case NodeState::kUnhealthy:
      return pools::kUnhealthy;
    case NodeState::kDraining:
      return pools::kDraining;
    case NodeState::kNotReady:
      break;
  }
  const bool was_ready = std::any_of(points_->begin(), after,
                                     [](const auto& entry) { return entry.second.state != NodeState::kNotReady; });
  return was_ready ? pools::kUnhealthy : pools::kStarting;
}

SliceRow Timeline::slice(Instant start, Instant end) const {
  SliceRow out{end, rates_.bill(start, end), node_, {}, row_.revision};
  const Owner pool{std::string(pool_at(start)), {}, {}};
  const std::int64_t length = (end - start).count();
  std::map<Owner, Amount> sums;
  if (gpus_ <= 0) sums[pool] = Amount{out.cost, 0};

  const std::vector<std::int64_t> evenly(static_cast<std::size_t>(std::max(gpus_, 0)), 1);
  const auto per_device = split(out.cost, evenly);
  // In parts that divide both thousandths and compute slices: a full device has no remainder.
  const std::int64_t whole = std::int64_t{1000} * compute_slices_;
  for (std::int32_t device = 0; device < gpus_; ++device) {
    std::map<Owner, std::int64_t> held;
    std::int64_t sum = 0;
    for (const auto& stay : stays_) {
      if (start < stay.from || start >= stay.until) continue;
      for (const auto& share : *stay.devices) {
        if (share.index != device) continue;
        const std::int64_t part = share.slices > 0 ? share.slices * 1000 : share.milli * compute_slices_;
        held[*stay.owner] += part;
        sum += part;
      }
    }
    // A device with more usage than its capacity (the end of one stay not received yet) is shared in proportion.
    if (sum < whole) held[pool] += whole - sum;
    std::vector<std::int64_t> weights;
    for (const auto& [owner, weight] : held) weights.push_back(weight);
    const auto money = split(per_device[static_cast<std::size_t>(device)], weights);
    const auto time = split(Money::nano(length), weights);
    std::size_t i = 0;
    for (const auto& [owner, weight] : held) {
      sums[owner] += Amount{money[i], time[i].nano()};
      ++i;
    }
  }

  Amount check;
  for (auto& [owner, amount] : sums) {
    check += amount;
    if (!amount.zero()) out.lines.push_back({owner, amount});
  }
  QM_ASSERT(check.nano == out.cost && check.gpu_micros == length * std::max(gpus_, 0),
            "slice of {} at {}: lines {} of {}, gpu time {} of {} x {}", node_, qm::micros(start), check.nano.nano(),
            out.cost.nano(), check.gpu_micros, gpus_, length);
  return out;
}

}  // namespace qm::cost
