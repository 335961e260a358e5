// Placement order: workloads with quota and without a placement, highest priority first, then longest on the
// demand list, then in the order in which admission gave them quota.
#include "engine/asked_gang.hpp"
#include "engine/attaching.hpp"
#include "engine/beside.hpp"
#include "engine/mounts.hpp"
#include "engine/narrowed.hpp"
#include "engine/returning.hpp"
#include "qm/placement/engine.hpp"
#include "qm/placement/nearness.hpp"
#include "qm/placement/rules/text.hpp"

#include <algorithm>
#include <bit>

namespace qm::placement {
namespace {

constexpr std::int32_t kLastRound = 3;  // of offers to pending workloads


/// A total order. Of simultaneous requests the one that admission decided first comes first: it may have
/// preempted others for its quota. If a later one used its nodes, that one would be preempted again.
struct Turn {
  std::int32_t priority;
  bool grows;  // it is running and scales up
  Instant since;
  Instant reserved;
  std::int32_t turn;
  WorkloadUid uid;
  friend bool operator<(const Turn& a, const Turn& b) {
    return std::tie(b.priority, a.grows, a.since, a.reserved, a.turn, a.uid) <
           std::tie(a.priority, b.grows, b.since, b.reserved, b.turn, b.uid);
  }
};

/// Excludes nodes with pods of a workload type that must not share nodes with this one, and GPUs of another
/// pool.
class Apart final : public Narrowed {
 public:
  Apart(std::uint32_t type, GpuPool pool, const std::vector<std::string>& names, Neighbourhood* others)
      : Narrowed(others), type_(type), pool_(pool), names_(names) {}

 private:
  [[nodiscard]] bool meets(const NodeName&, const Room& room) const override {
    return strange(room) == 0 && !wrong_pool(room);
  }
  [[nodiscard]] std::string why_not(const NodeName&, const Room& room) const override {
    if (const auto types = strange(room); types != 0)
      return fmt::format("with pods for {}", names_[static_cast<std::size_t>(std::countr_zero(types))]);
    return pool_ == GpuPool::kWhole ? "with GPUs in slices" : "with whole GPUs";
  }
  [[nodiscard]] std::uint32_t strange(const Room& room) const { return type_ == 0 ? 0 : room.types & ~type_; }
  [[nodiscard]] bool wrong_pool(const Room& room) const {
    return pool_ != GpuPool::kAny && room.slices != (pool_ == GpuPool::kSlices);
  }

  std::uint32_t type_;
  GpuPool pool_;
  const std::vector<std::string>& names_;
};

/// Limits a gang to one part of the fleet.
class Within final : public Narrowed {
 public:
  Within(const Part& part, Neighbourhood* others) : Narrowed(others), part_(part) {}

 private:
  [[nodiscard]] bool meets(const NodeName& node, const Room& room) const override {
    return part_.has(node, *room.facts);
  }
  [[nodiscard]] std::string why_not(const NodeName&, const Room&) const override {
    return fmt::format("outside {}", part_.name);
  }

