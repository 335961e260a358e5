// Preemption for MIG instances. An option for a node is that holders of instances leave, or that all users of
// its GPUs leave and the node is repartitioned to an allowed layout. The node then fits more pods, at the
// cost of lost work and of destroyed and created instances. The options with the best gain per cost are
// chosen, one by one, until the engine's own placement succeeds. Victims that are not needed are then
// dropped. The result is a preemption proposal; once the victims have left, repartitions are ordered as in
// mig_repartitions.cpp.
#include "engine/disruption/mig_preemption.hpp"

#include "engine/disruption/hypothetical_evictions.hpp"
#include "engine/mig/mig_layout_catalog.hpp"
#include "qm/placement/minimal_subset.hpp"

#include <algorithm>
#include <array>
#include <variant>

namespace qm::placement {

namespace {

constexpr std::size_t kMostNodes = 256;       // nodes with options
constexpr std::size_t kMaxAlternatives = 64;  // options in one plan
constexpr std::size_t kMaxVictims = 64;       // in one plan; each is tried without eviction
constexpr std::int64_t kMaxLacking = 512;
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
    std::set<AttemptId> victim_ids;
  };
  if (lacking <= 0 || lacking > kMaxLacking) return {};
  std::vector<std::optional<Sum>> best(static_cast<std::size_t>(lacking) + 1);
  best[0] = Sum{};
  for (const Holder& one : holders) {
    for (std::int64_t have = lacking; have > 0; --have) {
      const auto& before = best[static_cast<std::size_t>(std::max<std::int64_t>(0, have - one.instances))];
      auto& after = best[static_cast<std::size_t>(have)];
      if (!before || (after && after->cost <= before->cost + one.cost)) continue;
      Sum sum = *before;
      sum.cost += one.cost;
      sum.victim_ids.insert(one.id);
      after = std::move(sum);
    }
  }
  return best.back() ? best.back()->victim_ids : std::set<AttemptId>();
}

/// Whether it also requests GPUs, whole or in shares.
bool wants_gpus_too(const std::vector<PodSet>& pod_sets) {
  return std::ranges::any_of(pod_sets,
                             [](const PodSet& set) { return set.shape.gpu.mig_count == 0 && !set.shape.gpu.none(); });
}

}  // namespace

/// A search for one pending workload.
///
/// Bounds   kMostNodes, those with the least lost work first; kMaxAlternatives and kMaxVictims of a plan.
/// Cost     one evaluation of each of these nodes with each allowed layout, and again after an option changed
///          one; as many placements as victims, several times.
class MigVictimSearch {
 public:
  struct Found {
    std::set<AttemptId> gone;
    NodeLayouts repartitions;
    std::vector<Member> members;  // its members afterwards
    std::int64_t lost = 0, reslicing = 0;
    [[nodiscard]] std::int64_t cost() const { return lost + reslicing; }
  };

  /// `terminating`: victims of other proposals.
  MigVictimSearch(const State& state, const Victims& victims, const RepartitionSearch& search,
                  const Capacities& capacities, const MigLayouts& layouts, WorkloadUid uid,
                  const std::set<AttemptId>& terminating)
      : state_(state),
        victims_(victims),
        search_(search),
        capacities_(capacities),
        layouts_(layouts),
        uid_(std::move(uid)),
        sets_(state.tables.workloads.find(uid_)->spec.pod_sets),
        offers_(state, capacities, layouts) {
    for (const auto& [id, row] : state.tables.assignments) {
      if (terminating.contains(id) || !victims.may_preempt(id, row, uid_, true)) continue;
      bool uses = false;
      for (const Member& member : row.members) {
        if (!member.live() || row.pod_sets[static_cast<std::size_t>(member.set)].shape.gpu.none()) continue;
        users_[member.node].insert(id);
        uses = true;
      }
      if (uses) losses_.emplace(id, loss_of(state, id));
    }
  }

