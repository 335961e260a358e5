#pragma once
#include "qm/admission/quota.hpp"

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

/// The words of the lines in test/cases: numbers, durations and quotas.
namespace qm::admission::case_test {

using Words = std::vector<std::string>;

inline Words split(const std::string& text, char by) {
  Words words;
  std::string word;
  std::istringstream in(text);
  while (std::getline(in, word, by)) {
    if (!word.empty()) words.push_back(word);
  }
  return words;
}

inline Duration read_duration(const std::string& text) {
  const auto amount = std::stoll(text);
  switch (text.back()) {
    case 'h':
      return std::chrono::hours(amount);
    case 'm':
      return std::chrono::minutes(amount);
    default:
      return std::chrono::seconds(amount);
  }
}

inline std::int64_t amount_of(const std::string& resource, std::int64_t n) {
  return resource == "gpu" || resource == "cpu" ? n * 1000 : n;
}
inline std::string resource_of(const std::string& word) {
  return word == "gpu" ? std::string(words::kGpuResource) : word;
}

// "h100:gpu=16/b8/l4,cpu=100"
inline void add_quota(std::vector<ResourceGroup>& groups, const std::string& text) {
  const auto colon = text.find(':');
  FlavorQuotas flavor{FlavorName(text.substr(0, colon)), {}};
  std::vector<std::string> covered;
  for (const auto& part : split(text.substr(colon + 1), ',')) {
    const auto equals = part.find('=');
    const std::string word = part.substr(0, equals);
    Quota quota;
    for (const auto& figure : split(part.substr(equals + 1), '/')) {
      if (figure[0] == 'b') {
        quota.borrowing_limit = amount_of(word, std::stoll(figure.substr(1)));
      } else if (figure[0] == 'l') {
        quota.lending_limit = amount_of(word, std::stoll(figure.substr(1)));
      } else {
        quota.nominal = amount_of(word, std::stoll(figure));
      }
    }
    covered.push_back(resource_of(word));
    flavor.resources[resource_of(word)] = quota;
  }
  for (auto& group : groups) {
    if (group.covered == covered) return group.flavors.push_back(flavor);
  }
  groups.push_back({covered, {flavor}});
}

inline PreemptPolicy policy_of(const std::string& word) {
  if (word == "Any") return PreemptPolicy::kAny;
  if (word == "LowerPriority") return PreemptPolicy::kLowerPriority;
  if (word == "LowerOrNewerEqualPriority") return PreemptPolicy::kLowerOrNewerEqualPriority;
  return PreemptPolicy::kNever;
}
inline StopPolicy stop_of(const std::string& word) {
  return word == "Hold" ? StopPolicy::kHold : word == "HoldAndDrain" ? StopPolicy::kHoldAndDrain : StopPolicy::kNone;
}

}  // namespace qm::admission::case_test
