#include "qm/admission/webhook/review.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::admission::webhook {
namespace {

constexpr const char* kVersion = "admission.k8s.io/v1";
/// What a client shows of one warning is cut by the API server; so many of them are plenty.
constexpr std::size_t kMostWarnings = 20;
constexpr std::size_t kMostWarningBytes = 250;

std::string pointer_part(std::string_view key) {
  std::string out = "/";
  for (const char c : key) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

void add(Json& patch, const char* op, const std::string& path, const Json* value = nullptr) {
  auto one = Json::object({{"op", op}, {"path", path}});
  if (value != nullptr) one.set("value", *value);
  patch.push_back(std::move(one));
}

void compare(const Json& before, const Json& after, const std::string& path, Json& patch) {
  if (before.is_object() && after.is_object()) {
    for (const auto& [key, value] : before.members()) {
      const auto* now = after.find(key);
      if (now == nullptr) {
        add(patch, "remove", path + pointer_part(key));
      } else {
        compare(value, *now, path + pointer_part(key), patch);
      }
    }
    for (const auto& [key, value] : after.members()) {
      if (!before.contains(key)) add(patch, "add", path + pointer_part(key), &value);
    }
  } else if (before.is_array() && after.is_array() && before.size() > 0 && before.size() <= after.size()) {
    for (std::size_t i = 0; i < before.size(); ++i) {
      compare(before.at(i), after.at(i), fmt::format("{}/{}", path, i), patch);
    }
    for (std::size_t i = before.size(); i < after.size(); ++i) add(patch, "add", path + "/-", &after.at(i));
  } else if (!(before == after)) {
    add(patch, "replace", path, &after);
  }
}

std::string written(const Review& review, Json response) {
  response.set("uid", review.uid());
  return Json::object({{"apiVersion", kVersion}, {"kind", "AdmissionReview"}, {"response", std::move(response)}})
      .dump();
}

Operation operation_of(std::string_view word) {
  if (word == "CREATE") return Operation::kCreate;
  return word == "UPDATE" ? Operation::kUpdate : Operation::kOther;
}

}  // namespace

Json patch_of(const Json& before, const Json& after) {
  auto patch = Json::array();
  compare(before, after, "", patch);
  return patch;
}

Result<Review> Review::read(std::string_view body) {
  Review out;
  QM_ASSIGN(out.review_, Json::parse(body));
  const auto& version = out.review_["apiVersion"].string();
  if (out.review_["kind"].string() != "AdmissionReview") {
    return fail({Code::kInvalid, "the body is no AdmissionReview", "kind", "send an AdmissionReview"});
  }
  if (version != kVersion) {
    return fail({Code::kInvalid, fmt::format("an AdmissionReview of {} is not taken", version), "apiVersion",
                 fmt::format("register with admissionReviewVersions: [v1]; {} is taken", kVersion)});
  }
  out.uid_ = out.review_["request"]["uid"].string();
  if (out.uid_.empty()) {
    return fail({Code::kInvalid, "the review's request has no uid", "request.uid", "send one as Kubernetes does"});
  }
  return out;
}

Subject Review::subject() const {
  const auto& request = review_["request"];
  Subject out;
  out.kind = request["subResource"].string().empty() ? request["kind"]["kind"].string() : std::string();
  out.operation = request["object"].is_object() ? operation_of(request["operation"].string()) : Operation::kOther;
  out.ns = request["namespace"].string();
  out.object = &request["object"];
  if (request["oldObject"].is_object()) out.old = &request["oldObject"];
  out.name = request["name"].string();
  if (out.name.empty()) out.name = (*out.object)["metadata"]["name"].string();
  if (out.name.empty()) out.name = (*out.object)["metadata"]["generateName"].string();
  out.user = request["userInfo"]["username"].string();
  return out;
}

std::string answer(const Review& review, const Json& mutated) {
  auto response = Json::object({{"allowed", true}});
  if (const auto& object = *review.subject().object; object.is_object()) {
    if (const auto patch = patch_of(object, mutated); patch.size() > 0) {
      response.set("patchType", "JSONPatch").set("patch", base64(patch.dump()));
    }
  }
  return written(review, std::move(response));
}

std::string answer(const Review& review, const Verdict& verdict) {
  auto response = Json::object({{"allowed", verdict.allowed()}});
  if (!verdict.allowed()) {
    std::string message;
    auto causes = Json::array();
    bool by_hand = false;
    for (const auto& finding : verdict.refusals) {
      message += fmt::format("{}{}", message.empty() ? "" : "; ", finding.to_string());
      causes.push_back(
          Json::object({{"reason", finding.rule}, {"message", finding.message}, {"field", finding.field}}));
      by_hand = by_hand || finding.rule == "held" || finding.rule == "admitted";
    }
    // Forbidden: that would have to be another person, or another time. Invalid: it would have to be another object.
    response.set("status", Json::object({{"code", by_hand ? 403 : 422},
                                         {"reason", by_hand ? "Forbidden" : "Invalid"},
                                         {"message", message},
                                         {"details", Json::object({{"causes", std::move(causes)}})}}));
  }
  auto warnings = Json::array();
  for (const auto& finding : verdict.warnings) {
    if (warnings.size() == kMostWarnings) break;
    warnings.push_back(finding.to_string().substr(0, kMostWarningBytes));
  }
  if (warnings.size() > 0) response.set("warnings", std::move(warnings));
  return written(review, std::move(response));
}

}  // namespace qm::admission::webhook