  [[nodiscard]] static Loss loss_of(const State& state, const AttemptId& id) {
    const Assignment& row = *state.tables.assignments.find(id);
    std::vector<std::int64_t> pods(row.pod_sets.size());
    for (const Member& member : row.members) {
      if (member.live()) ++pods[static_cast<std::size_t>(member.set)];
    }
    std::int64_t milli = 0;
    for (std::size_t set = 0; set < pods.size(); ++set) milli += row.pod_sets[set].shape.gpu.total_milli(pods[set]);
    const auto& rules = state.options.preemption;
    const Duration time =
        std::max(Duration{}, state.last_now - HypotheticalEvictions::work_since(state.tables, id)) + rules.restart;
    const auto work = static_cast<plan::Wide>(milli) * time.count();
    return {static_cast<std::int64_t>(work / 1'000'000),
            static_cast<std::int64_t>(work * rules.micro_usd_gpu_second / (std::int64_t{1000} * 1'000'000))};
  }
  [[nodiscard]] bool has_no_candidates() const { return losses_.empty(); }
  [[nodiscard]] const Loss& loss(const AttemptId& id) const { return losses_.at(id); }

  /// By released instances, by repartitioned nodes, and by both.
  [[nodiscard]] std::optional<Found> cheapest(bool may_repartition) {
    std::vector<std::pair<std::int64_t, NodeName>> nodes;  // the least lost work first
    for (const auto& [name, capacity] : state_.index.free_capacity) {
      fits_[name] = fits_in(capacity);
      const auto users = users_.find(name);
      if (users != users_.end()) {
        nodes.emplace_back(lost(users->second), name);
      } else if (may_repartition && search_.why_not(name, without({})).empty()) {
        nodes.emplace_back(0, name);
      }
    }
    std::ranges::sort(nodes);
    if (nodes.size() > kMostNodes) nodes.resize(kMostNodes);
    for (const auto& [work, name] : nodes) alternatives_[name] = look(name, {}, may_repartition);
    constexpr std::array<std::pair<bool, bool>, 3> kKinds{{{true, false}, {false, true}, {true, true}}};
    std::optional<Found> best;
    for (const auto& [terminating, with_layout_timer] : kKinds) {
      if (with_layout_timer && !may_repartition) continue;
      auto found = run(terminating, with_layout_timer);
      if (found && (!best || found->cost() < best->cost())) best = std::move(found);
    }
    return best;
  }

 private:
  struct Alternative {
    NodeName node;
    std::set<AttemptId> gone;  // additional victims
    std::string layout;        // empty: the layout does not change
    std::int64_t cost = 0;
    Fits fits;  // afterwards
  };
  struct Hypothesis {
    std::set<AttemptId> gone;
    NodeLayouts repartitions;
  };

  [[nodiscard]] Fits fits_in(const NodeCapacity& capacity) const {
    Fits out;
    for (const PodSet& set : sets_) out.push_back(instance_pods_that_fit(capacity, set));
    return out;
  }
  [[nodiscard]] HypotheticalState without(std::set<AttemptId> gone) const {
    return {.attempts = std::move(gone), .holds = {uid_}, .defrag = true};
  }
  [[nodiscard]] std::int64_t lost(const std::set<AttemptId>& gone) const {
    std::int64_t out = 0;
    for (const AttemptId& id : gone) out += loss(id).micro_usd;
    return out;
  }
  [[nodiscard]] NodeCapacity capacity(const NodeName& name, const Hypothesis& hypothesis) {
    const auto repartition = hypothesis.repartitions.find(name);
    const HypotheticalState hypothetical = without(hypothesis.gone);
    if (repartition == hypothesis.repartitions.end()) return capacities_.capacity_of(name, hypothetical);
    return offers_.capacity(name, *offers_.layout(state_.tables.nodes.find(name)->facts, repartition->second),
                            hypothetical);
  }
  /// Number of pods of all sets that do not fit, counted per set.
  [[nodiscard]] std::int64_t missing(const Fits& sum) const {
    std::int64_t out = 0;
    for (std::size_t set = 0; set < sets_.size(); ++set) {
      if (sets_[set].shape.gpu.mig_count > 0) out += std::max<std::int64_t>(0, minimum_of(sets_[set]) - sum[set]);
    }
    return out;
  }

