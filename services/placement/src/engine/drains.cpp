// Preemption for MIG instances. An option for a node is that holders of instances leave, or that all users of
// its GPUs leave and the node is repartitioned to an allowed layout. The node then fits more pods, at the
// cost of lost work and of destroyed and created instances. The options with the best gain per cost are
// chosen, one by one, until the engine's own placement succeeds. Victims that are not needed are then
// dropped. The result is a preemption proposal; once the victims have left, repartitions are ordered as in
// recut.cpp.
#include "engine/lift.hpp"
#include "engine/offers.hpp"

#include <algorithm>
#include <array>

namespace qm::placement {
namespace {

constexpr std::size_t kMostNodes = 256;   // nodes with options
constexpr std::size_t kMostWays = 64;     // options in one plan
constexpr std::size_t kMostVictims = 64;  // in one plan; each is tried without eviction
constexpr std::int64_t kMostLacking = 512;
constexpr int kGrown = 10;  // the cost of a proposal may grow by a tenth

using Fits = std::vector<std::int64_t>;  // pods that fit a node, by pod set

struct Loss {
  std::int64_t gpu_ms = 0, micro_usd = 0;
};

/// A workload on a node, with its number of instances there.
struct Holder {
  std::int64_t cost = 0;
  AttemptId id;
  std::int64_t instances = 0;
  friend auto operator<=>(const Holder&, const Holder&) = default;
};

/// The cheapest holders that together have `lacking` instances; empty if all together have fewer.
std::set<AttemptId> cheapest_with(std::int64_t lacking, const std::vector<Holder>& holders) {
  struct Sum {
    std::int64_t cost = 0;
    std::set<AttemptId> who;
  };
  if (lacking <= 0 || lacking > kMostLacking) return {};
  std::vector<std::optional<Sum>> best(static_cast<std::size_t>(lacking) + 1);
  best[0] = Sum{};
  for (const Holder& one : holders) {
    for (std::int64_t have = lacking; have > 0; --have) {
      const auto& before = best[static_cast<std::size_t>(std::max<std::int64_t>(0, have - one.instances))];
      auto& after = best[static_cast<std::size_t>(have)];
      if (!before || (after && after->cost <= before->cost + one.cost)) continue;
      Sum sum = *before;
      sum.cost += one.cost;
      sum.who.insert(one.id);
      after = std::move(sum);
    }
  }
  return best.back() ? best.back()->who : std::set<AttemptId>();
}

/// Whether it also requests GPUs, whole or in shares.
bool wants_gpus_too(const std::vector<PodSet>& pod_sets) {
  return std::ranges::any_of(pod_sets,
                             [](const PodSet& set) { return set.shape.gpu.mig_count == 0 && !set.shape.gpu.none(); });
}

}  // namespace

/// A search for one pending workload.
///
/// Bounds   kMostNodes, those with the least lost work first; kMostWays and kMostVictims of a plan.
/// Cost     one evaluation of each of these nodes with each allowed layout, and again after an option changed
///          one; as many placements as victims, several times.
class Engine::Drains {
 public:
  struct Found {
    std::set<AttemptId> gone;
    Cuts cuts;
    std::vector<Member> members;  // its members afterwards
    std::int64_t lost = 0, reslicing = 0;
    [[nodiscard]] std::int64_t cost() const { return lost + reslicing; }
  };

  /// `leaving`: victims of other proposals.
  Drains(const Engine& engine, WorkloadUid uid, const std::set<AttemptId>& leaving)
      : engine_(engine),
        uid_(std::move(uid)),
        sets_(engine.tables_.workloads.find(uid_)->spec.pod_sets),
        offers_(engine) {
    for (const auto& [id, row] : engine.tables_.assignments) {
      if (leaving.contains(id) || !engine.may_give_way(id, row, uid_, true)) continue;
      bool uses = false;
      for (const Member& member : row.members) {
        if (!member.live() || row.pod_sets[static_cast<std::size_t>(member.set)].shape.gpu.none()) continue;
        users_[member.node].insert(id);
        uses = true;
      }
      if (uses) losses_.emplace(id, loss_of(engine, id));
    }
  }

