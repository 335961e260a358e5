// Applies facts. Each one is stored under its key, newest version first; the affected time is recorded as (instance,
// from when on), and the end of the step updates the posted slices (reconcile.cpp).
#include "qm/cost/engine.hpp"

#include "qm/base/assert.hpp"
#include "qm/base/digest.hpp"
#include "timeline.hpp"

#include <algorithm>
#include <utility>

namespace qm::cost {
namespace {

/// A charge that begins earlier than this is considered a mistake.
constexpr Duration kLongestLife = std::chrono::hours(24 * 366 * 3);

Instant end_of(const Member& member) { return member.released == Instant{} ? kNever : member.released; }

/// The time from which two states of an assignment differ, per node of either.
std::map<NodeName, Instant> differences(const AssignmentRow* before, const AssignmentRow& after) {
  std::map<NodeName, Instant> out;
  const auto note = [&](const NodeName& node, Instant from) {
    const auto [it, fresh] = out.try_emplace(node, from);
    if (!fresh) it->second = std::min(it->second, from);
  };
  const bool same_owner = before != nullptr && before->owner == after.owner;
  const std::size_t old_size = before == nullptr ? 0 : before->members.size();
  for (std::size_t i = 0; i < std::max(old_size, after.members.size()); ++i) {
    const Member* a = i < old_size ? &before->members[i] : nullptr;
    const Member* b = i < after.members.size() ? &after.members[i] : nullptr;
    if (a != nullptr && b != nullptr && same_owner && a->node == b->node && a->devices == b->devices &&
        a->bound == b->bound) {
      if (a->released != b->released) note(a->node, std::min(end_of(*a), end_of(*b)));
      continue;
    }
    if (a != nullptr) note(a->node, a->bound);
    if (b != nullptr) note(b->node, b->bound);
  }
  return out;
}

}  // namespace

Amount& Amount::operator+=(const Amount& other) {
  nano += other.nano;
  gpu_micros += other.gpu_micros;
  return *this;
}
Amount& Amount::operator-=(const Amount& other) {
  nano -= other.nano;
  gpu_micros -= other.gpu_micros;
  return *this;
}

bool same_charge(const SliceRow& a, const SliceRow& b) {
  const auto same = [](const Line& one, const Line& other) {
    Owner owner = one.owner;
    if (owner.attempt == 0 || other.owner.attempt == 0) owner.attempt = other.owner.attempt;
    return owner == other.owner && one.amount == other.amount;
  };
  return a.end == b.end && a.cost == b.cost && a.node == b.node && std::ranges::equal(a.lines, b.lines, same);
}

Engine::Engine(Options options) : options_(options) {}

void Engine::load(State state) {
  state_ = std::move(state);
  dirty_.clear();
  rebuild_index();
}

const Meta& Engine::meta() const {
  static const Meta kFresh;
  const auto* row = state_.meta.find(0);
  return row == nullptr ? kFresh : *row;
}

Output Engine::step(std::span<const Command> batch, Instant now) {
  QM_ASSERT(now >= meta().now, "now went back from {} to {}", micros(meta().now), micros(now));
  QM_ASSERT(dirty_.empty(), "a step began with unfinished work");
  edit_meta().now = now;
  forgotten_.clear();
  for (const auto& command : batch) {
    std::visit([this](const auto& fact) { on_fact(fact); }, command);
  }
  Output out;
  out.introduced = std::exchange(introduced_, {});
  settle(out);
  keep_budgets();
  finalise(out);
  fold();
  submit_budgets(out);
  state_.totals.changed([&](const TotalKey& key, const Amount* amount) {
    if (key.group == Group::kTeam && amount != nullptr) out.totals.push_back({key.period, key.key, *amount});
  });
  const auto wake = [&](Instant t) { out.wake_at = out.wake_at ? std::min(*out.wake_at, t) : t; };
  if (!index_.due.empty()) wake(index_.due.begin()->first);
  if (const auto ending = next_ending()) wake(*ending);
  if (const auto turn = next_turn()) wake(*turn);
  return out;
}

void Engine::commit() {
  state_.instances.commit();
  state_.spot.commit();
  state_.nodes.commit();
  state_.assignments.commit();
  state_.plans.commit();
  state_.slices.commit();
  state_.totals.commit();
  state_.accounts.commit();
  state_.budgets.commit();
  state_.spent.commit();
  state_.meta.commit();
}

void Engine::undo() {
  state_.instances.rollback();
  state_.spot.rollback();
  state_.nodes.rollback();
  state_.assignments.rollback();
  state_.plans.rollback();
  state_.slices.rollback();
  state_.totals.rollback();
  state_.accounts.rollback();
  state_.budgets.rollback();
  state_.spent.rollback();
  state_.meta.rollback();
  rebuild_index();
}

std::uint64_t Engine::digest() const {
  Digest d;
  const auto owner = [&](const Owner& o) {
    d.add(o.team).add(o.ns).add(o.workload).add(o.uid).add(std::int64_t{o.attempt});
  };
  const auto amount = [&](const Amount& a) { d.add(a.nano.nano()).add(a.gpu_micros); };
  for (const auto& [id, row] : state_.instances) {
    d.add(id.value()).add(row.claim.value()).add(static_cast<std::int64_t>(row.version));
    d.add(row.type).add(row.zone).add(row.capacity_type).add(row.node.value()).add(std::int64_t{row.gpus});
    d.add(micros(row.launched)).add(micros(row.stopped)).add(micros(row.settled_until));
    d.add(micros(row.frozen_until)).add(std::int64_t{row.revision});
  }
  for (const auto& [pool, row] : state_.spot) {
    d.add(pool.type).add(pool.zone);
    for (const auto& [from, point] : row) {
      d.add(micros(from)).add(point.rate.per_hour.nano()).add(static_cast<std::int64_t>(point.version));
    }
  }
  for (const auto& [key, row] : state_.nodes) {
    d.add(key.instance.value()).add(key.node.value()).add(std::int64_t{row.gpus});
    d.add(static_cast<std::int64_t>(row.version));
    for (const auto& [since, point] : row.points) {
      d.add(micros(since)).add(static_cast<std::int64_t>(point.state)).add(static_cast<std::int64_t>(point.version));
    }
  }
  for (const auto& [id, row] : state_.assignments) {
    d.add(id.to_string()).add(static_cast<std::int64_t>(row.version)).add(std::int64_t{row.ended});
    owner(row.owner);
    for (const auto& member : row.members) {
      d.add(member.node.value()).add(micros(member.bound)).add(micros(member.released));
      for (const auto& share : member.devices)
        d.add(std::int64_t{share.index}).add(std::int64_t{share.milli}).add(std::int64_t{share.slices});
    }
  }
  for (const auto& [from, plan] : state_.plans) {
    d.add(micros(from)).add(plan.name);
    for (const auto& e : plan.entries) {
      d.add(e.instance_type).add(e.capacity_type).add(e.zone).add(e.rate.per_hour.nano());
    }
  }
  for (const auto& [key, row] : state_.slices) {
    d.add(key.instance.value()).add(micros(key.start)).add(micros(row.end)).add(row.cost.nano()).add(row.node);
    d.add(std::int64_t{row.revision});
    for (const auto& line : row.lines) {
      owner(line.owner);
      amount(line.amount);
    }
  }
  for (const auto& [key, row] : state_.totals) {
    d.add(key.period).add(static_cast<std::int64_t>(key.group)).add(key.key);
    amount(row);
  }
  for (const auto& [key, row] : state_.accounts) {
    d.add(key.account).add(key.team);
    amount(row);
  }
  for (const auto& [name, row] : state_.budgets) {
    d.add(name).add(static_cast<std::int64_t>(row.sequence)).add(std::int64_t{row.withdrawn}).add(row.budget.amount);
    for (const auto& [from, one] : row.periods) d.add(micros(from)).add(micros(one.to)).add(one.amount);
    for (const auto& price : row.prices) d.add(price.instance_type).add(price.nano_usd_gpu_hour);
  }
  for (const auto& [id, row] : state_.spent) {
    d.add(id.to_string()).add(std::int64_t{row.final});
    amount(row.amount);
  }
  const auto& m = meta();
  d.add(micros(m.now)).add(micros(m.horizon)).add(static_cast<std::int64_t>(m.entries));
  d.add(static_cast<std::int64_t>(m.restatements)).add(static_cast<std::int64_t>(m.late));
  return d.value();
}

// ---- facts ------------------------------------------------------------------------------------------------------

void Engine::on_fact(const InstanceUpdated& fact) {
  if (fact.launched == Instant{}) return;  // requested, not billed yet
  const auto* old = state_.instances.find(fact.id);
  Instant from = kFromTheStart;
  if (old == nullptr) {
    const bool over = fact.stopped != Instant{} && fact.stopped <= meta().horizon;
    if (over || fact.launched < meta().now - kLongestLife) {
      ++edit_meta().late;
      return;
    }
  } else if (fact.claim == old->claim) {
    if (fact.version <= old->version) return;
  } else {
    // One instance under two keys: the claim that launched it has more data than the key with only its id.
    const auto rank = [&](const ClaimName& claim) { return std::pair{claim.value() == fact.id.value(), claim}; };
    if (rank(fact.claim) > rank(old->claim)) return;
  }

  InstanceRow row = old == nullptr ? InstanceRow{} : *old;
  row.claim = fact.claim;
  row.version = fact.version;
  row.type = fact.type;
  row.zone = fact.zone;
  row.capacity_type = fact.capacity_type;
  row.node = fact.node;
  row.gpus = fact.gpus;
  row.launched = fact.launched;
  row.stopped = fact.stopped;
  if (old != nullptr) {
    InstanceRow only_stop = row;
    only_stop.version = old->version;
    only_stop.stopped = old->stopped;
    if (only_stop == *old) from = std::min(end_of_life(*old), end_of_life(row));
    if (row.stopped == old->stopped && only_stop == *old) from = kNever;
  }
  state_.instances.insert(fact.id, std::move(row));
  if (!fact.node.empty()) index_node(fact.node, fact.id);
  schedule(fact.id);
  if (from != kNever) touch(fact.id, from);
}

// If the owner publishes it again, under any key, that event counts: a key with only the id has the lowest rank.
void Engine::on_fact(const InstanceForgotten& fact) {
  std::vector<InstanceId> ended;
  for (const auto& [id, row] : state_.instances) {
    if (row.claim == fact.claim && row.stopped == Instant{}) ended.push_back(id);
  }
  for (const auto& id : ended) {
    auto& row = state_.instances.edit(id);
    row.claim = ClaimName(id.value());
    row.version = 0;
    row.stopped = std::max(meta().now, row.launched);
    const auto from = row.stopped;
    schedule(id);
    touch(id, from);
  }
}

void Engine::on_fact(const SpotPriceUpdated& fact) {
  const auto* old = state_.spot.find(fact.pool);
  if (old != nullptr) {
    const auto point = old->find(fact.from);
    if (point != old->end() && (point->second.version >= fact.version)) return;
  }
  if (fact.from < meta().horizon && old != nullptr && !old->empty() && fact.from < old->begin()->first) {
    ++edit_meta().late;
    return;
  }
  auto& row = state_.spot.edit(fact.pool);
  row.insert_or_assign(fact.from, SpotPoint{fact.rate, fact.version});
  // The first known price also applies to the time before it.
  const Instant from = row.begin()->first == fact.from ? kFromTheStart : fact.from;
  for (const auto& [id, instance] : state_.instances) {
    if (instance.capacity_type != kSpot || instance.type != fact.pool.type || instance.zone != fact.pool.zone) continue;
    if (from < end_of_life(instance)) touch(id, from);
  }
}

void Engine::on_fact(const NodeUpdated& fact) {
  const NodeKey key{fact.instance, fact.node};
  const auto* old = state_.nodes.find(key);
  if (old != nullptr) {
    const auto point = old->points.find(fact.since);
    const bool known_point = point != old->points.end() && point->second.version >= fact.version;
    if (known_point && (old->version >= fact.version || fact.gpus <= 0)) return;
  }
  Instant from = old == nullptr ? kFromTheStart : kNever;
  auto& row = state_.nodes.edit(key);
  auto& point = row.points[fact.since];
  if (point.version < fact.version || old == nullptr) {
    if (point.version == 0 || point.state != fact.state) from = std::min(from, fact.since);
    point = NodePoint{fact.state, fact.version};
  }
  if (fact.gpus > 0 && fact.version > row.version) {
    if (row.gpus != fact.gpus) from = kFromTheStart;
    row.gpus = fact.gpus;
    row.version = fact.version;
  }
  index_node(fact.node, fact.instance);
  if (from != kNever) touch(fact.instance, from);
}

void Engine::on_fact(const AssignmentUpdated& fact) {
  const auto* old = state_.assignments.find(fact.id);
  if (old != nullptr && old->version >= fact.version) return;
  AssignmentRow row{fact.version, fact.owner, fact.labels, {}, fact.ended};
  for (const auto& member : fact.members) {
    if (member.bound != Instant{}) row.members.push_back(member);
  }
  if (fact.ended && fact.members.empty() && old != nullptr) {
    // Its owner has removed it: open usage ends now.
    row.owner = old->owner;
    row.labels = old->labels;
    row.members = old->members;
    for (auto& member : row.members) {
      if (member.released == Instant{}) member.released = std::max(meta().now, member.bound);
    }
  }
  // There was no usage yet; with a budget it must still be published that there never was any.
  if (old == nullptr && row.members.empty() && !(row.ended && any_budget())) return;
  row.owner.attempt = fact.id.attempt;
  const bool known = old != nullptr && !old->members.empty();
  if (!row.members.empty() && (!known || old->owner != row.owner || old->labels != row.labels)) {
    introduced_.push_back({row.owner, row.labels});
  }
  const auto changed = differences(old, row);
  if (old != nullptr) {
    for (const auto& member : old->members) index_.assignments[member.node].erase(fact.id);
  }
  for (const auto& member : row.members) index_.assignments[member.node].insert(fact.id);
  state_.assignments.insert(fact.id, std::move(row));
  index_ending(fact.id);
  for (const auto& [node, from] : changed) touch_node(node, from);
}

void Engine::on_fact(const PriceApplied& fact) {
  Instant from = fact.from.value_or(state_.plans.size() == 0 ? Instant{} : meta().now);
  if (!fact.from && state_.plans.size() != 0 && state_.plans.rows().rbegin()->second == fact.plan) return;
  if (const auto* old = state_.plans.find(from); old != nullptr && *old == fact.plan) return;
  state_.plans.insert(from, fact.plan);
  if (state_.plans.begin()->first == from) from = kFromTheStart;  // the first plan also prices the time before it
  for (const auto& [id, instance] : state_.instances) {
    if (from < end_of_life(instance)) touch(id, from);
  }
}

// ---- effects of a change ------------------------------------------------------------------------------------------

void Engine::touch(const InstanceId& id, Instant from) {
  const auto* row = state_.instances.find(id);
  if (row == nullptr) return;
  if (row->frozen_until != Instant{} && from < row->frozen_until) ++edit_meta().late;
  const auto [it, fresh] = dirty_.try_emplace(id, from);
  if (!fresh) it->second = std::min(it->second, from);
}

void Engine::touch_node(const NodeName& node, Instant from) {
  const auto here = index_.instances.find(node);
  if (here == index_.instances.end()) return;
  for (const auto& id : here->second) {
    const auto* row = state_.instances.find(id);
    if (row != nullptr && from < end_of_life(*row)) touch(id, from);
  }
}

void Engine::index_node(const NodeName& node, const InstanceId& id) { index_.instances[node].insert(id); }

void Engine::unschedule(const InstanceId& id) {
  const auto it = index_.due_at.find(id);
  if (it == index_.due_at.end()) return;
  index_.due.erase({it->second, id});
  index_.due_at.erase(it);
}

void Engine::schedule(const InstanceId& id) {
  unschedule(id);
  const auto* row = state_.instances.find(id);
  if (row == nullptr) return;
  const Instant from = settled(*row);
  if (from >= end_of_life(*row)) return;
  const Instant due = std::min(next_hour(from), end_of_life(*row)) + options_.settle_after;
  index_.due.insert({due, id});
  index_.due_at.insert({id, due});
}

void Engine::rebuild_index() {
  index_ = Index{};
  dirty_.clear();
  for (const auto& [key, row] : state_.nodes) index_node(key.node, key.instance);
  for (const auto& [id, row] : state_.assignments) {
    for (const auto& member : row.members) index_.assignments[member.node].insert(id);
    index_ending(id);
  }
  for (const auto& [id, row] : state_.instances) {
    if (!row.node.empty()) index_node(row.node, id);
    schedule(id);
  }
}

}  // namespace qm::cost
