// Replicas over hours of virtual time: several scalers of one target, steps of an autoscaler with slow policies, and
// what windows save.
#include "qm/autoscaler/replicas/scaler.hpp"
#include "test/engine/replica_rig.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <random>

namespace qm::autoscaler::testing {
namespace replica_day_test {

using std::chrono::minutes;
using std::chrono::seconds;

/// The metric of the pods of an inference server, with a target of 70.
std::string utilization_spec(int min, int max, const std::string& behavior) {
  return fmt::format(
      R"("minReplicas": {}, "maxReplicas": {}, "metrics": [{{"type": "Pods", "pods":
         {{"metric": {{"name": "gpu_utilization"}}, "target": {{"type": "AverageValue", "averageValue": "70"}}}}}}]{})",
      min, max, behavior.empty() ? "" : ", \"behavior\": " + behavior);
}
const std::string kFastUpSlowDown = R"({
    "scaleUp": {"stabilizationWindowSeconds": 60, "selectPolicy": "Max", "policies": [
        {"type": "Percent", "value": 50, "periodSeconds": 60}, {"type": "Pods", "value": 2, "periodSeconds": 60}]},
    "scaleDown": {"stabilizationWindowSeconds": 300, "policies": [
        {"type": "Percent", "value": 10, "periodSeconds": 60}]}})";
const std::string kSlowSteps = R"({
    "scaleUp": {"stabilizationWindowSeconds": 60, "policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]},
    "scaleDown": {"stabilizationWindowSeconds": 300, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 120}]}})";
const std::string kQueueOf10 = R"("minReplicaCount": 2, "maxReplicaCount": 20, "triggers": [{"type": "aws-sqs-queue",
    "name": "work", "metadata": {"queueURL": "https://sqs/1/work", "awsRegion": "us-west-2", "queueLength": "10"}}])";
const std::string kOfficeHours = R"("minReplicaCount": 2, "maxReplicaCount": 18, "triggers": [{"type": "cron",
    "metadata": {"timezone": "America/New_York", "start": "0 9 * * *", "end": "0 18 * * *", "desiredReplicas": "8"}}])";

/// The pods of the target, all ready, with a value each.
void pods(ReplicaRig& rig, const ScalerId& id, double value) {
  rig.sample.pods.clear();
  auto& values = rig.sample.readings[id].metrics.pods["gpu_utilization"];
  values.clear();
  for (std::int32_t i = 0; i < rig.sample.replicas; ++i) {
    replicas::Pod pod;
    pod.name = fmt::format("p{}", i);
    pod.start = pod.ready_since = Instant{};
    values.push_back({pod.name, static_cast<std::int64_t>(value * 1000)});
    rig.sample.pods.push_back(std::move(pod));
  }
}

/// Replicas at full use that the load of a day takes: a slow wave and noise.
class Load {
 public:
  double at(int second) {
    const double wave = 6 + 5 * std::sin(2 * M_PI * second / 86'400.0);
    return std::max(0.2, wave + std::normal_distribution<double>(0, 0.8)(random_));
  }

 private:
  std::mt19937 random_{20261128};
};

struct Day {
  int changes = 0, reversals = 0, quick_reversals = 0;  // quick: fewer replicas within 300 s of more
  void seen(int second, std::int32_t before, std::int32_t after) {
    if (before == after) return;
    ++changes;
    const bool up = after > before;
    if (last_ && up != last_up_) ++reversals;
    if (last_ && !up && last_up_ && second - *last_ < 300) ++quick_reversals;
    last_ = second;
    last_up_ = up;
  }

 private:
  std::optional<int> last_;
  bool last_up_ = false;
};

struct ThreeScalers {
  ReplicaRig rig;
  ScalerId utilization = rig.hpa("llm-inference", utilization_spec(2, 20, kFastUpSlowDown), 30);
  ScalerId queue = rig.scaled_object("inference-scaler", kQueueOf10, 20);
  ScalerId hours = rig.scaled_object("inference-time-based", kOfficeHours, 10);
  Load load;