  [[nodiscard]] static Loss loss_of(const Engine& engine, const AttemptId& id) {
    const Assignment& row = *engine.tables_.assignments.find(id);
    std::vector<std::int64_t> pods(row.pod_sets.size());
    for (const Member& member : row.members) {
      if (member.live()) ++pods[static_cast<std::size_t>(member.set)];
    }
    std::int64_t milli = 0;
    for (std::size_t set = 0; set < pods.size(); ++set) milli += row.pod_sets[set].shape.gpu.total_milli(pods[set]);
    const auto& rules = engine.options_.proposing;
    const Duration time = std::max(Duration{}, engine.last_now_ - Lift::work_since(engine, id)) + rules.restart;
    const auto work = static_cast<plan::Wide>(milli) * time.count();
    return {static_cast<std::int64_t>(work / 1'000'000),
            static_cast<std::int64_t>(work * rules.micro_usd_gpu_second / (std::int64_t{1000} * 1'000'000))};
  }
  [[nodiscard]] bool nobody() const { return losses_.empty(); }
  [[nodiscard]] const Loss& loss(const AttemptId& id) const { return losses_.at(id); }

  /// By released instances, by repartitioned nodes, and by both.
  [[nodiscard]] std::optional<Found> cheapest(bool may_cut) {
    std::vector<std::pair<std::int64_t, NodeName>> nodes;  // the least lost work first
    for (const auto& [name, room] : engine_.index_.rooms) {
      fits_[name] = fits_in(room);
      const auto users = users_.find(name);
      if (users != users_.end()) {
        nodes.emplace_back(lost(users->second), name);
      } else if (may_cut && engine_.stays_cut(name, without({})).empty()) {
        nodes.emplace_back(0, name);
      }
    }
    std::ranges::sort(nodes);
    if (nodes.size() > kMostNodes) nodes.resize(kMostNodes);
    for (const auto& [work, name] : nodes) ways_[name] = look(name, {}, may_cut);
    constexpr std::array<std::pair<bool, bool>, 3> kKinds{{{true, false}, {false, true}, {true, true}}};
    std::optional<Found> best;
    for (const auto& [leaving, cutting] : kKinds) {
      if (cutting && !may_cut) continue;
      auto found = run(leaving, cutting);
      if (found && (!best || found->cost() < best->cost())) best = std::move(found);
    }
    return best;
  }

 private:
  struct Way {
    NodeName node;
    std::set<AttemptId> gone;  // additional victims
    std::string layout;        // empty: the layout does not change
    std::int64_t cost = 0;
    Fits fits;  // afterwards
  };
  struct Thought {
    std::set<AttemptId> gone;
    Cuts cuts;
  };

  [[nodiscard]] Fits fits_in(const Room& room) const {
    Fits out;
    for (const PodSet& set : sets_) out.push_back(takes_instances(room, set));
    return out;
  }
  [[nodiscard]] Lifted without(std::set<AttemptId> gone) const {
    return {.attempts = std::move(gone), .holds = {uid_}, .tidying = true};
  }
  [[nodiscard]] std::int64_t lost(const std::set<AttemptId>& gone) const {
    std::int64_t out = 0;
    for (const AttemptId& id : gone) out += loss(id).micro_usd;
    return out;
  }
  [[nodiscard]] Room room(const NodeName& name, const Thought& thought) {
    const auto cut = thought.cuts.find(name);
    const Lifted lifted = without(thought.gone);
    if (cut == thought.cuts.end()) return engine_.room_of(name, lifted);
    return offers_.room(name, *offers_.layout(engine_.tables_.nodes.find(name)->facts, cut->second), lifted);
  }
  /// Number of pods of all sets that do not fit, counted per set.
  [[nodiscard]] std::int64_t missing(const Fits& sum) const {
    std::int64_t out = 0;
    for (std::size_t set = 0; set < sets_.size(); ++set) {
      if (sets_[set].shape.gpu.mig_count > 0) out += std::max<std::int64_t>(0, least_of(sets_[set]) - sum[set]);
    }
    return out;
  }

