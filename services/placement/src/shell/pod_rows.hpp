#pragma once
#include "qm/placement/model.hpp"
#include "shell/wire.hpp"
#include "state/placement_state.pb.h"

namespace qm::placement {

/// Rows of pods, in the manner of rows.cpp.
struct Pods {
  using Message = quartermaster::placement::v1::Pod;
  static constexpr const char* kind = "pod";
  static std::string key(const std::string& uid) { return uid; }
  static Message encode(const std::string& uid, const Pod& pod) {
    const PodFacts& f = pod.facts;
    Message m;
    m.set_uid(uid);
    m.set_namespace_(f.ns);
    m.set_name(f.name);
    m.set_owner(f.owner.value());
    m.set_attempt(f.attempt);
    m.set_pod_set(f.pod_set);
    m.set_index(f.index);
    m.set_node(f.node.value());
    m.set_phase(static_cast<int>(f.phase));
    m.set_deleting(f.deleting);
    m.set_ours(f.ours);
    m.set_daemon(f.daemon);
    *m.mutable_shape() = to_pb(f.shape);
    m.set_controller(f.controller.value());
    m.set_controller_kind(f.controller_kind);
    m.set_plan_node(pod.plan.node.value());
    for (const auto gpu : pod.plan.gpus) m.add_plan_gpus(gpu);
    m.set_foreign(pod.foreign);
    m.set_delete_sent(pod.delete_sent);
    m.set_rules(f.rules);
    m.set_workload_type(f.workload_type);
    m.set_not_ready_s(f.not_ready_s);
    m.set_unreachable_s(f.unreachable_s);
    return m;
  }
  static void restore(const Message& m, Tables& tables) {
    PodFacts f;
    f.uid = m.uid();
    f.ns = m.namespace_();
    f.name = m.name();
    f.owner = WorkloadUid(m.owner());
    f.attempt = m.attempt();
    f.pod_set = m.pod_set();
    f.index = m.index();
    f.node = NodeName(m.node());
    f.phase = static_cast<PodPhase>(m.phase());
    f.deleting = m.deleting();
    f.ours = m.ours();
    f.daemon = m.daemon();
    f.shape = from_pb(m.shape());
    // Rows of earlier releases have no controller: the owner counts as controller until the first complete list.
    f.controller = m.has_controller() ? WorkloadUid(m.controller()) : f.owner;
    f.controller_kind = m.controller_kind();
    f.rules = m.rules();
    f.workload_type = m.workload_type();
    if (m.has_not_ready_s()) f.not_ready_s = m.not_ready_s();
    if (m.has_unreachable_s()) f.unreachable_s = m.unreachable_s();
    const std::string uid = f.uid;
    PlannedBind plan{NodeName(m.plan_node()), {m.plan_gpus().begin(), m.plan_gpus().end()}};
    // In those rows the bound devices are known from the annotation alone.
    if (!m.has_controller() && f.ours && !f.node.empty())
      plan = {f.node, {m.annotated_gpus().begin(), m.annotated_gpus().end()}};
    tables.pods.restore(uid, Pod{std::move(f), m.delete_sent(), std::move(plan), m.foreign()});
  }
};

}  // namespace qm::placement