  // ---- options ----

  [[nodiscard]] std::vector<Alternative> look(const NodeName& name, const Hypothesis& hypothesis,
                                              bool may_repartition) {
    std::vector<Alternative> out;
    if (hypothesis.repartitions.contains(name)) return out;
    const auto here = users_.find(name);
    const std::set<AttemptId> no_users;
    const auto& users = here == users_.end() ? no_users : here->second;
    for (std::size_t set = 0; set < sets_.size(); ++set) {
      if (sets_[set].shape.gpu.mig_count == 0 || users.empty()) continue;
      if (auto alternative = leave(name, set, users, hypothesis)) out.push_back(std::move(*alternative));
    }
    if (may_repartition) repartition(name, users, hypothesis, out);
    return out;
  }

  /// The cheapest victims after which the node fits one more pod of the set.
  [[nodiscard]] std::optional<Alternative> leave(const NodeName& name, std::size_t set,
                                                 const std::set<AttemptId>& users, const Hypothesis& hypothesis) {
    const GpuShape& wanted = sets_[set].shape.gpu;
    std::vector<Holder> holders;
    for (const AttemptId& id : users) {
      if (hypothesis.gone.contains(id)) continue;
      const Assignment& row = *state_.tables.assignments.find(id);
      std::int64_t instances = 0;
      for (const Member& member : row.members) {
        const GpuShape& has = row.pod_sets[static_cast<std::size_t>(member.set)].shape.gpu;
        if (member.live() && member.node == name && has.mig_profile == wanted.mig_profile) instances += has.mig_count;
      }
      if (instances > 0) holders.push_back({loss(id).micro_usd, id, instances});
    }
    if (holders.empty()) return std::nullopt;
    std::ranges::sort(holders);
    const NodeCapacity now = capacity(name, hypothesis);
    const auto before = instance_pods_that_fit(now, sets_[set]);
    if (before == sets_[set].count) return std::nullopt;
    const auto idle = now.extended.find(std::string(words::kMigPrefix) + wanted.mig_profile);
    const auto lacking = (before + 1) * wanted.mig_count - (idle == now.extended.end() ? 0 : idle->second);

    Alternative alternative;
    alternative.node = name;
    alternative.gone = cheapest_with(lacking, holders);
    Hypothesis then = hypothesis;
    const auto enough = [&](const std::set<AttemptId>& gone) {
      then.gone = hypothesis.gone;
      then.gone.insert(gone.begin(), gone.end());
      return instance_pods_that_fit(capacity(name, then), sets_[set]) > before;
    };
    // If another resource is short, more victims have to leave; not all of the former ones may be needed
    // then.
    for (const Holder& one : holders) {
      if (enough(alternative.gone)) break;
      alternative.gone.insert(one.id);
    }
    if (!enough(alternative.gone)) return std::nullopt;
    std::vector<AttemptId> needed;  // the holders with the least lost work first
    for (const Holder& one : holders) {
      if (alternative.gone.contains(one.id)) needed.push_back(one.id);
    }
    needed = minimal_subset(std::move(needed), [&](const std::vector<AttemptId>& fewer) {
      return enough({fewer.begin(), fewer.end()});
    });
    alternative.gone = {needed.begin(), needed.end()};
    (void)enough(alternative.gone);
    alternative.fits = fits_in(capacity(name, then));
    alternative.cost = lost(alternative.gone);
    return alternative;
  }

