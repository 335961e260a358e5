#include "event_rows.hpp"

#include "qm/wire/encode.hpp"
#include "qm/wire/model.hpp"

#include <optional>

namespace qm::autoscaler {

st::ScalingGroup message(const ScalingGroup& g) {
  st::ScalingGroup row;
  row.set_min(g.min);
  row.set_max(g.max);
  row.set_desired(g.desired);
  row.set_warm(g.warm);
  row.set_failed_at_us(g.failed_at ? micros(*g.failed_at) : 0);
  row.set_failure(g.failure);
  for (const auto& m : g.members) {
    auto* member = row.add_members();
    member->set_instance(m.instance.value());
    member->set_lifecycle(m.lifecycle);
    member->set_scale_in_protected(m.scale_in_protected);
  }
  for (const auto& h : g.hooks) {
    auto* hook = row.add_hooks();
    hook->set_name(h.name);
    hook->set_launching(h.launching);
    hook->set_heartbeat_us(h.heartbeat.count());
  }
  return row;
}
std::string bytes(const ScalingGroup& g) { return wire::encode(message(g)); }

ScalingGroup scaling_group_of(const st::ScalingGroup& row) {
  ScalingGroup g{row.min(),
                 row.max(),
                 row.desired(),
                 row.warm(),
                 row.failed_at_us() == 0 ? std::nullopt : std::optional(from_micros(row.failed_at_us())),
                 row.failure(),
                 {},
                 {}};
  for (const auto& m : row.members())
    g.members.push_back({InstanceId(m.instance()), m.lifecycle(), m.scale_in_protected()});
  for (const auto& h : row.hooks()) g.hooks.push_back({h.name(), h.launching(), Duration(h.heartbeat_us())});
  return g;
}

std::string bytes(const HookWait& w) {
  st::HookWait row;
  row.set_launching(w.launching);
  row.set_since_us(micros(w.since));
  row.set_answered_us(micros(w.answered));
  row.set_continued(w.continued);
  return wire::encode(row);
}

std::string bytes(const Order& o) {
  st::Order row;
  row.set_uid(o.id.uid.value());
  row.set_attempt(o.id.attempt);
  row.set_taken(o.taken.value());
  for (const auto& node : o.save.nodes) row.add_nodes(node.value());
  row.set_ordered_us(micros(o.ordered));
  row.set_deadline_us(micros(o.save.deadline));
  row.set_number(o.save.fence.number);
  row.set_quorum(o.save.quorum);
  for (const auto& answer : o.save.answers) {
    auto* a = row.add_acks();
    a->set_node(answer.node.value());
    a->set_ranks(answer.ranks);
    for (const auto& save : answer.saves) *a->add_saves() = wire::to_pb(save);
    a->set_refusal(answer.refusal);
  }
  row.set_outcome(o.outcome);
  row.set_why(o.why);
  *row.mutable_saved() = wire::to_pb(o.saved);
  row.set_reason(o.reason);
  row.set_ns(o.ns);
  row.set_kind(o.kind);
  row.set_evicts(o.evicts);
  return wire::encode(row);
}

Order order_of(const st::Order& m) {
  Order o;
  o.id = {WorkloadUid(m.uid()), m.attempt()};
  o.taken = NodeName(m.taken());
  o.ordered = from_micros(m.ordered_us());
  o.outcome = m.outcome();
  o.why = m.why();
  o.saved = wire::from_pb(m.saved());
  o.reason = m.reason().empty() ? reason_of(NoticeKind::kSpot) : m.reason();
  o.ns = m.ns();
  o.kind = m.kind();
  o.evicts = m.evicts() || m.number() == 0;
  o.save.fence = {m.attempt(), m.number()};
  o.save.quorum = m.quorum();
  o.save.deadline = from_micros(m.deadline_us());
  for (const auto& n : m.nodes()) o.save.nodes.emplace_back(n);
  for (const auto& a : m.acks()) {
    checkpoint::Answer answer{NodeName(a.node()), o.save.fence, a.ranks(), {}, a.refusal()};
    for (const auto& save : a.saves()) answer.saves.push_back(wire::from_pb(save));
    o.save.answers.push_back(std::move(answer));
  }
  return o;
}
std::string bytes(const CheckpointRow& c) {
  st::Checkpoint row;
  row.set_attempt(c.fence.attempt);
  row.set_number(c.fence.number);
  *row.mutable_saved() = wire::to_pb(c.saved);
  row.set_at_us(micros(c.at));
  return wire::encode(row);
}
std::string bytes(const ScheduleRow& s) {
  st::Schedule row;
  row.set_last_us(micros(s.last));
  row.set_interval_us(s.interval.count());
  return wire::encode(row);
}

std::string bytes(const InstanceNoticeRow& n) {
  st::InstanceNotice row;
  row.set_at_us(micros(n.at));
  row.set_seen_us(micros(n.seen));
  return wire::encode(row);
}

std::string bytes(const ReservedCapacity& r) {
  st::ReservedCapacity row;
  row.set_type(r.reservation.type);
  row.set_zone(r.reservation.zone);
  row.set_block(r.reservation.block);
  row.set_start_us(micros(r.reservation.start));
  if (r.reservation.end) row.set_end_us(micros(*r.reservation.end));
  row.set_count(r.reservation.count);
  row.set_others(r.others);
  for (const auto& name : r.classes) row.add_classes(name);
  return wire::encode(row);
}

ReservedCapacity reserved_capacity_of(const std::string& id, const st::ReservedCapacity& row) {
  ReservedCapacity out;
  out.reservation = {id, row.type(), row.zone(), row.block(), from_micros(row.start_us()), std::nullopt, row.count()};
  if (row.has_end_us()) out.reservation.end = from_micros(row.end_us());
  out.others = row.others();
  out.classes.assign(row.classes().begin(), row.classes().end());
  return out;
}

NoticeKind notice_kind(std::string_view reason) {
  for (const auto kind :
       {NoticeKind::kRebalance, NoticeKind::kMaintenance, NoticeKind::kLifecycle, NoticeKind::kReservationEnd}) {
    if (reason == reason_of(kind)) return kind;
  }
  return NoticeKind::kSpot;
}

}  // namespace qm::autoscaler