  // ---- options ----

  [[nodiscard]] std::vector<Way> look(const NodeName& name, const Thought& thought, bool may_cut) {
    std::vector<Way> out;
    if (thought.cuts.contains(name)) return out;
    const auto here = users_.find(name);
    const std::set<AttemptId> nobody;
    const auto& users = here == users_.end() ? nobody : here->second;
    for (std::size_t set = 0; set < sets_.size(); ++set) {
      if (sets_[set].shape.gpu.mig_count == 0 || users.empty()) continue;
      if (auto way = leave(name, set, users, thought)) out.push_back(std::move(*way));
    }
    if (may_cut) cut(name, users, thought, out);
    return out;
  }

  /// The cheapest victims after which the node fits one more pod of the set.
  [[nodiscard]] std::optional<Way> leave(const NodeName& name, std::size_t set, const std::set<AttemptId>& users,
                                         const Thought& thought) {
    const GpuShape& wanted = sets_[set].shape.gpu;
    std::vector<Holder> holders;
    for (const AttemptId& id : users) {
      if (thought.gone.contains(id)) continue;
      const Assignment& row = *engine_.tables_.assignments.find(id);
      std::int64_t instances = 0;
      for (const Member& member : row.members) {
        const GpuShape& has = row.pod_sets[static_cast<std::size_t>(member.set)].shape.gpu;
        if (member.live() && member.node == name && has.mig_profile == wanted.mig_profile) instances += has.mig_count;
      }
      if (instances > 0) holders.push_back({loss(id).micro_usd, id, instances});
    }
    if (holders.empty()) return std::nullopt;
    std::ranges::sort(holders);
    const Room now = room(name, thought);
    const auto before = takes_instances(now, sets_[set]);
    if (before == sets_[set].count) return std::nullopt;
    const auto idle = now.extended.find(std::string(words::kMigPrefix) + wanted.mig_profile);
    const auto lacking = (before + 1) * wanted.mig_count - (idle == now.extended.end() ? 0 : idle->second);

    Way way;
    way.node = name;
    way.gone = cheapest_with(lacking, holders);
    Thought then = thought;
    const auto enough = [&](const std::set<AttemptId>& gone) {
      then.gone = thought.gone;
      then.gone.insert(gone.begin(), gone.end());
      return takes_instances(room(name, then), sets_[set]) > before;
    };
    // If another resource is short, more victims have to leave; not all of the former ones may be needed
    // then.
    for (const Holder& one : holders) {
      if (enough(way.gone)) break;
      way.gone.insert(one.id);
    }
    if (!enough(way.gone)) return std::nullopt;
    for (auto one = holders.rbegin(); one != holders.rend(); ++one) {
      if (way.gone.erase(one->id) > 0 && !enough(way.gone)) way.gone.insert(one->id);
    }
    (void)enough(way.gone);
    way.fits = fits_in(room(name, then));
    way.cost = lost(way.gone);
    return way;
  }

  /// All users of its GPUs leave the node, if any, and it is repartitioned.
  void cut(const NodeName& name, const std::set<AttemptId>& users, const Thought& thought, std::vector<Way>& out) {
    Thought then = thought;
    then.gone.insert(users.begin(), users.end());
    const Lifted lifted = without(then.gone);
    if (!engine_.stays_cut(name, lifted).empty()) return;
    Way way;
    way.node = name;
    std::ranges::set_difference(users, thought.gone, std::inserter(way.gone, way.gone.end()));
    const NodeFacts& facts = engine_.tables_.nodes.find(name)->facts;
    const auto lost_work = lost(way.gone);
    for (const std::string& layout : offers_.names(*mig::model_of(facts.model))) {
      const auto* made = offers_.layout(facts, layout);
      const auto cost = made == nullptr ? 0 : offers_.cost(name, *made);
      if (cost == 0) continue;
      way.layout = layout;
      way.cost = lost_work + cost;
      way.fits = fits_in(offers_.room(name, *made, lifted));
      out.push_back(way);
    }
  }

