// MIG repartition for a workload that has quota, requests MIG instances, and does not fit for a minimum time.
// Nodes with idle GPUs are hypothetically repartitioned to the allowed layouts, the cheapest first, until the
// placement succeeds. Nodes that are not needed are then dropped. The result is orders as in layouts.cpp, and
// rows that hold the instances for the workload.
#include "engine/cuts.hpp"
#include "engine/offers.hpp"
#include "qm/base/assert.hpp"

#include <algorithm>
#include <tuple>

namespace qm::placement {
namespace {

using relayout::Phase;

std::string count_words(const std::map<std::string, int>& nodes) {
  std::string out;
  for (const auto& [why, count] : nodes) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", count, why);
  return out.empty() ? "there are no nodes" : out;
}

}  // namespace

/// Why the node cannot be repartitioned, as text after a number of nodes; empty if it can be after the
/// hypothetical evictions.
std::string Engine::stays_cut(const NodeName& name, const Lifted& lifted) const {
  const Recutting& rules = options_.recutting;
  const NodeFacts& facts = tables_.nodes.find(name)->facts;
  const Cut* cut = tables_.cuts.find(name);
  if (mig::model_of(facts.model) == nullptr || label_of(facts, "nvidia.com/mig.capable") == "false")
    return "cannot be cut by MIG";
  if (!rules.pools.empty() && !rules.pools.contains(std::string(label_of(facts, words::kNodePool))))
    return "of other pools";
  if (cut != nullptr && cut->order) {
    if (!cut->order->over()) return "being cut";
    if (cut->order->since + rules.pause > last_now_) return "cut not long ago";
  }
  const auto held = index_.held.find(name);
  const auto own = [&](const WorkloadUid& uid) { return lifted.holds.contains(uid); };
  const bool kept = held != index_.held.end() && !std::ranges::all_of(held->second, own);
  if (kept || index_.tidied.contains(name)) return "kept for others";
  const Room room = held == index_.held.end() ? index_.rooms.at(name) : room_of(name, lifted);
  if (!room.usable) return room.why_not;
  if (is_single(facts) || is_shared(facts)) return "where devices go by other names";
  const NodeMark* mark = tables_.marks.find(name);
  if ((mark != nullptr && mark->verdict()) || (cut != nullptr && cut->mismatch)) return "with a fault";
  if (installed(facts, tables_.layouts.rows()) == 0) return "of which nobody knows the number of GPUs";
  std::set<std::string> leave;
  for (const AttemptId& id : lifted.attempts) leave.insert(id.to_string());
  const auto seen = seen_for_layout(name, cut == nullptr ? Cut{} : *cut);
  const auto leaves = [&](const relayout::Occupant& occupant) { return leave.contains(occupant.pod); };
  return std::ranges::all_of(seen.occupants, leaves) ? "" : "with GPUs in use";
}

Engine::Recut Engine::recut_for(const WorkloadUid& uid, const Preference& preference) const {
  const Recutting& rules = options_.recutting;
  const Asked asked = asked_by(uid);
  Offers offers(*this);
  const auto takes = [&](const Room& room) {
    std::int64_t pods = 0;
    for (const PodSet& set : asked.pod_sets) pods += takes_instances(room, set);
    return pods;
  };
  // Repartitions in progress for others count as completed.
  Rooms rooms = index_.rooms;
  for (const auto& [name, cut] : tables_.cuts) {
    if (!cut.order || cut.order->over() || cut.order->phase == Phase::kRollingBack || own_causes(name) != "layout")
      continue;
    const NodeFacts& facts = tables_.nodes.find(name)->facts;
    const auto* layout = offers.layout(facts, cut.order->order.layout);
    if (layout == nullptr || is_single(facts) || is_shared(facts)) continue;
    Room room = offers.room(name, *layout, {});
    room.usable = facts.ready;
    rooms[name] = std::move(room);
  }

  struct Candidate {
    std::int64_t cost = 0;
    NodeName node;
    std::string layout;
    Room room;
  };
  std::vector<Candidate> candidates;
  std::map<std::string, int> left_out;
  for (const auto& [name, node] : tables_.nodes) {
    if (auto why = stays_cut(name, {}); !why.empty()) {
      ++left_out[std::move(why)];
      continue;
    }
    std::optional<Candidate> best;
    std::int64_t most = takes(rooms.at(name));
    for (const std::string& layout : offers.names(*mig::model_of(node.facts.model))) {
      const auto* made = offers.layout(node.facts, layout);
      if (made == nullptr) continue;
      Candidate one{offers.cost(name, *made), name, layout, offers.room(name, *made, {})};
      const auto pods = takes(one.room);
      if (pods < most || (best ? pods == most && one.cost >= best->cost : pods == most)) continue;
      most = pods;
      best = std::move(one);
    }
    if (best) {
      candidates.push_back(std::move(*best));
    } else {
      ++left_out["of which no layout on offer gives it more"];
    }
  }
  std::ranges::stable_sort(candidates, {}, &Candidate::cost);
  if (candidates.size() > rules.most_tried) candidates.resize(rules.most_tried);

  using Chosen = std::vector<const Candidate*>;
  const auto placed_with = [&](const Chosen& chosen) {
    Rooms tried = rooms;
    for (const Candidate* one : chosen) tried[one->node] = one->room;
    return place(asked, tried, preference, nullptr, Wanted::kPlan);
  };
  const auto first = [&](std::size_t count) {
    Chosen out;
    for (std::size_t i = 0; i < count; ++i) out.push_back(&candidates[i]);
    return out;
  };
  Recut out;
  if (placed_with({}).plan) {
    out.why_not = "it fits nodes that are being cut for others";
    out.comes = true;
    return out;
  }
  if (!placed_with(first(candidates.size())).plan) {
    left_out["idle, and not enough for it"] = static_cast<int>(candidates.size());
    if (candidates.empty()) left_out.erase("idle, and not enough for it");
    out.why_not = fmt::format("no node can be cut for it: {}", count_words(left_out));
    return out;
  }
  std::size_t enough = candidates.size();  // so many of the cheapest are enough
  for (std::size_t low = 1; low < enough;) {
    const auto middle = low + (enough - low) / 2;
    placed_with(first(middle)).plan ? enough = middle : low = middle + 1;
  }
  Chosen chosen = first(enough);
  Placed placed = placed_with(chosen);
  for (std::size_t i = chosen.size(); i-- > 0;) {  // drop unneeded nodes, the most expensive first
    Chosen fewer = chosen;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (auto found = placed_with(fewer); found.plan) {
      chosen = std::move(fewer);
      placed = std::move(found);
    }
  }
  if (chosen.size() > recuts_left(uid)) {
    out.why_not =
        fmt::format("{} nodes would have to be cut for it, and {} may be at present", chosen.size(), recuts_left(uid));
    return out;
  }
  for (const Candidate* one : chosen) out.layouts[one->node] = one->layout;
  out.members = std::move(placed.plan->members);
  return out;
}

// ---- candidates and timing ----

/// Earliest time of a repartition search for the workload; none if there is none.
std::optional<Instant> Engine::may_recut_at(const WorkloadUid& uid) const {
  const Workload& workload = *tables_.workloads.find(uid);
  if (!index_.wanting.contains(uid) || workload.short_since == Instant{} || index_.cut_for.contains(uid) ||
      !wants_instances(workload.spec.pod_sets)) {
    return std::nullopt;
  }
  const Proposal* known = tables_.proposals.find(uid);
  if (known != nullptr && known->stands() && known->state != ProposalState::kReturning) return std::nullopt;
  return workload.short_since + options_.recutting.after;
}

/// Number of orders that may still be given for the workload. Orders of proposals with victims that are
/// already leaving are reserved.
std::size_t Engine::recuts_left(const WorkloadUid& uid) const {
  const Recutting& rules = options_.recutting;
  auto counting = static_cast<std::size_t>(
      std::ranges::count_if(meta().recut, [&](Instant at) { return at + rules.per > last_now_; }));
  for (const WorkloadUid& other : index_.standing) {
    if (other != uid) counting += tables_.proposals.find(other)->cuts.size();
  }
  return rules.most_orders - std::min(rules.most_orders, counting);
}

void Engine::recut() {
  const Recutting& rules = options_.recutting;
  if (!rules.on || !synced() || meta().recut_searched + rules.every > scratch_.now || recuts_left({}) == 0) return;
  std::vector<std::tuple<std::int64_t, Instant, WorkloadUid>> turns;  // higher priority first, then longer short
  for (const WorkloadUid& uid : index_.short_of) {
    const auto from = may_recut_at(uid);
    if (!from || *from > scratch_.now) continue;
    const Workload& workload = *tables_.workloads.find(uid);
    turns.emplace_back(-std::int64_t{workload.spec.priority}, workload.short_since, uid);
  }
  if (turns.empty()) return;
  std::ranges::sort(turns);
  tables_.meta.edit(0).recut_searched = scratch_.now;
  reckon();
  std::set<Asked> in_vain;
  std::size_t searches = 0;
  for (const auto& [priority, since, uid] : turns) {
    const Asked asked = asked_by(uid);
    if (in_vain.contains(asked)) continue;
    if (searches++ == rules.most_searches) return;
    const Recut found = recut_for(uid, index_.preference);
    if (found.layouts.empty()) {
      in_vain.insert(asked);
    } else {
      order_recut(uid, found);
    }
  }
}

void Engine::order_recut(const WorkloadUid& uid, const Recut& found) {
  Meta& meta = tables_.meta.edit(0);
  std::erase_if(meta.recut, [&](Instant at) { return at + options_.recutting.per <= scratch_.now; });
  for (const auto& [name, layout] : found.layouts) {
    auto order = order_for(name, layout, tables_.layouts.rows());
    QM_ASSERT(order, "node {} cannot be cut to {}", name, layout);
    Cut next;
    if (const Cut* cut = tables_.cuts.find(name)) next = *cut;
    next.order = std::move(*order);
    next.labelled.clear();
    next.asked.clear();
    next.by_default = false;
    next.wish = CutFor{uid, {}};
    for (const Member& member : found.members) {
      if (member.node == name) next.wish->places.push_back({member.set, member.index, name, member.devices});
    }
    store_cut(name, std::move(next));
    scratch_.nodes.insert(name);
    meta.recut.push_back(scratch_.now);
    ++scratch_.out.notes.recut;
  }
  scratch_.demand = true;
}

// ---- progress ----

/// Ends a hold whose workload is not pending any more, and withdraws its order unless the label is already
/// written. Only idle GPUs are repartitioned: if a pod has used them first, the order is withdrawn.
void Engine::review_wish(const NodeName& name, Cut& next) const {
  if (!next.wish) return;
  relayout::Row& order = *next.order;
  const bool untouched = order.phase == Phase::kWaiting || order.phase == Phase::kEmptying;
  if (order.phase == Phase::kWaiting && !seen_for_layout(name, next).occupants.empty()) {
    order.withdrawn = true;
    next.wish->waits = false;
  }
  if (!next.wish->waits) return;
  const Workload* workload = tables_.workloads.find(next.wish->uid);
  const bool waits =
      workload != nullptr && (workload->phase == WorkloadPhase::kPending || index_.wanting.contains(next.wish->uid));
  const Instant until = order.since + options_.recutting.held;
  if (waits && order.phase == Phase::kDone && scratch_.now < until) {
    if (next.wake == Instant{} || until < next.wake) next.wake = until;
    return;
  }
  if (waits && !order.over()) return;
  next.wish->waits = false;
  if (untouched) order.withdrawn = true;
}

/// The workload is placed: its remaining repartitions are withdrawn.
void Engine::end_recut(const WorkloadUid& uid) {
  const auto found = index_.cut_for.find(uid);
  if (found == index_.cut_for.end()) return;
  const auto nodes = found->second;
  for (const NodeName& name : nodes) {
    Cut next = *tables_.cuts.find(name);
    next.wish->waits = false;
    if (next.order->phase == Phase::kWaiting || next.order->phase == Phase::kEmptying) next.order->withdrawn = true;
    store_cut(name, std::move(next));
    scratch_.nodes.insert(name);
  }
}

void Engine::tell_cut_for(const WorkloadUid& uid) {
  const auto found = index_.cut_for.find(uid);
  if (found != index_.cut_for.end()) scratch_.nodes.insert(found->second.begin(), found->second.end());
}

std::string Engine::recut_words(const WorkloadUid& uid) const {
  const Recutting& rules = options_.recutting;
  const Workload* workload = tables_.workloads.find(uid);
  if (auto words = drain_words(uid); !words.empty()) return words;
  if (!rules.on || workload == nullptr || !synced()) return {};
  std::string out;
  if (const auto found = index_.cut_for.find(uid); found != index_.cut_for.end()) {
    for (const NodeName& name : found->second) {
      const relayout::Row& order = *tables_.cuts.find(name)->order;
      out += out.empty() ? "" : "; ";
      if (order.phase == Phase::kDone) {
        out += fmt::format("node {} has been cut to {} for it, which is kept until {}", name, order.order.layout,
                           to_rfc3339(order.since + rules.held));
      } else {
        out += fmt::format("node {} is cut to {} for it: {}", name, order.order.layout,
                           order.reason.empty() ? relayout::name_of(order.phase) : order.reason);
      }
    }
    return out;
  }
  const auto from = may_recut_at(uid);
  if (!from) return {};
  if (last_now_ < *from) return fmt::format("GPUs may be cut anew for it from {} on", to_rfc3339(*from));
  if (recuts_left(uid) == 0) {
    return fmt::format("no GPUs are cut for it now: {} orders in {} min are all that may be", rules.most_orders,
                       std::chrono::duration_cast<std::chrono::minutes>(rules.per).count());
  }
  Preference preference = index_.preference;
  preference.prepare(index_.rooms);
  const Recut found = recut_for(uid, preference);
  if (found.layouts.empty()) return found.why_not;
  return fmt::format("node {} may be cut to {} for it", found.layouts.begin()->first, found.layouts.begin()->second);
}

}  // namespace qm::placement