  /// All users of its GPUs leave the node, if any, and it is repartitioned.
  void repartition(const NodeName& name, const std::set<AttemptId>& users, const Hypothesis& hypothesis,
                   std::vector<Alternative>& out) {
    Hypothesis then = hypothesis;
    then.gone.insert(users.begin(), users.end());
    const HypotheticalState hypothetical = without(then.gone);
    if (!search_.why_not(name, hypothetical).empty()) return;
    Alternative alternative;
    alternative.node = name;
    std::ranges::set_difference(users, hypothesis.gone, std::inserter(alternative.gone, alternative.gone.end()));
    const NodeFacts& facts = state_.tables.nodes.find(name)->facts;
    const auto lost_work = lost(alternative.gone);
    for (const std::string& layout : offers_.names(*mig::model_of(facts.model))) {
      const auto* made = offers_.layout(facts, layout);
      const auto cost = made == nullptr ? 0 : offers_.cost(name, *made);
      if (cost == 0) continue;
      alternative.layout = layout;
      alternative.cost = lost_work + cost;
      alternative.fits = fits_in(offers_.capacity(name, *made, hypothetical));
      out.push_back(alternative);
    }
  }

  // ---- plans ----

  /// The option with the most gain per cost; ties go to the first node, and to options without a repartition.
  [[nodiscard]] const Alternative* best_of(const std::map<NodeName, std::vector<Alternative>>& alternatives,
                                           const std::map<NodeName, Fits>& fits, const Fits& sum, bool terminating,
                                           bool with_layout_timer) const {
    const Alternative* best = nullptr;
    plan::Wide most = 0;
    const auto lacking = missing(sum);
    for (const auto& [name, here] : alternatives) {
      const Fits& before = fits.at(name);
      for (const Alternative& alternative : here) {
        if (alternative.layout.empty() ? !terminating : !with_layout_timer) continue;
        Fits then = sum;
        std::int64_t more = 0;
        for (std::size_t set = 0; set < then.size(); ++set) {
          then[set] += alternative.fits[set] - before[set];
          more += std::max<std::int64_t>(0, alternative.fits[set] - before[set]);
        }
        // If the counts are enough and the placement still fails, any additional capacity may help.
        const auto gain = lacking > 0 ? lacking - missing(then) : more;
        if (gain <= 0) continue;
        if (best != nullptr && alternative.cost * most >= static_cast<plan::Wide>(best->cost) * gain) continue;
        best = &alternative;
        most = gain;
      }
    }
    return best;
  }

  [[nodiscard]] std::optional<Found> run(bool terminating, bool with_layout_timer) {
    Hypothesis hypothesis;
    auto fits = fits_;
    auto alternatives = alternatives_;
    Fits sum(sets_.size());
    const auto count = [&](const NodeName& name, int sign) {
      for (std::size_t set = 0; set < sum.size(); ++set) sum[set] += sign * fits.at(name)[set];
    };
    for (const auto& [name, here] : fits) count(name, 1);
    for (std::size_t taken = 0; taken <= kMaxAlternatives && hypothesis.gone.size() <= kMaxVictims; ++taken) {
      if (missing(sum) == 0) {
        auto placed = victims_.placed_with_layouts(uid_, hypothesis.gone, hypothesis.repartitions);
        if (placed.plan) return fewest(std::move(hypothesis), std::move(placed.plan->members));
      }
      const Alternative* best = best_of(alternatives, fits, sum, terminating, with_layout_timer);
      if (best == nullptr) return std::nullopt;
      std::set<NodeName> touched{best->node};
      hypothesis.gone.insert(best->gone.begin(), best->gone.end());
      if (!best->layout.empty()) hypothesis.repartitions[best->node] = best->layout;
      for (const AttemptId& id : best->gone) {
        for (const Member& member : state_.tables.assignments.find(id)->members) {
          if (member.live()) touched.insert(member.node);
        }
      }
      for (const NodeName& name : touched) {
        if (!fits.contains(name)) continue;
        count(name, -1);
        fits[name] = fits_in(capacity(name, hypothesis));
        count(name, 1);
        if (alternatives.contains(name)) alternatives[name] = look(name, hypothesis, with_layout_timer);
      }
    }
    return std::nullopt;
  }

