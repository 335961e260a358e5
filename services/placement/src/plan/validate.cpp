// Validates a plan against a model that has changed since, and applies a plan to the model.
#include "cover.hpp"
#include "qm/base/assert.hpp"
#include "qm/placement/plan/plan.hpp"

#include <algorithm>
#include <map>

namespace qm::placement::plan {
namespace {

constexpr MicroUsd kGrowth = 10;  // the cost of a plan may grow by a tenth

/// Checks that the pending gang and the migrated gangs fit, after all victims have left.
Status check_capacity(ClusterModel& model, const gang::Request* pending, std::span<const Step> steps) {
  Status status;
  std::vector<std::pair<const gang::Request*, std::span<const PodPlacement>>> taken;
  for (const auto& step : steps) {
    if (step.placements.empty()) continue;
    const auto& request = step.what == Step::What::kPlace ? *pending : model.gang(step.gang).request;
    status = model.has_capacity(request, step.placements);
    if (!status) break;
    model.reserve(request, step.placements);
    taken.push_back({&request, step.placements});
  }
  for (const auto& [request, placements] : taken) model.unreserve(*request, placements);
  return status;
}

bool displaces(const Step& step) { return step.what == Step::What::kEvict || step.what == Step::What::kMigrate; }

Status check_unchanged(const ClusterModel& model, std::span<const Step> steps) {
  for (const auto& step : steps) {
    if (!displaces(step)) continue;
    if (!model.runs(step.gang)) return fail(Code::kAborted, "gang {} has ended", step.gang);
    if (model.gang(step.gang).placements != step.from)
      return fail(Code::kAborted, "{} has other placements than the plan", model.gang(step.gang).name);
  }
  return {};
}

/// Requires that all victims have left. Fails if one of them could stay.
Status check_all_needed(ClusterModel& model, const PendingGang& pending, std::span<const GangId> gangs) {
  for (const auto gang : gangs) {
    model.revert_eviction(gang);
    model.sync();
    const bool enough = gang::has_place(model.fleet(), pending.request);
    model.apply_eviction(gang);
    if (enough) return fail(Code::kAborted, "the gang fits without the eviction of {}", model.gang(gang).name);
  }
  return {};
}

}  // namespace

Status still_holds(ClusterModel& model, const PendingGang& pending, const Plan& plan, const CostModel& cost_model) {
  if (!plan.placed()) return fail(Code::kFailedPrecondition, "the plan places no gang");
  const auto gangs = plan.displaced();
  QM_TRY(check_unchanged(model, plan.steps));
  Costs now;
  for (const auto& step : plan.steps) {
    if (!displaces(step)) continue;
    const bool evicted = step.what == Step::What::kEvict;
    if (const auto may = evicted ? may_evict(model, pending, step.gang, cost_model)
                                 : may_migrate(model, pending, step.gang, cost_model);
        !may)
      return fail(Code::kAborted, "{}", may.error().message);
    now.lost_work += lost_by(model, step.gang, cost_model);
  }
  now.waiting = plan.cost.waiting;
  now.topology = plan.cost.topology;
  if (now.total() - plan.cost.total() > plan.cost.total() / kGrowth)
    return fail(Code::kAborted, "the cost has grown from {} to {} micro-dollars, by more than a tenth",
                plan.cost.total(), now.total());
  model.sync();
  Status status;
  if (!gangs.empty() && gang::has_place(model.fleet(), pending.request))
    status = fail(Code::kAborted, "the gang fits without any eviction");
  for (const auto gang : gangs) model.apply_eviction(gang);
  if (status) status = check_capacity(model, &pending.request, plan.steps);
  if (status) status = check_all_needed(model, pending, gangs);
  for (const auto gang : gangs) model.revert_eviction(gang);
  model.sync();
  return status;
}

Status validate_moves(ClusterModel& model, std::span<const Step> steps) {
  QM_TRY(check_unchanged(model, steps));
  for (const auto& step : steps) {
    if (displaces(step)) model.apply_eviction(step.gang);
  }
  const auto status = check_capacity(model, nullptr, steps);
  for (const auto& step : steps) {
    if (displaces(step)) model.revert_eviction(step.gang);
  }
  model.sync();
  return status;
}

void apply_plan(ClusterModel& model, std::span<const Step> steps, const CostModel& cost_model) {
  std::map<GangId, std::vector<PodPlacement>> moves;
  for (const auto& step : steps) {
    if (step.what == Step::What::kEvict) model.remove(step.gang);
    if (step.what == Step::What::kMigrate) moves[step.gang] = step.placements;
  }
  for (const auto& [id, placements] : moves) model.at(id).checkpoint = cost_model.now;
  model.move(std::move(moves));
}

GangId apply_plan(ClusterModel& model, const PendingGang& pending, const Plan& plan, const CostModel& cost_model) {
  QM_ASSERT(plan.placed(), "a plan that places no gang cannot be applied");
  apply_plan(model, plan.steps, cost_model);
  Gang gang;
  gang.name = pending.name;
  gang.priority = pending.priority;
  gang.request = pending.request;
  gang.placements = plan.steps.back().placements;
  gang.checkpoint = cost_model.now;
  return model.add(std::move(gang));
}

}  // namespace qm::placement::plan
