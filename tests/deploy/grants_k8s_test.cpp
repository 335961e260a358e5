#include "grants.hpp"

#include <algorithm>

namespace qm::deploy {

std::vector<Grant> grants_of(const Json& role, const std::string& component) {
  std::vector<Grant> out;
  const std::string ns = role["kind"].string() == "Role" ? kube::namespace_of(role) : std::string();
  const auto words = [](const Json& list) {
    std::vector<std::string> all;
    for (const Json& word : list.items()) all.push_back(word.string());
    return all;
  };
  for (const Json& rule : role["rules"].items()) {
    auto names = words(rule["resourceNames"]);
    if (names.empty()) names.emplace_back();
    for (const auto& group : words(rule["apiGroups"])) {
      for (const auto& resource : words(rule["resources"])) {
        for (const auto& verb : words(rule["verbs"])) {
          for (const auto& name : names) out.push_back({component, verb, group, resource, ns, name});
        }
      }
    }
  }
  return out;
}

Difference compare(const std::vector<Grant>& grants, const std::vector<Installation::Call>& calls) {
  Difference out;
  for (const auto& grant : grants) {
    if (std::ranges::none_of(calls, [&](const auto& call) { return call.code != 403 && grant.covers(call); }))
      out.unused.insert(grant.text());
  }
  for (const auto& call : calls) {
    if (call.code != 403 && std::ranges::any_of(grants, [&](const Grant& grant) { return grant.covers(call); }))
      continue;
    out.missing.insert(Grant{call.component, call.verb, call.group, call.resource, {}, call.name}.text());
  }
  return out;
}

}  // namespace qm::deploy
