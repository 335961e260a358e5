#pragma once
#include "installation.hpp"

#include <set>
#include <string>
#include <vector>

namespace qm::deploy {

/// One verb on one resource that a rule grants to a process of the release.
struct Grant {
  std::string component, verb, group, resource;
  std::string ns;    ///< of a Role; empty: everywhere
  std::string name;  ///< the only object that it applies to; empty: any
  auto operator<=>(const Grant&) const = default;
  [[nodiscard]] bool covers(const Installation::Call& call) const {
    return component == call.component && verb == call.verb && (group == "*" || group == call.group) &&
           covers_resource(call.resource) && (ns.empty() || ns == call.ns) && (name.empty() || name == call.name);
  }
  /// "*" is every resource, and "*/scale" the subresource of every one.
  [[nodiscard]] bool covers_resource(const std::string& called) const {
    if (resource == "*" || resource == called) return true;
    return resource.starts_with("*/") && called.ends_with(resource.substr(1));
  }
  [[nodiscard]] std::string text() const {
    return component + ": " + verb + " " + resource + (group.empty() ? "" : "." + group) +
           (name.empty() ? "" : " \"" + name + "\"");
  }
};

/// Every rule x group x resource x verb x name of a Role or ClusterRole.
std::vector<Grant> grants_of(const Json& role, const std::string& component);

/// Grants that were never used, and calls without a grant, in readable form.
struct Difference {
  std::set<std::string> unused, missing;
};
Difference compare(const std::vector<Grant>& grants, const std::vector<Installation::Call>& calls);

}  // namespace qm::deploy
