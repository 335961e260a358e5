// Pools whose machines an Auto Scaling group makes: we say how many, the group makes them, and says which it made.
//
//   size of the group = claims of its pools that are to be or to stay       (a level, so nothing is counted twice)
//   a machine of the group that is nobody's = the oldest claim without one  (else it is taken in as it is)
//   an end goes through the group, which would replace the machine otherwise
#include "qm/autoscaler/engine.hpp"

namespace qm::autoscaler {
namespace {

/// Whether the group should have a machine for it.
bool counts(const Claim& c) {
  return c.state != ClaimState::kTerminating && c.state != ClaimState::kGone && c.state != ClaimState::kFailed;
}

}  // namespace

const Pool* Engine::pool_of_group(const std::string& group) const {
  if (group.empty()) return nullptr;
  for (const auto& [name, pool] : tables_.pools) {
    if (pool.group == group) return &pool;
  }
  return nullptr;
}

// Names of claims count up, so the first is the oldest.
std::optional<ClaimName> Engine::claim_for(const InstanceFact& fact, const Pool& pool) const {
  if (fact.stopped) return std::nullopt;
  for (const auto& [name, c] : tables_.claims) {
    const bool waits = c.state == ClaimState::kRequested && c.instance.empty();
    if (waits && c.pool == pool.name && c.type == fact.type && c.market == fact.market) return name;
  }
  return std::nullopt;
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
    if (asked == nullptr ? size == 0 : *asked == size) continue;  // of a group that is new to us nothing is known yet
    tables_.group_sizes.insert(group, size);
    out_.groups.push_back({group, size, now_});
  }
  std::vector<std::string> over;
  for (const auto& [group, size] : tables_.group_sizes) {
    if (!sizes.contains(group)) over.push_back(group);
  }
  for (const auto& group : over) tables_.group_sizes.erase(group);
}

// What does not come now will not come at once either: the next cheapest offering is tried.
void Engine::give_up(const ClaimName& name, const std::string& reason) {
  const Claim& c = *tables_.claims.find(name);
  const Offering offering{c.type, c.zone, c.market};
  const Instant until = now_ + options_.capacity_memory;
  if (const Instant* known = tables_.blocked.find(offering); known == nullptr || *known != until) {
    tables_.blocked.insert(offering, until);
  }
  enter(name, ClaimState::kFailed, reason);
}

void Engine::apply(const GroupRefused& c) {
  std::vector<ClaimName> waiting;
  std::int64_t beyond = -c.granted;
  for (const auto& [name, claim] : tables_.claims) {
    if (claim.group != c.group || !counts(claim)) continue;
    ++beyond;
    if (claim.state == ClaimState::kRequested) waiting.push_back(name);
  }
  // The newest are those of the least urgent gangs: claims of a step are made in the order of priority.
  for (; beyond > 0 && !waiting.empty(); --beyond) {
    give_up(waiting.back(), c.error);
    waiting.pop_back();
  }
}

}  // namespace qm::autoscaler
