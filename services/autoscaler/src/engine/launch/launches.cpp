// Demand to instances.
//
//   for each gang on the list, by priority, pending gangs first, those of heavier NodePools first, then by waiting time:
//     its instances are starting, or became ready a moment ago   -> wait for placement
//     starting instances, its own or others', have capacity      -> share them
//     else the cheapest offering that fits it whole, or the part that its own instances and the room on running nodes
//     lack, within limits and with capacity
//          -> launch all at once; for pods without a node of a running gang, as many as possible
//   single pods, and pods without a node of running gangs, that follow one another in this order are planned together
#include "launch/launches.hpp"

#include "qm/base/assert.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace qm::autoscaler {
// Whether the gang's instances are starting, or became ready so recently that placement may not have used them yet. Pods on one
// of them while the whole gang is pending are others': the gang no longer has that instance.
Launches::Cover Launches::review(const DemandUpdated::Item& item) {
  const Plan* plan = tables_.plans.find(item.id.uid);
  if (plan == nullptr) return Cover::kOpen;
  if (plan->promised_attempt == 0) return plan->not_before > state_.now ? Cover::kPaused : Cover::kOpen;
  bool coming = false, idle = false, used = false;
  Instant last_ready{};
  for (const auto& name : plan->claims) {
    const Claim* c = tables_.claims.find(name);
    if (c != nullptr && c->retry_at && *c->retry_at > state_.now) {
      plans_.delay(item.id.uid, c->reason);
      (void)gangs_.roll_back(item.id.uid);
      return Cover::kPaused;
    }
    if (c == nullptr || !(is_launching(*c) || c->state == ClaimState::kReady)) return Cover::kOpen;
    if (facts_.doomed(*c)) return Cover::kOpen;
    const NodeRow* node = facts_.node_of(*c);
    coming |= is_launching(*c);
    last_ready = std::max(last_ready, c->changed);
    idle |= c->state == ClaimState::kReady && node != nullptr && node->pods == 0;
    used |= node != nullptr && node->pods > 0;
  }
  if (coming || last_ready + (used && !item.runs ? options_.taken : options_.settle) > state_.now) {
    if (plan->promised_attempt != item.id.attempt || plan->ready_by <= state_.now) {
      Plan renewed = *plan;
      renewed.ready_by = std::max(renewed.ready_by, state_.now + options_.extension);
      plans_.promise(item.id, std::move(renewed));
    }
    return Cover::kCovered;
  }
  if (!idle || used) return Cover::kOpen;  // other gangs used them
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

// Starting or idle instances of a failed plan still belong to the gang.
CapacityByClaim Launches::own_capacity(const DemandUpdated::Item& item, const Step& step) const {
  const Plan* before = tables_.plans.find(item.id.uid);
  CapacityByClaim own;
  for (const auto& name : before == nullptr ? std::vector<ClaimName>{} : before->claims) {
    const Claim* c = tables_.claims.find(name);
    if (c == nullptr || !tables_.pools.contains(c->pool) || facts_.type(c->type) == nullptr) continue;
    const NodeRow* node = facts_.node_of(*c);
    const bool idle = c->state == ClaimState::kReady && node != nullptr && node->ready && !node->cordoned &&
                      node->pods == 0 && !facts_.doomed(*c) && before->promised_attempt > 0;
    if (auto it = step.capacities.find(name); it != step.capacities.end()) {
      own.insert(*it);
    } else if (idle && item.room.empty()) {  // else it is a part of the room
      own.emplace(name, nodes_.empty(nodes_.side_of(*c)));
    }
  }
  return own;
}

bool Launches::share(const DemandUpdated::Item& item, Step& step) {
  CapacityByClaim all = step.capacities;
  all.merge(own_capacity(item, step));
  for (auto& capacities_in_zone : GangLaunches::by_zone(tables_, item, std::move(all))) {
    const Fit fit(tables_, nodes_, item.pod_sets, std::move(capacities_in_zone));
    if (!fit.whole() || fit.places.empty()) continue;
    const bool opens = std::any_of(fit.places.begin(), fit.places.end(), [&](const Plan::Place& place) {
      const Claim& c = *tables_.claims.find(place.claim);
      return is_launching(c) || c.changed + options_.settle > state_.now;
    });
    if (!opens) {
      plans_.pause(item.id.uid);
      return true;
    }
    Plan plan = new_plan(item.id.uid);
    fit.settle(plan, step.capacities);
    plans_.promise(item.id, std::move(plan));
    return true;
  }
  return false;
}

// A new plan keeps what the former one taught.
Plan Launches::new_plan(const WorkloadUid& uid) const {
  Plan plan;
  plan.ready_by = state_.now + options_.boot;
  if (const Plan* before = tables_.plans.find(uid)) {
    plan.fruitless = before->fruitless;
    plan.refusals = before->refusals;
    plan.refusal = before->refusal;
  }
  return plan;
}

ClaimName Launches::new_claim(const Pool& pool) {
  const std::int64_t number = tables_.counters.edit("claim") += 1;
  return ClaimName(fmt::format("{}-{:05}", pool.name, number));
}

void Launches::launch(const ClaimName& name, const Offer& offer, const WorkloadUid& uid, const std::string& id,
                      std::string reason, Step& step, const std::vector<PodSet>& pods) {
  Claim c;
  c.pool = offer.pool->name;
  c.type = offer.type->name;
  c.market = offer.offering.market;
  c.zone = offer.offering.zone;
  c.requested = c.changed = state_.now;
  c.for_uid = uid;
  c.reason = std::move(reason);
  c.group = offer.pool->group;
  c.labels = offer.labels;
  c.reservation = offer.offering.reservation;
  c.launch = id;
  c.life.resources = requested_resources(pods, *offer.type);
  claims_.launch(name, c, *offer.pool, offer.others);
  ++step.launches;
  step.usage[offer.pool->name].add(*offer.type, 1);
}

// With room on running nodes only the other pods need instances. If placement left such instances idle, it did not
// use the room with them: then, and if the room's zone has no offer, instances for the whole gang are launched.
bool Launches::provide(const DemandUpdated::Item& item, Step& step) {
  const Plan* before = tables_.plans.find(item.id.uid);
  if (!item.room.empty() && (before == nullptr || before->fruitless == 0)) {
    DemandUpdated::Item rest = item;
    std::int32_t pods = 0;
    for (std::size_t i = 0; i < rest.pod_sets.size(); ++i) {
      auto& count = rest.pod_sets[i].count;
      if (i < item.room.size()) count = std::max(count - item.room[i], 0);
      pods += count;
    }
    if (pods > 0 && provide_all(rest, step) == Provided::kYes) return true;
  }
  DemandUpdated::Item whole = item;
  whole.room.clear(), whole.room_zone.clear();
  const Provided provided = provide_all(whole, step);
  if (provided != Provided::kNoOffer || item.runs) return provided == Provided::kYes;
  // Its instances cannot be completed in their zone: all of it elsewhere.
  const auto ended = gangs_.roll_back(item.id.uid);
  if (ended.empty() && own_capacity(whole, step).empty()) return false;
  for (const auto& name : ended) step.capacities.erase(name);
  if (ended.empty()) plans_.withdraw(item.id.uid);  // its instances are those of other launches
  step.usage = facts_.usage();
  step.known_unschedulable.clear();
  rolled_back_ = !ended.empty();
  return provide_all(whole, step) == Provided::kYes;
}

// Finds or launches instances for the item's pods.
Launches::Provided Launches::provide_all(const DemandUpdated::Item& item, Step& step) {
  if (share(item, step)) return Provided::kYes;
  Fit fit(tables_, nodes_, item.pod_sets, own_capacity(item, step));
  // Within a step limits, capacity and the number of launches only shrink.
  if (step.launches >= options_.max_launches) {
    state_.more_launches = true;
    return Provided::kLater;
  }
  // The rest belongs into the zone that the cloud chooses in a moment.
  const bool zone_open = std::ranges::any_of(
      fit.places, [&](const Plan::Place& place) { return tables_.claims.find(place.claim)->zone_open; });
  if (!item.runs && zone_open) return Provided::kLater;
  auto rest = gangs_.rest_together(item, fit);
  if (step.known_unschedulable.contains({rest, item.room_zone})) return Provided::kNoOffer;
  const WorkloadRow* workload = tables_.workloads.find(item.id.uid);
  const Duration expected = workload == nullptr ? Duration{0} : workload->expected;
  const auto offer = offers_.cheapest(rest, step.usage, nullptr, item.room_zone, expected);
  if (!offer) {
    step.known_unschedulable.insert({std::move(rest), item.room_zone});
    return Provided::kNoOffer;
  }
  if (step.launches + offer->nodes > options_.max_launches) {
    state_.more_launches = true;  // its instances are at most those of one step
    return Provided::kLater;
  }
  Plan plan = new_plan(item.id.uid);
  const ScalingGroup* group = tables_.scaling_groups.find(offer->pool->group);
  if (group != nullptr && offer->nodes <= group->warm) plan.ready_by = state_.now + options_.warm_boot;
  fit.settle(plan, step.capacities);
  const auto in_room = std::accumulate(item.room.begin(), item.room.end(), std::int64_t{0});
  const std::string room = in_room == 0 ? "" : fmt::format("; {} of its pods fit running nodes", in_room);
  CapacityByClaim fresh;
  std::string id;
  for (std::int64_t i = 0; i < offer->nodes; ++i) {
    const ClaimName name = new_claim(*offer->pool);
    if (i == 0) id = GangLaunches::id_for(item, fit, *offer->pool, name, offer->nodes);
    auto reason = fmt::format("for {}: {} x {} {} is the cheapest at {} USD/h{}{}", facts_.title_of(item.id),
                              offer->nodes, offer->type->name, capacity_type_of(offer->offering),
                              offer->per_hour.to_usd(2), room, offer->remarks);
    launch(name, *offer, item.id.uid, id, std::move(reason), step);
    fresh.emplace(name, nodes_.empty(nodes_.side_of(*tables_.claims.find(name))));
  }
  // The remaining capacity of its instances may fit another gang.
  const Fit laid(tables_, nodes_, fit.rest, std::move(fresh));
  QM_ASSERT(laid.whole(), "the instances launched for {} do not fit it", item.id.to_string());
  laid.settle(plan, step.capacities);
  plans_.promise(item.id, std::move(plan));
  return Provided::kYes;
}

// For the pods of one instance, where the offering of the plan is the cheapest for them alone too. Instances with equal
// pods are looked up once, and at most a few different ones: the search is that for a gang.
std::vector<LaunchOption> Launches::others_of(const JointPlanner::Node& node, const Items& items, const Step& step,
                                              std::map<std::vector<PodSet>, std::optional<Offer>>& known) const {
  constexpr std::size_t kMostSearches = 20;
  std::vector<PodSet> sets;
  for (const auto& part : node.pods) {
    sets.push_back(items[part.item]->pod_sets[static_cast<std::size_t>(part.set)]);
    sets.back().count = part.count;
    sets.back().name.clear();
  }
  auto at = known.find(sets);
  if (at == known.end() && known.size() == kMostSearches) return {};
  if (at == known.end()) at = known.emplace(sets, offers_.cheapest(sets, step.usage, nullptr)).first;
  const std::optional<Offer>& best = at->second;
  const bool same = best && best->pool == node.offer.pool && best->nodes == 1 && best->offering == node.offer.offering;
  return same ? best->others : std::vector<LaunchOption>{};
}

// Each instance is planned for pods of several items; the rest of its capacity may fit further ones.
Launches::Items Launches::launch_together(const Items& items, Step& step) {
  const auto planned = joint_.plan(items, step.usage);
  std::map<std::size_t, Plan> plans;  // by item
  std::int64_t pods = 0;
  for (const auto& node : planned.nodes) {
    for (const auto& part : node.pods) pods += part.count;
  }
  std::map<std::vector<PodSet>, std::optional<Offer>> others;
  for (const auto& node : planned.nodes) {
    if (step.launches >= options_.max_launches) {
      state_.more_launches = true;
      break;
    }
    const auto& first = *items[node.pods.front().item];
    auto reason = fmt::format(
        "for {}{}: {} {} at {} USD/h, one of {} for {} pods at {} USD/h, at most {:.1f} % above the optimum",
        facts_.title_of(first.id), node.pods.back().item == node.pods.front().item ? "" : " and others",
        node.offer.type->name, name_of(node.offer.offering.market), node.offer.per_hour.to_usd(2), planned.nodes.size(),
        pods, planned.per_hour.to_usd(2), planned.gap * 100);
    Offer offer = node.offer;
    if (options_.alternatives > 0) offer.others = others_of(node, items, step, others);
    const ClaimName name = new_claim(*node.offer.pool);
    std::vector<PodSet> sets;
    for (const auto& [item, set, count] : node.pods)
      sets.push_back(items[item]->pod_sets[static_cast<std::size_t>(set)]);
    launch(name, offer, first.id.uid, {}, std::move(reason), step, sets);
    FreeCapacity capacity = nodes_.empty(nodes_.side_of(*tables_.claims.find(name)));
    for (const auto& [item, set, count] : node.pods) {
      const PodSet& placed = items[item]->pod_sets[static_cast<std::size_t>(set)];
      capacity.take(placed.shape, nodes_.needs(placed), count);
      Plan& plan = plans[item];
      if (plan.claims.empty() || plan.claims.back() != name) plan.claims.push_back(name);
      plan.places.push_back({name, set, count});
    }
    step.capacities.emplace(name, std::move(capacity));
  }
  Items open;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto plan = plans.find(i);
    if (plan == plans.end()) {
      open.push_back(items[i]);
      continue;
    }
    plan->second.ready_by = state_.now + options_.boot;
    plans_.promise(items[i]->id, std::move(plan->second));
  }
  return open;
}

