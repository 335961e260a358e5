#include "qm/model/scalers.hpp"

#include <array>

namespace qm {
namespace {

constexpr std::string_view kPaused = "autoscaling.keda.sh/paused";
constexpr std::string_view kDisabled = "Disabled";
constexpr std::array<std::string_view, 2> kDirections{"scaleUp", "scaleDown"};

const std::string& annotation_of(const Json& object, std::string_view key) {
  return object["metadata"]["annotations"][key].string();
}

bool is_autoscaler(const Json& object) { return object["kind"].string() == "HorizontalPodAutoscaler"; }

void set_annotation(Json& object, std::string_view key, Json value) {
  object.set("metadata").set("annotations").set(key, std::move(value));
}

void erase_annotation(Json& object, std::string_view key) {
  auto& metadata = object.set("metadata");
  auto* annotations = metadata.find("annotations");
  if (annotations == nullptr) return;
  annotations->erase(key);
  if (annotations->size() == 0) metadata.erase("annotations");
}

/// What the annotation has; null without one, or if it is not JSON.
Json original_of(const Json& object) {
  const auto& text = annotation_of(object, kOriginalScaling);
  return text.empty() ? Json() : Json::parse(text).value_or(Json());
}

/// The behavior that the user of a suspended autoscaler wants, whose update may have changed parts of it.
Json wanted_behavior(const Json& object, const Json& earlier) {
  Json out = object["spec"]["behavior"];
  if (earlier.is_null()) return out;
  for (const auto direction : kDirections) {
    if (out[direction]["selectPolicy"].string() != kDisabled) continue;
    const Json& policy = earlier["behavior"][direction]["selectPolicy"];
    if (policy.is_null()) {
      out.find(direction)->erase("selectPolicy");
    } else {
      out.find(direction)->set("selectPolicy", policy);
    }
  }
  return out;
}

Json suspended_autoscaler(const Json& object, const Json& before) {
  const Json earlier = original_of(object);
  const bool same =
      !earlier.is_null() && (before.is_null() || before["spec"]["behavior"] == object["spec"]["behavior"]);
  const Json original = same ? earlier : Json::object({{"behavior", wanted_behavior(object, earlier)}});
  Json out = object;
  set_annotation(out, kOriginalScaling, original.dump());
  auto& behavior = out.set("spec").set("behavior");
  for (const auto direction : kDirections) behavior.set(direction).set("selectPolicy", kDisabled);
  return out;
}

Json suspended_object(const Json& object) {
  const Json earlier = original_of(object);
  const Json& now = object["metadata"]["annotations"][kPaused];
  Json out = object;
  // The value of the suspension is not one of its user.
  if (earlier.is_null() || now.string() != "true") {
    set_annotation(out, kOriginalScaling, Json::object({{"paused", now}}).dump());
  }
  set_annotation(out, kPaused, "true");
  return out;
}

}  // namespace

bool is_scaler(const Json& object) {
  const auto& version = object["apiVersion"].string();
  return (is_autoscaler(object) && version == "autoscaling/v2") ||
         (object["kind"].string() == "ScaledObject" && version.starts_with("keda.sh/"));
}

bool is_suspended(const Json& object) {
  if (original_of(object).is_null()) return false;
  if (!is_autoscaler(object)) return annotation_of(object, kPaused) == "true";
  for (const auto direction : kDirections) {
    if (object["spec"]["behavior"][direction]["selectPolicy"].string() != kDisabled) return false;
  }
  return true;
}

Json suspended(const Json& object, const Json& before) {
  return is_autoscaler(object) ? suspended_autoscaler(object, before) : suspended_object(object);
}

Json restored(const Json& object) {
  const Json original = original_of(object);
  if (original.is_null()) return object;
  Json out = object;
  erase_annotation(out, kOriginalScaling);
  if (!is_autoscaler(object)) {
    if (original["paused"].is_null()) {
      erase_annotation(out, kPaused);
    } else {
      set_annotation(out, kPaused, original["paused"]);
    }
  } else if (original["behavior"].is_null()) {
    out.set("spec").erase("behavior");
  } else {
    out.set("spec").set("behavior", original["behavior"]);
  }
  return out;
}

std::string ScaleTargetRef::group() const {
  const auto slash = api_version.find('/');
  return slash == std::string::npos ? std::string() : api_version.substr(0, slash);
}

ScaleTargetRef scale_target_of(const Json& object) {
  const Json& ref = object["spec"]["scaleTargetRef"];
  if (is_autoscaler(object)) return {ref["apiVersion"].string(), ref["kind"].string(), ref["name"].string()};
  return {ref["apiVersion"].string_or("apps/v1"), ref["kind"].string_or("Deployment"), ref["name"].string()};
}

}  // namespace qm
