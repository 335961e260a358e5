// Searches repartitions of idle GPUs. Nodes with idle GPUs are hypothetically repartitioned to the allowed layouts,
// the cheapest first, until the placement succeeds. Nodes that are not needed are then dropped.
#include "engine/mig/repartition_search.hpp"

#include "engine/mig/mig_layout_catalog.hpp"
#include "engine/mig/node_layouts.hpp"
#include "qm/placement/minimal_subset.hpp"

#include <algorithm>
#include <tuple>

namespace qm::placement {

namespace {

using relayout::Phase;

std::string count_words(const std::map<std::string, int>& nodes) {
  std::string out;
  for (const auto& [why, count] : nodes) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", count, why);
  return out.empty() ? "there are no nodes" : out;
}

}  // namespace

std::string RepartitionSearch::why_not(const NodeName& name, const HypotheticalState& hypothetical) const {
  const MigRepartitionOptions& rules = options_.mig_repartition;
  const NodeFacts& facts = tables_.nodes.find(name)->facts;
  const Repartition* repartition = tables_.repartitions.find(name);
  if (mig::model_of(facts.model) == nullptr || label_of(facts, "nvidia.com/mig.capable") == "false")
    return "do not support MIG";
  if (!rules.pools.empty() && !rules.pools.contains(std::string(label_of(facts, words::kNodePool))))
    return "of other pools";
  if (repartition != nullptr && repartition->order) {
    if (!repartition->order->over()) return "being repartitioned";
    if (repartition->order->since + rules.pause > state_.last_now) return "repartitioned recently";
  }
  const auto held = index_.reservations.rows_on(HoldSource::kProposal, name);
  const auto own = [&](const WorkloadUid& uid) { return hypothetical.holds.contains(uid); };
  const bool kept = !std::ranges::all_of(held, own);
  if (kept || index_.reservations.holds(HoldSource::kDefragmentation, name)) return "reserved for other workloads";
  const NodeCapacity capacity =
      held.empty() ? index_.free_capacity.at(name) : capacities_.capacity_of(name, hypothetical);
  if (!capacity.usable) return capacity.why_not;
  if (is_single(facts) || is_shared(facts)) return "with the MIG strategy single or with shared GPUs";
  const NodeCordonCauses* mark = tables_.cordon_causes.find(name);
  if ((mark != nullptr && mark->verdict()) || (repartition != nullptr && repartition->mismatch)) return "with a fault";
  if (installed(facts, tables_.layouts.rows()) == 0) return "with an unknown number of GPUs";
  std::set<std::string> leave;
  for (const AttemptId& id : hypothetical.attempts) leave.insert(id.to_string());
  const auto seen = layouts_.seen_for_layout(name, repartition == nullptr ? Repartition{} : *repartition);
  const auto leaves = [&](const relayout::Occupant& occupant) { return leave.contains(occupant.pod); };
  return std::ranges::all_of(seen.occupants, leaves) ? "" : "with GPUs in use";
}

MigRepartition RepartitionSearch::plan(const WorkloadUid& uid, const Preference& preference) const {
  const MigRepartitionOptions& rules = options_.mig_repartition;
  const PlacementRequest asked = allocator_.request_for(uid);
  MigLayoutCatalog offers(state_, capacities_, layouts_);
  const auto takes = [&](const NodeCapacity& capacity) {
    std::int64_t pods = 0;
    for (const PodSet& set : asked.pod_sets) pods += instance_pods_that_fit(capacity, set);
    return pods;
  };
  // Repartitions in progress for others count as completed.
  FreeCapacity free_capacity = index_.free_capacity;
  for (const auto& [name, repartition] : tables_.repartitions) {
    if (!repartition.order || repartition.order->over() || repartition.order->phase == Phase::kRollingBack ||
        capacities_.own_causes(name) != "layout")
      continue;
    const NodeFacts& facts = tables_.nodes.find(name)->facts;
    const auto* layout = offers.layout(facts, repartition.order->order.layout);
    if (layout == nullptr || is_single(facts) || is_shared(facts)) continue;
    NodeCapacity capacity = offers.capacity(name, *layout, {});
    capacity.usable = facts.ready;
    free_capacity[name] = std::move(capacity);
  }

  struct Candidate {
    std::int64_t cost = 0;
    NodeName node;
    std::string layout;
    NodeCapacity capacity;
  };
  std::vector<Candidate> candidates;
  std::map<std::string, int> left_out;
  for (const auto& [name, node] : tables_.nodes) {
    if (auto why = why_not(name, {}); !why.empty()) {
      ++left_out[std::move(why)];
      continue;
    }
    std::optional<Candidate> best;
    std::int64_t most = takes(free_capacity.at(name));
    for (const std::string& layout : offers.names(*mig::model_of(node.facts.model))) {
      const auto* made = offers.layout(node.facts, layout);
      if (made == nullptr) continue;
      Candidate one{offers.cost(name, *made), name, layout, offers.capacity(name, *made, {})};
      const auto pods = takes(one.capacity);
      if (pods < most || (best ? pods == most && one.cost >= best->cost : pods == most)) continue;
      most = pods;
      best = std::move(one);
    }
    if (best) {
      candidates.push_back(std::move(*best));
    } else {
      ++left_out["where no allowed layout has more instances for it"];
    }
  }
  std::ranges::stable_sort(candidates, {}, &Candidate::cost);
  if (candidates.size() > rules.most_tried) candidates.resize(rules.most_tried);

  using Chosen = std::vector<const Candidate*>;
  const auto placed_with = [&](const Chosen& chosen) {
    FreeCapacity tried = free_capacity;
    for (const Candidate* one : chosen) tried[one->node] = one->capacity;
    return allocator_.place(asked, tried, preference, nullptr, ResultDetail::kPlan);
  };
  const auto first = [&](std::size_t count) {
    Chosen out;
    for (std::size_t i = 0; i < count; ++i) out.push_back(&candidates[i]);
    return out;
  };
  MigRepartition out;
  if (placed_with({}).plan) {
    out.why_not = "it fits nodes that are being repartitioned for other workloads";
    out.in_progress = true;
    return out;
  }
  if (!placed_with(first(candidates.size())).plan) {
    left_out["idle, but not enough for it"] = static_cast<int>(candidates.size());
    if (candidates.empty()) left_out.erase("idle, but not enough for it");
    out.why_not = fmt::format("no node can be repartitioned for it: {}", count_words(left_out));
    return out;
  }
  std::size_t enough = candidates.size();  // so many of the cheapest are enough
  for (std::size_t low = 1; low < enough;) {
    const auto middle = low + (enough - low) / 2;
    placed_with(first(middle)).plan ? enough = middle : low = middle + 1;
  }
  PlacementResult placed = placed_with(first(enough));
  const Chosen chosen =
      minimal_subset(first(enough), [&](const Chosen& fewer) {  // the most expensive are dropped first
        auto found = placed_with(fewer);
        if (!found.plan) return false;
        placed = std::move(found);
        return true;
      });
  if (chosen.size() > budget_left(uid)) {
    out.why_not = fmt::format("{} nodes would have to be repartitioned for it, and {} are allowed now", chosen.size(),
                              budget_left(uid));
    return out;
  }
  for (const Candidate* one : chosen) out.layouts[one->node] = one->layout;
  out.members = std::move(placed.plan->members);
  return out;
}

std::optional<Instant> RepartitionSearch::earliest(const WorkloadUid& uid) const {
  const Workload& workload = *tables_.workloads.find(uid);
  if (!index_.without_placement.contains(uid) || workload.short_since == Instant{} ||
      index_.reservations.rows(HoldSource::kRepartition).contains(uid) || !requests_instances(workload.spec.pod_sets)) {
    return std::nullopt;
  }
  const Proposal* known = tables_.proposals.find(uid);
  if (known != nullptr && known->is_active() && known->state != ProposalState::kRecovering) return std::nullopt;
  return workload.short_since + options_.mig_repartition.after;
}

std::size_t RepartitionSearch::budget_left(const WorkloadUid& uid) const {
  const MigRepartitionOptions& rules = options_.mig_repartition;
  auto counting = static_cast<std::size_t>(
      std::ranges::count_if(state_.meta().repartition, [&](Instant at) { return at + rules.per > state_.last_now; }));
  for (const WorkloadUid& other : index_.with_proposal) {
    if (other != uid) counting += tables_.proposals.find(other)->repartitions.size();
  }
  return rules.most_orders - std::min(rules.most_orders, counting);
}

std::string RepartitionSearch::status(const WorkloadUid& uid) const {
  const MigRepartitionOptions& rules = options_.mig_repartition;
  const Workload* workload = tables_.workloads.find(uid);
  if (auto words = mig_preemption_status(uid); !words.empty()) return words;
  if (!rules.on || workload == nullptr || !state_.synced()) return {};
  std::string out;
  if (const auto& nodes = index_.reservations.nodes(HoldSource::kRepartition, uid); !nodes.empty()) {
    for (const NodeName& name : nodes) {
      const relayout::Row& order = *tables_.repartitions.find(name)->order;
      out += out.empty() ? "" : "; ";
      if (order.phase == Phase::kDone) {
        out += fmt::format("node {} has been repartitioned to {} for it, which is reserved until {}", name,
                           order.order.layout, to_rfc3339(order.since + rules.held));
      } else {
        out += fmt::format("node {} is being repartitioned to {} for it: {}", name, order.order.layout,
                           order.reason.empty() ? relayout::name_of(order.phase) : order.reason);
      }
    }
    return out;
  }
  const auto from = earliest(uid);
  if (!from) return {};
  if (state_.last_now < *from) return fmt::format("GPUs may be repartitioned for it from {} on", to_rfc3339(*from));
  if (budget_left(uid) == 0) {
    return fmt::format("no GPUs are repartitioned for it now: the limit of {} orders in {} min is reached",
                       rules.most_orders, std::chrono::duration_cast<std::chrono::minutes>(rules.per).count());
  }
  Preference preference = index_.preference;
  preference.prepare(index_.free_capacity);
  const MigRepartition found = plan(uid, preference);
  if (found.layouts.empty()) return found.why_not;
  return fmt::format("node {} may be repartitioned to {} for it", found.layouts.begin()->first,
                     found.layouts.begin()->second);
}

std::string RepartitionSearch::mig_preemption_status(const WorkloadUid& uid) const {
  const Proposal* row = tables_.proposals.find(uid);
  const Workload* workload = tables_.workloads.find(uid);
  if (row == nullptr || workload == nullptr || row->move || !requests_instances(workload->spec.pod_sets)) return {};
  if (row->state != ProposalState::kProposed && row->state != ProposalState::kAccepted) return {};
  std::string names, then;
  for (const auto& victim : row->victims) {
    const Workload* gives = tables_.workloads.find(victim.id.uid);
    names += names.empty() ? "" : ", ";
    names += gives == nullptr ? victim.id.uid.value() : fmt::format("{}/{}", gives->spec.ns, gives->spec.name);
  }
  for (const auto& [name, layout] : row->repartitions)
    then += fmt::format("; then node {} is repartitioned to {} for it", name, layout);
  if (then.empty()) then = "; it gets their instances";
  return fmt::format("{}: {}{}", row->state == ProposalState::kProposed ? "preemption requested" : "being preempted",
                     names, then);
}

}  // namespace qm::placement