  void measure(int second) {
    const double full = load.at(second);
    pods(rig, utilization, std::min(100.0, 100 * full / std::max(1, rig.sample.replicas)));
    const auto waiting = std::max(0.0, full - rig.sample.replicas) * 25;
    rig.reading(queue, "work", replicas::QueueReading{static_cast<std::int64_t>(waiting), 0, 0});
  }
};

// S-236
TEST(ReplicaDay, ThreeScalersOfOneTargetDoNotFlap) {
  ThreeScalers three;
  auto& rig = three.rig;
  three.measure(0);
  rig.take_over();
  Day day;
  int hours_at_8 = 0;
  for (int second = 15; second <= 86'400; second += 15) {
    three.measure(second);
    const auto before = rig.sample.replicas;
    rig.observe();
    const auto after = rig.sample.replicas;
    day.seen(second, before, after);
    ASSERT_GE(after, 2);
    ASSERT_LE(after, 18) << "the smallest maximum";
    std::int32_t largest = 0;
    for (const auto& id : {three.utilization, three.queue, three.hours}) {
      largest = std::max(largest, rig.decision(id).wanted);
    }
    ASSERT_EQ(after, std::clamp(largest, 2, 18)) << "at " << second;
    if (rig.decision(three.hours).wanted == 8) ++hours_at_8;
  }
  EXPECT_EQ(day.quick_reversals, 0);
  EXPECT_GT(day.changes, 10) << "the load moves the size";
  EXPECT_LT(day.reversals, 60) << "less than three an hour, as the noise of the load";
  EXPECT_GT(hours_at_8, 0);
  EXPECT_NE(rig.row().conflict.find("3 scalers have this target"), std::string::npos);
  RecordProperty("changes", day.changes);
  RecordProperty("reversals", day.reversals);
}

// What happens without one decision for all: each controller sets its own result in turn.
TEST(ReplicaDay, ControllersThatActOneByOneDoFlap) {
  ThreeScalers three;
  auto& rig = three.rig;
  Day day;
  for (int second = 15; second <= 6 * 3600; second += 15) {
    three.measure(second);
    rig.observe();
    for (const auto& id : {three.utilization, three.queue, three.hours}) {
      const auto before = rig.sample.replicas;
      rig.sample.replicas = rig.sample.status_replicas = rig.decision(id).wanted;
      day.seen(second, before, rig.sample.replicas);
    }
  }
  EXPECT_GT(day.quick_reversals, 100);
}

// S-230
TEST(ReplicaDay, SlowPoliciesStepAsTheirManifestSpecifies) {
  ReplicaRig rig;
  const auto id = rig.hpa("llm-inference-hpa", utilization_spec(2, 10, kSlowSteps));
  rig.sample.replicas = rig.sample.status_replicas = 2;
  pods(rig, id, 70);
  rig.take_over();
  std::vector<std::pair<int, std::int32_t>> steps;
  const auto run = [&](int from, int until, double value) {
    for (int second = from + 15; second <= until; second += 15) {
      pods(rig, id, value);
      const auto before = rig.sample.replicas;
      rig.observe();
      if (rig.sample.replicas != before) steps.emplace_back(second, rig.sample.replicas);
    }
  };
  run(0, 600, 210);
  ASSERT_EQ(steps.size(), 4U);
  std::vector<std::int32_t> sizes;
  for (const auto& step : steps) sizes.push_back(step.second);
  EXPECT_EQ(sizes, (std::vector<std::int32_t>{4, 6, 8, 10}));
  for (std::size_t i = 1; i < steps.size(); ++i) EXPECT_EQ(steps[i].first - steps[i - 1].first, 60);
  steps.clear();
  run(600, 600 + 300 + 8 * 120 + 60, 1);
  ASSERT_EQ(steps.size(), 8U) << "one by one to the minimum";
  EXPECT_GE(steps[0].first, 900) << "not before the window of 300 s";
  EXPECT_LE(steps[0].first, 915);
  for (std::size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(steps[i].second, 9 - static_cast<std::int32_t>(i));
  for (std::size_t i = 1; i < steps.size(); ++i) EXPECT_EQ(steps[i].first - steps[i - 1].first, 120);
}

/// GPU-seconds of pods that pull their image and load their model, over four hours of bursts.
std::int64_t starting_gpu_seconds(const std::string& behavior) {
  constexpr int kStartSeconds = 90, kGpus = 1;
  ReplicaRig rig;
  const auto id = rig.hpa("llm-inference", utilization_spec(2, 20, behavior));
  pods(rig, id, 70);
  rig.take_over();
  std::mt19937 random(7);
  std::int64_t started = 0;
  double full = 4;
  for (int second = 15; second <= 4 * 3600; second += 15) {
    if (second % 120 == 0) full = std::uniform_real_distribution<double>(2, 12)(random);
    pods(rig, id, std::min(100.0, 100 * full / std::max(1, rig.sample.replicas)));
    const auto before = rig.sample.replicas;
    rig.observe();
    started += std::max(0, rig.sample.replicas - before);
  }
  return started * kStartSeconds * kGpus;
}

// S-223
TEST(ReplicaDay, WindowsAtLeastHalveTheGpuTimeOfStartingPods) {
  const std::string none =
      R"({"scaleUp": {"stabilizationWindowSeconds": 0}, "scaleDown": {"stabilizationWindowSeconds": 0}})";
  const auto with = starting_gpu_seconds(kFastUpSlowDown), without = starting_gpu_seconds(none);
  EXPECT_GT(with, 0);
  EXPECT_LE(2 * with, without) << with << " and " << without << " GPU-seconds";
}

/// Seconds that 99 % of the requests wait at most in an hour of bursts, where pods need 90 s to start and each serves one
/// request a second. The scaler follows the length of the queue, or the utilization of the pods.
int wait_in_bursts(bool by_queue) {
  constexpr int kStart = 90, kHour = 3600;
  ReplicaRig rig;
  const auto id = by_queue ? rig.scaled_object("queue", kQueueOf10) : rig.hpa("llm", utilization_spec(2, 20, ""));
  rig.sample.replicas = rig.sample.status_replicas = 2;
  const auto measure = [&](std::int64_t waiting, std::int64_t busy, std::int64_t serving) {
    if (by_queue) return rig.reading(id, "work", replicas::QueueReading{waiting, 0, 0});
    pods(rig, id, 100.0 * static_cast<double>(busy) / static_cast<double>(serving));
  };
  measure(0, 1, 2);
  rig.take_over();
  std::vector<int> ready_at(2, 0), waits;
  std::deque<int> queue;  // arrivals
  for (int second = 1; second <= kHour; ++second) {
    const int arrivals = second % 900 < 120 ? 8 : 1;
    for (int i = 0; i < arrivals; ++i) queue.push_back(second);
    const auto serving = std::ranges::count_if(ready_at, [&](int at) { return at <= second; });
    const auto busy = std::min<std::int64_t>(serving, static_cast<std::int64_t>(queue.size()));
    for (std::int64_t i = 0; i < busy; ++i) {
      waits.push_back(second - queue.front());
      queue.pop_front();
    }
    if (second % 15 != 0) continue;
    measure(static_cast<std::int64_t>(queue.size()), busy, serving);
    rig.observe();
    const auto size = static_cast<std::size_t>(rig.sample.replicas);
    while (ready_at.size() < size) ready_at.push_back(second + kStart);
    ready_at.resize(size);  // the newest pods end first
  }
  std::ranges::sort(waits);
  return waits[waits.size() * 99 / 100];
}

// S-226
TEST(ReplicaDay, AQueueSignalLowersTheWaitOfABurst) {
  const int by_queue = wait_in_bursts(true), by_utilization = wait_in_bursts(false);
  EXPECT_LT(by_queue, by_utilization) << by_queue << " and " << by_utilization << " s";
  EXPECT_GT(by_queue, 0);
}

/// A gauge that is read every so often.
struct Gauge {
  Duration every{}, phase{};
  [[nodiscard]] Duration last(Duration at) const { return at - ((at - phase) % every + every) % every; }
};

/// From a step of the load to the change of the replicas, where the target is sampled once a period. `measure` sets the
/// readings at a time after the step, or before it if negative.
Duration reaction(ReplicaRig& rig, Duration period, Duration step, const std::function<void(Duration)>& measure) {
  constexpr Duration kTick = std::chrono::milliseconds(100);
  rig.scales.clear();
  rig.obedient = false;
  Duration sampled{};
  for (Duration at = kTick; at < step + minutes(3); at += kTick) {
    rig.script.advance(kTick);
    if (at < sampled + period) {
      rig.step({});  // wakes for what is due
    } else {
      sampled = at;
      measure(at - step);
      rig.sample.at = rig.script.now();
      rig.step({rig.sample});
    }
    if (!rig.scales.empty()) return at - step;
  }
  ADD_FAILURE() << "no change of the replicas";
  return minutes(3);
}

/// Of an autoscaler: DCGM updates the utilization each ten seconds, Prometheus scrapes it.
Duration reaction_by_metric(Duration scrape, std::mt19937& random) {
  const auto phase = [&](Duration every) {
    return Duration(std::uniform_int_distribution<std::int64_t>(0, every.count())(random));
  };
  const Gauge dcgm{seconds(10), phase(seconds(10))}, scraped{scrape, phase(scrape)};
  ReplicaRig rig;
  const auto id = rig.hpa("llm", utilization_spec(2, 20, ""));
  rig.sample.replicas = rig.sample.status_replicas = 4;
  pods(rig, id, 70);
  rig.take_over();
  return reaction(rig, seconds(15), minutes(1) + phase(seconds(30)),
                  [&](Duration since) { pods(rig, id, dcgm.last(scraped.last(since)) < Duration::zero() ? 70 : 98); });
}

/// Of a ScaledObject whose trigger is the length of a queue, from so many replicas.
Duration reaction_by_queue(std::int32_t replicas, const std::string& interval, Options options, std::mt19937& random) {
  ReplicaRig rig(std::move(options));
  const auto id = rig.scaled_object("queue", interval + kQueueOf10);
  rig.sample.replicas = rig.sample.status_replicas = replicas;
  rig.reading(id, "work", replicas::QueueReading{replicas * 10, 0, 0});
  rig.take_over();
  const auto* read = rig.script.engine().tables().replicas.scalers.find(id);
  const auto period = std::min<Duration>(seconds(15), replicas::Scaler::read_object(read->manifest)->polling());
  const Duration step = minutes(1) + Duration(std::uniform_int_distribution<std::int64_t>(0, 30'000'000)(random));
  return reaction(rig, period, step, [&](Duration since) {
    rig.reading(id, "work", replicas::QueueReading{(since < Duration::zero() ? replicas : 2 * replicas) * 10, 0, 0});
  });
}

Duration longest(const std::function<Duration(std::mt19937&)>& once) {
  std::mt19937 random(224);
  Duration out{};
  for (int i = 0; i < 100; ++i) out = std::max(out, once(random));
  return out;
}
double in_seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

// S-224
TEST(ReplicaDay, ReactsToALoadStepIn30SecondsByMetricsAndIn2ByAQueue) {
  const auto by_metric = longest([](auto& random) { return reaction_by_metric(seconds(5), random); });
  const auto slow_scrape = longest([](auto& random) { return reaction_by_metric(seconds(10), random); });
  const auto by_queue =
      longest([](auto& random) { return reaction_by_queue(4, R"("pollingInterval": 1, )", {}, random); });
  Options compatible;
  compatible.replicas.exact_rules = false;
  const auto as_keda =
      longest([&](auto& random) { return reaction_by_queue(4, R"("pollingInterval": 1, )", compatible, random); });
  std::printf(
      "longest of 100 reactions: %.1f s by DCGM each 10 s and a scrape each 5 s (%.1f s each 10 s), %.1f s by a queue "
      "polled each second (%.1f s as KEDA)\n",
      in_seconds(by_metric), in_seconds(slow_scrape), in_seconds(by_queue), in_seconds(as_keda));
  EXPECT_LE(by_metric, seconds(30));
  EXPECT_GT(by_metric, seconds(20)) << "or the phases do not differ";
  EXPECT_LE(slow_scrape, seconds(35));
  EXPECT_LE(by_queue, seconds(2));
  EXPECT_GT(as_keda, seconds(10)) << "an autoscaler of KEDA syncs each 15 s";
}

}  // namespace replica_day_test
}  // namespace qm::autoscaler::testing
