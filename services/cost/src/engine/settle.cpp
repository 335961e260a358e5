// Posting, restating and folding: converts slices to journal entries, and old slices to sums.
#include "qm/base/assert.hpp"
#include "qm/cost/engine.hpp"
#include "timeline.hpp"

#include <algorithm>

namespace qm::cost {
namespace {

constexpr std::string_view kProvider = "provider-payable";
constexpr std::string_view kOlder = "(older)";

/// The months before this period have only totals by team, namespace and bill.
std::string first_detailed_period(Instant now, int keep_months) {
  const auto day = std::chrono::floor<std::chrono::days>(now.time_since_epoch());
  const std::chrono::year_month_day date{std::chrono::sys_days{day}};
  const auto month = date.year() / date.month() - std::chrono::months{keep_months - 1};
  return fmt::format("{:04}-{:02}", static_cast<int>(month.year()), static_cast<unsigned>(month.month()));
}

}  // namespace

std::string_view account_of(std::string_view team) {
  if (team == pools::kIdle) return "idle-capacity";
  if (team == pools::kUnhealthy) return "unhealthy-capacity";
  if (team == pools::kStarting) return "starting-capacity";
  if (team == pools::kDraining) return "draining-capacity";
  if (team == pools::kSystem) return "system-capacity";
  return "team-expense";
}

std::string key_of(const Owner& owner, Group group) {
  const bool pool = owner.ns.empty() && owner.workload.empty();
  if (group == Group::kTeam || pool) return owner.team;
  return group == Group::kNamespace ? owner.ns : owner.ns + "/" + owner.workload;
}

void Engine::settle(Output& out) {
  std::size_t late = options_.max_slices;
  for (const auto& [id, from] : dirty_) {
    const auto* row = state_.instances.find(id);
    if (row != nullptr && from <= settled(*row)) settle_instance(id, from, out, late);
  }
  dirty_.clear();
  std::size_t budget = options_.max_due;
  while (!index_.due.empty() && index_.due.begin()->first <= meta().now && budget > 0) {
    const InstanceId id = index_.due.begin()->second;
    settle_instance(id, kNever, out, budget);
  }
}

void Engine::settle_instance(const InstanceId& id, Instant from, Output& out, std::size_t& budget) {
  InstanceRow& row = state_.instances.edit(id);
  const auto& posted = state_.slices.rows();
  Instant begin = settled(row);
  if (from <= begin) {
    // The split at `from` itself may be gone, so the slice that ends there is checked again.
    auto it = posted.lower_bound(SliceKey{id, from});
    const bool before = it != posted.begin() && std::prev(it)->first.instance == id;
    begin = before ? std::max(open_from(row), std::prev(it)->first.start) : open_from(row);
  }
  const Instant limit = meta().now - options_.settle_after;
  const Timeline timeline(state_, index_, id, begin, limit);

  std::vector<std::pair<SliceKey, SliceRow>> fresh;
  std::vector<Instant> kept;
  Instant reached = begin;
  for (const auto& piece : timeline.pieces(std::max<std::size_t>(budget, 1))) {
    if (piece.end > limit) break;
    const SliceKey key{id, piece.start};
    SliceRow slice = timeline.slice(piece.start, piece.end);
    const auto* old = state_.slices.find(key);
    if (old != nullptr && same_charge(*old, slice)) {
      kept.push_back(piece.start);
    } else {
      fresh.emplace_back(key, std::move(slice));
    }
    reached = piece.end;
  }

  std::vector<SliceKey> wrong;
  for (auto it = posted.lower_bound(SliceKey{id, std::min(begin, from)});
       it != posted.end() && it->first.instance == id; ++it) {
    if (!std::binary_search(kept.begin(), kept.end(), it->first.start)) wrong.push_back(it->first);
  }
  for (const auto& key : wrong) {
    post(key, *state_.slices.find(key), true, out);
    state_.slices.erase(key);
  }
  if (!wrong.empty()) ++row.revision;
  for (auto& [key, slice] : fresh) {
    slice.revision = row.revision;
    post(key, slice, false, out);
    state_.slices.insert(key, std::move(slice));
  }
  row.settled_until = reached;
  budget -= std::min(budget, fresh.size());
  schedule(id);
}

void Engine::post(const SliceKey& key, const SliceRow& slice, bool reversal, Output& out) {
  if (slice.lines.empty()) return;  // no cost and no GPU-time: no entry
  auto& counts = edit_meta();
  ++counts.entries;
  if (reversal) ++counts.restatements;

  Entry entry{fmt::format("{}/{}-{}/{}{}", key.instance, micros(key.start), micros(slice.end), slice.revision,
                          reversal ? "/reversal" : ""),
              reversal ? "reversal" : "charge",
              key.instance,
              slice.node,
              key.start,
              slice.end,
              {}};
  const auto signed_amount = [&](const Amount& amount) {
    return reversal ? Amount{-amount.nano, -amount.gpu_micros} : amount;
  };
  Amount owed;
  for (const auto& line : slice.lines) {
    const Amount amount = signed_amount(line.amount);
    owed -= amount;
    entry.lines.push_back({std::string(account_of(line.owner.team)), line.owner, amount});
  }
  entry.lines.push_back({std::string(kProvider), Owner{}, owed});

  Amount balance;
  const std::string period = period_of(key.start);
  const auto add = [&](auto& table, auto&& row_key, const Amount& amount) {
    auto& row = table.edit(row_key);
    row += amount;
    if (row.zero()) table.erase(row_key);
  };
  for (const auto& line : entry.lines) {
    balance += line.amount;
    add(state_.accounts, AccountKey{line.account, line.owner.team}, line.amount);
    if (line.account == kProvider) continue;
    for (const auto group : {Group::kTeam, Group::kNamespace, Group::kWorkload}) {
      add(state_.totals, TotalKey{period, group, key_of(line.owner, group)}, line.amount);
    }
    add(state_.totals, TotalKey{period, Group::kNode, slice.node}, line.amount);
    if (line.owner.attempt == 0) continue;
    const AttemptId attempt{WorkloadUid(line.owner.uid), line.owner.attempt};
    const auto* spent = state_.spent.find(attempt);
    // Removed or final attempts are already published as final.
    if (spent == nullptr ? !state_.assignments.contains(attempt) : spent->final) continue;
    state_.spent.edit(attempt).amount += line.amount;
  }
  QM_ASSERT(balance.zero(), "entry {} does not balance: {} nano, {} gpu micros", entry.id, balance.nano.nano(),
            balance.gpu_micros);
  out.entries.push_back(std::move(entry));
}

// ---- folding ----------------------------------------------------------------------------------------------------

void Engine::fold() {
  const Instant horizon = next_hour(meta().now - options_.keep) - std::chrono::hours(1);
  if (horizon <= meta().horizon) return;
  edit_meta().horizon = horizon;
  std::vector<InstanceId> ids;
  for (const auto& [id, row] : state_.instances) ids.push_back(id);
  for (const auto& id : ids) fold_instance(id, horizon);
  forget_facts(horizon);
  forget_details(horizon);
}

void Engine::fold_instance(const InstanceId& id, Instant horizon) {
  const auto& slices = state_.slices.rows();
  std::vector<SliceKey> old;
  for (auto it = slices.lower_bound(SliceKey{id, kFromTheStart});
       it != slices.end() && it->first.instance == id && it->second.end <= horizon; ++it) {
    old.push_back(it->first);
  }
  const auto* row = state_.instances.find(id);
  if (!old.empty()) {
    const Rates rates(state_, *row);
    auto& edited = state_.instances.edit(id);
    for (const auto& key : old) {
      const Instant end = state_.slices.find(key)->end;
      state_.totals.edit(TotalKey{period_of(key.start), Group::kBill, {}}) += Amount{rates.bill(key.start, end), 0};
      edited.frozen_until = end;
      state_.slices.erase(key);
    }
    row = &edited;
  }
  if (row->stopped != Instant{} && row->stopped <= horizon && settled(*row) >= row->stopped) forget_instance(id);
}

void Engine::forget_instance(const InstanceId& id) {
  unschedule(id);
  const auto drop_index = [&](const NodeName& node) {
    auto it = index_.instances.find(node);
    if (it == index_.instances.end()) return;
    it->second.erase(id);
    if (it->second.empty()) index_.instances.erase(it);
  };
  drop_index(state_.instances.find(id)->node);
  std::vector<NodeKey> nodes;
  const auto& rows = state_.nodes.rows();
  for (auto it = rows.lower_bound(NodeKey{id, NodeName{}}); it != rows.end() && it->first.instance == id; ++it) {
    nodes.push_back(it->first);
  }
  for (const auto& key : nodes) {
    drop_index(key.node);
    state_.nodes.erase(key);
  }
  state_.instances.erase(id);
}

void Engine::forget_facts(Instant horizon) {
  // A slice across the horizon begins at most an hour before it.
  const Instant oldest = horizon - std::chrono::hours(1);
  std::vector<SpotPool> pools;
  for (const auto& [pool, row] : state_.spot) {
    if (row.size() > 1 && std::next(row.begin())->first <= oldest) pools.push_back(pool);
  }
  for (const auto& pool : pools) {
    auto& row = state_.spot.edit(pool);
    while (row.size() > 1 && std::next(row.begin())->first <= oldest) row.erase(row.begin());
  }

  std::vector<NodeKey> stale, dead;
  for (const auto& [key, row] : state_.nodes) {
    const bool live = state_.instances.contains(key.instance);
    if (!live && row.points.rbegin()->first < horizon) dead.push_back(key);
    if (live && row.points.size() > 1 && std::next(row.points.begin())->first <= oldest) stale.push_back(key);
  }
  for (const auto& key : stale) {
    auto& points = state_.nodes.edit(key).points;
    while (points.size() > 1 && std::next(points.begin())->first <= oldest) {
      const bool was_ready = points.begin()->second.state != NodeState::kNotReady;
      points.erase(points.begin());
      // Keeps "was ready once" when the ready point itself is removed.
      auto& first = points.begin()->second;
      if (was_ready && first.state == NodeState::kNotReady) first.state = NodeState::kUnhealthy;
    }
  }
  for (const auto& key : dead) {
    state_.nodes.erase(key);
    const auto it = index_.instances.find(key.node);
    if (it == index_.instances.end()) continue;
    it->second.erase(key.instance);
    if (it->second.empty()) index_.instances.erase(it);
  }

  std::vector<AttemptId> over;
  for (const auto& [id, row] : state_.assignments) {
    const bool needed = std::any_of(row.members.begin(), row.members.end(), [&](const Member& member) {
      if (member.released != Instant{}) return member.released > oldest;
      return member.bound > oldest || index_.instances.contains(member.node);
    });
    if (!needed) over.push_back(id);
  }
  for (const auto& id : over) {
    for (const auto& member : state_.assignments.find(id)->members) {
      const auto it = index_.assignments.find(member.node);
      if (it == index_.assignments.end()) continue;
      it->second.erase(id);
      if (it->second.empty()) index_.assignments.erase(it);
    }
    forget_spent(id);
    state_.assignments.erase(id);
  }
}

void Engine::forget_details(Instant horizon) {
  const std::string first = first_detailed_period(horizon, options_.keep_months);
  std::vector<std::pair<TotalKey, Amount>> old;
  for (const auto& [key, amount] : state_.totals) {
    if (key.period >= first) break;
    const bool detail = key.group == Group::kWorkload || key.group == Group::kNode;
    if (detail && key.key != kOlder) old.emplace_back(key, amount);
  }
  for (const auto& [key, amount] : old) {
    state_.totals.edit(TotalKey{key.period, key.group, std::string(kOlder)}) += amount;
    state_.totals.erase(key);
  }
}

}  // namespace qm::cost
