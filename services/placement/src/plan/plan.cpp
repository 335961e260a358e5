// For each domain the planner computes which gangs would have to leave it and a lower bound of their cost.
// In the cheapest domains it chooses the victims, places the pending gang and migrates the victims that fit
// elsewhere. A victim that was expected to migrate and does not fit counts as evicted in the next round.
#include "qm/placement/plan/plan.hpp"

#include "cover.hpp"
#include "qm/base/assert.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

namespace qm::placement::plan {
namespace {

constexpr std::size_t kDomains = 16;  // domains in which victims are chosen, the cheapest bound first
constexpr int kRounds = 3;            // rounds in which expected migrations may turn out not to fit
constexpr int kMoreRounds = 12;       // rounds if some of the gangs may not be evicted

MicroUsd priced(Wide gpu_milli_us, MicroUsd gpu_second) {
  return static_cast<MicroUsd>(gpu_milli_us * gpu_second / (std::int64_t{pack::kDevice} * 1'000'000));
}

MicroUsd per_s(MicroUsd rate, Duration time) {
  return static_cast<MicroUsd>(static_cast<Wide>(rate) * time.count() / 1'000'000);
}

Domain top(const gang::Request& request, const gang::Tree& tree, std::uint32_t index) {
  return {std::min(request.gang.required, tree.depth()), index};
}

class Planner {
 public:
  Planner(ClusterModel& model, const PendingGang& pending, const CostModel& cost_model)
      : model_(model),
        pending_(pending),
        cost_model_(cost_model),
        effort_(cost_model.effort),
        least_(minimum_of(pending.request)),
        kind_(counted_kind(least_, model.tree())) {}

  Plan run() {
    if (auto plain = place_pending(); !plain.empty()) {
      Plan plan;
      plan.exact = true;
      add_placement(plan, std::move(plain));
      return plan;
    }
    collect_candidates();
    Plan best;
    const auto search = [&] {
      auto plan = cheapest(best);
      if (plan.placed() && (!best.placed() || plan.cost.total() < best.cost.total())) best = std::move(plan);
    };
    const bool migrate_only = std::ranges::any_of(candidates_, [&](GangId gang) { return !evictable(gang); });
    for (int round = 0, most = migrate_only ? kMoreRounds : kRounds; round < most; ++round) {
      const auto before = not_migrated_.size();
      search();
      if (not_migrated_.size() == before) break;
    }
    if (migrate_only) {  // evictions alone may cost less, or be the only plan
      std::erase_if(candidates_, [&](GangId gang) { return !evictable(gang); });
      search();
    }
    model_.sync();
    return best;
  }

 private:
  [[nodiscard]] const gang::Tree& tree() const { return model_.tree(); }

  /// The placement of the pending gang in the current state; empty if it does not fit.
  std::vector<PodPlacement> place_pending() {
    model_.sync();
    const auto answer = gang::place(model_.fleet(), pending_.request);
    QM_ASSERT(answer.has_value(), "a request that was checked is invalid");
    return answer->placed() ? model_.placements_for(pending_.request, *answer) : std::vector<PodPlacement>{};
  }
  void add_placement(Plan& plan, std::vector<PodPlacement> placements) const {
    Step step;
    step.placements = std::move(placements);
    step.cost.topology = topology_cost(tree(), step.placements) * cost_model_.domain;
    plan.cost.topology += step.cost.topology;
    plan.steps.push_back(std::move(step));
  }

  // ---- which gangs ----

  void collect_candidates() {
    const auto offer = [&](GangId gang) {
      if (model_.runs(gang) && may_displace(model_, pending_, gang, cost_model_) &&
          !model_.gang(gang).placements.empty())
        candidates_.push_back(gang);
    };
    if (pending_.victims) {
      std::set<GangId> once(pending_.victims->begin(), pending_.victims->end());
      for (const auto gang : once) offer(gang);
    } else {
      for (GangId gang = 0; gang < model_.gangs(); ++gang) offer(gang);
    }
  }
  [[nodiscard]] MicroUsd eviction_cost(GangId gang) const {
    return lost_by(model_, gang, cost_model_) + per_s(model_.gang(gang).waiting_per_s, cost_model_.requeue);
  }
  [[nodiscard]] bool evictable(GangId gang) const { return may_evict(model_, pending_, gang, cost_model_).has_value(); }
  [[nodiscard]] bool migrates(GangId gang) const {
    return !not_migrated_.contains(gang) && may_migrate(model_, pending_, gang, cost_model_).has_value();
  }
  bool may_fit_elsewhere(GangId gang) {
    const auto& one = model_.gang(gang);
    const auto kind = counted_kind(one.request, tree());
    if (!kind) return true;
    auto& takes = capacity_.try_emplace(*kind, -1).first->second;
    if (takes < 0) takes = model_.fleet().capacity(*kind).takes({});
    return takes >= static_cast<std::int32_t>(one.placements.size());
  }
  /// The expected cost of displacing the gang. If it seems to fit elsewhere, no waiting is added.
  /// Returns nothing if it would have to wait and may not be evicted.
  std::optional<MicroUsd> displacement_cost(GangId gang) {
    if (migrates(gang) && may_fit_elsewhere(gang)) return lost_by(model_, gang, cost_model_);
    if (!evictable(gang)) return std::nullopt;
    return eviction_cost(gang);
  }

