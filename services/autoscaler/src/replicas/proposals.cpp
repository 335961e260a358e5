// Proposals of single metrics.
//
// A metric of pods is a mean over the pods that count, as a ratio to its target. If pods are missing or unready, the
// ratio is computed a second time with values that make the change smaller; the result holds the size if that turns
// the direction.
#include "proposals.hpp"

#include "arithmetic.hpp"

#include <algorithm>
#include <set>

namespace qm::autoscaler::replicas {
namespace {

constexpr std::int32_t kMostReplicas = std::numeric_limits<std::int32_t>::max();

struct Tolerances {
  double up, down;
  [[nodiscard]] bool within(double ratio) const { return 1.0 - down <= ratio && ratio <= 1.0 + up; }
};

Tolerances tolerances_of(const HpaSpec& spec, const ControllerOptions& options) {
  Tolerances out{options.tolerance, options.tolerance};
  if (options.configurable_tolerance && spec.behavior) {
    out.up = spec.behavior->up.tolerance.value_or(out.up);
    out.down = spec.behavior->down.tolerance.value_or(out.down);
  }
  return out;
}

struct Sample {
  std::int64_t milli = 0;
  Instant at{};
  Duration window{};
};
using Samples = std::map<std::string, Sample>;  // by pod

/// A resource of all containers of each pod. A pod of which a container lacks the resource has no sample.
Samples samples_of(const std::vector<ResourceSample>& read, const std::string& resource) {
  Samples out;
  for (const auto& sample : read) {
    std::int64_t sum = 0;
    const bool complete = !sample.usage.empty() && std::ranges::all_of(sample.usage, [&](const auto& container) {
      const auto used = container.second.find(resource);
      if (used == container.second.end()) return false;
      sum = wrapped_sum(sum, used->second);
      return true;
    });
    if (complete) out[sample.pod] = {sum, sample.at, sample.window};
  }
  return out;
}

/// A resource of one container of each pod.
Samples samples_of(const std::vector<ResourceSample>& read, const std::string& resource, const std::string& container) {
  Samples out;
  for (const auto& sample : read) {
    const auto found = sample.usage.find(container);
    if (found == sample.usage.end()) continue;
    if (const auto used = found->second.find(resource); used != found->second.end()) {
      out[sample.pod] = {used->second, sample.at, sample.window};
    }
  }
  return out;
}

Result<std::int64_t> request_of(const Pod& pod, const std::string& resource, const std::string& container) {
  if (container.empty() && !pod.pod_requests.empty()) {
    if (const auto own = pod.pod_requests.find(resource); own != pod.pod_requests.end()) return own->second;
    std::optional<std::int64_t> sum;
    for (const auto* containers : {&pod.containers, &pod.sidecars}) {
      for (const auto& [name, requests] : *containers) {
        if (const auto one = requests.find(resource); one != requests.end()) {
          sum = wrapped_sum(sum.value_or(0), one->second);
        }
      }
    }
    if (!sum) return fail(Code::kFailedPrecondition, "pod {} has no request for {}", pod.name, resource);
    return *sum;
  }
  std::int64_t sum = 0;
  bool found = container.empty();
  for (const auto* containers : {&pod.containers, &pod.sidecars}) {
    for (const auto& [name, requests] : *containers) {
      if (!container.empty() && name != container) continue;
      const auto one = requests.find(resource);
      if (one == requests.end()) {
        return fail(Code::kFailedPrecondition, "container {} of pod {} has no request for {}", name, pod.name,
                    resource);
      }
      sum = wrapped_sum(sum, one->second);
      found = true;
    }
  }
  if (!found) return fail(Code::kNotFound, "pod {} has no container {}", pod.name, container);
  return sum;
}

/// The pods of a metric by what their samples are worth.
struct Groups {
  std::int32_t ready = 0;
  std::vector<std::string> unready, missing;
};

bool is_unready(const Pod& pod, const Sample& sample, const ControllerOptions& options, Instant now) {
  if (!pod.ready || !pod.start) return true;
  if (*pod.start + options.cpu_initialization > now) return !*pod.ready || sample.at < pod.ready_since + sample.window;
  return !*pod.ready && *pod.start + options.initial_readiness > pod.ready_since;
}

/// Groups the pods, and removes the samples of those that do not count.
Groups group(const Observation& seen, Samples& samples, bool cpu, const ControllerOptions& options) {
  Groups out;
  for (const Pod& pod : seen.pods) {
    const auto sample = samples.find(pod.name);
    if (pod.deleted || pod.phase == Pod::Phase::kFailed) {
      samples.erase(pod.name);
    } else if (pod.phase == Pod::Phase::kPending) {
      samples.erase(pod.name);
      out.unready.push_back(pod.name);
    } else if (sample == samples.end()) {
      out.missing.push_back(pod.name);
    } else if (cpu && is_unready(pod, sample->second, options, seen.now)) {
      samples.erase(sample);
      out.unready.push_back(pod.name);
    } else {
      ++out.ready;
    }
  }
  return out;
}

/// The proposal of a metric of pods. `ratio` is that of usage to target; `missing` is the value of a missing pod when
/// the ratio is below 1.
template <class Ratio, class Missing>
Result<Proposal> per_pod(Samples samples, bool cpu, const Observation& seen, const ControllerOptions& options,
                         const Tolerances& tolerances, Ratio ratio_of, Missing missing) {
  if (seen.pods.empty()) return fail(Code::kNotFound, "the selector of the target matches no pod");
  const auto groups = group(seen, samples, cpu, options);
  if (samples.empty()) return fail(Code::kNotFound, "no ready pod has a sample");
  QM_ASSIGN(const double ratio, ratio_of(samples));
  const bool unready_count = !groups.unready.empty() && ratio > 1.0;
  if (!unready_count && groups.missing.empty()) {
    if (tolerances.within(ratio)) return Proposal{seen.replicas, HpaRule::kTolerance, ratio};
    return Proposal{to_int32(std::ceil(ratio * groups.ready)), HpaRule::kMetric, ratio};
  }
  if (ratio != 1.0) {
    for (const auto& pod : groups.missing) samples[pod].milli = ratio < 1.0 ? missing(pod) : 0;
  }
  if (unready_count) {
    for (const auto& pod : groups.unready) samples[pod].milli = 0;
  }
  QM_ASSIGN(const double again, ratio_of(samples));
  if (tolerances.within(again)) return Proposal{seen.replicas, HpaRule::kTolerance, again};
  const auto hold = Proposal{seen.replicas, HpaRule::kDirection, again};
  if ((ratio < 1.0 && again > 1.0) || (ratio > 1.0 && again < 1.0)) return hold;
  const auto replicas = to_int32(std::ceil(again * static_cast<double>(samples.size())));
  if ((again < 1.0 && replicas > seen.replicas) || (again > 1.0 && replicas < seen.replicas)) return hold;
  return Proposal{replicas, HpaRule::kMetric, again};
}

Result<Proposal> by_utilization(const Metric& metric, Samples samples, const Observation& seen,
                                const ControllerOptions& options, const Tolerances& tolerances) {
  std::map<std::string, std::int64_t> requests;
  for (const Pod& pod : seen.pods) {
    QM_ASSIGN(requests[pod.name], request_of(pod, metric.name, metric.container));
  }
  const auto ratio = [&](const Samples& of) -> Result<double> {
    std::int64_t used = 0, requested = 0;
    for (const auto& [pod, sample] : of) {
      const auto request = requests.find(pod);
      if (request == requests.end()) continue;
      used = wrapped_sum(used, sample.milli);
      requested = wrapped_sum(requested, request->second);
    }
    if (requested <= 0) return fail(Code::kNotFound, "no sample belongs to a pod with a request for {}", metric.name);
    const auto percent = static_cast<std::int32_t>(wrapped_product(used, 100) / requested);
    return static_cast<double>(percent) / metric.utilization;
  };
  const auto missing = [&](const std::string& pod) {
    return wrapped_product(requests.at(pod), std::max(100, metric.utilization)) / 100;
  };
  return per_pod(std::move(samples), metric.name == "cpu", seen, options, tolerances, ratio, missing);
}

Result<Proposal> by_average(const Metric& metric, Samples samples, bool cpu, const Observation& seen,
                            const ControllerOptions& options, const Tolerances& tolerances) {
  const auto ratio = [&](const Samples& of) -> Result<double> {
    std::int64_t sum = 0;
    for (const auto& [pod, sample] : of) sum = wrapped_sum(sum, sample.milli);
    const auto mean = sum / static_cast<std::int64_t>(of.size());
    return static_cast<double>(mean) / static_cast<double>(metric.milli);
  };
  return per_pod(std::move(samples), cpu, seen, options, tolerances, ratio,
                 [&](const std::string&) { return metric.milli; });
}

Result<Proposal> by_resource(const Metric& metric, const Observation& seen, const ControllerOptions& options,
                             const Tolerances& tolerances) {
  const auto& read = seen.readings.resource;
  if (!read) return fail(Code::kUnavailable, "the resource metrics API failed");
  if (read->empty()) return fail(Code::kNotFound, "the resource metrics API returned nothing");
  auto samples = metric.source == MetricSource::kContainerResource ? samples_of(*read, metric.name, metric.container)
                                                                   : samples_of(*read, metric.name);
  if (metric.type == TargetType::kUtilization) {
    return by_utilization(metric, std::move(samples), seen, options, tolerances);
  }
  return by_average(metric, std::move(samples), metric.name == "cpu", seen, options, tolerances);
}

Result<Proposal> by_pods(const Metric& metric, const Observation& seen, const ControllerOptions& options,
                         const Tolerances& tolerances) {
  const auto read = seen.readings.pods.find(metric.name);
  if (read == seen.readings.pods.end()) return fail(Code::kUnavailable, "the metric {} failed", metric.name);
  if (read->second.empty()) return fail(Code::kNotFound, "the metric {} has no values", metric.name);
  Samples samples;
  for (const auto& value : read->second) samples[value.pod].milli = value.milli;
  return by_average(metric, std::move(samples), false, seen, options, tolerances);
}

/// Usage and target of the whole target: the ratio applies to its ready pods.
Result<Proposal> by_value(std::int64_t usage, std::int64_t target, const Observation& seen,
                          const Tolerances& tolerances) {
  const double ratio = static_cast<double>(usage) / static_cast<double>(target);
  if (seen.replicas == 0) return Proposal{to_int32(std::ceil(ratio)), HpaRule::kMetric, ratio};
  if (tolerances.within(ratio)) return Proposal{seen.replicas, HpaRule::kTolerance, ratio};
  if (seen.pods.empty()) return fail(Code::kNotFound, "the selector of the target matches no pod");
  const auto ready = std::ranges::count_if(
      seen.pods, [](const Pod& pod) { return pod.phase == Pod::Phase::kRunning && pod.ready.value_or(false); });
  const double wanted = ratio * static_cast<double>(ready);
  return Proposal{wanted > kMostReplicas ? kMostReplicas : to_int32(std::ceil(wanted)), HpaRule::kMetric, ratio};
}

/// Usage of the whole target, shared by the replicas of its status.
Proposal by_share(std::int64_t usage, const Metric& metric, const Observation& seen, const Tolerances& tolerances) {
  const auto target = static_cast<double>(metric.milli);
  const double ratio = static_cast<double>(usage) / (target * seen.status_replicas);
  if (tolerances.within(ratio)) {
    const bool holds = seen.status_replicas == seen.replicas;
    return {seen.status_replicas, holds ? HpaRule::kTolerance : HpaRule::kMetric, ratio};
  }
  const double wanted = std::ceil(static_cast<double>(usage) / target);
  if (metric.source == MetricSource::kExternal && wanted > kMostReplicas)
    return {kMostReplicas, HpaRule::kMetric, ratio};
  return {to_int32(wanted), HpaRule::kMetric, ratio};
}

Result<Proposal> by_object(const Metric& metric, const Observation& seen, const Tolerances& tolerances) {
  const auto read = seen.readings.object.find(metric.name);
  if (read == seen.readings.object.end()) return fail(Code::kUnavailable, "the metric {} failed", metric.name);
  if (metric.type == TargetType::kValue) return by_value(read->second, metric.milli, seen, tolerances);
  return by_share(read->second, metric, seen, tolerances);
}

Result<Proposal> by_external(const Metric& metric, const Observation& seen, const Tolerances& tolerances) {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  const auto read = seen.readings.external.find(metric.name);
  if (read == seen.readings.external.end()) return fail(Code::kUnavailable, "the metric {} failed", metric.name);
  if (read->second.empty()) return fail(Code::kNotFound, "the metric {} has no values", metric.name);
  const bool value = metric.type == TargetType::kValue;
  std::int64_t usage = 0;
  for (const auto milli : read->second) {
    if (value && milli > 0 && usage > kMost - milli) {
      usage = kMost;
      break;
    }
    usage = wrapped_sum(usage, milli);
    if (!value && usage < 0) {  // the original takes every negative sum for an overflow
      usage = kMost;
      break;
    }
  }
  if (value) return by_value(usage, metric.milli, seen, tolerances);
  return by_share(usage, metric, seen, tolerances);
}

}  // namespace

Result<Proposal> propose(const Metric& metric, const HpaSpec& spec, const ControllerOptions& options,
                         const Observation& seen) {
  const auto tolerances = metric.exact ? Tolerances{0, 0} : tolerances_of(spec, options);
  switch (metric.source) {
    case MetricSource::kResource:
    case MetricSource::kContainerResource:
      return by_resource(metric, seen, options, tolerances);
    case MetricSource::kPods:
      return by_pods(metric, seen, options, tolerances);
    case MetricSource::kObject:
      return by_object(metric, seen, tolerances);
    case MetricSource::kExternal:
      return by_external(metric, seen, tolerances);
    case MetricSource::kUnknown:
      break;
  }
  return fail(Code::kInvalid, "the metric source type is unknown");
}

std::string_view failure_reason(MetricSource source) {
  switch (source) {
    case MetricSource::kResource:
      return "FailedGetResourceMetric";
    case MetricSource::kContainerResource:
      return "FailedGetContainerResourceMetric";
    case MetricSource::kPods:
      return "FailedGetPodsMetric";
    case MetricSource::kObject:
      return "FailedGetObjectMetric";
    case MetricSource::kExternal:
      return "FailedGetExternalMetric";
    case MetricSource::kUnknown:
      break;
  }
  return "InvalidMetricSourceType";
}

}  // namespace qm::autoscaler::replicas
