#include "groups.hpp"

namespace qm::autoscaler::pack {

void append_key(std::string& out, const std::string& text) {
  out += text;
  out += '\0';
}

void append_key(std::string& out, const LabelSelector& selector) {
  for (const auto& one : selector.requirements) {
    append_key(out, one.key);
    out += static_cast<char>('0' + static_cast<int>(one.op));
    for (const auto& value : one.values) append_key(out, value);
    out += '\1';
  }
  out += '\2';
}

std::uint32_t SelectorGroups::add(const std::string& name_space, const LabelSelector& selector) {
  std::string key;
  append_key(key, name_space);
  append_key(key, selector);
  const auto [found, fresh] = number_.emplace(std::move(key), static_cast<std::uint32_t>(groups_.size()));
  if (fresh) groups_.push_back({name_space, selector});
  return found->second;
}

std::vector<std::uint32_t> SelectorGroups::of(const Pod& pod) const {
  std::vector<std::uint32_t> out;
  for (std::uint32_t i = 0; i < groups_.size(); ++i) {
    if (groups_[i].name_space == pod.name_space && groups_[i].selector.matches(pod.labels)) out.push_back(i);
  }
  return out;
}

}  // namespace qm::autoscaler::pack
