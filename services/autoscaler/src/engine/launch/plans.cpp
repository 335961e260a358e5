// Plans and promises.
#include "launch/plans.hpp"

#include <algorithm>

namespace qm::autoscaler {

void Plans::promise(const AttemptId& id, Plan plan) {
  plan.promised_attempt = id.attempt;
  state_.out.promises.push_back({id, plan.ready_by, plan.claims, false});
  tables_.plans.insert(id.uid, std::move(plan));
}

void Plans::withdraw(const WorkloadUid& uid) {
  const Plan* plan = tables_.plans.find(uid);
  if (plan == nullptr) return;
  if (plan->promised_attempt > 0) {
    state_.out.promises.push_back({{uid, plan->promised_attempt}, plan->ready_by, plan->claims, true});
  }
  if ((plan->fruitless == 0 && plan->refusals == 0) || !tables_.demand.contains(uid)) {
    tables_.plans.erase(uid);
  } else if (plan->promised_attempt > 0) {
    tables_.plans.edit(uid).promised_attempt = 0;
  }
}

void Plans::pause(const WorkloadUid& uid) {
  Plan& p = tables_.plans.edit(uid);
  p.not_before = state_.now + options_.pause * (1 << std::min(p.fruitless, 5));
  ++p.fruitless;
  p.refusal.clear();
  withdraw(uid);
}

void Plans::delay(const WorkloadUid& uid, const std::string& reason) {
  constexpr int kDoublings = 3;
  Plan& p = tables_.plans.edit(uid);
  p.not_before = state_.now + options_.launch_retry * (1 << std::min(p.refusals, kDoublings));
  ++p.refusals;
  p.refusal = reason;
  withdraw(uid);
}

void Plans::end_lapsed_plans() {
  std::vector<WorkloadUid> over;
  for (const auto& [uid, plan] : tables_.plans) {
    if (!tables_.demand.contains(uid) && (plan.promised_attempt == 0 || plan.ready_by <= state_.now))
      over.push_back(uid);
  }
  for (const auto& uid : over) withdraw(uid);
}

}  // namespace qm::autoscaler
