#include "qm/admission/webhook/review.hpp"

#include "qm/base/base64.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::admission::webhook {

using admission_policy::Finding, admission_policy::Operation, admission_policy::Subject, admission_policy::Verdict;

namespace {

constexpr const char* kReviewVersion = "admission.k8s.io/v1";
/// Limits of one review. The API server accepts objects of at most 1.5 MiB, and each value has a comma, a brace or a
/// bracket. A body with more of these than any real object would only become a tree many times its size.
constexpr std::ptrdiff_t kMostValues = 300'000;
/// Limit for labels, annotations and any other JSON object: far more than real objects have, few enough for
/// a linear search.
constexpr std::size_t kMostMembers = 10'000;
/// Causes in one refusal; it also has the number of further causes.
constexpr std::size_t kMostCauses = 50;
/// Number and size of warnings. The API server truncates a warning that clients show.
constexpr std::size_t kMostWarnings = 20;
constexpr std::size_t kMostWarningBytes = 250;

/// A JSON pointer that is extended and shortened during the traversal.
class Pointer {
 public:
  template <class Step>
  void in(std::string_view key, const Step& step) {
    const auto length = text_.size();
    text_ += '/';
    for (const char c : key) {
      if (c == '~') {
        text_ += "~0";
      } else if (c == '/') {
        text_ += "~1";
      } else {
        text_ += c;
      }
    }
    step();
    text_.resize(length);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void add(Json& patch, const char* op, const std::string& path, const Json* value = nullptr) {
  auto one = Json::object({{"op", op}, {"path", path}});
  if (value != nullptr) one.set("value", *value);
  patch.push_back(std::move(one));
}

/// Finds a member by name, first at `place`: both objects nearly always have it at the same position.
const Json* same(const Json& object, std::string_view key, std::size_t place) {
  const auto& members = object.members();
  if (place < members.size() && members[place].first == key) return &members[place].second;
  return object.find(key);
}

void compare(const Json& before, const Json& after, Pointer& at, Json& patch) {
  if (before.is_object() && after.is_object()) {
    std::size_t place = 0;
    for (const auto& [key, value] : before.members()) {
      const auto* now = same(after, key, place++);
      at.in(key, [&, &was = value] {
        if (now == nullptr) {
          add(patch, "remove", at.text());
        } else {
          compare(was, *now, at, patch);
        }
      });
    }
    place = 0;
    for (const auto& [key, value] : after.members()) {
      if (same(before, key, place++) != nullptr) continue;
      at.in(key, [&, &now = value] { add(patch, "add", at.text(), &now); });
    }
  } else if (before.is_array() && after.is_array() && before.size() > 0 && before.size() <= after.size()) {
    for (std::size_t i = 0; i < before.size(); ++i) {
      at.in(std::to_string(i), [&] { compare(before.at(i), after.at(i), at, patch); });
    }
    for (std::size_t i = before.size(); i < after.size(); ++i) {
      at.in("-", [&] { add(patch, "add", at.text(), &after.at(i)); });
    }
  } else if (!(before == after)) {
    add(patch, "replace", at.text(), &after);
  }
}

/// Drops managedFields: a third of a typical object, and not used by any rule.
void drop_managed_fields(Json& review, const char* which) {
  auto* request = review.find("request");
  auto* object = request == nullptr ? nullptr : request->find(which);
  auto* metadata = object == nullptr ? nullptr : object->find("metadata");
  if (metadata != nullptr) metadata->erase("managedFields");
}

std::string written(const Review& review, Json response) {
  response.set("uid", review.uid());
  return Json::object({{"apiVersion", kReviewVersion}, {"kind", "AdmissionReview"}, {"response", std::move(response)}})
      .dump();
}

Operation operation_of(std::string_view word) {
  if (word == "CREATE") return Operation::kCreate;
  return word == "UPDATE" ? Operation::kUpdate : Operation::kOther;
}

Error too_much(std::string what, std::string field) {
  return {Code::kInvalid, std::move(what), std::move(field), "send an object as the API server would store it"};
}

/// Finds the object with the most members. Members are searched linearly, so their number has a limit of its own.
const Json* widest_of(const Json& value) {
  const Json* widest = value.is_object() ? &value : nullptr;
  const auto look = [&](const Json& part) {
    const auto* found = widest_of(part);
    if (found != nullptr && (widest == nullptr || found->size() > widest->size())) widest = found;
  };
  for (const auto& [key, member] : value.members()) look(member);
  for (const auto& item : value.items()) look(item);
  return widest;
}

}  // namespace

Json patch_of(const Json& before, const Json& after) {
  auto patch = Json::array();
  Pointer root;
  compare(before, after, root, patch);
  return patch;
}

Result<Review> Review::read(std::string_view body) {
  // Checked before parsing: a refused body costs one scan of its bytes. A short body cannot have too many values.
  std::ptrdiff_t values = 0;
  if (body.size() > kMostMembers) {
    values = std::ranges::count_if(body, [](char c) { return c == ',' || c == '{' || c == '['; });
  }
  if (values > kMostValues) {
    return fail(too_much(fmt::format("the body may hold {} values, and the limit is {}", values, kMostValues), "body"));
  }
  Review out;
  QM_ASSIGN(out.review_, Json::parse(body));
  const auto& version = out.review_["apiVersion"].string();
  if (out.review_["kind"].string() != "AdmissionReview") {
    return fail({Code::kInvalid, "the request body is not an AdmissionReview", "kind", "send an AdmissionReview"});
  }
  if (version != kReviewVersion) {
    return fail({Code::kInvalid, fmt::format("an AdmissionReview of {} is not accepted", version), "apiVersion",
                 fmt::format("register with admissionReviewVersions: [v1]; {} is accepted", kReviewVersion)});
  }
  const auto* widest = values > static_cast<std::ptrdiff_t>(kMostMembers) ? widest_of(out.review_) : nullptr;
  if (widest != nullptr && widest->size() > kMostMembers) {
    return fail(too_much(fmt::format("an object of {} members, the first of which is {}, is refused; the limit is {}",
                                     widest->size(), widest->members().front().first.substr(0, 63), kMostMembers),
                         "request"));
  }
  for (const auto* which : {"object", "oldObject"}) drop_managed_fields(out.review_, which);
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
      by_hand = by_hand || finding.rule == "held" || finding.rule == "admitted" || finding.rule == "owned-metadata";
      if (causes.size() == kMostCauses) continue;
      message += fmt::format("{}{}", message.empty() ? "" : "; ", finding.to_string());
      causes.push_back(
          Json::object({{"reason", finding.rule}, {"message", finding.message}, {"field", finding.field}}));
    }
    if (verdict.refusals.size() > kMostCauses)
      message += fmt::format("; and {} more", verdict.refusals.size() - kMostCauses);
    // Forbidden: another user, or another time, could be allowed. Invalid: the object itself must change.
    response.set("status", Json::object({{"code", by_hand ? 403 : 422},
                                         {"reason", by_hand ? "Forbidden" : "Invalid"},
                                         {"message", message},
                                         {"details", Json::object({{"causes", std::move(causes)}})}}));
  }
  if (!verdict.audit.empty()) {
    auto& audit = response.set("auditAnnotations");
    for (const auto& [key, value] : verdict.audit) audit.set(key, value);
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
