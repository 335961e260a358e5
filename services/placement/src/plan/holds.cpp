// A plan against a scene that has moved on, and a plan carried out.
#include "cover.hpp"
#include "qm/base/assert.hpp"
#include "qm/placement/plan/plan.hpp"

#include <algorithm>
#include <map>

namespace qm::placement::plan {
namespace {

constexpr MicroUsd kGrown = 10;  // a plan may cost a tenth more than it said

/// Room for the wish and for who migrates, once all have left that leave.
Status seats_are_free(Scene& scene, const Wish& wish, const Plan& plan) {
  Status status;
  std::vector<std::pair<const gang::Request*, std::span<const Seat>>> taken;
  for (const auto& step : plan.steps) {
    if (step.seats.empty()) continue;
    const auto& request = step.what == Step::What::kPlace ? wish.request : scene.gang(step.gang).request;
    status = scene.has_room(request, step.seats);
    if (!status) break;
    scene.take(request, step.seats);
    taken.push_back({&request, step.seats});
  }
  for (const auto& [request, seats] : taken) scene.take(*request, seats, -1);
  return status;
}

/// All have left. Whether one of them need not have.
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
  Costs now;
  for (const auto& step : plan.steps) {
    if (step.what == Step::What::kPlace) continue;
    if (!scene.runs(step.gang)) return fail(Code::kAborted, "gang {} has ended", step.gang);
    if (const auto may = may_displace(scene, wish, step.gang, terms); !may)
      return fail(Code::kAborted, "{}", may.error().message);
    now.lost_work += lost_by(scene, step.gang, terms);
  }
  now.waiting = plan.cost.waiting;
  now.topology = plan.cost.topology;
  if (now.total() - plan.cost.total() > plan.cost.total() / kGrown)
    return fail(Code::kAborted, "it costs {} and not {} any more", now.total(), plan.cost.total());
  if (!gangs.empty() && gang::has_place(scene.fleet(), wish.request))
    return fail(Code::kAborted, "there is room though nobody leaves");
  for (const auto gang : gangs) scene.lift(gang);
  auto status = seats_are_free(scene, wish, plan);
  if (status) status = all_must_go(scene, wish, gangs);
  for (const auto gang : gangs) scene.put_back(gang);
  scene.sync();
  return status;
}

GangId carry_out(Scene& scene, const Wish& wish, const Plan& plan, const Terms& terms) {
  QM_ASSERT(plan.placed(), "a plan that places nobody is carried out");
  std::map<GangId, std::vector<Seat>> moves;
  Gang gang;
  for (const auto& step : plan.steps) {
    if (step.what == Step::What::kEvict) scene.remove(step.gang);
    if (step.what == Step::What::kMigrate) moves[step.gang] = step.seats;
    if (step.what == Step::What::kPlace) gang.seats = step.seats;
  }
  for (const auto& [id, seats] : moves) scene.at(id).checkpoint = terms.now;
  scene.move(std::move(moves));
  gang.name = wish.name;
  gang.priority = wish.priority;
  gang.request = wish.request;
  gang.checkpoint = terms.now;
  gang.waiting_per_s = wish.waiting_per_s;
  return scene.add(std::move(gang));
}

}  // namespace qm::placement::plan
