#pragma once
#include "subjects.hpp"

#include <string>

namespace qm::admission::webhook {

using namespace admission_policy;

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
