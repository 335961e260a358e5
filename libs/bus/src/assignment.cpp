#include "assignment.hpp"

#include "qm/base/digest.hpp"

#include <algorithm>

namespace qm::bus {

std::vector<TopicPartition> assign(const std::map<std::string, std::vector<std::string>>& members,
                                   const std::map<std::string, int>& partitions, const std::string& me) {
  std::vector<TopicPartition> out;
  for (const auto& [topic, count] : partitions) {
    std::vector<std::string> readers;
    for (const auto& [id, topics] : members)
      if (std::ranges::find(topics, topic) != topics.end()) readers.push_back(id);
    if (readers.empty()) continue;
    const auto first = stable_hash(topic);
    for (int p = 0; p < count; ++p)
      if (readers[(first + static_cast<std::uint64_t>(p)) % readers.size()] == me) out.push_back({topic, p});
  }
  return out;
}

std::string member_id(std::uint64_t number) { return fmt::format("{:020}", number); }

Error other_partitions(const std::string& topic, int has, int wanted) {
  return {Code::kFailedPrecondition, fmt::format("topic {} has {} partitions, {} were requested", topic, has, wanted),
          "partitions", "the count of an existing topic never changes: drain it into a new topic instead"};
}

}  // namespace qm::bus
