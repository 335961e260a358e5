#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace qm::config {

/// A group of the Kubernetes API whose versions and kinds are known as a whole.
struct ApiGroup {
  std::string_view group;  ///< empty = the core group
  std::vector<std::string_view> versions;
  std::vector<std::string_view> kinds;
};
/// The groups that this library reads, and those of objects that make pods. Objects of other groups are not judged.
[[nodiscard]] const std::vector<ApiGroup>& api_groups();

/// What is wrong with an apiVersion or a kind, and what was most likely meant.
struct KindFault {
  std::string field, message, remedy;  ///< all empty where both are known, or where the group is not
};
[[nodiscard]] KindFault kind_fault(std::string_view group, std::string_view version, std::string_view kind);

}  // namespace qm::config
