// Causes of workloads that hold quota.
#include "lifecycle/spec_updates.hpp"
#include "queries/causes.hpp"
#include "quota/scale_up.hpp"
#include "state/cause.hpp"

namespace qm::admission {
namespace {

std::string show_dollars(std::int64_t micro_usd) {
  return fmt::format("${:.2f}", static_cast<double>(micro_usd) / 1e6);
}

std::string show_workloads(std::size_t count) { return fmt::format("{} workload{}", count, count == 1 ? "" : "s"); }

}  // namespace

void explain_gate(const EngineState& state, const Workload& w, std::vector<Cause>& causes) {
  for (const auto& [name, answer] : w.checks) {
    if (answer.verdict == Verdict::kReady) continue;
    Cause c;
    c.code = "UnsatisfiedAdmissionCheck";
    c.message = fmt::format("quota is reserved; admission check {} is {}{}{}", name, name_of(answer.verdict),
                            answer.message.empty() ? "" : ": ", answer.message);
    const auto* check = state.tables.admission_checks.find(name);
    c.remedy = check == nullptr || check->controller.empty() ? "its controller must answer it"
                                                             : fmt::format("{} must answer it", check->controller);
    causes.push_back(std::move(c));
  }
  if (!causes.empty()) return;
  Cause c;
  if (w.spec.pods_expected) {
    c.code = "PodsPending";
    c.message = "quota is reserved; none of its pods exists yet";
    c.remedy = "its PodGroup is Inqueue, so its controller should create them; check the owner of the PodGroup";
    causes.push_back(std::move(c));
    return;
  }
  c.code = "WaitingForPodsReady";
  c.message = fmt::format("quota is reserved; not all pods of {} earlier workload{} are ready",
                          state.indexes.starting.size(), state.indexes.starting.size() == 1 ? "" : "s");
  c.remedy = "workloads start one after the other; check the pods of those";
  causes.push_back(std::move(c));
}
void explain_proposal(const Tables& tables, const Workload& w, std::vector<Cause>& causes) {
  const ProposalDecision* row = tables.proposals.find(w.spec.uid);
  if (row == nullptr || row->attempt != w.attempt) return;
  Cause c;
  if (!row->accepted) {
    c.code = "ProposalRefused";
    c.message =
        fmt::format("placement proposed victims of a preemption, and the proposal was refused: {}", row->reason);
    return causes.push_back(std::move(c));
  }
  std::string names;
  for (const auto& uid : row->victims) {
    const Workload* victim = tables.workloads.find(uid);
    names += names.empty() ? "" : ", ";
    names += victim == nullptr ? uid.value() : fmt::format("{}/{}", victim->spec.ns, victim->spec.name);
  }
  c.code = "PreemptionInProgress";
  c.message = fmt::format("quota is reserved; preempting {}: {} (cost {})", show_workloads(row->victims.size()), names,
                          show_dollars(row->micro_usd));
  causes.push_back(std::move(c));
}
void explain_update(const EngineState& state, const Workload& w, std::vector<Cause>& causes) {
  if (!w.rejected().empty()) {
    causes.push_back(cause_of("UpdateRejected",
                              fmt::format("it runs as admitted; its update is rejected: {}", w.rejected()),
                              "correct the object; each update of it is parsed again"));
  } else if (w.scale_up_pending()) {
    for (auto& cause : scale_up_obstacles(state, w)) {
      causes.push_back(cause_of("ScaleUpPending", fmt::format("{}: {}", scale_up_of(w), cause.message), cause.remedy));
      causes.back().resource = cause.resource;
      causes.back().requested = cause.requested;
      causes.back().available = cause.available;
    }
  } else if (w.next() != nullptr && !differences(w.spec, *w.next()).empty()) {
    causes.push_back(
        cause_of("UpdateNotFollowed",
                 fmt::format("its object changed since it got quota ({}); the update is used at its next attempt",
                             differences(w.spec, *w.next())),
                 "to use the update now, delete the object and create it again"));
  }
}

}  // namespace qm::admission