  const Part& part_;
};

/// Prefers fabric domains. A gang that fits one node has no network traffic. A gang on several nodes is
/// placed in one fabric domain, the fastest first, if as many of its pods fit there; else anywhere.
template <class Attempt>
Placed place_near(const std::vector<PodSet>& pod_sets, Rooms& rooms, Attempt&& attempt) {
  std::int64_t pods = 0, gpus = 0;
  for (const PodSet& set : pod_sets) pods += set.count, gpus += set.count * set.shape.gpu.whole;
  const bool told = pods > 1 && gpus > 1 &&
                    std::ranges::any_of(rooms, [](const auto& node) { return has_fabric(*node.second.facts); });
  if (!told) return attempt(rooms, nullptr);
  Rooms tried = rooms;
  auto anywhere = attempt(tried, nullptr);
  const auto several = [&](const Plan& plan) {
    return std::ranges::any_of(plan.members, [&](const Member& m) { return m.node != plan.members.front().node; });
  };
  if (anywhere.plan && several(*anywhere.plan)) {
    gpus = 0;
    for (const Member& member : anywhere.plan->members)
      gpus += pod_sets[static_cast<std::size_t>(member.set)].shape.gpu.whole;
    for (const FabricDomain& domain : fabric_domains(rooms)) {
      if (domain.idle_gpus < gpus) continue;
      const Part part{fmt::format("fabric domain {}", domain.name),
                      [&](const NodeName&, const NodeFacts& facts) { return is_in(domain, facts); }};
      if (!is_elastic(pod_sets)) {
        auto inside = attempt(rooms, &part);
        if (inside.plan) return inside;
        continue;
      }
      Rooms then = rooms;
      auto inside = attempt(then, &part);
      if (!inside.plan || inside.plan->members.size() < anywhere.plan->members.size()) continue;
      rooms = std::move(then);
      return inside;
    }
  }
  if (anywhere.plan) rooms = std::move(tried);
  return anywhere;
}

std::string workload_type_of(const Labels& labels) {
  const auto label = labels.find(std::string(kWorkloadType));
  return label == labels.end() ? std::string() : label->second;
}

}  // namespace

void Engine::decide_waiting() {
  if (!synced()) return;  // the sync sets scratch_.grew again
  const bool all = scratch_.grew;
  for (bool first = true; first || scratch_.stirred; first = false) {
    const bool stirred = std::exchange(scratch_.stirred, false);
    scratch_.neighbors = scratch_.neighbors || stirred;
    std::vector<Turn> turns;
    scratch_.heirs.insert(scratch_.asked.begin(), scratch_.asked.end());
    const auto grows = [&](const WorkloadUid& uid) {
      const Workload& workload = *tables_.workloads.find(uid);
      const Instant since = tables_.assignments.find({uid, workload.attempt})->decided;
      turns.push_back({workload.spec.priority, true, since, workload.quota_reserved, workload.standing.turn, uid});
    };
    if (first && all) std::ranges::for_each(index_.growing, grows);
    for (const WorkloadUid& uid : (first && all) || stirred ? index_.wanting : scratch_.heirs) {
      if (first && !all && index_.growing.contains(uid)) grows(uid);
      if (!index_.wanting.contains(uid)) continue;
      const Workload& workload = *tables_.workloads.find(uid);
      const bool asks = first && (all || scratch_.heirs.contains(uid));
      if (!asks && !index_.speaking.contains(uid) && !index_.expecting.contains(uid)) continue;
      const Instant since = workload.short_since == Instant{} ? scratch_.now : workload.short_since;
      turns.push_back({workload.spec.priority, false, since, workload.quota_reserved, workload.standing.turn, uid});
    }
    std::ranges::sort(turns, std::less<>());
    if (!turns.empty() || (first && all)) reckon();
    std::map<Asked, std::string> hopeless;  // free capacity only shrinks during this pass
    for (const Turn& turn : turns) {
      if (!turn.grows) {
        decide(turn.uid, hopeless);
      } else if (grow(turn.uid)) {
        forget_ruled(hopeless);
      }
    }
  }
  scratch_.asked.clear();
  scratch_.heirs.clear();
}

/// Updates the scored mix from its row, which follows the known mix with a lag.
void Engine::reckon() {
  if (index_.preference.drifted()) tables_.mix.insert(0, index_.preference.known());
  if (const Mix* mix = tables_.mix.find(0)) index_.preference.weigh(*mix);
}

Placed Engine::place(const Asked& asked, Rooms& rooms, const Preference& preference, Shortlists* lists, Wanted wanted,
                     const Where& where) const {
  if (asked.pool == GpuPool::kSlices) {  // a preference, not a constraint
    if (auto placed = place_in(asked, rooms, preference, lists, std::max(wanted, Wanted::kPlan), where); placed.plan)
      return placed;
    Asked elsewhere = asked;
    elsewhere.pool = GpuPool::kAny;
    return place_in(elsewhere, rooms, preference, lists, wanted, where);
  }
  return place_in(asked, rooms, preference, lists, wanted, where);
}

Engine::Mounted Engine::mounted(const Asked& asked) const {
  Mounted out{asked.pod_sets, {}, {}, {}};
  for (std::size_t i = 0; i < asked.rules.size() && out.blocked.empty(); ++i) {
    auto& like = out.likes.emplace_back(rules::template_of(asked.rules[i]));
    if (!like || (like->rules.claims.empty() && like->rules.own_claims.empty())) continue;
    auto& set = out.pod_sets[i];
    auto mounts =
        mounts_of(tables_, *like, i < asked.own_claims.size() ? asked.own_claims[i] : std::vector<PodClaim>());
    if (!mounts.blocked.empty()) {
      const auto which = out.pod_sets.size() > 1 ? fmt::format("pod set {}: ", set.name) : std::string();
      out.blocked = fmt::format("{}0 of {} pods fit: {}", which, set.count, mounts.blocked);
    }
    std::ranges::move(mounts.reach, std::back_inserter(like->rules.volumes));
    if (mounts.one_node.empty() || set.count < 2) continue;
    out.one_node = mounts.one_node;
    set.topology = {.required = std::string(kHostname)};
  }
  return out;
}

Placed Engine::place_in(const Asked& asked, Rooms& rooms, const Preference& preference, Shortlists* lists,
                        Wanted wanted, const Where& where) const {
  const auto& [asked_sets, rules, type, pool, own_claims] = asked;
  const Mounted mounts = mounted(asked);
  const auto& [pod_sets, likes, one_node, blocked] = mounts;
  if (!blocked.empty()) return {std::nullopt, {blocked}};
  // Within one part of the fleet, or anywhere.
  const auto lay = [&, &templates = likes, bound = !one_node.empty(), &asked_rules = rules, asked_type = type,
                    asked_pool = pool](const std::vector<PodSet>& sets, Rooms& among, const Part* within, Wanted what) {
    std::optional<Beside> beside;
    if (!asked_rules.empty()) beside.emplace(*index_.book, templates);
    Neighbourhood* neighbours = beside ? &*beside : nullptr;
    std::optional<Attaching> attaching;
    if (beside && attaching.emplace(*this, templates, sets, &among, neighbours).matters()) neighbours = &*attaching;
    std::optional<Apart> apart;
    if (asked_type != 0 || asked_pool != GpuPool::kAny)
      neighbours = &apart.emplace(asked_type, asked_pool, options_.apart, neighbours);
    std::optional<Within> inside, bounds;
    if (within != nullptr) neighbours = &inside.emplace(*within, neighbours);
    if (where.part != nullptr) neighbours = &bounds.emplace(*where.part, neighbours);
    if (where.home != nullptr) return place_again(sets, *where.home, among, preference, neighbours, what);
    if (asks_topology(sets)) return place_together(sets, among, preference, options_.topology, neighbours, what);
    if (lists == nullptr || beside || within != nullptr || where.part != nullptr || bound)
      return place_gang(sets, among, preference, neighbours, nullptr, what);
    const Kept kept{*lists, asked_type, asked_pool};
    return place_gang(sets, among, preference, neighbours, &kept, what);
  };
  const auto attempt = [&, &sets = pod_sets, &templates = likes](Rooms& among, const Part* within) {
    // An elastic gang gets better placements if all pods are requested at once than with the minimum first.
    // Pods that are placed one by one get the same placements either way.
    const bool alike =
        sets.size() == 1 && !templates.empty() && templates[0] && Beside::one_by_one(templates[0]->rules);
    if (is_elastic(sets) && (!alike || where.home != nullptr) && (where.home != nullptr || !asks_topology(sets))) {
      auto whole = sets;
      for (PodSet& set : whole) set.min_count = 0;
      if (auto placed = lay(whole, among, within, std::max(wanted, Wanted::kPlan)); placed.plan) return placed;
    }
    return lay(sets, among, within, wanted);
  };
  // The fabric matters only for the choice of nodes.
  const bool anywhere = where.home != nullptr || wanted == Wanted::kWhether;
  auto placed = anywhere ? attempt(rooms, nullptr) : place_near(pod_sets, rooms, attempt);
  if (!placed.plan && !one_node.empty()) {
    placed.shortfall.reason =
        fmt::format("claim {} is used on one node at a time: {}", one_node, placed.shortfall.reason);
  }
  if (!placed.plan) return placed;
  for (const Member& member : placed.plan->members) {
    const PodSet& set = asked_sets[static_cast<std::size_t>(member.set)];
    Room& room = rooms.at(member.node);
    room.types |= type;
    room.gpu_pods = room.gpu_pods || !set.shape.gpu.none();
    room.alone = room.alone || set.topology.exclusive;
  }
  return placed;
}

std::uint32_t Engine::type_of(std::string_view workload_type) const {
  const auto found = std::ranges::find(options_.apart, workload_type);
  return found == options_.apart.end() ? 0 : std::uint32_t{1} << (found - options_.apart.begin());
}

// A workload that names GPU models or NVIDIA labels has chosen; the default pool is for the others.
GpuPool Engine::pool_of(const Labels& labels, const std::vector<PodSet>& pod_sets) const {
  const auto pool = options_.pools.find(workload_type_of(labels));
  if (pool == options_.pools.end()) return GpuPool::kAny;
  const bool asks = std::ranges::any_of(pod_sets, [](const PodSet& set) { return set.shape.gpu.whole > 0; });
  const bool chose = std::ranges::any_of(pod_sets, [](const PodSet& set) {
    return !set.shape.gpu.models.empty() || std::ranges::any_of(set.shape.node_selector, [](const auto& label) {
      return label.first.starts_with("nvidia.com/");
    });
  });
  return asks && !chose ? pool->second : GpuPool::kAny;
}

/// A new pod may satisfy the inter-pod rules of other workloads.
void Engine::forget_ruled(std::map<Asked, std::string>& hopeless) {
  std::erase_if(hopeless, [](const auto& known) { return !known.first.rules.empty(); });
}

/// Updates the free capacity after these members were placed.
void Engine::take_places(const AttemptId& id, std::span<const Member> members) {
  for (const Member& member : members) {
    book_node(member.node);
    index_.lists.touch(member.node);
    // Zones of pods without devices may differ when all pods are counted again in order.
    if (Room& room = index_.rooms.at(member.node); !room.zones.empty() || is_spare(*room.facts))
      room = room_of(member.node);
  }
  scratch_.attempts.insert(id);
}

void Engine::decide(const WorkloadUid& uid, std::map<Asked, std::string>& hopeless) {
  const Workload& workload = *tables_.workloads.find(uid);
  const AttemptId id{uid, workload.attempt};
  const Assignment* old = tables_.assignments.find(id);

  Assignment next = assignment_for(workload.spec);
  next.decided = scratch_.now;
  next.revision = old == nullptr ? 0 : old->revision;
  next.rules = rules_of(id, next.pod_sets);
  const Asked asked = asked_by(uid);
  Placed placed;
  const bool tells_why = old == nullptr || scratch_.asked.contains(uid);  // a retry keeps the published reason
  const auto wanted = tells_why ? Wanted::kReason : Wanted::kPlan;
  auto lifted = lift_holds(uid);
  bool instead = false;  // replaces planned migrations
  if (auto returned = place_returning(uid, asked); returned.plan) {
    placed = std::move(returned);
  } else if (const auto known = hopeless.find(asked);
             known != hopeless.end() && lifted.empty() && (!tells_why || !known->second.empty())) {
    placed.shortfall.reason = known->second;
  } else {
    if (moves(uid)) placed = place_at(uid, tables_.proposals.find(uid)->places);
    if (!placed.plan) placed = place(asked, index_.rooms, index_.preference, &index_.lists, wanted);
    if (!placed.plan && !index_.tidied.empty()) {
      lifted = lift_holds(uid, true);
      placed = place(asked, index_.rooms, index_.preference, &index_.lists, wanted);
      instead = placed.plan.has_value();
    }
    if (!placed.plan) hopeless[asked] = placed.shortfall.reason;
  }
  if (placed.plan) {
    forget_ruled(hopeless);
    next.state = AssignmentState::kReserved;
    next.members = std::move(placed.plan->members);
    next.expires = scratch_.now + options_.hold;
    if (workload.quota_reserved != Instant{} && workload.quota_reserved <= scratch_.now) {
      scratch_.out.notes.decided_after.push_back(scratch_.now - workload.quota_reserved);
    }
    set_short(uid, false);
    store(id, std::move(next));
    forget_proposal(uid);
    if (instead) end_tidying("NeededByOthers"), hopeless.clear();
    end_recut(uid);
    put_back_holds(lifted);
    if (!lifted.empty()) scratch_.contested.insert(index_.standing.begin(), index_.standing.end());
    take_places(id, tables_.assignments.find(id)->members);
    return;
  }
  put_back_holds(lifted);
  set_short(uid, true);
  if (!tells_why) return;
  next.state = AssignmentState::kShort;
  next.short_reason = std::move(placed.shortfall.reason);
  store(id, std::move(next));
  scratch_.changed.insert(id);
}

Asked Engine::question(const std::vector<PodSet>& pod_sets, const WorkloadUid& uid) const {
  const Workload* workload = tables_.workloads.find(uid);
  if (workload == nullptr) return {pod_sets, rules_of({}, pod_sets)};
  const Labels& labels = workload->spec.labels;
  const AttemptId id{uid, workload->attempt};
  return {pod_sets, rules_of(id, pod_sets), type_of(workload_type_of(labels)), pool_of(labels, pod_sets),
          own_claims_of(id, pod_sets)};
}

Asked Engine::asked_by(const WorkloadUid& uid) const {
  auto asked = question(tables_.workloads.find(uid)->spec.pod_sets, uid);
  asked.rules = heeded(asked.pod_sets, std::move(asked.rules));
  return asked;
}

// A workload in back-off stays on the demand list until its pods fit. It then moves to the requeue list, and
// admission ends its back-off. The first offer goes to as many workloads as fit together. Some of them may
// get no quota, so the capacity that they leave is offered to the next ones in rounds, each eight times as
// large, until no free capacity is of use to a pending workload. The fourth round offers it to all. So every
// workload that can use the capacity is offered it within a second; and if a workload uses it, few others
// were tried in vain.
void Engine::offer_to_pending() {
  if (!synced()) return;
  const Instant due = meta().requeue_at;
  const bool is_due = due != Instant{} && due <= scratch_.now;
  if (scratch_.neighbors || scratch_.stirred)
    scratch_.fell_back.insert(index_.attending.begin(), index_.attending.end());
  if (scratch_.grew) {
    requeue_fitting(index_.short_of, 0);
  } else if (!scratch_.fell_back.empty()) {
    requeue_fitting(scratch_.fell_back, 0);
  }
  if (!is_due) return;
  tables_.meta.edit(0).requeue_at = {};
  const auto round = meta().requeue_round + 1;
  tables_.meta.edit(0).requeue_round = requeue_fitting(index_.short_of, round) ? round : 0;
}

bool Engine::requeue_fitting(const std::set<WorkloadUid>& pending, std::int32_t round) {
  std::vector<Turn> turns;
  for (const WorkloadUid& uid : pending) {
    const Workload* workload = tables_.workloads.find(uid);
    if (workload != nullptr && workload->phase == WorkloadPhase::kPending && workload->short_since != Instant{})
      turns.push_back({workload->spec.priority, false, workload->short_since, {}, 0, uid});
  }
  if (turns.empty()) return false;
  std::ranges::sort(turns, std::less<>());
  const std::size_t most = round == 0 || round >= kLastRound ? turns.size() : std::size_t{1} << (3 * round);
  std::set<Asked> hopeless;
  std::set<NodeName> offered;
  std::size_t count = 0;
  const auto free_again = [&](const NodeName& node) { set_room(node, room_of(node)); };
  for (const Turn& turn : turns) {
    if (count == most) break;
    const Asked asked = asked_by(turn.uid);
    if (hopeless.contains(asked) && !index_.cut_for.contains(turn.uid)) continue;
    // Capacity repartitioned for it is available to it with or without quota.
    const auto lifted = index_.cut_for.contains(turn.uid) ? lift_holds(turn.uid) : std::vector<NodeName>();
    const auto placed = place(asked, index_.rooms, index_.preference, &index_.lists, Wanted::kPlan);
    put_back_holds(lifted);
    if (!placed.plan) {
      if (lifted.empty()) hopeless.insert(asked);
      continue;
    }
    ++count;
    set_short(turn.uid, false);
    tables_.workloads.edit(turn.uid).fits_since = scratch_.now;
    index_workload(turn.uid);
    scratch_.requeue = true;
    for (const Member& member : placed.plan->members) {
      index_.lists.touch(member.node);
      offered.insert(member.node);
    }
    if (round != 0) std::ranges::for_each(std::exchange(offered, {}), free_again);
  }
  std::ranges::for_each(offered, free_again);
  if (count == 0) return false;
  if (meta().requeue_at == Instant{}) tables_.meta.edit(0).requeue_at = scratch_.now + options_.requeue_pause;
  return true;
}

void Engine::set_short(const WorkloadUid& uid, bool is_short) {
  const Workload& workload = *tables_.workloads.find(uid);
  if ((workload.short_since != Instant{}) == is_short) return;
  tables_.workloads.edit(uid).short_since = is_short ? scratch_.now : Instant{};
  index_workload(uid);
  scratch_.demand = true;
}

std::vector<std::string> Engine::compared(const std::vector<PodSet>& pod_sets,
                                          const std::vector<Member>& members) const {
  return placement::compared(pod_sets, members, index_.rooms);
}

}  // namespace qm::placement