  // ---- where ----

  struct Place {
    Domain domain;
    std::vector<Victim> victims;
    MicroUsd bound = 0;
  };

  /// The domains in which the pending gang may be placed, with the gangs that may leave there and a
  /// lower bound of the cost.
  std::vector<Place> places() {
    std::vector<Victim> all;
    for (const auto gang : candidates_) {
      if (const auto cost = displacement_cost(gang)) all.push_back({gang, *cost});
    }
    std::vector<Place> out;
    const auto required = top(pending_.request, tree(), 0).level;
    const auto deepest =
        kind_ ? std::max(required, std::min(pending_.request.gang.preferred, tree().depth())) : required;
    for (auto level = deepest; level >= required; --level) {
      std::vector<std::vector<Victim>> of(tree().size(level));
      for (const auto& victim : all) {
        std::uint32_t last = std::numeric_limits<std::uint32_t>::max();
        for (const auto& placement : model_.gang(victim.gang).placements) {
          const auto domain = tree().above({tree().depth(), placement.node}, level).index;
          if (domain == last || (!of[domain].empty() && of[domain].back().gang == victim.gang)) continue;
          last = domain;
          of[domain].push_back(victim);
        }
      }
      for (std::uint32_t i = 0; i < of.size(); ++i) {
        if (of[i].empty()) continue;
        Place place{{level, i}, std::move(of[i]), 0};
        if (const auto bound = least_cost(place)) {
          place.bound = *bound;
          out.push_back(std::move(place));
        }
      }
    }
    std::ranges::stable_sort(out, {}, &Place::bound);
    return out;
  }

  /// A lower bound of the cost of any set of the gangs that has enough GPUs; nothing if all of them
  /// together have too few.
  std::optional<MicroUsd> least_cost(Place& place) const {
    std::int64_t missing = 0;
    for (const auto& set : sets_of(least_)) missing += set.pod.total_milli() * set.count;
    std::vector<Domain> open{place.domain};
    while (!open.empty()) {
      const auto here = open.back();
      open.pop_back();
      if (here.level < tree().depth()) {
        for (const auto part : tree().parts(here)) open.push_back({here.level + 1, part});
      } else if (!model_.closed(here.index)) {
        missing -= model_.state(here.index).free_milli();
      }
    }
    std::vector<std::pair<MicroUsd, std::int64_t>> offers;  // cost, and milli-GPU in this domain
    std::int64_t offered = 0;
    for (const auto& victim : place.victims) {
      const auto milli = model_.gpu_milli(victim.gang);
      offers.push_back({victim.cost, milli});
      offered += milli;
    }
    if (missing > offered) return std::nullopt;
    std::ranges::sort(offers, [](const auto& a, const auto& b) {
      return static_cast<Wide>(a.first) * b.second < static_cast<Wide>(b.first) * a.second;
    });
    MicroUsd cost = 0;
    for (const auto& [price, milli] : offers) {
      if (missing <= 0) break;
      cost += milli <= missing ? price : static_cast<MicroUsd>(static_cast<Wide>(price) * missing / milli);
      missing -= milli;
    }
    return cost;
  }

  Plan cheapest(const Plan& known) {
    Plan best;
    MicroUsd best_cost = known.placed() ? known.cost.total() : std::numeric_limits<MicroUsd>::max();
    bool exact = true;
    std::size_t searched = 0;
    for (const auto& place : places()) {
      if (place.bound >= best_cost) break;
      if (searched >= kDomains) {
        exact = false;
        break;
      }
      auto chosen = choose(place);
      if (!chosen) continue;
      exact = exact && chosen->exact;
      ++searched;
      if (chosen->cost >= best_cost) continue;
      auto plan = plan_for(*chosen);
      if (!plan.placed() || plan.cost.total() >= best_cost) continue;
      best_cost = plan.cost.total();
      best = std::move(plan);
    }
    best.exact = exact && kind_.has_value();
    return best;
  }

