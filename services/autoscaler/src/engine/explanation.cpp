// Explanations of the demand.
#include "explanation.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace qm::autoscaler {
namespace {

std::string launched_by(const OwnerRow& other) {
  return other.owner == "none" ? "no autoscaler launches nodes for its namespace"
                               : fmt::format("{} launches the nodes of its namespace", other.owner);
}

}  // namespace

std::string Explanation::outcome_of(const DemandUpdated::Item& item, const std::map<std::string, Usage>& usage,
                                    Instant now, std::optional<Candidates::Choice>& choice) const {
  const Plan* plan = tables_.plans.find(item.id.uid);
  if (plan != nullptr && plan->promised_attempt > 0) {
    const Claim* first = plan->claims.empty() ? nullptr : tables_.claims.find(plan->claims.front());
    return fmt::format("{} instance(s) of {} {} are expected by {}", plan->claims.size(), first ? first->type : "?",
                       first ? name_of(first->market) : "?", to_rfc3339(plan->ready_by));
  }
  if (plan != nullptr && plan->not_before > now) {
    return !plan->refusal.empty()
               ? fmt::format("its last launch was refused ({}); it is repeated after {}", plan->refusal,
                             to_rfc3339(plan->not_before))
               : fmt::format(
                     "instances were launched for it {} time(s), and placement did not use them; no others are launched before {}",
                     plan->fruitless, to_rfc3339(plan->not_before));
  }
  choice = candidates_.choice(item, usage);
  const auto& offer = choice->offer;
  const OwnerRow* other = facts_.other_owner(item);
  if (!offer)
    return other == nullptr ? choice->why : fmt::format("{}; for Quartermaster: {}", launched_by(*other), choice->why);
  if (other == nullptr) return "instances are launched in the next step";
  return fmt::format("{}; Quartermaster would launch {} x {} {} at {} USD/h", launched_by(*other), offer->nodes,
                     offer->type->name, name_of(offer->offering.market), offer->per_hour.to_usd(2));
}

std::optional<CapacityDecision> Explanation::decision(const WorkloadUid& uid, Instant now, std::size_t listed) const {
  const DemandUpdated::Item* item = tables_.demand.find(uid);
  if (item == nullptr) return std::nullopt;
  CapacityDecision out;
  out.item = *item;
  out.title = facts_.title_of(item->id);
  for (const PodSet& set : item->pod_sets) out.pods += set.count;
  for (const auto pods : item->room) out.in_room += pods;
  // Its own instances that start do not compete with it for the limits.
  auto usage = facts_.usage();
  const Plan* plan = tables_.plans.find(uid);
  if (plan != nullptr && plan->promised_attempt > 0) {
    out.claims = plan->claims;
    usage = facts_.usage({plan->claims.begin(), plan->claims.end()});
  }
  std::optional<Candidates::Choice> choice;
  out.outcome = outcome_of(*item, usage, now, choice);
  if (!choice) choice = candidates_.choice(*item, usage);
  out.bound = candidates_.bound(choice->wanted.pod_sets);
  out.candidates = candidates_.all(choice->wanted, usage, choice->offer);
  for (const auto& one : out.candidates) ++out.counts[one.rejection];
  if (!choice->offer && out.counts.contains(Rejection::kNoCapacity)) {
    out.outcome += fmt::format(
        "; allow further instance types or zones in spec.template.spec.requirements: of {} offerings that its pods fit, "
        "{} were refused and {} are excluded",
        out.counts[Rejection::kNoCapacity] + out.counts[Rejection::kNotAllowed], out.counts[Rejection::kNoCapacity],
        out.counts[Rejection::kNotAllowed]);
  }
  if (out.candidates.size() > listed) out.candidates.resize(listed);
  return out;
}

std::vector<std::string> Explanation::explain(Instant now, std::size_t most, const Sees& sees) const {
  std::vector<std::string> lines;
  const auto in_use = facts_.usage();
  for (const auto& [uid, item] : tables_.demand) {
    if (lines.size() >= most) break;
    if (sees && !sees(facts_.namespace_of(uid))) continue;
    std::optional<Candidates::Choice> choice;
    const std::string what = outcome_of(item, in_use, now, choice);
    lines.push_back(fmt::format("{} for {:.0f} s: {}", facts_.subject_of(item), seconds(now - item.since), what));
  }
  schedules_.explain(lines, most, sees);
  if (sees) return lines;
  for (const auto& [name, pool] : tables_.pools) {
    if (const auto budget = facts_.budget(pool, 1); !budget.malformed.empty())
      lines.push_back(fmt::format("no empty node of NodePool {} is terminated: {}", name, budget.malformed));
    if (!pool.not_ready.empty()) lines.push_back(fmt::format("NodePool {} is not ready: {}", name, pool.not_ready));
  }
  static_pools_.explain_replicas(lines);
  disruptions_.explain_held(lines, now);
  headroom_.explain_buffers(lines);
  scale_down_.explain(lines, now);
  consolidation_.explain(lines);
  return lines;
}

}  // namespace qm::autoscaler
