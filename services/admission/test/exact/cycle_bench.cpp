// What decisions in cycles cost, on the shapes on which Kueue's were measured (one core, no API server): workloads of one pod
// set and one resource in 10 cohorts of 10 queues, and Kueue's own baseline trace in virtual time.
//
//   ./qm bench admission_exact
#include "qm/admission/exact/cycle.hpp"

#include "qm/admission/exact/forest.hpp"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <queue>

namespace {

using namespace qm::admission::exact;

struct Shape {
  int cohorts = 10, queues = 10;
  std::int64_t nominal = 100;
  std::optional<std::int64_t> borrowing_limit;
  bool fair = false, strict = false;
};

/// One field for each cohort; queue nodes are 1 to `queues`.
std::vector<Cycle> cycles_of(const Shape& shape) {
  Forest forest;
  for (int c = 0; c < shape.cohorts; ++c) {
    for (int q = 0; q < shape.queues; ++q) {
      Forest::Queue queue;
      queue.cohort = fmt::format("cohort-{}", c);
      queue.quotas = {{0, 0, {shape.nominal * 1000, {}, {}}}};
      if (shape.borrowing_limit) queue.quotas[0].quota.borrowing_limit = *shape.borrowing_limit * 1000;
      queue.rules.groups = {{{0}, {{0, {}}}}};
      queue.rules.strict = shape.strict;
      queue.rules.within_cluster_queue = PreemptPolicy::kLowerPriority;
      queue.rules.reclaim_within_cohort = PreemptPolicy::kAny;
      forest.queues[fmt::format("queue-{}-{:03}", c, q)] = std::move(queue);
    }
  }
  std::vector<Cycle> out;
  for (auto& field : forest.plant().fields) {
    field.fair_sharing = shape.fair;
    out.emplace_back(std::move(field));
  }
  return out;
}

Work work_of(int id, qm::admission::exact::Node queue, std::int64_t cpus, std::int32_t priority = 0) {
  Work out;
  out.id = id;
  out.queue = queue;
  out.priority = priority;
  out.created = id;
  out.shape = static_cast<int>(cpus * 1000 + priority);
  out.pod_sets = {{"main", 1, {}, {{0, cpus * 1000}}, {}}};
  return out;
}

void drain(benchmark::State& state, const Shape& shape, int each) {
  std::int64_t admitted = 0;
  for (auto _ : state) {
    state.PauseTiming();
    auto cycles = cycles_of(shape);
    int id = 0;
    for (auto& cycle : cycles) {
      for (int i = 0; i < each; ++i) {
        for (int q = 1; q <= shape.queues; ++q) cycle.enqueue(work_of(++id, q, 1));
      }
    }
    state.ResumeTiming();
    for (std::int64_t k = 1; k <= each; ++k) {
      for (auto& cycle : cycles) admitted += static_cast<std::int64_t>(cycle.run(k, k).admitted.size());
    }
  }
  state.SetItemsProcessed(admitted);
}

void Drain(benchmark::State& state) { drain(state, {}, 100); }
void DrainFair(benchmark::State& state) { drain(state, {.fair = true}, 100); }
void DrainWide(benchmark::State& state) { drain(state, {.queues = 100, .nominal = 50}, 50); }
BENCHMARK(Drain)->Unit(benchmark::kMillisecond);
BENCHMARK(DrainFair)->Unit(benchmark::kMillisecond);
BENCHMARK(DrainWide)->Unit(benchmark::kMillisecond);

/// Strict heads that do not fit: looked at in every cycle.
void NothingFits(benchmark::State& state) {
  auto cycles = cycles_of({.strict = true});
  int id = 0;
  for (auto& cycle : cycles) {
    for (int q = 1; q <= 10; ++q) cycle.enqueue(work_of(++id, q, 5000));
  }
  std::int64_t k = 0, heads = 0;
  for (auto _ : state) {
    ++k;
    for (auto& cycle : cycles) heads += static_cast<std::int64_t>(cycle.run(k, k).waiting.size());
  }
  state.SetItemsProcessed(heads);
}
BENCHMARK(NothingFits)->Unit(benchmark::kMicrosecond);

/// Full queues in which one workload ends and one comes: a cycle that admits and one that finds no room.
void Turnover(benchmark::State& state) {
  auto cycles = cycles_of({.nominal = 100});
  std::vector<std::vector<std::queue<int>>> running(cycles.size(), std::vector<std::queue<int>>(11));
  int id = 0;
  std::int64_t k = 0;
  for (std::size_t c = 0; c < cycles.size(); ++c) {
    for (int i = 0; i < 1100; ++i) cycles[c].enqueue(work_of(++id, i % 10 + 1, 1));
    for (int i = 0; i < 101; ++i) {
      ++k;
      for (const auto& one : cycles[c].run(k, k).admitted) {
        running[c][static_cast<std::size_t>(cycles[c].work(one.id).queue)].push(one.id);
      }
    }
  }
  std::int64_t admitted = 0;
  for (auto _ : state) {
    for (std::size_t c = 0; c < cycles.size(); ++c) {
      for (int q = 1; q <= 10; ++q) {
        auto& own = running[c][static_cast<std::size_t>(q)];
        cycles[c].finish(own.front());
        own.pop();
        cycles[c].enqueue(work_of(++id, q, 1));
      }
      cycles[c].requeue();
      for (int i = 0; i < 2; ++i) {
        ++k;
        for (const auto& one : cycles[c].run(k, k).admitted) {
          running[c][static_cast<std::size_t>(cycles[c].work(one.id).queue)].push(one.id);
          ++admitted;
        }
      }
    }
  }
  state.SetItemsProcessed(admitted);
}
BENCHMARK(Turnover)->Unit(benchmark::kMillisecond);

/// Kueue's baseline: 5 cohorts of 6 queues with 20 CPUs each and up to 100 borrowed; per queue 350 small (1 CPU for 0.2 s,
/// every 0.1 s), 100 medium (5 CPUs for 0.5 s, every 0.5 s) and 50 large (20 CPUs for 1 s, every 1.2 s) workloads. Time is
/// virtual: a cycle runs whenever something happened, and takes none.
void Baseline(benchmark::State& state) {
  struct Class {
    int count;
    std::int64_t cpus, runs_ms, every_ms;
    std::int32_t priority;
  };
  const Class classes[] = {{350, 1, 200, 100, 50}, {100, 5, 500, 500, 100}, {50, 20, 1000, 1200, 200}};
  std::int64_t admitted = 0, decisions = 0, preempted = 0, makespan = 0;
  for (auto _ : state) {
    makespan = 0;
    int id = 0;
    for (auto& cycle : cycles_of({.cohorts = 5, .queues = 6, .nominal = 20, .borrowing_limit = 100})) {
      struct Happening {
        std::int64_t at;
        int id;
        bool ends;
        int run;
        bool operator>(const Happening& other) const { return std::tie(at, id) > std::tie(other.at, other.id); }
      };
      std::priority_queue<Happening, std::vector<Happening>, std::greater<>> coming;
      std::map<int, std::pair<Work, std::int64_t>> works;
      std::map<int, int> runs;
      for (int q = 1; q <= 6; ++q) {
        for (const auto& c : classes) {
          for (int i = 0; i < c.count; ++i) {
            Work work = work_of(++id, q, c.cpus, c.priority);
            work.created = i * c.every_ms;
            work.uid = fmt::format("{:08}", id);
            coming.push({work.created, id, false, 0});
            works.emplace(id, std::pair(std::move(work), c.runs_ms));
          }
        }
      }
      std::int64_t k = 0;
      while (!coming.empty()) {
        const auto now = coming.top().at;
        bool changed = false, freed = false;
        while (!coming.empty() && coming.top().at == now) {
          const auto one = coming.top();
          coming.pop();
          if (!one.ends) {
            cycle.enqueue(works.at(one.id).first);
            changed = true;
          } else if (runs[one.id] == one.run) {
            cycle.finish(one.id);
            freed = changed = true;
          }
        }
        if (freed) cycle.requeue();
        makespan = std::max(makespan, now);
        while (changed) {
          const auto outcome = cycle.run(++k, now);
          decisions += static_cast<std::int64_t>(outcome.admitted.size() + outcome.waiting.size());
          for (const auto& one : outcome.admitted) {
            ++admitted;
            coming.push({now + works.at(one.id).second, one.id, true, ++runs[one.id]});
          }
          for (const auto& one : outcome.preempted) {
            ++preempted;
            ++runs[one.id];
            cycle.evicted(one.id);
          }
          if (!outcome.preempted.empty()) cycle.requeue();
          changed = !outcome.admitted.empty() || !outcome.preempted.empty();
        }
      }
    }
  }
  state.SetItemsProcessed(decisions);
  const auto n = static_cast<double>(state.iterations());
  state.counters["admitted"] = static_cast<double>(admitted) / n;
  state.counters["preempted"] = static_cast<double>(preempted) / n;
  state.counters["us_per_admission"] = benchmark::Counter(static_cast<double>(admitted) / 1e6,
                                                          benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["virtual_s"] = static_cast<double>(makespan) / 1000;
}
BENCHMARK(Baseline)->Unit(benchmark::kMillisecond);

}  // namespace
