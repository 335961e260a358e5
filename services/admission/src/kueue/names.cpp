#include "qm/admission/kueue/names.hpp"

namespace qm::admission::kueue {

int Names::of(std::string_view name) {
  if (const auto found = ids_.find(name); found != ids_.end()) return found->second;
  const int id = static_cast<int>(names_.size());
  ids_.emplace(name, id);
  names_.emplace_back(name);
  return id;
}

std::optional<int> Names::find(std::string_view name) const {
  const auto found = ids_.find(name);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

}  // namespace qm::admission::kueue
