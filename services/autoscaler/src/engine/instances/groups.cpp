// Pools whose instances an Auto Scaling group launches: the autoscaler sets the size, the group launches and reports
// the instances.
//
//   size of the group = instances of its pool that are to stay + launches that are still open (a level, so nothing is
//                       counted twice)
//   an open launch that is given up remains open until the cloud confirms that it fails: a smaller size could meet the
//   instance on its way, and the group would choose the instance to terminate
//   an instance of the group without a claim = the oldest claim without one    (else it is adopted unchanged)
//   a termination goes through the group, which would replace the instance otherwise
#include "instances/groups.hpp"

#include <algorithm>

namespace qm::autoscaler {

bool is_leaving(const Tables& tables, const Claim& c) {
  if (c.group.empty() || c.instance.empty()) return false;
  const ScalingGroup* group = tables.scaling_groups.find(c.group);
  const auto* member = group == nullptr ? nullptr : group->member(c.instance);
  return member != nullptr && member->lifecycle.starts_with("Terminating");
}

std::map<std::string, std::int64_t> spare_instances(const Tables& tables) {
  std::map<std::string, std::int64_t> out;
  for (const auto& [name, group] : tables.scaling_groups) out[name] = -group.min;
  for (const auto& [name, c] : tables.claims) {
    const bool stays = counts_in_group(c) && c.state != ClaimState::kDraining && !is_leaving(tables, c);
    if (const auto at = out.find(c.group); at != out.end() && stays && !c.instance.empty()) ++at->second;
  }
  return out;
}

// A rebalance of zones launches the replacement first, and terminates the other instance a moment later.
bool Groups::is_recent(const ClaimName& name, const Claim& c) const {
  return name.value() == c.instance.value() && c.state == ClaimState::kLaunched &&
         tables_.scaling_groups.contains(c.group) && state_.now < c.changed + options_.settle;
}

std::optional<Instant> Groups::next_recent() const {
  std::optional<Instant> next;
  for (const auto& [name, c] : tables_.claims) {
    if (is_recent(name, c)) next = std::min(next.value_or(c.changed + options_.settle), c.changed + options_.settle);
  }
  return next;
}

std::map<std::string, GroupCount> Groups::counts() const {
  std::map<std::string, GroupCount> out;
  for (const auto& [name, pool] : tables_.pools) {
    if (!pool.group.empty() && !pool.manual) out.emplace(pool.group, GroupCount{});
  }
  for (const auto& [name, c] : tables_.claims) {
    const auto it = out.find(c.group);
    if (it == out.end()) continue;
    if (c.owed) ++it->second.owed;
    if (!counts_in_group(c) || is_leaving(tables_, c)) continue;
    ++(c.instance.empty() ? it->second.requested : it->second.instances);
    if (is_recent(name, c)) ++it->second.recent;
  }
  return out;
}

void Groups::size_groups() {
  const auto sizes = counts();
  for (const auto& [group, count] : sizes) {
    std::int64_t size = count.instances + count.open();
    if (const ScalingGroup* row = tables_.scaling_groups.find(group); row != nullptr && row->desired < size)
      size -= std::min(count.recent, size - row->desired);
    const std::int64_t* asked = tables_.group_sizes.find(group);
    if (asked == nullptr ? size == 0 : *asked == size) continue;  // nothing is known yet of a group that is new
    tables_.group_sizes.insert(group, size);
    state_.out.groups.push_back({group, size, tables_.counters.edit("group") += 1});
  }
  std::vector<std::string> over;
  for (const auto& [group, size] : tables_.group_sizes) {
    if (!sizes.contains(group)) over.push_back(group);
  }
  for (const auto& group : over) tables_.group_sizes.erase(group);
}

}  // namespace qm::autoscaler