  /// Chooses the victims for a placement in this domain. In the end only the required domain
  /// counts: a victim is dropped if the gang fits anywhere in that domain without its eviction.
  std::optional<VictimSet> choose(const Place& place) {
    auto chosen = covered(place.domain, place.victims, effort_, kind_.has_value());
    if (!chosen || !kind_) return chosen;
    const auto required = tree().above(place.domain, top(pending_.request, tree(), 0).level);
    const auto inside = [&](const PodPlacement& placement) {
      return tree().within({tree().depth(), placement.node}, required);
    };
    const bool migration_target = std::ranges::any_of(chosen->victims, [&](const Victim& victim) {
      return !std::ranges::all_of(model_.gang(victim.gang).placements, inside);
    });
    if (place.domain == required && !migration_target) return chosen;
    std::int64_t no_more = 0;
    auto fewer = covered(required, chosen->victims, no_more, !migration_target);
    if (fewer) fewer->exact = chosen->exact;
    return fewer;
  }
  std::optional<VictimSet> covered(Domain domain, std::span<const Victim> victims, std::int64_t& effort, bool counted) {
    for (const auto& victim : victims) model_.apply_eviction(victim.gang);
    std::optional<VictimSet> chosen;
    if (counted) {
      CountedCapacity check(model_, *kind_, least_.gang.sets[0].count, domain);
      chosen = cover(check, victims, effort);
    } else {
      FleetQuery check(model_, least_);
      chosen = cover(check, victims, effort);
    }
    for (const auto& victim : victims) model_.revert_eviction(victim.gang);
    return chosen;
  }

  // ---- how ----

  /// The steps that displace the victims and place the pending gang; no steps if a victim neither
  /// fits elsewhere nor may be evicted.
  Plan plan_for(const VictimSet& chosen) {
    Plan plan;
    for (const auto& victim : chosen.victims) model_.apply_eviction(victim.gang);
    if (auto placements = place_pending(); !placements.empty()) {
      model_.reserve(pending_.request, placements);
      auto migrated = migrate(chosen);
      const bool all_displaced = std::ranges::all_of(chosen.victims, [&](const Victim& victim) {
        return migrated.contains(victim.gang) || evictable(victim.gang);
      });
      for (const auto& victim : all_displaced ? chosen.victims : std::vector<Victim>()) {
        Step step;
        step.gang = victim.gang;
        step.from = model_.gang(victim.gang).placements;
        step.cost.lost_work = lost_by(model_, victim.gang, cost_model_);
        if (const auto found = migrated.find(victim.gang); found != migrated.end()) {
          step.what = Step::What::kMigrate;
          step.placements = std::move(found->second);
          step.cost.topology = added_topology(victim.gang, step.placements);
        } else {
          step.what = Step::What::kEvict;
          step.cost.waiting = per_s(model_.gang(victim.gang).waiting_per_s, cost_model_.requeue);
        }
        plan.cost.lost_work += step.cost.lost_work;
        plan.cost.waiting += step.cost.waiting;
        plan.cost.topology += step.cost.topology;
        plan.steps.push_back(std::move(step));
      }
      std::ranges::stable_sort(plan.steps, {}, &Step::what);
      model_.unreserve(pending_.request, placements);
      if (all_displaced) add_placement(plan, std::move(placements));
    }
    for (const auto& victim : chosen.victims) model_.revert_eviction(victim.gang);
    model_.sync();
    return plan;
  }
  /// The additional topology cost of a gang in its new placement.
  [[nodiscard]] MicroUsd added_topology(GangId gang, std::span<const PodPlacement> placements) const {
    return std::max<std::int64_t>(
               0, topology_cost(tree(), placements) - topology_cost(tree(), model_.gang(gang).placements)) *
           cost_model_.domain;
  }