  /// Drops repartitions that are not needed, and victims that are not needed, the most expensive first.
  [[nodiscard]] std::optional<Found> fewest(Hypothesis hypothesis, std::vector<Member> members) const {
    using Item = std::variant<AttemptId, NodeName>;  // a victim, or a node to repartition
    const auto part = [&](const std::vector<Item>& items) {
      Hypothesis out;
      for (const Item& item : items) {
        if (const auto* id = std::get_if<AttemptId>(&item)) {
          out.gone.insert(*id);
        } else {
          out.repartitions.insert(*hypothesis.repartitions.find(std::get<NodeName>(item)));
        }
      }
      return out;
    };
    std::vector<std::pair<std::int64_t, AttemptId>> most_expensive;
    for (const AttemptId& id : hypothesis.gone) most_expensive.emplace_back(-loss(id).micro_usd, id);
    std::ranges::sort(most_expensive);
    std::vector<Item> items;  // the last is dropped first: repartitions, then the most expensive victims
    for (auto victim = most_expensive.rbegin(); victim != most_expensive.rend(); ++victim)
      items.emplace_back(victim->second);
    const auto& nodes = hypothesis.repartitions;
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) items.emplace_back(node->first);
    // Dropping one may make another unnecessary.
    for (std::size_t before = items.size() + 1; before != items.size();) {
      before = items.size();
      items = minimal_subset(std::move(items), [&](const std::vector<Item>& fewer) {
        const Hypothesis tried = part(fewer);
        auto placed = victims_.placed_with_layouts(uid_, tried.gone, tried.repartitions);
        if (!placed.plan) return false;
        members = std::move(placed.plan->members);
        return true;
      });
    }
    hypothesis = part(items);
    Found out{std::move(hypothesis.gone), std::move(hypothesis.repartitions), std::move(members), 0, 0};
    if (out.gone.empty()) return std::nullopt;  // no victims needed: not a case for a proposal
    out.lost = lost(out.gone);
    MigLayoutCatalog offers(state_, capacities_, layouts_);
    for (const auto& [name, layout] : out.repartitions) {
      if (std::ranges::find(out.members, name, &Member::node) == out.members.end()) return std::nullopt;
      out.reslicing += offers.cost(name, *offers.layout(state_.tables.nodes.find(name)->facts, layout));
    }
    return out;
  }

  const State& state_;
  const Victims& victims_;
  const RepartitionSearch& search_;
  const Capacities& capacities_;
  const MigLayouts& layouts_;
  WorkloadUid uid_;
  const std::vector<PodSet>& sets_;
  MigLayoutCatalog offers_;
  std::map<AttemptId, Loss> losses_;               // of possible victims
  std::map<NodeName, std::set<AttemptId>> users_;  // possible victims with GPUs on the node
  std::map<NodeName, Fits> fits_;                  // as things are now
  std::map<NodeName, std::vector<Alternative>> alternatives_;
};

/// Whether idle GPUs can be repartitioned for it, or a repartition in progress for others is enough.
bool MigPreemption::fits_idle(const WorkloadUid& uid) const {
  const MigRepartition idle = search_.plan(uid, index_.preference);
  return idle.in_progress || (options_.mig_repartition.on && !idle.layouts.empty());
}