  // ---- plans ----

  /// The option with the most gain per cost; ties go to the first node, and to options without a repartition.
  [[nodiscard]] const Way* best_of(const std::map<NodeName, std::vector<Way>>& ways,
                                   const std::map<NodeName, Fits>& fits, const Fits& sum, bool leaving,
                                   bool cutting) const {
    const Way* best = nullptr;
    plan::Wide most = 0;
    const auto lacking = missing(sum);
    for (const auto& [name, here] : ways) {
      const Fits& before = fits.at(name);
      for (const Way& way : here) {
        if (way.layout.empty() ? !leaving : !cutting) continue;
        Fits then = sum;
        std::int64_t more = 0;
        for (std::size_t set = 0; set < then.size(); ++set) {
          then[set] += way.fits[set] - before[set];
          more += std::max<std::int64_t>(0, way.fits[set] - before[set]);
        }
        // If the counts are enough and the placement still fails, any additional capacity may help.
        const auto gain = lacking > 0 ? lacking - missing(then) : more;
        if (gain <= 0) continue;
        if (best != nullptr && way.cost * most >= static_cast<plan::Wide>(best->cost) * gain) continue;
        best = &way;
        most = gain;
      }
    }
    return best;
  }

  [[nodiscard]] std::optional<Found> run(bool leaving, bool cutting) {
    Thought thought;
    auto fits = fits_;
    auto ways = ways_;
    Fits sum(sets_.size());
    const auto count = [&](const NodeName& name, int sign) {
      for (std::size_t set = 0; set < sum.size(); ++set) sum[set] += sign * fits.at(name)[set];
    };
    for (const auto& [name, here] : fits) count(name, 1);
    for (std::size_t taken = 0; taken <= kMostWays && thought.gone.size() <= kMostVictims; ++taken) {
      if (missing(sum) == 0) {
        auto placed = engine_.placed_cut(uid_, thought.gone, thought.cuts);
        if (placed.plan) return fewest(std::move(thought), std::move(placed.plan->members));
      }
      const Way* best = best_of(ways, fits, sum, leaving, cutting);
      if (best == nullptr) return std::nullopt;
      std::set<NodeName> touched{best->node};
      thought.gone.insert(best->gone.begin(), best->gone.end());
      if (!best->layout.empty()) thought.cuts[best->node] = best->layout;
      for (const AttemptId& id : best->gone) {
        for (const Member& member : engine_.tables_.assignments.find(id)->members) {
          if (member.live()) touched.insert(member.node);
        }
      }
      for (const NodeName& name : touched) {
        if (!fits.contains(name)) continue;
        count(name, -1);
        fits[name] = fits_in(room(name, thought));
        count(name, 1);
        if (ways.contains(name)) ways[name] = look(name, thought, cutting);
      }
    }
    return std::nullopt;
  }

