#pragma once
#include "qm/placement/model.hpp"
#include "shell/wire.hpp"
#include "state/placement_state.pb.h"

namespace qm::placement {

/// Writes places to a row.
template <class Into>
void write_places(const std::vector<HeldCapacity>& places, Into& into) {
  for (const auto& place : places) {
    auto* p = into.Add();
    p->set_set(place.set);
    p->set_index(place.index);
    p->set_node(place.node.value());
    for (const auto& device : place.devices) *p->add_devices() = to_pb(device);
  }
}
template <class From>
std::vector<HeldCapacity> read_places(const From& from) {
  std::vector<HeldCapacity> out;
  for (const auto& p : from) {
    auto& place = out.emplace_back(HeldCapacity{p.set(), p.index(), NodeName(p.node()), {}});
    for (const auto& device : p.devices()) place.devices.push_back(from_pb(device));
  }
  return out;
}

/// Rows of proposals, in the manner of rows.cpp.
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
      write_places(victim.to, *v->mutable_to());
    }
    write_places(proposal.places, *m.mutable_places());
    m.set_micro_usd(proposal.micro_usd);
    m.set_lost_micro_usd(proposal.lost_micro_usd);
    m.set_made_us(micros(proposal.made));
    m.set_said_us(micros(proposal.published_at));
    m.set_publish_count(proposal.publish_count);
    for (const auto& [kept, until] : proposal.refused) (*m.mutable_refused_until_us())[kept.value()] = micros(until);
    m.set_refusals(proposal.refusals);
    m.set_next_us(micros(proposal.next));
    m.set_last(proposal.last);
    m.set_until_us(micros(proposal.until));
    m.set_move(proposal.move);
    for (const auto& [node, layout] : proposal.repartitions) (*m.mutable_repartitions())[node.value()] = layout;
    return m;
  }
  static void restore(const Message& m, Tables& tables) {
    Proposal out;
    out.state = static_cast<ProposalState>(m.state());
    out.number = m.number();
    out.attempt = m.attempt();
    for (const auto& v : m.victims())
      out.victims.push_back({{WorkloadUid(v.uid()), v.attempt()}, v.gpu_ms(), read_places(v.to())});
    out.places = read_places(m.places());
    out.move = m.move();
    out.micro_usd = m.micro_usd();
    out.lost_micro_usd = m.lost_micro_usd();
    out.made = from_micros(m.made_us());
    out.published_at = from_micros(m.said_us());
    out.publish_count = m.publish_count();
    for (const auto& [kept, until] : m.refused_until_us()) out.refused[WorkloadUid(kept)] = from_micros(until);
    out.refusals = m.refusals();
    out.next = from_micros(m.next_us());
    out.last = m.last();
    out.until = from_micros(m.until_us());
    for (const auto& [node, layout] : m.repartitions()) out.repartitions[NodeName(node)] = layout;
    tables.proposals.restore(WorkloadUid(m.uid()), std::move(out));
  }
};

/// The row of the defragmentation plan that is being executed.
struct DefragRuns {
  using Message = quartermaster::placement::v1::DefragRun;
  static constexpr const char* kind = "defrag_run";
  static std::string key(int) { return "defrag_run"; }
  static Message encode(int, const DefragRun& run) {
    Message m;
    for (const DefragStep& step : run.steps) {
      auto* s = m.add_steps();
      for (const NodeName& node : step.nodes) s->add_nodes(node.value());
      s->set_gpus(step.gpus);
      for (const auto& move : step.moves) {
        auto* one = s->add_moves();
        one->set_uid(move.id.uid.value());
        one->set_attempt(move.id.attempt);
        write_places(move.places, *one->mutable_places());
        one->set_gpu_ms(move.gpu_ms);
        one->set_lost_micro_usd(move.lost_micro_usd);
      }
    }
    m.set_made_us(micros(run.made));
    m.set_nodes(run.nodes);
    m.set_gpus(run.gpus);
    m.set_moves(run.moves);
    m.set_gpu_ms(run.gpu_ms);
    m.set_lost_micro_usd(run.lost_micro_usd);
    m.set_reclaimed(run.reclaimed);
    m.set_next_us(micros(run.next));
    m.set_hour_us(micros(run.hour));
    m.set_asked(run.asked);
    for (const auto& [kept, until] : run.refused) (*m.mutable_refused_until_us())[kept.value()] = micros(until);
    m.set_last(run.last);
    return m;
  }
  static void restore(const Message& m, Tables& tables) {
    DefragRun out;
    for (const auto& s : m.steps()) {
      auto& step = out.steps.emplace_back();
      for (const auto& node : s.nodes()) step.nodes.emplace_back(node);
      step.gpus = s.gpus();
      for (const auto& one : s.moves()) {
        step.moves.push_back(
            {{WorkloadUid(one.uid()), one.attempt()}, read_places(one.places()), one.gpu_ms(), one.lost_micro_usd()});
      }
    }
    out.made = from_micros(m.made_us());
    out.nodes = m.nodes();
    out.gpus = m.gpus();
    out.moves = m.moves();
    out.gpu_ms = m.gpu_ms();
    out.lost_micro_usd = m.lost_micro_usd();
    out.reclaimed = m.reclaimed();
    out.next = from_micros(m.next_us());
    out.hour = from_micros(m.hour_us());
    out.asked = m.asked();
    for (const auto& [kept, until] : m.refused_until_us()) out.refused[WorkloadUid(kept)] = from_micros(until);
    out.last = m.last();
    tables.defrag_run.restore(0, std::move(out));
  }
};

}  // namespace qm::placement
