#pragma once
#include "qm/bus/bus.hpp"

#include <map>
#include <string>
#include <vector>

namespace qm::bus {

/// Assigns partitions to the members of a group. Every member computes the same assignment from the same list.
///
/// Order    per topic, partitions are assigned round-robin to the members that subscribe to the topic, by id; the
///          topics start at different members so that many small topics are spread.
[[nodiscard]] std::vector<TopicPartition> assign(const std::map<std::string, std::vector<std::string>>& members,
                                                 const std::map<std::string, int>& partitions, const std::string& me);

/// Member ids that sort in the order of joining.
[[nodiscard]] std::string member_id(std::uint64_t number);

/// The error of ensure_topics for an existing topic with another partition count.
[[nodiscard]] Error other_partitions(const std::string& topic, int has, int wanted);

}  // namespace qm::bus
