// Pools whose instances an Auto Scaling group launches: the autoscaler sets the size, the group launches and reports
// the instances.
//
//   size of the group = claims of its pool that are to be launched or to stay  (a level, so nothing is counted twice)
//   an instance of the group without a claim = the oldest claim without one    (else it is adopted unchanged)
//   a termination goes through the group, which would replace the instance otherwise
#include "qm/autoscaler/engine.hpp"

#include <algorithm>
#include <tuple>

namespace qm::autoscaler {
namespace {

/// Whether the group must have an instance for the claim.
bool counts(const Claim& c) {
  return c.state != ClaimState::kTerminating && c.state != ClaimState::kGone && c.state != ClaimState::kFailed;
}

}  // namespace

// A group belongs to one pool: the shell refuses two pools with the same group.
const Pool* Engine::pool_of_group(const std::string& group) const {
  if (group.empty()) return nullptr;
  for (const auto& [name, pool] : tables_.pools) {
    if (pool.group == group) return &pool;
  }
  return nullptr;
}

// The launch template of the group determines its instances. An instance of another kind than assumed is still the
// requested one: if it were adopted in addition to its claim, the group would grow by one for each such instance.
std::optional<ClaimName> Engine::claim_for(const InstanceFact& fact) const {
  if (fact.stopped) return std::nullopt;
  const ClaimName* best = nullptr;
  const auto rank = [&](const ClaimName& name) {
    const Claim& c = *tables_.claims.find(name);
    return std::tuple(c.type != fact.type || c.market != fact.market, c.requested, name);
  };
  for (const auto& [name, c] : tables_.claims) {
    if (c.group != fact.group || c.state != ClaimState::kRequested || !c.instance.empty()) continue;
    if (best == nullptr || rank(name) < rank(*best)) best = &name;
  }
  return best == nullptr ? std::nullopt : std::optional(*best);
}

void Engine::size_groups() {
  std::map<std::string, std::int64_t> sizes;
  for (const auto& [name, pool] : tables_.pools) {
    if (!pool.group.empty()) sizes.emplace(pool.group, 0);
  }
  for (const auto& [name, c] : tables_.claims) {
    if (const auto it = sizes.find(c.group); it != sizes.end() && counts(c)) ++it->second;
  }
  for (const auto& [group, size] : sizes) {
    const std::int64_t* asked = tables_.group_sizes.find(group);
    if (asked == nullptr ? size == 0 : *asked == size) continue;  // nothing is known yet of a group that is new
    tables_.group_sizes.insert(group, size);
    out_.groups.push_back({group, size, tables_.counters.edit("group") += 1});
  }
  std::vector<std::string> over;
  for (const auto& [group, size] : tables_.group_sizes) {
    if (!sizes.contains(group)) over.push_back(group);
  }
  for (const auto& group : over) tables_.group_sizes.erase(group);
}

// An instance that does not start now will not start immediately either: the next cheapest offering is tried.
void Engine::give_up(const ClaimName& name, const std::string& reason) {
  const Claim& c = *tables_.claims.find(name);
  const Offering offering{c.type, c.zone, c.market, c.group};
  const Instant until = now_ + options_.capacity_memory;
  if (const Instant* known = tables_.blocked.find(offering); known == nullptr || *known != until) {
    tables_.blocked.insert(offering, until);
  }
  enter(name, ClaimState::kFailed, reason);
}

// Gangs lose their claims as a whole, the least urgent first: a part of one would be launched in vain. Replicas of a
// static pool are not a gang: only the surplus ones fail, the newest first.
void Engine::apply(const GroupRefused& c) {
  std::int64_t beyond = -c.granted;
  std::map<WorkloadUid, std::vector<ClaimName>> waiting;
  for (const auto& [name, claim] : tables_.claims) {
    if (claim.group != c.group || !counts(claim)) continue;
    ++beyond;
    if (claim.state == ClaimState::kRequested) waiting[claim.for_uid].push_back(name);
  }
  std::vector<WorkloadUid> gangs;
  for (const auto& [uid, claims] : waiting) gangs.push_back(uid);
  const auto urgency = [&](const WorkloadUid& uid) {
    const DemandUpdated::Item* item = tables_.demand.find(uid);
    return item == nullptr ? std::tuple(true, 0, false, Instant{}, uid)
                           : std::tuple(false, -item->priority, item->runs, item->since, uid);
  };
  std::sort(gangs.begin(), gangs.end(), [&](const auto& a, const auto& b) { return urgency(b) < urgency(a); });
  for (const auto& uid : gangs) {
    if (beyond <= 0) break;
    auto& names = waiting[uid];
    if (uid.empty()) {
      const auto age = [&](const ClaimName& name) { return std::tuple(tables_.claims.find(name)->requested, name); };
      std::sort(names.begin(), names.end(), [&](const auto& a, const auto& b) { return age(b) < age(a); });
      names.resize(static_cast<std::size_t>(std::min(beyond, static_cast<std::int64_t>(names.size()))));
    }
    for (const auto& name : names) give_up(name, c.error);
    beyond -= static_cast<std::int64_t>(names.size());
  }
}

}  // namespace qm::autoscaler
