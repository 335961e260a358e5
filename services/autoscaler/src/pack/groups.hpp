#pragma once
#include "qm/autoscaler/pack/problem.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace qm::autoscaler::pack {

/// Groups of pods that constraints select: one for each namespace and selector.
class SelectorGroups {
 public:
  /// The number of the group of `selector` in the namespace.
  std::uint32_t add(const std::string& name_space, const LabelSelector& selector);
  /// The groups that select the pod, ascending.
  [[nodiscard]] std::vector<std::uint32_t> of(const Pod& pod) const;
  [[nodiscard]] std::size_t size() const { return groups_.size(); }

 private:
  struct Group {
    std::string name_space;
    LabelSelector selector;
  };
  std::vector<Group> groups_;
  std::map<std::string, std::uint32_t> number_;
};

/// Appends a text that is equal for equal selectors only.
void append_key(std::string& out, const LabelSelector& selector);
void append_key(std::string& out, const std::string& text);

}  // namespace qm::autoscaler::pack
