#pragma once
#include "qm/bus/bus.hpp"

#include <map>
#include <string>
#include <vector>

namespace qm::bus {

/// Which partitions a member of a group reads, by a rule that every member computes alike from the same list.
///
/// Order    per topic, partition p goes to the p-th of the members that want the topic, by id, round and round; the
///          topics start at different members so that many small topics spread.
[[nodiscard]] std::vector<TopicPartition> assign(const std::map<std::string, std::vector<std::string>>& members,
                                                 const std::map<std::string, int>& partitions, const std::string& me);

/// Ids that sort in the order of joining.
[[nodiscard]] std::string member_id(std::uint64_t number);

/// The refusal of ensure_topics for a topic that stands with another partition count.
[[nodiscard]] Error other_partitions(const std::string& topic, int has, int wanted);

}  // namespace qm::bus