bool MigPreemption::propose(const WorkloadUid& uid, const std::set<AttemptId>& terminating) {
  const Workload& workload = *tables_.workloads.find(uid);
  if (!requests_instances(workload.spec.pod_sets)) return false;
  const Proposal* known = tables_.proposals.find(uid);
  Proposal next = known == nullptr ? Proposal{} : *known;
  const auto in_vain = [&](std::string why, Instant from) {
    if (wants_gpus_too(workload.spec.pod_sets)) return false;
    next.last = std::move(why);
    next.next = from;
    if (known == nullptr || *known != next) tables_.proposals.insert(uid, std::move(next));
    return true;
  };
  const Instant later = scratch_.now + options_.preemption.answer;
  // A repartition without victims is cheaper and in progress soon.
  if (fits_idle(uid)) return in_vain("MigRepartitioned", later);
  MigVictimSearch drains(state_, victims_, search_, capacities_, layouts_, uid, terminating);
  if (drains.has_no_candidates()) return in_vain("NoPreemptionCandidates", later);
  const auto found = drains.cheapest(options_.mig_repartition.on && search_.budget_left(uid) > 0);
  if (!found || found->repartitions.size() > search_.budget_left(uid)) return in_vain("NoSufficientVictims", later);
  if (const Instant from = workload.short_since + options_.mig_repartition.after;
      !found->repartitions.empty() && from > scratch_.now)
    return in_vain("MigRepartitionDelayed", from);

  next.places.clear();
  next.until = {};
  next.state = ProposalState::kProposed;
  next.number = tables_.meta.edit(0).next_proposal++;
  next.attempt = workload.attempt;
  next.repartitions = found->repartitions;
  next.lost_micro_usd = found->lost;
  next.micro_usd = found->cost();
  for (const AttemptId& id : found->gone) next.victims.push_back({id, drains.loss(id).gpu_ms, {}});
  for (const Member& member : found->members)
    next.places.push_back({member.set, member.index, member.node, member.devices});
  next.made = next.published_at = scratch_.now;
  next.publish_count = 1;
  next.last.clear();
  ++scratch_.out.notes.proposals["Made"];
  if (std::ranges::any_of(next.places, [this](const HeldCapacity& place) {
        return index_.reservations.holds(HoldSource::kDefragmentation, place.node);
      }))
    proposals_.end_run("CapacityUsedByOthers");
  rows_.put_proposal(uid, std::move(next));
  proposals_.publish(uid);
  return true;
}

bool MigPreemption::is_valid(const WorkloadUid& uid) const {
  const Proposal& row = *tables_.proposals.find(uid);
  std::set<AttemptId> victims;
  std::int64_t lost = 0;
  for (const auto& victim : row.victims) {
    const Assignment* there = tables_.assignments.find(victim.id);
    if (there == nullptr || !victims_.may_preempt(victim.id, *there, uid, true)) return false;
    victims.insert(victim.id);
    lost += MigVictimSearch::loss_of(state_, victim.id).micro_usd;
  }
  if (lost - row.lost_micro_usd > row.micro_usd / kGrown || row.repartitions.size() > search_.budget_left(uid))
    return false;
  if (fits_idle(uid) || !victims_.placed_with_layouts(uid, victims, row.repartitions).plan) return false;
  return std::ranges::none_of(row.victims, [&](const Proposal::Victim& victim) {
    auto fewer = victims;
    fewer.erase(victim.id);
    return victims_.placed_with_layouts(uid, fewer, row.repartitions).plan ||
           victims_.placed_with_layouts(uid, fewer, {}).plan;
  });
}

void MigPreemption::order_repartitions(const WorkloadUid& uid) {
  const NodeLayouts repartitions = tables_.proposals.find(uid)->repartitions;
  auto placed = victims_.placed_with_layouts(uid, {}, repartitions);
  if (!placed.plan || repartitions.size() > search_.budget_left(uid))
    return proposals_.drop(uid, "Stale", scratch_.now);
  MigRepartition found;
  found.layouts = repartitions;
  found.members = std::move(placed.plan->members);
  repartitions_.order(uid, found);
  for (const auto& [name, layout] : repartitions)
    nodes_.evaluate_node(name);  // cordoned before other workloads are placed
  proposals_.drop(uid, "MigRepartitioned", scratch_.now);
}

}  // namespace qm::placement
