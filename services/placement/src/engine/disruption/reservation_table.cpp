#include "engine/disruption/reservation_table.hpp"

#include <algorithm>

namespace qm::placement {
namespace {

std::vector<HeldCapacity> on_node(const std::vector<HeldCapacity>& places, const NodeName& node) {
  std::vector<HeldCapacity> out;
  std::ranges::copy_if(places, std::back_inserter(out), [&](const HeldCapacity& place) { return place.node == node; });
  return out;
}

}  // namespace

void ReservationTable::put(HoldSource source, const Row& row, const NodeName& node,
                           std::vector<Reservation> reservations) {
  by_node_[node][{source, row}] = std::move(reservations);
  by_row_[static_cast<std::size_t>(source)][row].insert(node);
}

void ReservationTable::erase(HoldSource source, const Row& row, const NodeName& node) {
  auto& rows = by_row_[static_cast<std::size_t>(source)];
  const auto held = rows.find(row);
  if (held == rows.end() || held->second.erase(node) == 0) return;
  if (held->second.empty()) rows.erase(held);
  const auto here = by_node_.find(node);
  here->second.erase({source, row});
  if (here->second.empty()) by_node_.erase(here);
}

void ReservationTable::erase(HoldSource source, const Row& row) {
  for (const NodeName& node : std::set<NodeName>(nodes(source, row))) erase(source, row, node);
}

const ReservationTable::OnNode& ReservationTable::on(const NodeName& node) const {
  static const OnNode none;
  const auto here = by_node_.find(node);
  return here == by_node_.end() ? none : here->second;
}

bool ReservationTable::holds(HoldSource source, const NodeName& node) const {
  return std::ranges::any_of(on(node), [&](const auto& entry) { return entry.first.first == source; });
}

std::set<ReservationTable::Row> ReservationTable::rows_on(HoldSource source, const NodeName& node) const {
  std::set<Row> out;
  for (const auto& [key, reservations] : on(node)) {
    if (key.first == source) out.insert(key.second);
  }
  return out;
}

const std::set<NodeName>& ReservationTable::nodes(HoldSource source, const Row& row) const {
  static const std::set<NodeName> none;
  const auto& of_source = rows(source);
  const auto held = of_source.find(row);
  return held == of_source.end() ? none : held->second;
}

const std::map<ReservationTable::Row, std::set<NodeName>>& ReservationTable::rows(HoldSource source) const {
  return by_row_[static_cast<std::size_t>(source)];
}

void put_reservations(ReservationTable& table, const WorkloadUid& uid, const Proposal& row) {
  std::set<AttemptId> victims;
  for (const auto& victim : row.victims) victims.insert(victim.id);
  for (const NodeName& node : row.nodes()) {
    std::vector<Reservation> held;
    for (const auto& victim : row.victims) {
      if (auto places = on_node(victim.to, node); !places.empty())
        held.push_back({victim.id.uid, std::move(places), {}, false, Instant::max()});
    }
    const bool drains = row.repartitions.contains(node);
    if (auto places = on_node(row.places, node); !places.empty() || drains)
      held.push_back({uid, std::move(places), victims, drains,
                      row.state == ProposalState::kRecovering ? row.until : Instant::max()});
    table.put(HoldSource::kProposal, uid, node, std::move(held));
  }
}

void put_reservations(ReservationTable& table, const DefragRun& run) {
  table.erase(HoldSource::kDefragmentation, {});
  if (!run.is_active()) return;
  const DefragStep& step = run.steps.front();
  for (const NodeName& node : held_nodes(run)) {
    std::vector<Reservation> held;
    for (const auto& move : step.moves) {
      if (auto places = on_node(move.places, node); !places.empty())
        held.push_back({move.id.uid, std::move(places), {}, false, Instant::max()});
    }
    if (std::ranges::find(step.nodes, node) != step.nodes.end()) held.push_back({{}, {}, {}, true, Instant::max()});
    table.put(HoldSource::kDefragmentation, {}, node, std::move(held));
  }
}

}  // namespace qm::placement
