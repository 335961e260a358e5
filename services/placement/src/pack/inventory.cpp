#include "qm/placement/pack/inventory.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>

namespace qm::placement::pack {
namespace {

constexpr std::size_t kLittle = 1024;  // smaller lists are not compacted

}  // namespace

// ---- nodes and their states ----

NodeId Inventory::add(const NodeState& state) {
  const auto node = static_cast<NodeId>(state_of_.size());
  state_of_.push_back(kNone);
  set(node, state);
  return node;
}

void Inventory::set(NodeId node, const NodeState& value) {
  const StateId now = state_of_[node];
  if (now != kNone && states_[now].value == value) return;
  leave(node);
  const StateId id = intern(value);
  State& state = states_[id];
  state_of_[node] = id;
  const bool leads = state.count == 0 || node < first_of(state);
  if (state.count++ == 0) ++alive_;
  if (state.nodes.size() > kLittle && state.nodes.size() > 2 * state.count) compact(state, id);
  state.nodes.push_back(node);
  std::push_heap(state.nodes.begin(), state.nodes.end(), std::greater<>());
  if (leads) write(id);
}

void Inventory::remove(NodeId node) {
  leave(node);
  state_of_[node] = kNone;
}

const NodeState* Inventory::state_of(NodeId node) const {
  return state_of_[node] == kNone ? nullptr : &states_[state_of_[node]].value;
}

void Inventory::leave(NodeId node) {
  if (state_of_[node] == kNone) return;
  State& state = states_[state_of_[node]];
  state_of_[node] = kNone;
  if (--state.count > 0) return;
  state.nodes.clear();
  --alive_;
}

Inventory::StateId Inventory::intern(const NodeState& value) {
  if (const StateId* known = id_of_.find(value)) return *known;
  if (spare_.empty() && states_.size() > kLittle && states_.size() > 2 * alive_) sweep();
  StateId id = static_cast<StateId>(states_.size());
  if (spare_.empty()) {
    states_.emplace_back();
  } else {
    id = spare_.back();
    spare_.pop_back();
  }
  states_[id].value = value;
  states_[id].scores = policy_.scores_of(value);
  id_of_.emplace(value, id);
  return id;
}

/// The smallest node of a state that has nodes.
NodeId Inventory::first_of(State& state) {
  const auto id = static_cast<StateId>(&state - states_.data());
  while (state_of_[state.nodes.front()] != id) {
    std::pop_heap(state.nodes.begin(), state.nodes.end(), std::greater<>());
    state.nodes.pop_back();
  }
  return state.nodes.front();
}

/// Removes the nodes that have left the state, and duplicates.
void Inventory::compact(State& state, StateId id) {
  std::erase_if(state.nodes, [&](NodeId node) { return state_of_[node] != id; });
  std::ranges::sort(state.nodes);
  state.nodes.erase(std::unique(state.nodes.begin(), state.nodes.end()), state.nodes.end());
}

/// Frees the ids of states that no node has. The entries of agendas and journal for them are
/// discarded as well.
void Inventory::sweep() {
  for (StateId id = 0; id < states_.size(); ++id) {
    if (states_[id].count > 0) continue;
    id_of_.erase(states_[id].value);
    states_[id].written = 0;
    spare_.push_back(id);
  }
  journal_base_ += journal_.size() + 1;  // every agenda is now behind the journal and is rebuilt
  journal_.clear();
}

// ---- agendas ----

void Inventory::write(StateId id) {
  journal_.push_back(id);
  states_[id].written = journal_base_ + journal_.size();
  if (journal_.size() > kLittle && journal_.size() > 4 * alive_) {
    // For a reader that is this far behind, a full scan of all states is faster.
    const auto drop = journal_.size() / 2;
    journal_.erase(journal_.begin(), journal_.begin() + static_cast<std::ptrdiff_t>(drop));
    journal_base_ += drop;
  }
}

ClassId Inventory::class_of(const PodClass& pod) {
  const auto [known, added] = class_of_.try_emplace(pod, static_cast<ClassId>(agendas_.size()));
  if (!added) return known->second;
  if (agendas_.size() < kAgendas) {
    agendas_.emplace_back();
  } else {
    // The class that was requested least recently is evicted.
    const auto oldest = std::ranges::min_element(agendas_, {}, &Agenda::asked);
    known->second = static_cast<ClassId>(oldest - agendas_.begin());
    class_of_.erase(oldest->pod);
  }
  Agenda& agenda = agendas_[known->second];
  agenda.pod = pod;
  begin(agenda);
  return known->second;
}

void Inventory::offer(Agenda& agenda, StateId id) {
  State& state = states_[id];
  if (state.count == 0 || !fits(state.value, agenda.pod)) return;
  const Choice choice = policy_.weigh(state.value, state.scores, agenda.pod);
  agenda.heap.push_back({choice.score, first_of(state), id, choice.device_milli});
}

void Inventory::begin(Agenda& agenda) {
  agenda.heap.clear();
  for (StateId id = 0; id < states_.size(); ++id) offer(agenda, id);
  std::make_heap(agenda.heap.begin(), agenda.heap.end());
  agenda.read = journal_base_ + journal_.size();
}

void Inventory::catch_up(Agenda& agenda) {
  const auto end = journal_base_ + journal_.size();
  if (agenda.read < journal_base_ || agenda.heap.size() > kLittle + 4 * alive_) return begin(agenda);
  for (; agenda.read < end; ++agenda.read) {
    const StateId id = journal_[agenda.read - journal_base_];
    if (states_[id].written != agenda.read + 1) continue;  // a later journal entry of the same state follows
    const auto before = agenda.heap.size();
    offer(agenda, id);
    if (agenda.heap.size() > before) std::push_heap(agenda.heap.begin(), agenda.heap.end());
  }
}

std::optional<Found> Inventory::best(const PodClass& pod) {
  Agenda& agenda = agendas_[class_of(pod)];
  agenda.asked = ++asked_;
  catch_up(agenda);
  auto& heap = agenda.heap;
  while (!heap.empty()) {
    const Entry top = heap.front();
    State& state = states_[top.state];
    const NodeId first = state.count == 0 ? 0 : first_of(state);
    if (state.count > 0 && first == top.first) return Found{first, {top.score, top.device_milli}};
    std::pop_heap(heap.begin(), heap.end());
    if (state.count > 0 && first > top.first) {
      heap.back().first = first;  // its first node has left, other nodes of the state remain
      std::push_heap(heap.begin(), heap.end());
    } else {
      heap.pop_back();  // no node has this state, or a node with a smaller id joined it and has an entry of its own
    }
  }
  return std::nullopt;
}

std::optional<Found> Inventory::place(const PodClass& pod) {
  const auto found = best(pod);
  if (found) set(found->node, with(states_[state_of_[found->node]].value, pod, found->choice.device_milli));
  return found;
}

void Inventory::audit() {
  std::size_t alive = 0;
  for (StateId id = 0; id < states_.size(); ++id) {
    const auto count = std::ranges::count(state_of_, id);
    QM_ASSERT(count == states_[id].count, "state {} counts {} nodes of {}", id, states_[id].count, count);
    alive += count > 0 ? 1 : 0;
  }
  QM_ASSERT(alive == alive_, "{} states are counted of {}", alive_, alive);
  const auto classes = class_of_;
  for (const auto& [pod, id] : classes) {
    std::optional<Found> expected;
    for (NodeId node = 0; node < state_of_.size(); ++node) {
      const NodeState* state = state_of(node);
      if (state == nullptr || !fits(*state, pod)) continue;
      const Choice choice = policy_.choose(*state, pod);
      if (!expected || choice.score > expected->choice.score) expected = Found{node, choice};
    }
    const auto found = best(pod);
    QM_ASSERT(found.has_value() == expected.has_value(), "class {} finds {} of {}", id, found.has_value(),
              expected.has_value());
    QM_ASSERT(!found || (found->node == expected->node && found->choice.score == expected->choice.score),
              "class {} finds node {} where {} is best", id, found->node, expected->node);
  }
}

}  // namespace qm::placement::pack
