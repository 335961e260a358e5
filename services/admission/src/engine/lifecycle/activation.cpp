#include "lifecycle/activation.hpp"

#include <algorithm>

namespace qm::admission {

void Activation::on(const SetActive& c) {
  const Workload* w = rows_.find_unfinished(c.uid, c.ns, c.name);
  if (w == nullptr) return;
  const WorkloadUid uid = w->spec.uid;
  c.active ? activate(uid) : deactivate(uid, "Deactivated", c.reason.empty() ? "by hand" : c.reason);
  state_.step.reply(PhaseReply{w->phase});
}

void Activation::deactivate(const WorkloadUid& uid, std::string reason, std::string message) {
  const Workload& w = state_.workload(uid);
  if (w.ended() || !w.inactive.empty()) return;
  rows_.update(uid, [&](Workload& row) {
    row.inactive = message.empty() ? reason : fmt::format("{}, {}", reason, message);
    row.requeues = 0;
    row.requeued = Instant{};
    if (row.phase == Phase::kPending) row.not_before = Instant{};
  });
  if (w.phase == Phase::kPending) {
    specs_.refresh_reason(uid);
    return rows_.publish(Event::What::kDeactivated, uid);
  }
  transitions_.evict(uid, reason, message.empty() ? "it was deactivated" : message,
                     state_.now + state_.options.eviction_grace);
}

void Activation::activate(const WorkloadUid& uid) {
  const Workload& w = state_.workload(uid);
  if (w.ended() || w.inactive.empty()) return;
  rows_.update(uid, [](Workload& row) { row.inactive.clear(); });
  specs_.refresh_reason(uid);
  if (w.phase == Phase::kPending) rows_.publish(Event::What::kActivated, uid);
}

void Activation::on(const ActiveUpdated& c) {
  if (state_.tables.workloads.contains(c.uid)) on_active(c.uid, c.active);
}

void Activation::on_active(const WorkloadUid& uid, bool active) {
  const Workload& w = state_.workload(uid);
  if (w.spec_active == active) return;
  rows_.update(uid, [&](Workload& row) { row.spec_active = active; });
  active ? activate(uid) : deactivate(uid, "Deactivated", "its object sets active to false");
}

void Activation::on_pods_ready(const WorkloadUid& uid, bool ready) {
  const Workload& w = state_.workload(uid);
  if (!state_.options.wait_for_pods_ready || w.phase != Phase::kAdmitted || ready == (w.pods_ready != Instant{}))
    return;
  rows_.update(uid, [&](Workload& row) {
    row.pods_ready = ready ? state_.now : Instant{};
    row.pods_lost = ready ? Instant{} : state_.now;
  });
}

void Activation::pods_not_ready(const WorkloadUid& uid) {
  const Workload& w = state_.workload(uid);
  const auto& rule = *state_.options.wait_for_pods_ready;
  if (rule.most_requeues && w.requeues + 1 > *rule.most_requeues) {
    return deactivate(uid, "RequeuingLimitExceeded",
                      fmt::format("its pods were not ready in time, {} times", w.requeues + 1));
  }
  const Duration wait = std::min(rule.backoff_most, rule.backoff * (std::int64_t{1} << std::min(w.requeues, 20)));
  const char* what = w.pods_lost == Instant{} ? "not all of its pods became ready in time"
                                              : "not all of its pods were ready again in time";
  rows_.update(uid, [&](Workload& row) {
    ++row.requeues;
    if (!rule.keeps_age) row.requeued = state_.now;
  });
  transitions_.evict(uid, "PodsReadyTimeout", what, state_.now + state_.options.eviction_grace, state_.now + wait);
}

}  // namespace qm::admission
