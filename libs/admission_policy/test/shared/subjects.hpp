#pragma once
#include "qm/admission_policy/policy.hpp"

#include <string>

namespace qm::admission_policy {

inline Json parsed(const std::string& text) {
  auto value = Json::parse(text);
  return value ? std::move(*value) : Json("unreadable: " + text);
}

inline Subject created(const Json& object, const char* kind = "Pod", const char* ns = "team") {
  return {Operation::kCreate, kind, ns, object["metadata"]["name"].string(), "alice", &object, nullptr};
}
inline Subject updated(const Json& was, const Json& is, const char* kind = "Job", const char* user = "alice") {
  return {Operation::kUpdate, kind, "team", was["metadata"]["name"].string(), user, &is, &was};
}

}  // namespace qm::admission_policy
