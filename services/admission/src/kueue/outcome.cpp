#include "qm/admission/kueue/outcome.hpp"

#include "qm/admission/kueue/any_fit.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace qm::admission::kueue {
namespace {

/// Its nodes once its victims are gone; without victims, its nodes if all nodes were unused.
void find_nodes(Topologies& topologies, const std::vector<NodeRequest>& node_requests, Nomination& out) {
  for (const auto& target : out.targets) topologies.give_back(target.work->on_nodes);
  auto placing = topologies.place(node_requests, {.empty = out.targets.empty()});
  for (const auto& target : out.targets) topologies.take(target.work->on_nodes);
  out.assignment.placed = std::move(placing.placed);
  out.assignment.on_nodes = topologies.uses_of(out.assignment.placed);
}

}  // namespace

Nomination nominate(QuotaState& field, const Work& work, const Assignment* same_as) {
  Victims victims(field);
  const auto& rules = field.rules[static_cast<std::size_t>(work.queue)];
  const FlavorAssigner assigner(field.tree, rules, victims, field.fair_sharing, field.pods, field.topologies.get());
  const auto attempt = [&](std::span<const std::int32_t> counts) {
    Nomination made{assigner.assign(work, counts, same_as), {}};
    if (made.assignment.mode() == Mode::kPreempt) {
      made.targets = victims.find({work, made.assignment.contested(), assigner.total_requests(work, made.assignment),
                                   assigner.node_requests(work, made.assignment)});
    }
    return made;
  };
  Nomination out = attempt({});
  if (!out.good() && field.shrinks) {
    std::optional<Nomination> fewer;
    (void)reduce(work.pod_sets, [&](std::span<const std::int32_t> counts) {
      auto made = attempt(counts);
      const bool good = made.good();
      if (good) fewer = std::move(made);
      return good;
    });
    if (fewer) out = std::move(*fewer);
  }
  if (field.topologies != nullptr && out.assignment.mode() == Mode::kPreempt) {
    find_nodes(*field.topologies, assigner.node_requests(work, out.assignment), out);
  }
  return out;
}

Assignment explain(QuotaState& field, const Work& work) {
  Victims victims(field);
  const auto& rules = field.rules[static_cast<std::size_t>(work.queue)];
  return FlavorAssigner(field.tree, rules, victims, field.fair_sharing, field.pods, field.topologies.get())
      .explain(work);
}

bool fits_once_they_left(QuotaState& field, const Work& work) {
  std::vector<const Work*> leaving;
  for (const auto& holders : field.holders) {
    std::ranges::copy_if(holders, std::back_inserter(leaving), &Work::evicted);
  }
  for (const auto* one : leaving) field.give_back(one->queue, one->usage, one->on_nodes);
  const bool fits = any_fit(field, work).has_value();
  for (const auto* one : leaving) field.take(one->queue, one->usage, one->on_nodes);
  return fits;
}

std::string_view name_of(Wait wait) {
  switch (wait) {
    case Wait::kWaitingForQuota:
      return "WaitingForQuota";
    case Wait::kExceedsMaxQuota:
      return "ExceedsMaxQuota";
    case Wait::kNoMatchingFlavor:
      return "NoMatchingFlavor";
    case Wait::kWaitingForPreemptedWorkloads:
      return "WaitingForPreemptedWorkloads";
    case Wait::kMisconfigured:
      return "Misconfigured";
    case Wait::kTopologyPlacementFailed:
      return "TopologyPlacementFailed";
    case Wait::kPendingEvaluation:
      return "PendingEvaluation";
    case Wait::kAdmissionGated:
      return "AdmissionGated";
  }
  return "";
}

}  // namespace qm::admission::kueue
