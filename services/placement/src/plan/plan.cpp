// For each domain the planner computes which gangs would have to leave it and a lower bound of their cost.
// In the cheapest domains it chooses the victims, places the pending gang and migrates the victims that fit
// elsewhere. A victim that was expected to migrate and does not fit counts as evicted in the next round.
#include "qm/placement/plan/plan.hpp"

#include "cover.hpp"
#include "qm/base/assert.hpp"
#include "slices.hpp"

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
  Planner(Scene& scene, const Wish& wish, const Terms& terms)
      : scene_(scene),
        wish_(wish),
        terms_(terms),
        effort_(terms.effort),
        least_(least_of(wish.request)),
        kind_(counted_kind(least_, scene.tree())) {}

  Plan run() {
    for (const bool anew : {false, true}) {
      if (anew && !terms_.reslice) break;
      if (anew) scene_.offer_cut(true);
      if (auto plain = seat_wish(); !plain.empty()) {
        Plan plan;
        plan.exact = true;
        make_whole(plan, plain);
        add_wish(plan, std::move(plain));
        scene_.offer_cut(false);
        scene_.sync();
        return plan;
      }
    }
    who_may_go();
    Plan best;
    const auto look = [&] {
      auto plan = cheapest(best);
      if (plan.placed() && (!best.placed() || plan.cost.total() < best.cost.total())) best = std::move(plan);
    };
    const bool stay = std::ranges::any_of(may_go_, [&](GangId gang) { return !evictable(gang); });
    for (int round = 0, most = stay ? kMoreRounds : kRounds; round < most; ++round) {
      const auto missed = missed_.size();
      look();
      if (missed_.size() == missed) break;
    }
    if (stay) {  // evictions alone may cost less, or be the only plan
      std::erase_if(may_go_, [&](GangId gang) { return !evictable(gang); });
      look();
    }
    scene_.offer_cut(false);
    scene_.sync();
    if (best.placed() && wish_.otherwise && per_s(wish_.waiting_per_s, *wish_.otherwise) < best.cost.total()) {
      best.verdict = Plan::Verdict::kWait;
      best.steps.clear();
    }
    return best;
  }

 private:
  [[nodiscard]] const gang::Tree& tree() const { return scene_.tree(); }

  /// The placement of the pending gang in the current state; empty if it does not fit.
  std::vector<Seat> seat_wish() {
    scene_.sync();
    const auto answer = gang::place(scene_.fleet(), wish_.request);
    QM_ASSERT(answer.has_value(), "a request that was checked is invalid");
    return answer->placed() ? scene_.seats_for(wish_.request, *answer) : std::vector<Seat>{};
  }
  void add_wish(Plan& plan, std::vector<Seat> seats) const {
    Step step;
    step.seats = std::move(seats);
    step.cost.topology = topology_cost(tree(), step.seats) * terms_.domain;
    plan.cost.topology += step.cost.topology;
    plan.steps.push_back(std::move(step));
    plan.verdict = Plan::Verdict::kPlaced;
  }

  /// Adds a step for each partitioned device that the placement uses as a whole GPU.
  void make_whole(Plan& plan, std::span<const Seat> seats) const {
    for (const auto& seat : seats) {
      for (const auto& cut : scene_.cuts(seat.node)) {
        if ((seat.devices >> cut.device & 1U) == 0) continue;
        const auto& table = mig::StateTable::of(cut.family);
        Step step;
        step.what = Step::What::kReslice;
        step.recut = Recut{seat.node, cut.device, cut.layout, mig::kNoState, {}, {}};
        for (mig::SpotId spot = 0; spot < table.spots().size(); ++spot) {
          if (table.has(cut.layout, spot)) step.recut->destroy.push_back(spot);
        }
        step.cost.reslicing =
            terms_.reslicing.enable + terms_.reslicing.destroy * static_cast<MicroUsd>(step.recut->destroy.size());
        plan.cost.reslicing += step.cost.reslicing;
        plan.steps.push_back(std::move(step));
      }
    }
  }

  // ---- which gangs ----

  void who_may_go() {
    const auto offer = [&](GangId gang) {
      if (scene_.runs(gang) && may_displace(scene_, wish_, gang, terms_) && !scene_.gang(gang).seats.empty())
        may_go_.push_back(gang);
    };
    if (wish_.victims) {
      std::set<GangId> once(wish_.victims->begin(), wish_.victims->end());
      for (const auto gang : once) offer(gang);
    } else {
      for (GangId gang = 0; gang < scene_.gangs(); ++gang) offer(gang);
    }
  }
  [[nodiscard]] MicroUsd evicting(GangId gang) const {
    return lost_by(scene_, gang, terms_) + per_s(scene_.gang(gang).waiting_per_s, terms_.requeue);
  }
  [[nodiscard]] bool evictable(GangId gang) const { return may_evict(scene_, wish_, gang, terms_).has_value(); }
  [[nodiscard]] bool migrates(GangId gang) const {
    return !missed_.contains(gang) && may_migrate(scene_, wish_, gang, terms_).has_value();
  }
  bool seems_to_find_room(GangId gang) {
    const auto& one = scene_.gang(gang);
    const auto kind = counted_kind(one.request, tree());
    if (!kind) return true;
    auto& takes = room_.try_emplace(*kind, -1).first->second;
    if (takes < 0) takes = scene_.fleet().room(*kind).takes({});
    return takes >= static_cast<std::int32_t>(one.seats.size());
  }
  /// The expected cost of displacing the gang. If it seems to fit elsewhere, no waiting is added.
  /// Returns nothing if it would have to wait and may not be evicted.
  std::optional<MicroUsd> leaving(GangId gang) {
    if (migrates(gang) && seems_to_find_room(gang)) return lost_by(scene_, gang, terms_);
    if (!evictable(gang)) return std::nullopt;
    return evicting(gang);
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
    for (const auto gang : may_go_) {
      if (const auto cost = leaving(gang)) all.push_back({gang, *cost});
    }
    std::vector<Place> out;
    const auto required = top(wish_.request, tree(), 0).level;
    const auto deepest = kind_ ? std::max(required, std::min(wish_.request.gang.preferred, tree().depth())) : required;
    for (auto level = deepest; level >= required; --level) {
      std::vector<std::vector<Victim>> of(tree().size(level));
      for (const auto& victim : all) {
        std::uint32_t last = std::numeric_limits<std::uint32_t>::max();
        for (const auto& seat : scene_.gang(victim.gang).seats) {
          const auto domain = tree().above({tree().depth(), seat.node}, level).index;
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
      } else if (!scene_.lost(here.index) && !scene_.spare(here.index)) {
        missing -= scene_.state(here.index).free_milli();
      }
    }
    std::vector<std::pair<MicroUsd, std::int64_t>> offers;  // cost, and milli-GPU in this domain
    std::int64_t offered = 0;
    for (const auto& victim : place.victims) {
      // If a gang releases an instance, its device may become whole.
      const auto devices = static_cast<std::int64_t>(scene_.gang(victim.gang).slices.size());
      const auto milli = scene_.gpu_milli(victim.gang) + devices * pack::kDevice;
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
    std::size_t asked = 0;
    for (const auto& place : places()) {
      if (place.bound >= best_cost) break;
      if (asked >= kDomains) {
        exact = false;
        break;
      }
      auto chosen = choose(place);
      if (!chosen) continue;
      exact = exact && chosen->exact;
      ++asked;
      if (chosen->cost >= best_cost) continue;
      auto plan = carried(*chosen);
      if (!plan.placed() || plan.cost.total() >= best_cost) continue;
      best_cost = plan.cost.total();
      best = std::move(plan);
    }
    best.exact = exact && kind_.has_value();
    return best;
  }

  /// Chooses the victims for a placement in this domain. In the end only the required domain
  /// counts: a victim is dropped if the gang fits anywhere in that domain without its eviction.
  std::optional<Chosen> choose(const Place& place) {
    auto chosen = covered(place.domain, place.victims, effort_, kind_.has_value());
    if (!chosen || !kind_) return chosen;
    const auto required = tree().above(place.domain, top(wish_.request, tree(), 0).level);
    const auto inside = [&](const Seat& seat) { return tree().within({tree().depth(), seat.node}, required); };
    const bool elsewhere = std::ranges::any_of(chosen->victims, [&](const Victim& victim) {
      return !std::ranges::all_of(scene_.gang(victim.gang).seats, inside);
    });
    if (place.domain == required && !elsewhere) return chosen;
    std::int64_t no_more = 0;
    auto fewer = covered(required, chosen->victims, no_more, !elsewhere);
    if (fewer) fewer->exact = chosen->exact;
    return fewer;
  }
  std::optional<Chosen> covered(Domain domain, std::span<const Victim> victims, std::int64_t& effort, bool counted) {
    for (const auto& victim : victims) scene_.lift(victim.gang);
    std::optional<Chosen> chosen;
    if (counted) {
      Counting question(scene_, *kind_, least_.gang.sets[0].count, domain);
      chosen = cover(question, victims, effort);
    } else {
      Asking question(scene_, least_);
      chosen = cover(question, victims, effort);
    }
    for (const auto& victim : victims) scene_.put_back(victim.gang);
    return chosen;
  }

  // ---- how ----

  /// The steps that displace the victims and place the pending gang; no steps if a victim neither
  /// fits elsewhere nor may be evicted.
  Plan carried(const Chosen& chosen) {
    Plan plan;
    for (const auto& victim : chosen.victims) scene_.lift(victim.gang);
    if (auto seats = seat_wish(); !seats.empty()) {
      scene_.take(wish_.request, seats);
      auto migrants = migrate(chosen);
      const bool all_leave = std::ranges::all_of(chosen.victims, [&](const Victim& victim) {
        return migrants.contains(victim.gang) || evictable(victim.gang);
      });
      for (const auto& victim : all_leave ? chosen.victims : std::vector<Victim>()) {
        Step step;
        step.gang = victim.gang;
        step.from = scene_.gang(victim.gang).seats;
        step.cost.lost_work = lost_by(scene_, victim.gang, terms_);
        if (const auto found = migrants.find(victim.gang); found != migrants.end()) {
          step.what = Step::What::kMigrate;
          step.seats = std::move(found->second);
          step.cost.topology = further(victim.gang, step.seats);
        } else {
          step.what = Step::What::kEvict;
          step.cost.waiting = per_s(scene_.gang(victim.gang).waiting_per_s, terms_.requeue);
        }
        plan.cost.lost_work += step.cost.lost_work;
        plan.cost.waiting += step.cost.waiting;
        plan.cost.topology += step.cost.topology;
        plan.steps.push_back(std::move(step));
      }
      for (std::size_t i = 0, leaving = plan.steps.size(); i < leaving; ++i) {
        const auto own = plan.steps[i].seats;
        make_whole(plan, own);
      }
      make_whole(plan, seats);
      std::ranges::stable_sort(plan.steps, {}, &Step::what);
      scene_.take(wish_.request, seats, -1);
      if (all_leave) add_wish(plan, std::move(seats));
    }
    for (const auto& victim : chosen.victims) scene_.put_back(victim.gang);
    scene_.sync();
    return plan;
  }
  /// The additional topology cost of a gang in its new placement.
  [[nodiscard]] MicroUsd further(GangId gang, std::span<const Seat> seats) const {
    return std::max<std::int64_t>(0, topology_cost(tree(), seats) - topology_cost(tree(), scene_.gang(gang).seats)) *
           terms_.domain;
  }

  /// Finds new placements for victims that fit elsewhere, each for less than its eviction costs if it
  /// may be evicted. Gangs that may not be evicted come first, then those whose waiting costs most.
  std::map<GangId, std::vector<Seat>> migrate(const Chosen& chosen) {
    std::map<GangId, std::vector<Seat>> out;
    std::vector<GangId> order;
    for (const auto& [gang, cost] : chosen.victims) {
      if (may_migrate(scene_, wish_, gang, terms_)) order.push_back(gang);
    }
    const auto wait = [&](GangId gang) {
      return evictable(gang) ? per_s(scene_.gang(gang).waiting_per_s, terms_.requeue)
                             : std::numeric_limits<MicroUsd>::max();
    };
    std::ranges::stable_sort(order, [&](GangId a, GangId b) { return wait(a) > wait(b); });
    // Free capacity only shrinks here: once some number of pods of a kind did not fit, as many or
    // more are not tried again.
    std::map<std::pair<gang::Kind, Level>, std::int32_t> full;
    for (const auto gang : order) {
      const auto& request = scene_.gang(gang).request;
      const auto kind = counted_kind(request, tree());
      const auto pods = static_cast<std::int32_t>(scene_.gang(gang).seats.size());
      std::int32_t* none = nullptr;
      if (kind) {
        const std::pair key{*kind, request.gang.required};
        none = &full.try_emplace(key, std::numeric_limits<std::int32_t>::max()).first->second;
      }
      if (none == nullptr || pods < *none) scene_.sync();
      if ((none != nullptr && pods >= *none) || !gang::has_place(scene_.fleet(), request)) {
        if (none != nullptr) *none = std::min(*none, pods);
        missed_.insert(gang);
        continue;
      }
      const auto answer = gang::place(scene_.fleet(), request);
      if (!answer || !answer->placed()) {
        missed_.insert(gang);
        continue;
      }
      auto seats = scene_.seats_for(request, *answer);
      if (further(gang, seats) > wait(gang)) {
        missed_.insert(gang);
        continue;
      }
      scene_.take(request, seats);
      out[gang] = std::move(seats);
    }
    for (const auto& [gang, seats] : out) scene_.take(scene_.gang(gang).request, seats, -1);
    return out;
  }

  Scene& scene_;
  const Wish& wish_;
  const Terms& terms_;
  std::int64_t effort_;
  gang::Request least_;
  std::optional<gang::Kind> kind_;
  std::vector<GangId> may_go_;
  std::set<GangId> missed_;  // gangs whose expected migration did not fit
  std::map<gang::Kind, std::int32_t> room_;
};

}  // namespace

