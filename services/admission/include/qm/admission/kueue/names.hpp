#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::admission::kueue {

/// Maps names to small numbers.
class Names {
 public:
  int of(std::string_view name);
  [[nodiscard]] std::optional<int> find(std::string_view name) const;
  [[nodiscard]] const std::string& operator[](int id) const { return names_.at(static_cast<std::size_t>(id)); }
  [[nodiscard]] int size() const { return static_cast<int>(names_.size()); }

 private:
  std::map<std::string, int, std::less<>> ids_;
  std::vector<std::string> names_;
};

}  // namespace qm::admission::kueue