  /// Finds new placements for victims that fit elsewhere, each for less than its eviction costs if it
  /// may be evicted. Gangs that may not be evicted come first, then those whose waiting costs most.
  std::map<GangId, std::vector<PodPlacement>> migrate(const VictimSet& chosen) {
    std::map<GangId, std::vector<PodPlacement>> out;
    std::vector<GangId> order;
    for (const auto& [gang, cost] : chosen.victims) {
      if (may_migrate(model_, pending_, gang, cost_model_)) order.push_back(gang);
    }
    const auto wait = [&](GangId gang) {
      return evictable(gang) ? per_s(model_.gang(gang).waiting_per_s, cost_model_.requeue)
                             : std::numeric_limits<MicroUsd>::max();
    };
    std::ranges::stable_sort(order, [&](GangId a, GangId b) { return wait(a) > wait(b); });
    // Free capacity only shrinks here: once some number of pods of a kind did not fit, as many or
    // more are not tried again.
    std::map<std::pair<gang::Kind, Level>, std::int32_t> full;
    for (const auto gang : order) {
      const auto& request = model_.gang(gang).request;
      const auto kind = counted_kind(request, tree());
      const auto pods = static_cast<std::int32_t>(model_.gang(gang).placements.size());
      std::int32_t* none = nullptr;
      if (kind) {
        const std::pair key{*kind, request.gang.required};
        none = &full.try_emplace(key, std::numeric_limits<std::int32_t>::max()).first->second;
      }
      if (none == nullptr || pods < *none) model_.sync();
      if ((none != nullptr && pods >= *none) || !gang::has_place(model_.fleet(), request)) {
        if (none != nullptr) *none = std::min(*none, pods);
        not_migrated_.insert(gang);
        continue;
      }
      const auto answer = gang::place(model_.fleet(), request);
      if (!answer || !answer->placed()) {
        not_migrated_.insert(gang);
        continue;
      }
      auto placements = model_.placements_for(request, *answer);
      if (added_topology(gang, placements) > wait(gang)) {
        not_migrated_.insert(gang);
        continue;
      }
      model_.reserve(request, placements);
      out[gang] = std::move(placements);
    }
    for (const auto& [gang, placements] : out) model_.unreserve(model_.gang(gang).request, placements);
    return out;
  }

  ClusterModel& model_;
  const PendingGang& pending_;
  const CostModel& cost_model_;
  std::int64_t effort_;
  gang::Request least_;
  std::optional<gang::Kind> kind_;
  std::vector<GangId> candidates_;
  std::set<GangId> not_migrated_;  // gangs whose expected migration did not fit
  std::map<gang::Kind, std::int32_t> capacity_;
};

}  // namespace

std::vector<GangId> Plan::displaced() const {
  std::vector<GangId> out;
  for (const auto& step : steps) {
    if (step.what == Step::What::kEvict || step.what == Step::What::kMigrate) out.push_back(step.gang);
  }
  return out;
}

MicroUsd lost_by(const ClusterModel& model, GangId gang, const CostModel& cost_model) {
  const auto& one = model.gang(gang);
  const auto time = std::max(Duration{}, cost_model.now - one.checkpoint) + one.restart;
  return priced(static_cast<Wide>(model.gpu_milli(gang)) * time.count(), cost_model.gpu_second);
}

namespace {

/// The conditions for both eviction and migration.
Status may_leave(const ClusterModel& model, const PendingGang& pending, GangId gang, const CostModel& cost_model) {
  const auto& one = model.gang(gang);
  if (!one.preemptible) return fail(Code::kPermissionDenied, "{} may not be displaced", one.name);
  if (one.min_runtime_until > cost_model.now)
    return fail(Code::kPermissionDenied, "{} has its minimum run time until {}", one.name,
                to_rfc3339(one.min_runtime_until));
  if (pending.victims && std::ranges::find(*pending.victims, gang) == pending.victims->end())
    return fail(Code::kPermissionDenied, "{} is not among the victims that admission allows", one.name);
  return {};
}

}  // namespace

Status may_evict(const ClusterModel& model, const PendingGang& pending, GangId gang, const CostModel& cost_model) {
  const auto& one = model.gang(gang);
  if (!one.evictable) return fail(Code::kPermissionDenied, "{} may not be evicted", one.name);
  if (one.priority >= pending.priority)
    return fail(Code::kPermissionDenied, "{} has priority {}, and {} has {}", one.name, one.priority, pending.name,
                pending.priority);
  return may_leave(model, pending, gang, cost_model);
}

Status may_migrate(const ClusterModel& model, const PendingGang& pending, GangId gang, const CostModel& cost_model) {
  const auto& one = model.gang(gang);
  if (!one.movable) return fail(Code::kPermissionDenied, "{} may not be moved", one.name);
  if (one.priority > pending.priority || (one.priority == pending.priority && !cost_model.peers))
    return fail(Code::kPermissionDenied, "{} has priority {}, and {} has {}", one.name, one.priority, pending.name,
                pending.priority);
  return may_leave(model, pending, gang, cost_model);
}

Status may_displace(const ClusterModel& model, const PendingGang& pending, GangId gang, const CostModel& cost_model) {
  auto may = may_evict(model, pending, gang, cost_model);
  return may || may_migrate(model, pending, gang, cost_model) ? Status() : may;
}

Result<Plan> plan(ClusterModel& model, const PendingGang& pending, const CostModel& cost_model) {
  QM_TRY(gang::check(pending.request, model.tree()));
  return Planner(model, pending, cost_model).run();
}

}  // namespace qm::placement::plan
