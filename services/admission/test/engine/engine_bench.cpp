// How long a decision takes: draining 10,000 waiting workloads through 10 cohorts of 10 queues, one finish at a time.
#include "qm/admission/engine.hpp"

#include <benchmark/benchmark.h>

namespace qm::admission {
namespace {

void Drain(benchmark::State& state) {
  constexpr int kQueues = 100;
  constexpr int kWaiting = 10'000;
  std::int64_t admitted = 0;
  for (auto _ : state) {
    state.PauseTiming();
    Engine engine;
    Instant now = from_micros(1'000'000);
    ApplyObjects objects;
    objects.flavors.push_back({FlavorName("f"), {}, {}, {}, {}});
    for (int i = 0; i < kQueues; ++i) {
      ClusterQueue q;
      q.name = QueueName(fmt::format("q{:02}", i));
      q.cohort = fmt::format("c{}", i / 10);
      q.groups = {{{std::string(words::kGpuResource)},
                   {{FlavorName("f"), {{std::string(words::kGpuResource), Quota{16'000, {}, {}}}}}}}};
      objects.cluster_queues.push_back(q);
      objects.local_queues.push_back({Namespace("ns"), q.name.value(), q.name, StopPolicy::kNone, {}});
    }
    engine.step(std::vector<Command>{objects}, now);
    std::vector<Command> jobs;
    std::vector<JobSeen> all;
    for (int i = 0; i < kWaiting; ++i) {
      JobSeen job;
      job.spec.uid = WorkloadUid(fmt::format("w{:05}", i));
      job.spec.ns = Namespace("ns");
      job.spec.name = job.spec.uid.value();
      job.spec.queue = fmt::format("q{:02}", i % kQueues);
      job.spec.priority = i % 7;
      job.spec.submitted = from_micros(i + 1);
      PodSet pods;
      pods.shape.gpu.whole = 1 + i % 8;
      job.spec.pod_sets.push_back(pods);
      all.push_back(job);
      jobs.emplace_back(job);
    }
    auto out = engine.step(jobs, now);
    engine.commit();
    std::vector<int> running;
    const auto take = [&] {
      for (const auto& e : out.events) {
        if (e.what != Event::What::kQuotaReserved) continue;
        running.push_back(std::stoi(e.workload.spec.uid.value().substr(1)));
        ++admitted;
      }
    };
    take();
    state.ResumeTiming();
    while (!running.empty()) {
      JobSeen done = all[static_cast<std::size_t>(running.back())];
      running.pop_back();
      done.complete = true;
      out = engine.step(std::vector<Command>{done}, now += std::chrono::milliseconds(1));
      engine.commit();
      take();
    }
  }
  state.counters["per_admission"] =
      benchmark::Counter(static_cast<double>(admitted), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(Drain)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace qm::admission
