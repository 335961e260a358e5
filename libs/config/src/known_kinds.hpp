#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace qm::config {

/// A group of the Kubernetes API whose versions and kinds are all known.
struct ApiGroup {
  std::string_view group;  ///< empty = the core group
  std::vector<std::string_view> versions;
  std::vector<std::string_view> kinds;
};
/// The groups that this library parses, and those of objects with pods. Objects of other groups are not checked.
[[nodiscard]] const std::vector<ApiGroup>& api_groups();

/// An invalid apiVersion or kind, and the most likely correction.
struct KindFault {
  std::string field, message, remedy;  ///< all empty if both are known, or if the group is not known
};
[[nodiscard]] KindFault kind_fault(std::string_view group, std::string_view version, std::string_view kind);

}  // namespace qm::config