std::vector<GangId> Plan::displaced() const {
  std::vector<GangId> out;
  for (const auto& step : steps) {
    if (step.what == Step::What::kEvict || step.what == Step::What::kMigrate) out.push_back(step.gang);
  }
  return out;
}

MicroUsd lost_by(const Scene& scene, GangId gang, const Terms& terms) {
  const auto& one = scene.gang(gang);
  const auto time = std::max(Duration{}, terms.now - one.checkpoint) + one.restart;
  return priced(static_cast<Wide>(scene.gpu_milli(gang)) * time.count(), terms.gpu_second);
}

namespace {

/// The conditions for both eviction and migration.
Status may_leave(const Scene& scene, const Wish& wish, GangId gang, const Terms& terms) {
  const auto& one = scene.gang(gang);
  if (!one.touchable) return fail(Code::kPermissionDenied, "{} may not be displaced", one.name);
  if (one.stays_until > terms.now)
    return fail(Code::kPermissionDenied, "{} has its minimum run time until {}", one.name, to_rfc3339(one.stays_until));
  if (wish.victims && std::ranges::find(*wish.victims, gang) == wish.victims->end())
    return fail(Code::kPermissionDenied, "{} is not among those that admission lets go", one.name);
  return {};
}

}  // namespace

Status may_evict(const Scene& scene, const Wish& wish, GangId gang, const Terms& terms) {
  const auto& one = scene.gang(gang);
  if (!one.evictable) return fail(Code::kPermissionDenied, "{} may not be evicted", one.name);
  if (one.priority >= wish.priority)
    return fail(Code::kPermissionDenied, "{} has priority {}, {} only {}", one.name, one.priority, wish.name,
                wish.priority);
  return may_leave(scene, wish, gang, terms);
}

Status may_migrate(const Scene& scene, const Wish& wish, GangId gang, const Terms& terms) {
  const auto& one = scene.gang(gang);
  if (!terms.migrate || !one.movable || !one.slices.empty())
    return fail(Code::kPermissionDenied, "{} may not be moved", one.name);
  if (one.priority > wish.priority || (one.priority == wish.priority && !terms.peers))
    return fail(Code::kPermissionDenied, "{} has priority {}, {} only {}", one.name, one.priority, wish.name,
                wish.priority);
  return may_leave(scene, wish, gang, terms);
}

Status may_displace(const Scene& scene, const Wish& wish, GangId gang, const Terms& terms) {
  auto may = may_evict(scene, wish, gang, terms);
  return may || may_migrate(scene, wish, gang, terms) ? Status() : may;
}

Result<Plan> plan(Scene& scene, const Wish& wish, const Terms& terms) {
  QM_TRY(gang::check(wish.request, scene.tree()));
  if (!wish.slices.empty()) return plan_slices(scene, wish, terms);
  return Planner(scene, wish, terms).run();
}

}  // namespace qm::placement::plan
