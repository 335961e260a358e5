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

std::optional<Offer> Explanation::offer_for(const DemandUpdated::Item& item, const std::map<std::string, Usage>& usage,
                                            std::string& why) const {
  for (const auto& variant : markets_.variants(item)) {
    if (auto offer = offers_.cheapest(variant.pod_sets, usage, &why)) return offer;
  }
  if (const std::string policy = markets_.reason(item); !policy.empty()) why += fmt::format(" ({})", policy);
  return std::nullopt;
}

std::vector<std::string> Explanation::explain(Instant now, std::size_t most, const Sees& sees) const {
  std::vector<std::string> lines;
  const auto in_use = facts_.usage();
  for (const auto& [uid, item] : tables_.demand) {
    if (lines.size() >= most) break;
    if (sees && !sees(facts_.namespace_of(uid))) continue;
    const Plan* plan = tables_.plans.find(uid);
    std::string what;
    if (plan != nullptr && plan->promised_attempt > 0) {
      const Claim* first = plan->claims.empty() ? nullptr : tables_.claims.find(plan->claims.front());
      what = fmt::format("{} instance(s) of {} {} are expected by {}", plan->claims.size(), first ? first->type : "?",
                         first ? name_of(first->market) : "?", to_rfc3339(plan->ready_by));
    } else if (plan != nullptr && plan->not_before > now) {
      what =
          !plan->refusal.empty()
              ? fmt::format("its last launch was refused ({}); it is repeated after {}", plan->refusal,
                            to_rfc3339(plan->not_before))
              : fmt::format(
                    "instances were launched for it {} time(s), and placement did not use them; no others are launched before {}",
                    plan->fruitless, to_rfc3339(plan->not_before));
    } else if (const auto offer = offer_for(item, in_use, what)) {
      what = "instances are launched in the next step";
      if (const OwnerRow* other = facts_.other_owner(item)) {
        what = fmt::format("{}; Quartermaster would launch {} x {} {} at {} USD/h", launched_by(*other), offer->nodes,
                           offer->type->name, name_of(offer->offering.market), offer->per_hour.to_usd(2));
      }
    } else if (const OwnerRow* other = facts_.other_owner(item)) {
      what = fmt::format("{}; for Quartermaster: {}", launched_by(*other), what);
    }
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
  consolidation_.explain(lines);
  return lines;
}

}  // namespace qm::autoscaler