// The most pods of the item for which there is an offering within limits and with capacity, sets in their order; none =
// for no pod.
std::optional<DemandUpdated::Item> Launches::affordable_part(const DemandUpdated::Item& item, const Step& step) const {
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
    const auto offer = offers_.cheapest(part(pods).pod_sets, step.usage, nullptr);
    (offer && step.launches + offer->nodes <= options_.max_launches ? can : cannot) = pods;
  }
  if (can == 0) return std::nullopt;
  return part(can);
}

void Launches::cover_demand() {
  plans_.end_lapsed_plans();
  // What a gang gave back may be enough for one that was considered before it.
  do {
    rolled_back_ = false;
    cover_demand_once();
  } while (rolled_back_);
}

void Launches::cover_demand_once() {
  if (tables_.demand.size() == 0) return;
  std::vector<const DemandUpdated::Item*> order, open;
  for (const auto& [uid, item] : tables_.demand) order.push_back(&item);
  const auto weights = offers_.heaviest(order);
  std::stable_sort(order.begin(), order.end(), [&](const auto* a, const auto* b) {
    const auto rank = [&](const DemandUpdated::Item& item) {
      const auto weight = weights.find(item.id.uid);
      return std::tuple(-item.priority, item.runs, weight == weights.end() ? 0 : -weight->second, item.since, item.id);
    };
    return rank(*a) < rank(*b);
  });
  Step step{capacity_of_launches(), facts_.usage(), 0};
  // The limit is per step: launches at the same time count, so that a step without new inputs launches nothing.
  for (const auto& [name, c] : tables_.claims) step.launches += c.requested == state_.now && !c.for_uid.empty() ? 1 : 0;
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
      const auto capacity = step.capacities.find(claim);
      if (capacity != step.capacities.end() && set < std::ssize(item->pod_sets)) {
        const PodSet& placed = item->pod_sets[static_cast<std::size_t>(set)];
        capacity->second.take(placed.shape, nodes_.needs(placed), pods);
      }
    }
  }
  std::erase_if(step.capacities, [&](const auto& entry) { return !is_launching(*tables_.claims.find(entry.first)); });
  step.usage = facts_.usage();
  const auto provide_one = [&](const DemandUpdated::Item& item) {
    const auto variants = markets_.variants(item);  // the preferred capacity type first
    const bool provided = std::ranges::any_of(variants, [&](const DemandUpdated::Item& variant) {
      if (provide(variant, step)) return true;
      const auto part = variant.runs ? affordable_part(variant, step) : std::nullopt;
      return part && provide(*part, step);
    });
    if (!provided) plans_.withdraw(item.id.uid);
  };
  for (auto at = open.begin(); at != open.end();) {
    const auto end = std::find_if_not(at, open.end(), [&](const auto* item) {
      return joint_.plans(*item) && tables_.plans.find(item->id.uid) == nullptr;
    });
    if (end - at < 2 || offers_.reservation_is_free()) {
      provide_one(**at++);
      continue;
    }
    Items together;
    std::copy_if(at, end, std::back_inserter(together), [&](const auto* item) { return !share(*item, step); });
    if (together.size() > 1) together = launch_together(together, step);
    for (const auto* item : together) provide_one(*item);
    at = end;
  }
}

}  // namespace qm::autoscaler
