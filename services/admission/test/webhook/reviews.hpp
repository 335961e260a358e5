#pragma once
#include "qm/admission/webhook/policy.hpp"

#include <string>

namespace qm::admission::webhook {

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

/// A review as the API server writes it.
inline std::string review_of(const Json& object, const char* kind, const char* operation = "CREATE",
                             const Json& old = {}, const char* user = "alice") {
  auto request = Json::object({{"uid", "705ab4f5-6393-11e8-b7cc-42010a800002"},
                               {"kind", Json::object({{"group", ""}, {"version", "v1"}, {"kind", kind}})},
                               {"namespace", "team"},
                               {"operation", operation},
                               {"userInfo", Json::object({{"username", user}})},
                               {"object", object},
                               {"oldObject", old}});
  return Json::object(
             {{"apiVersion", "admission.k8s.io/v1"}, {"kind", "AdmissionReview"}, {"request", std::move(request)}})
      .dump();
}

}  // namespace qm::admission::webhook
