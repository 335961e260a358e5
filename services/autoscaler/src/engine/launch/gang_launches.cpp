// Gang launches in the engine: rows to the states of members, and the steps of next_step() to claims.
//
//   all members are requested in one step, with one id       one request to the cloud (EC2), or one NodeClaim each
//   a member is refused                                      the others are terminated, the offering is held
//   the first member has an instance for 40 s, another none  the others are refused (NodeClaims; EC2 answers at once)
//   the gang is still pending                                Launches requests the next offering for all its nodes
#include "launch/gang_launches.hpp"

#include <algorithm>
#include <set>

namespace qm::autoscaler {

namespace {

bool has_instance(const Claim& c) { return c.state == ClaimState::kLaunched || c.state == ClaimState::kReady; }

}  // namespace

std::map<std::string, std::vector<ClaimName>> GangLaunches::launches() const {
  std::map<std::string, std::vector<ClaimName>> out;
  for (const auto& [name, c] : tables_.claims) {
    if (!c.launch.empty()) out[c.launch].push_back(name);
  }
  return out;
}

bool GangLaunches::has_pods(const Claim& claim) const {
  const NodeRow* node = facts_.node_of(claim);
  return node != nullptr && node->pods > 0;
}

LaunchMember GangLaunches::member(const Claim& c) const {
  switch (c.state) {
    case ClaimState::kRequested:
      return LaunchMember::kRequested;
    case ClaimState::kLaunched:
    case ClaimState::kReady:
    case ClaimState::kDraining:
      if (has_pods(c)) return LaunchMember::kInUse;
      if (c.state == ClaimState::kDraining) return LaunchMember::kEnded;  // terminated when the drain is confirmed
      // Without a workload: the launch left it, and no claim of it is without an instance.
      return c.for_uid.empty() || c.rolled_back ? LaunchMember::kLate : LaunchMember::kLaunched;
    case ClaimState::kFailed:
      // One that was rolled back says nothing about the members that stay for another gang.
      if (c.instance.empty()) return c.rolled_back ? LaunchMember::kEnded : LaunchMember::kRefused;
      return LaunchMember::kLate;
    case ClaimState::kTerminating:
    case ClaimState::kGone:
      break;
  }
  return LaunchMember::kEnded;
}

// Since when members are billed while others are awaited: from the first instance of the launch; or, if the launch
// replaces lost members of a gang, from its request.
std::optional<Instant> GangLaunches::refused_at(const std::vector<ClaimName>& members) const {
  std::optional<Instant> since;
  std::optional<Instant> requested;
  WorkloadUid uid;
  for (const auto& name : members) {
    const Claim& c = *tables_.claims.find(name);
    if (c.state == ClaimState::kRequested) {
      requested = c.requested;
      uid = c.for_uid;
    }
    if (has_instance(c) && (!since || c.changed < *since)) since = c.changed;
  }
  if (!requested) return std::nullopt;
  if (!since) {
    const bool others = std::ranges::any_of(tables_.claims, [&](const auto& entry) {
      return entry.second.for_uid == uid && !entry.second.launch.empty() && has_instance(entry.second);
    });
    if (others) since = requested;
  }
  return since ? std::optional(*since + kPartialFor) : std::nullopt;
}

void GangLaunches::refuse_late_members(const std::vector<ClaimName>& members) {
  const auto at = refused_at(members);
  if (!at || *at > state_.now) return;
  for (const auto& name : members) {
    if (tables_.claims.find(name)->state == ClaimState::kRequested)
      claims_.give_up(name, fmt::format("no instance {} s after the first of its gang",
                                        kPartialFor / Duration(std::chrono::seconds(1))));
  }
}

void GangLaunches::match_unclaimed() {
  if (tables_.unclaimed.size() == 0) return;
  std::set<std::string> open;
  std::map<InstanceId, ClaimName> claims;
  for (const auto& [name, c] : tables_.claims) {
    if (c.state == ClaimState::kRequested) open.insert(c.launch);
    if (!c.instance.empty()) claims.emplace(c.instance, name);
  }
  std::vector<InstanceId> matched;
  for (const auto& [id, row] : tables_.unclaimed) {
    if (claims.contains(id) || !open.contains(row.launch)) matched.push_back(id);
  }
  for (const auto& id : matched) {
    const Claim row = *tables_.unclaimed.find(id);
    const auto known = claims.find(id);
    const ClaimName name = known == claims.end() ? ClaimName(id.value()) : known->second;
    if (known == claims.end()) {
      tables_.claims.insert(name, row);
    } else {
      Claim& c = tables_.claims.edit(name);
      c.type = row.type;
      c.zone = row.zone;
      c.market = row.market;
      c.zone_open = false;
      c.node = row.node;
      c.launched = row.launched;
    }
    claims_.mark_changed(name);
    tables_.unclaimed.erase(id);
  }
}

void GangLaunches::roll_back_partial() {
  for (const auto& [id, members] : launches()) {
    refuse_late_members(members);
    for (const auto& name : members) {
      const Claim& c = *tables_.claims.find(name);
      if (c.state == ClaimState::kFailed && has_pods(c)) claims_.enter(name, ClaimState::kReady, "late, and in use");
    }
    std::vector<LaunchMember> states;
    std::int64_t refused = 0;
    for (const auto& name : members) {
      states.push_back(member(*tables_.claims.find(name)));
      refused += states.back() == LaunchMember::kRefused ? 1 : 0;
    }
    // A stray instance alone says nothing about the members of its launch.
    if (refused == 0) {
      for (std::size_t i = 0; i < states.size(); ++i) {
        if (states[i] != LaunchMember::kLate) states[i] = LaunchMember::kInUse;
      }
    }
    const LaunchStep step = next_step(states);
    const std::string why =
        fmt::format("the launch {} is rolled back: {} of its {} instances were refused", id, refused, members.size());
    for (const auto i : step.terminate) claims_.roll_back(members[i], why);
    for (const auto i : step.cancel) claims_.roll_back(members[i], why);
  }
}

std::vector<ClaimName> GangLaunches::roll_back(const WorkloadUid& uid) {
  std::vector<ClaimName> out;
  for (const auto& [name, c] : tables_.claims) {
    const LaunchMember state = member(c);
    const bool its = c.for_uid == uid && !c.launch.empty();
    if (its && (state == LaunchMember::kLaunched || state == LaunchMember::kRequested)) out.push_back(name);
  }
  if (out.empty()) return out;
  for (const auto& [other, plan] : tables_.plans) {
    if (other == uid || plan.promised_attempt == 0 || !tables_.demand.contains(other)) continue;
    std::erase_if(out,
                  [&](const ClaimName& name) { return std::ranges::find(plan.claims, name) != plan.claims.end(); });
  }
  for (const auto& name : out) claims_.roll_back(name, "its gang cannot be completed in this zone");
  return out;
}

std::vector<CapacityByClaim> GangLaunches::by_zone(const Tables& tables, const DemandUpdated::Item& item,
                                                   CapacityByClaim all) {
  if (item.runs) return {std::move(all)};
  std::map<std::string, CapacityByClaim> zones;
  for (auto& [name, capacity] : all) {
    // Until the cloud has chosen a zone, only the members of one launch are known to share it.
    const Claim& c = *tables.claims.find(name);
    const std::string apart = c.launch.empty() ? name.value() : c.launch;
    zones[c.zone_open ? "\n" + apart : c.zone].emplace(name, std::move(capacity));
  }
  std::vector<CapacityByClaim> out;
  for (auto& [zone, capacities] : zones) out.push_back(std::move(capacities));
  return out;
}

std::vector<PodSet> GangLaunches::rest_together(const DemandUpdated::Item& item, const Fit& own) const {
  std::vector<PodSet> rest = own.rest;
  if (item.runs || own.places.empty()) return rest;
  const std::string& zone = tables_.claims.find(own.places.front().claim)->zone;
  if (zone.empty()) return rest;
  for (PodSet& set : rest) set.shape.node_selector.emplace(words::kZone, zone);
  return rest;
}

std::string GangLaunches::id_for(const DemandUpdated::Item& item, const Fit& own, const Pool& pool,
                                 const ClaimName& first, std::int64_t nodes) {
  const bool several = nodes > 1 || !own.places.empty();
  if (item.runs || !pool.group.empty() || !several) return {};
  return launch_id(first.value(), static_cast<std::size_t>(nodes));
}

std::optional<Instant> GangLaunches::next_timer() const {
  std::optional<Instant> next;
  for (const auto& [id, members] : launches()) {
    if (const auto at = refused_at(members); at && *at > state_.now && (!next || *at < *next)) next = at;
  }
  return next;
}

}  // namespace qm::autoscaler
