// Cost of one decision: a sync over the pods of a target, and a pass of the scale loop with a cron trigger and a formula.
#include "qm/autoscaler/replicas/keda.hpp"
#include "qm/autoscaler/replicas/manifests.hpp"

#include <benchmark/benchmark.h>

namespace qm::autoscaler::replicas {
namespace {

void sync_of_pods(benchmark::State& bench) {
  HpaSpec spec;
  spec.max = 10'000;
  spec.metrics.emplace_back();
  spec.metrics[0].name = "cpu";
  spec.metrics[0].utilization = 60;
  spec.behavior.emplace();
  Observation seen;
  seen.replicas = seen.status_replicas = static_cast<std::int32_t>(bench.range(0));
  seen.readings.resource.emplace();
  for (std::int32_t i = 0; i < seen.replicas; ++i) {
    Pod pod;
    pod.name = "p" + std::to_string(i);
    pod.start = pod.ready_since = Instant(-std::chrono::hours(1));
    pod.containers["app"] = {{"cpu", 1000}};
    seen.pods.push_back(pod);
    seen.readings.resource->push_back({pod.name, {}, std::chrono::seconds(60), {{"app", {{"cpu", 500 + i % 200}}}}});
  }
  HpaState state;
  for (auto _ : bench) {
    seen.now += std::chrono::seconds(15);
    benchmark::DoNotOptimize(sync(spec, {}, seen, state));
  }
}
BENCHMARK(sync_of_pods)->Arg(10)->Arg(1000);

void pass_of_the_scale_loop(benchmark::State& bench) {
  const auto object = read_scaled_object(*Json::parse(R"json({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject",
      "spec": {"advanced": {"scalingModifiers": {"formula": "max(hours * 10, jobs + 1)", "target": "10"}}, "triggers": [
      {"type": "cron", "name": "hours", "metadata": {"timezone": "Europe/Berlin", "start": "0 8 * * MON-FRI",
       "end": "0 18 * * MON-FRI", "desiredReplicas": "5"}},
      {"type": "aws-sqs-queue", "name": "jobs", "metadata": {"queueURL": "q", "awsRegion": "r"}}]}})json"));
  TriggerObservation seen;
  seen.now = Instant(std::chrono::hours(24 * 20'000));
  seen.replicas = seen.status_replicas = 3;
  seen.readings["jobs"] = QueueReading{50, 0, 0};
  ScaledObjectState state;
  for (auto _ : bench) {
    seen.now += std::chrono::seconds(30);
    benchmark::DoNotOptimize(poll(*object, {}, seen, state));
  }
}
BENCHMARK(pass_of_the_scale_loop);

}  // namespace
}  // namespace qm::autoscaler::replicas