  /// Drops repartitions that are not needed, and victims that are not needed, the most expensive first.
  [[nodiscard]] std::optional<Found> fewest(Thought thought, std::vector<Member> members) const {
    const auto try_it = [&](Thought fewer) {
      auto placed = engine_.placed_cut(uid_, fewer.gone, fewer.cuts);
      if (!placed.plan) return false;
      thought = std::move(fewer);
      members = std::move(placed.plan->members);
      return true;
    };
    for (bool again = true; again;) {
      again = false;
      for (const auto& [name, layout] : Cuts(thought.cuts)) {
        Thought fewer = thought;
        fewer.cuts.erase(name);
        again = try_it(std::move(fewer)) || again;
      }
      std::vector<std::pair<std::int64_t, AttemptId>> dearest;
      for (const AttemptId& id : thought.gone) dearest.emplace_back(-loss(id).micro_usd, id);
      std::ranges::sort(dearest);
      for (const auto& [cost, id] : dearest) {
        Thought fewer = thought;
        fewer.gone.erase(id);
        again = try_it(std::move(fewer)) || again;
      }
    }
    Found out{std::move(thought.gone), std::move(thought.cuts), std::move(members), 0, 0};
    if (out.gone.empty()) return std::nullopt;  // no victims needed: not a case for a proposal
    out.lost = lost(out.gone);
    Offers offers(engine_);
    for (const auto& [name, layout] : out.cuts) {
      if (std::ranges::find(out.members, name, &Member::node) == out.members.end()) return std::nullopt;
      out.reslicing += offers.cost(name, *offers.layout(engine_.tables_.nodes.find(name)->facts, layout));
    }
    return out;
  }

