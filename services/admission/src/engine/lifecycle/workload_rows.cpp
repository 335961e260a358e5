#include "lifecycle/workload_rows.hpp"

namespace qm::admission {

void WorkloadRows::erase(const WorkloadUid& uid) {
  const Workload& w = state_.workload(uid);
  reindex(state_.indexes, w, marks_of(state_, w), {});
  state_.indexes.decisions.drop(uid);
  state_.tables.workloads.erase(uid);
}

void WorkloadRows::publish(Event::What what, const WorkloadUid& uid) {
  Workload& w = state_.tables.workloads.edit(uid);
  ++w.version;
  state_.step.out.events.push_back({what, w, state_.now});
}

void WorkloadRows::add_intent(const char* kind, const WorkloadUid& uid, std::string object, std::string reason) {
  update(uid, [](Workload& w) {
    ++w.intents;
    ++w.open_intents;
  });
  const Workload& w = state_.workload(uid);
  // Keyed by the name of the job, like its creation: a creation with a lost result completes before the job is deleted.
  // Otherwise its retry would create the job again.
  state_.step.out.intents.push_back({kind, fmt::format("{}/{}/{}/{}", kind, uid, w.attempt, w.intents),
                                     fmt::format("{}/{}", w.spec.ns, w.spec.name), w, std::move(object),
                                     std::move(reason)});
}

const Workload* WorkloadRows::find_unfinished(const WorkloadUid& uid, const Namespace& ns, const std::string& name) {
  const Workload* w = uid.empty() ? state_.find(ns, name) : state_.tables.workloads.find(uid);
  if (w == nullptr) {
    state_.step.reply(fail({Code::kNotFound,
                            uid.empty() ? fmt::format("workload {}/{} is not known", ns, name)
                                        : fmt::format("no workload has the uid {}", uid),
                            uid.empty() ? "name" : "uid", "list the workloads of the namespace"}));
  } else if (w->ended()) {
    state_.step.reply(fail({Code::kFailedPrecondition,
                            fmt::format("workload {}/{} is {}", w->spec.ns, w->spec.name, name_of(w->phase)),
                            {},
                            "its state is final"}));
    w = nullptr;
  }
  return w;
}

}  // namespace qm::admission
