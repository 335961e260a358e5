// The pod sets of an assignment to place on nodes, and the result if there are no nodes.
#include "qm/admission/kueue/flavors.hpp"

#include <algorithm>

namespace qm::admission::kueue {

/// A pod set without requests, whose pods are not counted either, gets the flavors with nodes of its group.
void FlavorAssigner::inherit_group_tas_flavors(const Work& work, std::span<const std::size_t> sets,
                                               Assignment& out) const {
  if (pods_ && rules_.group_of(*pods_) != nullptr) return;
  for (const auto set : sets) {
    auto& own = out.sets[set].flavors;
    if (!work.pod_sets[set].each.empty()) continue;
    for (const auto other : sets) {
      if (other == set) continue;
      for (const auto& choice : out.sets[other].flavors) {
        const bool there = std::ranges::find(own, choice.resource, &FlavorChoice::resource) != own.end();
        if (topologies_->has(choice.flavor) && !there) own.push_back(choice);
      }
    }
  }
}

bool FlavorAssigner::to_be_placed(const PodSet& set, const Assignment::Set& made) const {
  return made.count > 0 && set.nodes != nullptr && (set.has_topology() || rules_.topology_only);
}

std::vector<NodeRequest> FlavorAssigner::node_requests(const Work& work, const Assignment& assignment) const {
  std::vector<NodeRequest> out;
  if (topologies_ == nullptr) return out;
  for (std::size_t i = 0; i < assignment.sets.size(); ++i) {
    const auto& set = work.pod_sets[i];
    const auto& made = assignment.sets[i];
    if (!to_be_placed(set, made)) continue;
    const auto choice =
        std::ranges::find_if(made.flavors, [&](const FlavorChoice& c) { return topologies_->has(c.flavor); });
    if (choice == made.flavors.end() || placement_fault(work, assignment, i)) continue;
    if (std::ranges::find(rules_.delayed, choice->flavor) != rules_.delayed.end()) continue;
    out.push_back({i, choice->flavor, *set.nodes});
    out.back().request.count = made.count;
    out.back().request.implied = !set.has_topology();
  }
  return out;
}

std::optional<Why> FlavorAssigner::placement_fault(const Work& work, const Assignment& assignment,
                                                   std::size_t set) const {
  const auto& made = assignment.sets[set];
  if (!to_be_placed(work.pod_sets[set], made)) return std::nullopt;
  const auto has_nodes = [&](const auto& one) { return topologies_ != nullptr && topologies_->has(one.flavor); };
  Why why;
  const auto& asked = work.pod_sets[set].nodes->topology;
  if (work.elastic && topologies_ != nullptr && topologies_->gates().elastic && asked &&
      (asked->required || asked->preferred)) {
    why.kind = Why::Kind::kElastic;
    why.refusal.detail = asked->required ? "required" : "preferred";
    return why;
  }
  const auto any = [&](const QueueRules::Group& group) { return std::ranges::any_of(group.options, has_nodes); };
  if (std::ranges::none_of(rules_.groups, any)) {
    why.kind = Why::Kind::kNoTopologies;
    return why;
  }
  for (const auto& choice : made.flavors) {
    const bool known = std::ranges::find(why.flavors, choice.flavor) != why.flavors.end();
    if (!known && has_nodes(choice)) why.flavors.push_back(choice.flavor);
  }
  if (why.flavors.size() == 1) return std::nullopt;
  why.kind = why.flavors.empty() ? Why::Kind::kNoTopology : Why::Kind::kSeveralTopologies;
  return why;
}

/// `empty`: it would not fit on unused nodes either.
void FlavorAssigner::fail_placement(const Placing& placing, std::span<const NodeRequest> wanted, bool empty,
                                    Assignment& out) const {
  auto& set = out.sets[*placing.failed];
  const auto flavor = std::ranges::find(wanted, *placing.failed, &NodeRequest::set)->flavor;
  // The current obstacle is reported; the one on unused nodes only if nothing else blocks it.
  if (!empty || set.taken_to_fit) {
    const Refusal no{flavor, Refusal::Why::kNoLevel, placing.reason};
    set.whys.push_back({.kind = Why::Kind::kTopologyPlacementFailed, .flavor = flavor, .refusal = no});
  }
  set.taken_to_fit = false;
  for (auto& choice : set.flavors) choice.mode = empty ? Mode::kNoFit : Mode::kPreempt;
  if (!empty) return;
  set.fits_nothing = true;
  set.block(flavor, NoFit::kTopologyPlacementFailed);
  for (auto& [one, reason] : set.blocked) {
    if (one == flavor) reason = NoFit::kTopologyPlacementFailed;  // instead of the reason for quota
  }
  const auto attempt = std::ranges::find(set.attempts, flavor, &Attempt::flavor);
  if (attempt == set.attempts.end()) return;
  attempt->value.mode = Mode::kNoFit;
  attempt->no_fit = NoFit::kTopologyPlacementFailed;
}

void FlavorAssigner::place(const Work& work, Assignment& out) const {
  if (out.mode() == Mode::kNoFit) return;
  bool faults = false;
  for (std::size_t i = 0; i < out.sets.size(); ++i) {
    if (auto fault = placement_fault(work, out, i)) {
      faults = out.sets[i].fits_nothing = true;
      out.sets[i].whys.push_back(std::move(*fault));
    }
  }
  if (faults || topologies_ == nullptr) return;
  const auto wanted = node_requests(work, out);
  if (wanted.empty()) return;
  if (out.mode() == Mode::kFit) {
    auto placing = topologies_->place(wanted, {});
    if (!placing.failed) {
      out.placed = std::move(placing.placed);
      out.on_nodes = topologies_->uses_of(out.placed);
      return;
    }
    fail_placement(placing, wanted, false, out);
  }
  const auto empty = topologies_->place(wanted, {.empty = true});
  if (empty.failed) {
    fail_placement(empty, wanted, true, out);
    return;
  }
  for (const auto& node_request : wanted) {
    auto& set = out.sets[node_request.set];
    set.taken_to_fit = false;
    for (auto& choice : set.flavors) choice.mode = Mode::kPreempt;
  }
}

}  // namespace qm::admission::kueue
