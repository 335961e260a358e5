#pragma once
#include "qm/placement/model.hpp"
#include "shell/wire.hpp"
#include "state/placement_state.pb.h"

namespace qm::placement {

/// Rows of proposals, as rows.cpp has the others.
struct Proposals {
  using Message = quartermaster::placement::v1::Proposal;
  static constexpr const char* kind = "proposal";
  static std::string key(const WorkloadUid& uid) { return uid.value(); }
  static Message encode(const WorkloadUid& uid, const Proposal& proposal) {
    Message m;
    m.set_uid(uid.value());
    m.set_state(static_cast<int>(proposal.state));
    m.set_number(proposal.number);
    m.set_attempt(proposal.attempt);
    for (const auto& victim : proposal.victims) {
      auto* v = m.add_victims();
      v->set_uid(victim.id.uid.value());
      v->set_attempt(victim.id.attempt);
      v->set_gpu_ms(victim.gpu_ms);
    }
    for (const auto& place : proposal.places) {
      auto* p = m.add_places();
      p->set_set(place.set);
      p->set_index(place.index);
      p->set_node(place.node.value());
      for (const auto& device : place.devices) *p->add_devices() = to_pb(device);
    }
    m.set_micro_usd(proposal.micro_usd);
    m.set_lost_micro_usd(proposal.lost_micro_usd);
    m.set_made_us(micros(proposal.made));
    m.set_said_us(micros(proposal.said));
    m.set_said_times(proposal.said_times);
    for (const auto& [kept, until] : proposal.kept) (*m.mutable_kept_until_us())[kept.value()] = micros(until);
    m.set_refusals(proposal.refusals);
    m.set_next_us(micros(proposal.next));
    m.set_last(proposal.last);
    m.set_until_us(micros(proposal.until));
    return m;
  }
  static void restore(const Message& m, Tables& tables) {
    Proposal out;
    out.state = static_cast<ProposalState>(m.state());
    out.number = m.number();
    out.attempt = m.attempt();
    for (const auto& v : m.victims()) out.victims.push_back({{WorkloadUid(v.uid()), v.attempt()}, v.gpu_ms()});
    for (const auto& p : m.places()) {
      out.places.push_back({p.set(), p.index(), NodeName(p.node()), {}});
      for (const auto& device : p.devices()) out.places.back().devices.push_back(from_pb(device));
    }
    out.micro_usd = m.micro_usd();
    out.lost_micro_usd = m.lost_micro_usd();
    out.made = from_micros(m.made_us());
    out.said = from_micros(m.said_us());
    out.said_times = m.said_times();
    for (const auto& [kept, until] : m.kept_until_us()) out.kept[WorkloadUid(kept)] = from_micros(until);
    out.refusals = m.refusals();
    out.next = from_micros(m.next_us());
    out.last = m.last();
    out.until = from_micros(m.until_us());
    tables.proposals.restore(WorkloadUid(m.uid()), std::move(out));
  }
};

}  // namespace qm::placement
