#pragma once
#include "qm/autoscaler/replicas/hpa.hpp"
#include "qm/autoscaler/replicas/keda.hpp"
#include "qm/autoscaler/replicas/manifests.hpp"

#include <gtest/gtest.h>

#include <string>

namespace qm::autoscaler::replicas::fixtures {

using std::chrono::seconds;

inline Instant at(std::int64_t second) { return Instant(seconds(second)); }

/// A HorizontalPodAutoscaler whose spec has these fields after scaleTargetRef.
inline HpaSpec hpa(const std::string& fields) {
  const auto json = Json::parse(R"({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {},
    "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, )" +
                                fields + "}}");
  const auto read = read_hpa(json.value());
  EXPECT_TRUE(read) << read.error().to_string();
  return read ? read->spec : HpaSpec{};
}

/// A metric that asks for exactly the size that its only value has: external, AverageValue, target 1.
inline const std::string kQueue =
    R"("metrics": [{"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "1"}}}])";

inline ControllerOptions exact() {
  ControllerOptions out;
  out.tolerance = 0;
  return out;
}

inline Pod ready_pod(const std::string& name) {
  Pod out;
  out.name = name;
  out.ready_since = at(-3600);
  out.start = at(-3600);
  out.containers["app"] = {{"cpu", 1000}};
  return out;
}

inline Observation seen(std::int64_t second, std::int32_t replicas) {
  Observation out;
  out.now = at(second);
  out.replicas = out.status_replicas = replicas;
  for (std::int32_t i = 0; i < replicas; ++i) out.pods.push_back(ready_pod("p" + std::to_string(i)));
  return out;
}

/// An autoscaler of kQueue whose target follows its decisions.
struct Follower {
  HpaSpec spec;
  ControllerOptions options = exact();
  HpaState state;
  std::int32_t replicas = 1;

  HpaDecision tick(std::int64_t second, std::int32_t wanted) {
    auto now = seen(second, replicas);
    now.readings.external["queue"] = {1000 * std::int64_t{wanted}};
    const auto out = sync(spec, options, now, state);
    replicas = out.desired;
    return out;
  }
  std::string reason(const std::string& type) const {
    const auto found = state.conditions.find(type);
    return found == state.conditions.end() ? "" : found->second.reason;
  }
};

/// Samples of cpu, one pod after the other, in milli-CPU; a negative one is missing.
inline std::vector<ResourceSample> cpu(std::int64_t second, const std::vector<std::int64_t>& used) {
  std::vector<ResourceSample> out;
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (used[i] < 0) continue;
    ResourceSample one;
    one.pod = "p" + std::to_string(i);
    one.at = at(second);
    one.usage["app"] = {{"cpu", used[i]}};
    out.push_back(std::move(one));
  }
  return out;
}

/// A ScaledObject whose spec has these fields after scaleTargetRef.
inline ScaledObject scaled_object(const std::string& fields) {
  const auto json = Json::parse(R"({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {},
    "spec": {"scaleTargetRef": {"name": "web"}, )" +
                                fields + "}}");
  const auto read = read_scaled_object(json.value());
  EXPECT_TRUE(read) << read.error().to_string();
  return read.value();
}

}  // namespace qm::autoscaler::replicas::fixtures
