// Pools whose instances an Auto Scaling group launches: the autoscaler sets the size, the group launches and reports
// the instances.
//
//   size of the group = claims of its pool that are to be launched or to stay  (a level, so nothing is counted twice)
//   an instance of the group without a claim = the oldest claim without one    (else it is adopted unchanged)
//   a termination goes through the group, which would replace the instance otherwise
#include "instances/groups.hpp"

#include <algorithm>

namespace qm::autoscaler {
void Groups::size_groups() {
  std::map<std::string, std::int64_t> sizes;
  for (const auto& [name, pool] : tables_.pools) {
    if (!pool.group.empty()) sizes.emplace(pool.group, 0);
  }
  for (const auto& [name, c] : tables_.claims) {
    if (const auto it = sizes.find(c.group); it != sizes.end() && counts_in_group(c)) ++it->second;
  }
  for (const auto& [group, size] : sizes) {
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
