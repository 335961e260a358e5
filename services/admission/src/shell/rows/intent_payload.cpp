#include "rows/intent_payload.hpp"

#include "qm/admission/translate/translate.hpp"
#include "qm/wire/encode.hpp"
#include "qm/wire/model.hpp"
#include "state/admission_state.pb.h"

namespace qm::admission {
namespace {

namespace state = quartermaster::admission;

/// The nodes of the pods of a pod set, in order of rank; none where admission did not assign any.
void add_domains(const Workload& w, const std::string& pod_set,
                 google::protobuf::RepeatedPtrField<state::NodeDomain>& out) {
  const auto nodes = w.nodes().find(pod_set);
  if (nodes == w.nodes().end()) return;
  const auto& [levels, domains] = nodes->second;
  for (const auto& domain : domains) {
    auto& added = *out.Add();
    for (std::size_t i = 0; i < levels.size(); ++i) (*added.mutable_node_selector())[levels[i]] = domain.values[i];
    added.set_count(static_cast<std::int32_t>(domain.count));
  }
}

}  // namespace

std::string payload_of(const Intent& intent, const Engine& engine) {
  const Workload& w = intent.workload;
  state::JobIntent out;
  out.set_namespace_(w.spec.ns.value());
  out.set_name(w.spec.name);
  out.set_uid(w.spec.uid.value());
  out.set_attempt(w.attempt);
  out.set_reservation(w.reservation);
  out.set_resume_uri(w.resume_uri);
  out.set_object(intent.object);
  out.set_reason(intent.reason);
  out.set_kind(w.spec.kind);
  if (intent.kind == "job.unsuspend") out.set_spec_print(w.spec_print);
  if (w.eviction) out.set_deadline_us(micros(w.eviction->deadline));
  if (w.spec.kind == "Job" && intent.kind == "job.unsuspend" && !w.counts.empty()) {
    out.set_parallelism(w.counts.front());
  }
  if (w.spec.kind != "Job" && intent.kind == "job.unsuspend") {
    for (const auto& set : w.spec.pod_sets) {
      auto& effect_out = *out.add_sets();
      const auto effect = pod_effect(w, set.name, engine);
      effect_out.set_name(set.name);
      effect_out.set_count(set.count);
      // The node selector of a template is written in full; that of a pod is already on the pod.
      if (!is_pods(w.spec.kind)) {
        for (const auto& [key, value] : set.shape.node_selector) (*effect_out.mutable_node_selector())[key] = value;
      }
      for (const auto& [key, value] : effect.node_selector) (*effect_out.mutable_node_selector())[key] = value;
      for (const auto& t : effect.tolerations) *effect_out.add_tolerations() = wire::to_pb(t);
      effect_out.mutable_labels()->insert(effect.labels.begin(), effect.labels.end());
      effect_out.mutable_annotations()->insert(effect.annotations.begin(), effect.annotations.end());
      add_domains(w, set.name, *effect_out.mutable_domains());
    }
  } else if (intent.kind == "job.unsuspend" && !w.spec.pod_sets.empty()) {
    // A Job has one template, so the first pod set represents all.
    const auto& set = w.spec.pod_sets.front();
    const auto effect = pod_effect(w, set.name, engine);
    for (const auto& [key, value] : set.shape.node_selector) (*out.mutable_node_selector())[key] = value;
    for (const auto& [key, value] : effect.node_selector) (*out.mutable_node_selector())[key] = value;
    for (const auto& t : effect.tolerations) *out.add_tolerations() = wire::to_pb(t);
    out.mutable_labels()->insert(effect.labels.begin(), effect.labels.end());
    out.mutable_annotations()->insert(effect.annotations.begin(), effect.annotations.end());
    add_domains(w, set.name, *out.mutable_domains());
  }
  return wire::encode(out);
}

}  // namespace qm::admission
