// The cost of closing an hour: instances of eight GPUs, each with two jobs that changed nodes within the hour.
#include "qm/base/assert.hpp"
#include "qm/cost/engine.hpp"

#include <benchmark/benchmark.h>

namespace qm::cost {
namespace {

const Instant kStart = *period_start("2026-11");
Instant minute(std::int64_t m) { return kStart + std::chrono::minutes(m); }

std::vector<Engine::Command> fleet(std::int64_t instances) {
  std::vector<Engine::Command> out{PriceApplied{builtin_prices(), {}}};
  for (std::int64_t i = 0; i < instances; ++i) {
    const InstanceId id(fmt::format("i-{:05}", i));
    const NodeName node(fmt::format("n-{:05}", i));
    out.push_back(
        InstanceUpdated{id, ClaimName(id.value() + "c"), 1, "p5.48xlarge", "z", "on-demand", node, 8, kStart, {}});
    out.push_back(NodeUpdated{node, id, NodeState::kReady, minute(2), 8, 1});
    for (int job = 0; job < 4; ++job) {
      Member member{node, {}, minute(5 + 25 * (job / 2)), minute(28 + 25 * (job / 2))};
      for (int d = 0; d < 4; ++d) member.devices.push_back({job % 2 * 4 + d, 1000});
      out.push_back(AssignmentUpdated{{WorkloadUid(fmt::format("w-{}-{}", i, job)), 1},
                                      1,
                                      {fmt::format("team-{}", (i + job) % 40), "ns", fmt::format("w-{}-{}", i, job)},
                                      {member}});
    }
  }
  return out;
}

/// Steps until everything that is due is posted; returns the number of entries.
std::size_t settle(Engine& engine, Instant now) {
  const std::vector<Engine::Command> tick{Tick{}};
  std::size_t entries = 0;
  for (bool more = true; more;) {
    const auto out = engine.step(tick, now);
    engine.commit();
    entries += out.entries.size();
    more = out.wake_at && *out.wake_at <= now;
  }
  return entries;
}

void close_an_hour(benchmark::State& state) {
  const auto facts = fleet(state.range(0));
  std::size_t entries = 0;
  for (auto _ : state) {
    state.PauseTiming();
    Engine engine;
    engine.step(facts, minute(1));
    engine.commit();
    state.ResumeTiming();
    entries = settle(engine, minute(71));
  }
  state.counters["entries"] = static_cast<double>(entries);
}
BENCHMARK(close_an_hour)->Arg(100)->Arg(1250)->Unit(benchmark::kMillisecond);

void statement(benchmark::State& state) {
  Engine engine;
  engine.step(fleet(state.range(0)), minute(1));
  for (int hour = 1; hour <= 48; ++hour) settle(engine, minute(hour * 60 + 11));
  const Instant as_of = minute(48 * 60 + 30);
  for (auto _ : state) {
    const auto made = engine.statement("2026-11", as_of);
    QM_ASSERT(made.has_value(), "no statement");
    benchmark::DoNotOptimize(made->total.nano.nano());
  }
  state.counters["slices"] = static_cast<double>(engine.state().slices.size());
}
BENCHMARK(statement)->Arg(1250)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace qm::cost
