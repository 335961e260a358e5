#include "wire.hpp"

#include "qm/wire/model.hpp"

#include <algorithm>

namespace qm::telemetry {
namespace pb = quartermaster::v1;

namespace {

pb::HealthAction to_pb(Action action) {
  switch (action) {
    case Action::kNone:
      return pb::HEALTH_NONE;
    case Action::kWatch:
      return pb::HEALTH_WATCH;
    case Action::kResetGpu:
      return pb::HEALTH_RESET_GPU;
    case Action::kCordon:
      return pb::HEALTH_CORDON;
  }
  return pb::HEALTH_ACTION_UNSPECIFIED;
}
Action from_pb(pb::HealthAction action) {
  if (action == pb::HEALTH_WATCH) return Action::kWatch;
  if (action == pb::HEALTH_RESET_GPU) return Action::kResetGpu;
  return action == pb::HEALTH_CORDON ? Action::kCordon : Action::kNone;
}

}  // namespace

pb::HealthVerdict to_pb(const NodeName& node, const Health& row) {
  pb::HealthVerdict m;
  m.set_node(node.value());
  m.set_action(to_pb(row.action));
  m.set_xid(row.xid);
  m.set_gpu_index(row.gpu_index);
  m.set_gpu_uuid(row.gpu.value());
  m.set_reason(row.reason);
  m.set_at_us(micros(row.at));
  for (const auto& gpu : row.gpus) {
    auto* fault = m.add_gpus();
    fault->set_gpu_index(gpu.gpu_index);
    fault->set_gpu_uuid(gpu.gpu.value());
    fault->set_action(to_pb(gpu.action));
    fault->set_xid(gpu.xid);
    fault->set_reason(gpu.reason);
    fault->set_at_us(micros(gpu.at));
  }
  return m;
}
Health from_pb(const pb::HealthVerdict& m) {
  Health row{from_pb(m.action()), m.xid(), m.gpu_index(), DeviceUuid(m.gpu_uuid()), m.reason(), from_micros(m.at_us())};
  for (const auto& gpu : m.gpus()) {
    row.gpus.push_back({gpu.gpu_index(), DeviceUuid(gpu.gpu_uuid()), from_pb(gpu.action()), gpu.xid(), gpu.reason(),
                        from_micros(gpu.at_us())});
  }
  return row;
}

pb::SpotNotice to_pb(const NodeName& node, const Notice& row) {
  pb::SpotNotice m;
  m.set_node(node.value());
  m.set_instance_id(row.instance.value());
  m.set_action(row.action);
  m.set_at_us(micros(row.at));
  m.set_seen_us(micros(row.seen));
  m.set_kind(row.kind);
  return m;
}
Notice from_pb(const pb::SpotNotice& m) {
  return {InstanceId(m.instance_id()), m.action(), m.kind(), from_micros(m.at_us()), from_micros(m.seen_us())};
}

pb::DeviceObservation to_pb(const DevicesUpdated& seen) {
  pb::DeviceObservation m;
  m.set_node(seen.node.value());
  m.set_at_us(micros(seen.at));
  for (const auto& pod : seen.pods) {
    auto* p = m.add_pods();
    p->set_namespace_(pod.ns.value());
    p->set_pod(pod.pod);
    for (const auto& d : pod.devices) *p->add_devices() = wire::to_pb(d);
  }
  return m;
}
DevicesUpdated from_pb(const pb::DeviceObservation& m) {
  DevicesUpdated seen{NodeName(m.node()), from_micros(m.at_us()), {}};
  for (const auto& p : m.pods()) {
    DevicesUpdated::Pod pod{Namespace(p.namespace_()), p.pod(), {}};
    for (const auto& d : p.devices()) pod.devices.push_back(wire::from_pb(d));
    std::sort(pod.devices.begin(), pod.devices.end());
    seen.pods.push_back(std::move(pod));
  }
  std::sort(seen.pods.begin(), seen.pods.end());
  return seen;
}

pb::CheckpointAck to_pb(const AckUpdated& a) {
  pb::CheckpointAck m;
  m.set_order_id(a.order);
  m.set_uid(a.id.uid.value());
  m.set_attempt(a.id.attempt);
  m.set_node(a.node.value());
  m.set_ranks(a.ranks);
  m.set_step(a.step);
  m.set_uri(a.uri);
  m.set_at_us(micros(a.at));
  m.set_ok(a.ok);
  m.set_message(a.message);
  m.set_namespace_(a.ns);
  m.set_number(a.number);
  for (const auto& save : a.saves) *m.add_saves() = wire::to_pb(save);
  return m;
}
AckUpdated from_pb(const pb::CheckpointAck& m) {
  AckUpdated out{m.order_id(),
                 {WorkloadUid(m.uid()), m.attempt()},
                 NodeName(m.node()),
                 m.ranks(),
                 m.step(),
                 m.uri(),
                 m.message(),
                 m.ok(),
                 from_micros(m.at_us()),
                 m.namespace_(),
                 m.number()};
  for (const auto& save : m.saves()) out.saves.push_back(wire::from_pb(save));
  return out;
}

pb::UsageInterval to_pb(const UsageUpdated& u) {
  pb::UsageInterval m;
  m.set_node(u.node.value());
  m.set_gpu_index(u.gpu_index);
  m.set_gpu_uuid(u.gpu.value());
  m.set_from_us(micros(u.from));
  m.set_to_us(micros(u.to));
  m.set_namespace_(u.ns.value());
  m.set_pod(u.pod);
  m.set_utilization(u.utilization);
  m.set_samples(u.samples);
  m.set_energy_mj(u.energy_mj);
  return m;
}
UsageUpdated from_pb(const pb::UsageInterval& m) {
  return {NodeName(m.node()),
          m.gpu_index(),
          DeviceUuid(m.gpu_uuid()),
          from_micros(m.from_us()),
          from_micros(m.to_us()),
          Namespace(m.namespace_()),
          m.pod(),
          m.utilization(),
          m.samples(),
          m.energy_mj()};
}

}  // namespace qm::telemetry
