// Demand to instances.
//
//   for each gang on the list, by priority, pending gangs first, then by waiting time:
//     its instances are starting, or became ready a moment ago   -> wait for placement
//     starting instances, its own or others', have capacity      -> share them
//     else the cheapest offering that fits it whole, or the part its own instances lack, within limits and with
//     capacity
//          -> launch all at once; for pods without a node of a running gang, as many as possible
#include "launch/launches.hpp"

#include "qm/base/assert.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace qm::autoscaler {
// Whether the gang's instances are starting, or became ready so recently that placement may not have used them yet.
Launches::Cover Launches::review(const DemandUpdated::Item& item) {
  const Plan* plan = tables_.plans.find(item.id.uid);
  if (plan == nullptr) return Cover::kOpen;
  if (plan->promised_attempt == 0) return plan->not_before > state_.now ? Cover::kPaused : Cover::kOpen;
  bool coming = false, idle = false;
  for (const auto& name : plan->claims) {
    const Claim* c = tables_.claims.find(name);
    if (c == nullptr || !(is_launching(*c) || c->state == ClaimState::kReady)) return Cover::kOpen;
    if (facts_.doomed(*c)) return Cover::kOpen;
    const NodeRow* node = facts_.node_of(*c);
    coming |= is_launching(*c) || c->changed + options_.settle > state_.now;
    idle |= c->state == ClaimState::kReady && node != nullptr && node->pods == 0;
  }
  if (coming) {
    if (plan->promised_attempt != item.id.attempt || plan->ready_by <= state_.now) {
      Plan renewed = *plan;
      renewed.ready_by = std::max(renewed.ready_by, state_.now + options_.extension);
      plans_.promise(item.id, std::move(renewed));
    }
    return Cover::kCovered;
  }
  if (!idle) return Cover::kOpen;  // other gangs used them
  plans_.pause(item.id.uid);
  return Cover::kPaused;
}

CapacityByClaim Launches::capacity_of_launches() const {
  CapacityByClaim capacities;
  for (const auto& [name, c] : tables_.claims) {
    const InstanceType* t = facts_.type(c.type);
    if (t != nullptr && is_launching(c) && c.life.replaces.empty() && !facts_.doomed(c) &&
        tables_.pools.contains(c.pool))
      capacities.emplace(name, nodes_.empty(nodes_.side_of(c)));
  }
  return capacities;
}

// Finds or launches the gang's instances; false = impossible now.
bool Launches::provide(const DemandUpdated::Item& item, CapacityByClaim& capacities,
                       std::map<std::string, Usage>& usage, std::int64_t& launches) {
  const Plan* before = tables_.plans.find(item.id.uid);
  Plan plan;
  plan.ready_by = state_.now + options_.boot;
  if (before != nullptr) plan.fruitless = before->fruitless;

  // Starting or idle instances of a failed plan still belong to the gang.
  CapacityByClaim own, all = capacities;
  for (const auto& name : before == nullptr ? std::vector<ClaimName>{} : before->claims) {
    const Claim* c = tables_.claims.find(name);
    if (c == nullptr || !tables_.pools.contains(c->pool) || facts_.type(c->type) == nullptr) continue;
    const NodeRow* node = facts_.node_of(*c);
    const bool idle = c->state == ClaimState::kReady && node != nullptr && node->ready && !node->cordoned &&
                      node->pods == 0 && !facts_.doomed(*c) && before->promised_attempt > 0;
    if (auto it = capacities.find(name); it != capacities.end()) {
      own.insert(*it);
    } else if (idle) {
      own.emplace(name, nodes_.empty(nodes_.side_of(*c)));
    }
  }
  all.insert(own.begin(), own.end());
  if (Fit fit(tables_, nodes_, item.pod_sets, std::move(all)); fit.whole() && !fit.places.empty()) {
    const bool opens = std::any_of(fit.places.begin(), fit.places.end(), [&](const Plan::Place& place) {
      const Claim& c = *tables_.claims.find(place.claim);
      return is_launching(c) || c.changed + options_.settle > state_.now;
    });
    if (!opens) {
      plans_.pause(item.id.uid);
      return true;
    }
    fit.settle(plan, capacities);
    plans_.promise(item.id, std::move(plan));
    return true;
  }
  Fit fit(tables_, nodes_, item.pod_sets, std::move(own));
  const auto offer = offers_.cheapest(fit.rest, usage, nullptr);
  if (!offer || launches + offer->nodes > options_.max_launches) return false;
  launches += offer->nodes;
  usage[offer->pool->name].add(*offer->type, offer->nodes);
  fit.settle(plan, capacities);
  CapacityByClaim fresh;
  for (std::int64_t i = 0; i < offer->nodes; ++i) {
    const std::int64_t number = tables_.counters.edit("claim") += 1;
    const ClaimName name(fmt::format("{}-{:05}", offer->pool->name, number));
    Claim c;
    c.pool = offer->pool->name;
    c.type = offer->type->name;
    c.market = offer->offering.market;
    c.zone = offer->offering.zone;
    c.requested = c.changed = state_.now;
    c.for_uid = item.id.uid;
    c.reason = fmt::format("for {}: {} x {} {} is the cheapest at {} USD/h{}", facts_.title_of(item.id), offer->nodes,
                           offer->type->name, name_of(c.market), offer->per_hour.to_usd(2), offer->relaxed);
    c.group = offer->pool->group;
    c.labels = offer->labels;
    claims_.launch(name, c, *offer->pool);
    fresh.emplace(name, nodes_.empty(nodes_.side_of(c)));
  }
  // The remaining capacity of its instances may fit another gang.
  const Fit laid(tables_, nodes_, fit.rest, std::move(fresh));
  QM_ASSERT(laid.whole(), "the instances launched for {} do not fit it", item.id.to_string());
  laid.settle(plan, capacities);
  plans_.promise(item.id, std::move(plan));
  return true;
}

