#include "qm/autoscaler/replicas/assumed.hpp"

#include <cmath>

namespace qm::autoscaler::replicas {
namespace {

constexpr Instant kNow{std::chrono::hours(24)};
constexpr double kMilli = 1000, kPercent = 100;

std::int64_t milli_of(double value) { return std::llround(value * kMilli); }

Pod ready_pod(std::int32_t number) {
  Pod out;
  out.name = "p" + std::to_string(number);
  out.start = out.ready_since = Instant{};
  return out;
}

/// Gives each pod a request for the resource and a sample with the share of it.
void add_resource(const Metric& metric, double percent, Observation& seen) {
  constexpr std::int64_t kRequest = 1'000'000;
  const std::string container = metric.container.empty() ? "main" : metric.container;
  auto& samples = seen.readings.resource;
  if (!samples) samples.emplace();
  samples->resize(seen.pods.size());
  for (std::size_t i = 0; i < seen.pods.size(); ++i) {
    seen.pods[i].containers[container][metric.name] = kRequest;
    auto& sample = (*samples)[i];
    sample.pod = seen.pods[i].name;
    sample.at = kNow;
    sample.usage[container][metric.name] = std::llround(percent / kPercent * kRequest);
  }
}

}  // namespace

HpaDecision decide_for(const HpaSpec& spec, const AssumedLoad& load) {
  Observation seen;
  seen.now = kNow;
  seen.replicas = seen.status_replicas = load.replicas;
  for (std::int32_t i = 0; i < load.replicas; ++i) seen.pods.push_back(ready_pod(i));
  for (const Metric& metric : spec.metrics) {
    const auto found = load.values.find(metric.name);
    if (found == load.values.end()) continue;
    switch (metric.source) {
      case MetricSource::kResource:
      case MetricSource::kContainerResource:
        add_resource(metric, found->second, seen);
        break;
      case MetricSource::kPods:
        for (const Pod& pod : seen.pods) seen.readings.pods[metric.name].push_back({pod.name, milli_of(found->second)});
        break;
      case MetricSource::kObject:
        seen.readings.object[metric.name] = milli_of(found->second);
        break;
      case MetricSource::kExternal:
        seen.readings.external[metric.name] = {milli_of(found->second)};
        break;
      case MetricSource::kUnknown:
        break;
    }
  }
  HpaState state;
  state.recommendations
      .emplace();  // the first sync of a controller recommends the present size, so that it never shrinks
  return sync(spec, {}, seen, state);
}

}  // namespace qm::autoscaler::replicas