  const Engine& engine_;
  WorkloadUid uid_;
  const std::vector<PodSet>& sets_;
  Offers offers_;
  std::map<AttemptId, Loss> losses_;               // of possible victims
  std::map<NodeName, std::set<AttemptId>> users_;  // possible victims with GPUs on the node
  std::map<NodeName, Fits> fits_;                  // as things are now
  std::map<NodeName, std::vector<Way>> ways_;
};

/// Hypothetically repartitions these nodes. False if one of them cannot be, or its GPUs are used by pods that
/// are not evicted hypothetically.
bool Engine::think_cut(const Cuts& cuts, const Lifted& lifted, Rooms& rooms) const {
  if (!cuts.empty() && !options_.recutting.on) return false;
  Offers offers(*this);
  for (const auto& [name, layout] : cuts) {
    const Node* node = tables_.nodes.find(name);
    if (node == nullptr || !stays_cut(name, lifted).empty()) return false;
    const auto* made = offers.layout(node->facts, layout);
    if (made == nullptr) return false;
    rooms[name] = offers.room(name, *made, lifted);
  }
  return true;
}

/// The placement after these evictions and repartitions.
Placed Engine::placed_cut(const WorkloadUid& uid, const std::set<AttemptId>& gone, const Cuts& cuts) const {
  Rooms rooms = index_.rooms;
  return placed_without(uid, gone, rooms, cuts);
}

/// Whether idle GPUs can be repartitioned for it, or a repartition in progress for others is enough.
bool Engine::fits_idle(const WorkloadUid& uid) const {
  const Recut idle = recut_for(uid, index_.preference);
  return idle.comes || (options_.recutting.on && !idle.layouts.empty());
}

/// False if it needs no instances, or not only instances: then the general search runs.
bool Engine::drain(const WorkloadUid& uid, const std::set<AttemptId>& leaving) {
  const Workload& workload = *tables_.workloads.find(uid);
  if (!wants_instances(workload.spec.pod_sets)) return false;
  const Proposal* known = tables_.proposals.find(uid);
  Proposal next = known == nullptr ? Proposal{} : *known;
  const auto in_vain = [&](std::string why, Instant from) {
    if (wants_gpus_too(workload.spec.pod_sets)) return false;
    next.last = std::move(why);
    next.next = from;
    if (known == nullptr || *known != next) tables_.proposals.insert(uid, std::move(next));
    return true;
  };
  const Instant later = scratch_.now + options_.proposing.answer;
  // A repartition without victims is cheaper and in progress soon.
  if (fits_idle(uid)) return in_vain("CutAnew", later);
  Drains drains(*this, uid, leaving);
  if (drains.nobody()) return in_vain("NobodyMayGiveWay", later);
  const auto found = drains.cheapest(options_.recutting.on && recuts_left(uid) > 0);
  if (!found || found->cuts.size() > recuts_left(uid)) return in_vain("NoSetMakesRoom", later);
  if (const Instant from = workload.short_since + options_.recutting.after; !found->cuts.empty() && from > scratch_.now)
    return in_vain("CutLater", from);

  next.places.clear();
  next.until = {};
  next.state = ProposalState::kAsked;
  next.number = tables_.meta.edit(0).next_proposal++;
  next.attempt = workload.attempt;
  next.cuts = found->cuts;
  next.lost_micro_usd = found->lost;
  next.micro_usd = found->cost();
  for (const AttemptId& id : found->gone) next.victims.push_back({id, drains.loss(id).gpu_ms, {}});
  for (const Member& member : found->members)
    next.places.push_back({member.set, member.index, member.node, member.devices});
  next.made = next.said = scratch_.now;
  next.said_times = 1;
  next.last.clear();
  ++scratch_.out.notes.proposals["Made"];
  if (std::ranges::any_of(next.places, [this](const HeldPlace& place) { return index_.tidied.contains(place.node); }))
    end_tidying("NeededByOthers");
  put_proposal(uid, std::move(next));
  say(uid);
  return true;
}

/// No answer yet: whether all victims may still be evicted and are needed, at no more than the planned cost.
bool Engine::drain_holds(const WorkloadUid& uid) const {
  const Proposal& row = *tables_.proposals.find(uid);
  std::set<AttemptId> victims;
  std::int64_t lost = 0;
  for (const auto& victim : row.victims) {
    const Assignment* there = tables_.assignments.find(victim.id);
    if (there == nullptr || !may_give_way(victim.id, *there, uid, true)) return false;
    victims.insert(victim.id);
    lost += Drains::loss_of(*this, victim.id).micro_usd;
  }
  if (lost - row.lost_micro_usd > row.micro_usd / kGrown || row.cuts.size() > recuts_left(uid)) return false;
  if (fits_idle(uid) || !placed_cut(uid, victims, row.cuts).plan) return false;
  return std::ranges::none_of(row.victims, [&](const Proposal::Victim& victim) {
    auto fewer = victims;
    fewer.erase(victim.id);
    return placed_cut(uid, fewer, row.cuts).plan || placed_cut(uid, fewer, {}).plan;
  });
}

/// The victims have left: repartitions are ordered and hold the new instances.
void Engine::begin_cuts(const WorkloadUid& uid) {
  const Cuts cuts = tables_.proposals.find(uid)->cuts;
  auto placed = placed_cut(uid, {}, cuts);
  if (!placed.plan || cuts.size() > recuts_left(uid)) return drop_proposal(uid, "Stale", scratch_.now);
  Recut found;
  found.layouts = cuts;
  found.members = std::move(placed.plan->members);
  order_recut(uid, found);
  for (const auto& [name, layout] : cuts) evaluate_node(name);  // cordoned before other workloads are placed
  drop_proposal(uid, "Cut", scratch_.now);
}

std::string Engine::drain_words(const WorkloadUid& uid) const {
  const Proposal* row = tables_.proposals.find(uid);
  const Workload* workload = tables_.workloads.find(uid);
  if (row == nullptr || workload == nullptr || row->move || !wants_instances(workload->spec.pod_sets)) return {};
  if (row->state != ProposalState::kAsked && row->state != ProposalState::kAccepted) return {};
  std::string names, then;
  for (const auto& victim : row->victims) {
    const Workload* gives = tables_.workloads.find(victim.id.uid);
    names += names.empty() ? "" : ", ";
    names += gives == nullptr ? victim.id.uid.value() : fmt::format("{}/{}", gives->spec.ns, gives->spec.name);
  }
  for (const auto& [name, layout] : row->cuts) then += fmt::format("; then node {} is cut to {} for it", name, layout);
  if (then.empty()) then = "; it gets their instances";
  return fmt::format("{}: {}{}", row->state == ProposalState::kAsked ? "asked to give way" : "giving way", names, then);
}

}  // namespace qm::placement
