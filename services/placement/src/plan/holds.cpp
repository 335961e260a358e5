// Validates a plan against a scene that has changed since, and applies a plan to the scene.
#include "cover.hpp"
#include "qm/base/assert.hpp"
#include "qm/placement/plan/plan.hpp"

#include <algorithm>
#include <map>

namespace qm::placement::plan {
namespace {

constexpr MicroUsd kGrown = 10;  // the cost of a plan may grow by a tenth

/// Checks that the pending gang and the migrated gangs fit, after all victims have left.
Status seats_are_free(Scene& scene, const gang::Request* wish, std::span<const Step> steps, bool even_spare) {
  Status status;
  std::vector<std::pair<const gang::Request*, std::span<const Seat>>> taken;
  for (const auto& step : steps) {
    if (step.seats.empty()) continue;
    const auto& request = step.what == Step::What::kPlace ? *wish : scene.gang(step.gang).request;
    status = scene.has_room(request, step.seats, even_spare);
    if (!status) break;
    scene.take(request, step.seats);
    taken.push_back({&request, step.seats});
  }
  for (const auto& [request, seats] : taken) scene.take(*request, seats, -1);
  return status;
}

bool leaves(const Step& step) { return step.what == Step::What::kEvict || step.what == Step::What::kMigrate; }

Status as_they_were(const Scene& scene, std::span<const Step> steps) {
  for (const auto& step : steps) {
    if (!leaves(step)) continue;
    if (!scene.runs(step.gang)) return fail(Code::kAborted, "gang {} has ended", step.gang);
    if (scene.gang(step.gang).seats != step.from)
      return fail(Code::kAborted, "{} is not where it was", scene.gang(step.gang).name);
  }
  return {};
}

/// Requires that all victims have left. Checks that devices to repartition have the layout that
/// they had, that all other devices of the placements are whole, and that the instances are idle.
Status devices_are_so(const Scene& scene, std::span<const Step> steps) {
  std::map<std::pair<NodeId, std::int32_t>, mig::StateId> after;
  for (const auto& step : steps) {
    if (!step.recut) continue;
    const auto& recut = *step.recut;
    const auto* cut = scene.cut_of(recut.node, recut.device);
    const auto idle = scene.devices(recut.node)[static_cast<std::size_t>(recut.device)] == pack::kDevice;
    if ((cut == nullptr ? mig::kNoState : cut->layout) != recut.before || (cut == nullptr && !idle))
      return fail(Code::kAborted, "device {} of node {} is not cut as it was", recut.device, recut.node);
    after[{recut.node, recut.device}] = recut.after;
    if (cut == nullptr) continue;
    const auto stays =
        recut.after == mig::kNoState ? mig::SpotMask{0} : mig::StateTable::of(cut->family).mask(recut.after);
    if ((mig::StateTable::of(cut->family).mask(cut->used) & ~stays) != 0)
      return fail(Code::kAborted, "somebody has an instance on device {} of node {}", recut.device, recut.node);
  }
  for (const auto& step : steps) {
    for (const auto& seat : step.seats) {
      for (const auto& cut : scene.cuts(seat.node)) {
        if ((seat.devices >> cut.device & 1U) != 0 && !after.contains({seat.node, cut.device}))
          return fail(Code::kAborted, "device {} of node {} has been cut", cut.device, seat.node);
      }
    }
    for (const auto& slice : step.slices) {
      const auto* cut = scene.cut_of(slice.node, slice.device);
      const auto made = after.find({slice.node, slice.device});
      const auto layout = made != after.end() ? made->second : cut != nullptr ? cut->layout : mig::kNoState;
      const auto& table = mig::StateTable::of(scene.family(slice.node).value_or(mig::Family::kSeven));
      if (layout == mig::kNoState || !table.has(layout, slice.spot) ||
          (cut != nullptr && table.has(cut->used, slice.spot)))
        return fail(Code::kAborted, "an instance on device {} of node {} is not to be had", slice.device, slice.node);
    }
  }
  return {};
}

/// Requires that all victims have left. Fails if one of them could stay.
Status all_must_go(Scene& scene, const Wish& wish, std::span<const GangId> gangs) {
  for (const auto gang : gangs) {
    scene.put_back(gang);
    scene.sync();
    const bool enough = gang::has_place(scene.fleet(), wish.request);
    scene.lift(gang);
    if (enough) return fail(Code::kAborted, "there is room though {} stays", scene.gang(gang).name);
  }
  return {};
}

}  // namespace

Status still_holds(Scene& scene, const Wish& wish, const Plan& plan, const Terms& terms) {
  if (!plan.placed()) return fail(Code::kFailedPrecondition, "the plan places nobody");
  const auto gangs = plan.displaced();
  QM_TRY(as_they_were(scene, plan.steps));
  Costs now;
  for (const auto& step : plan.steps) {
    if (!leaves(step)) continue;
    const bool evicted = step.what == Step::What::kEvict;
    if (const auto may =
            evicted ? may_evict(scene, wish, step.gang, terms) : may_migrate(scene, wish, step.gang, terms);
        !may)
      return fail(Code::kAborted, "{}", may.error().message);
    now.lost_work += lost_by(scene, step.gang, terms);
  }
  now.waiting = plan.cost.waiting;
  now.reslicing = plan.cost.reslicing;
  now.topology = plan.cost.topology;
  if (now.total() - plan.cost.total() > plan.cost.total() / kGrown)
    return fail(Code::kAborted, "it costs {} and not {} any more", now.total(), plan.cost.total());
  scene.offer_cut(terms.reslice);
  scene.sync();
  Status status;
  if (!gangs.empty() && wish.slices.empty() && gang::has_place(scene.fleet(), wish.request))
    status = fail(Code::kAborted, "there is room though nobody leaves");
  for (const auto gang : gangs) scene.lift(gang);
  if (status) status = seats_are_free(scene, &wish.request, plan.steps, false);
  if (status) status = devices_are_so(scene, plan.steps);
  if (status && wish.slices.empty()) status = all_must_go(scene, wish, gangs);
  for (const auto gang : gangs) scene.put_back(gang);
  scene.offer_cut(false);
  scene.sync();
  return status;
}

Status moves_hold(Scene& scene, std::span<const Step> steps, bool even_spare) {
  QM_TRY(as_they_were(scene, steps));
  scene.offer_cut(std::ranges::any_of(steps, [](const Step& step) { return step.recut.has_value(); }));
  for (const auto& step : steps) {
    if (leaves(step)) scene.lift(step.gang);
  }
  auto status = seats_are_free(scene, nullptr, steps, even_spare);
  if (status) status = devices_are_so(scene, steps);
  for (const auto& step : steps) {
    if (leaves(step)) scene.put_back(step.gang);
  }
  scene.offer_cut(false);
  scene.sync();
  return status;
}

void carry_out(Scene& scene, std::span<const Step> steps, const Terms& terms) {
  std::map<GangId, std::vector<Seat>> moves;
  for (const auto& step : steps) {
    if (step.what == Step::What::kEvict) scene.remove(step.gang);
    if (step.what == Step::What::kMigrate) moves[step.gang] = step.seats;
  }
  for (const auto& step : steps) {
    if (step.recut && step.recut->after == mig::kNoState) scene.make_whole(step.recut->node, step.recut->device);
    if (step.recut && step.recut->after != mig::kNoState)
      scene.cut(step.recut->node, step.recut->device, *scene.family(step.recut->node), step.recut->after);
  }
  for (const auto& [id, seats] : moves) scene.at(id).checkpoint = terms.now;
  scene.move(std::move(moves));
}

GangId carry_out(Scene& scene, const Wish& wish, const Plan& plan, const Terms& terms) {
  QM_ASSERT(plan.placed(), "a plan that places nobody is carried out");
  carry_out(scene, plan.steps, terms);
  Gang gang;
  gang.name = wish.name;
  gang.priority = wish.priority;
  gang.request = wish.request;
  gang.seats = plan.steps.back().seats;
  gang.slices = plan.steps.back().slices;
  gang.checkpoint = terms.now;
  gang.waiting_per_s = wish.waiting_per_s;
  return scene.add(std::move(gang));
}

}  // namespace qm::placement::plan