// The most pods of the item for which there is an offering within limits and with capacity, sets in their order; none = for no pod.
std::optional<DemandUpdated::Item> Launches::affordable_part(const DemandUpdated::Item& item,
                                                             const std::map<std::string, Usage>& usage,
                                                             std::int64_t launches) const {
  const auto part = [&](std::int64_t pods) {
    DemandUpdated::Item out = item;
    for (PodSet& set : out.pod_sets) {
      set.count = static_cast<std::int32_t>(std::min<std::int64_t>(set.count, pods));
      pods -= set.count;
    }
    return out;
  };
  std::int64_t can = 0, cannot = 0;
  for (const PodSet& set : item.pod_sets) cannot += set.count;
  while (cannot - can > 1) {
    const auto pods = can + (cannot - can) / 2;
    const auto offer = offers_.cheapest(part(pods).pod_sets, usage, nullptr);
    (offer && launches + offer->nodes <= options_.max_launches ? can : cannot) = pods;
  }
  if (can == 0) return std::nullopt;
  return part(can);
}

void Launches::cover_demand() {
  plans_.end_lapsed_plans();
  std::vector<const DemandUpdated::Item*> order, open;
  for (const auto& [uid, item] : tables_.demand) order.push_back(&item);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::tuple(-a->priority, a->runs, a->since, a->id) < std::tuple(-b->priority, b->runs, b->since, b->id);
  });
  CapacityByClaim capacities = capacity_of_launches();
  // Places in existing plans are reserved before any new decision.
  for (const auto* item : order) {
    const Cover cover = review(*item);
    if (cover == Cover::kOpen && facts_.other_owner(*item) != nullptr) {
      plans_.withdraw(item->id.uid);
    } else if (cover == Cover::kOpen) {
      open.push_back(item);
    }
    if (cover != Cover::kCovered) continue;
    for (const auto& [claim, set, pods] : tables_.plans.find(item->id.uid)->places) {
      const auto capacity = capacities.find(claim);
      if (capacity != capacities.end() && set < std::ssize(item->pod_sets)) {
        const PodSet& placed = item->pod_sets[static_cast<std::size_t>(set)];
        capacity->second.take(placed.shape, nodes_.needs(placed), pods);
      }
    }
  }
  if (open.empty()) return;
  auto in_use = facts_.usage();
  std::int64_t launches = 0;
  for (const auto* item : open) {
    if (provide(*item, capacities, in_use, launches)) continue;
    const auto part = item->runs ? affordable_part(*item, in_use, launches) : std::nullopt;
    if (!part || !provide(*part, capacities, in_use, launches)) plans_.withdraw(item->id.uid);
  }
}

}  // namespace qm::autoscaler
