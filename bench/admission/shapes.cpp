// Load shapes on which Kueue was measured (one core, no API server): workloads of one pod and one resource, and
// Kueue's own two traces, in virtual time: a decision follows every event and takes no virtual time.
#include "shapes.hpp"

#include "deciders.hpp"
#include "report.hpp"

#include <queue>

namespace qm::bench {
namespace {

/// Starts and stops the measurement around the timed part; all else is preparation.
class Costs {
 public:
  void start() { started_ = processor_seconds(); }
  void stop() { seconds_ += processor_seconds() - started_; }
  [[nodiscard]] double seconds() const { return seconds_; }
  std::int64_t admitted = 0, preempted = 0, decisions = 0, makespan = 0;
  void count(const Decided& made) {
    admitted += static_cast<std::int64_t>(made.admitted.size());
    preempted += static_cast<std::int64_t>(made.preempted.size());
    decisions += made.decisions();
  }

 private:
  double started_ = 0, seconds_ = 0;
};

/// Decides until nothing more follows; the pods of a preempted workload are gone at once.
template <class Decider, class Fn>
void settle(Decider& decider, std::int64_t now, Costs& costs, Fn&& each) {
  for (;;) {
    const auto made = decider.run(now);
    costs.count(made);
    each(made);
    for (const int id : made.preempted) decider.evicted(id);
    if (!made.any()) return;
  }
}

template <class Decider>
Costs drain(const Quotas& quotas, int each) {
  Decider decider(quotas);
  int id = 0;
  Costs costs;
  // The engine accepts workloads and decides in one step.
  const bool alone = std::is_same_v<Decider, InEngine>;
  if (alone) costs.start();
  for (int i = 0; i < each; ++i) {
    for (int c = 0; c < quotas.cohorts; ++c) {
      for (int q = 0; q < quotas.queues; ++q) decider.submit({id, c, q, 1, 0, id}), ++id;
    }
  }
  if (!alone) costs.start();
  settle(decider, 1, costs, [](const Decided&) {});
  costs.stop();
  return costs;
}

/// Strict queue heads that do not fit, while in each cohort a small workload of higher priority ends and a new one
/// arrives.
template <class Decider>
Costs nothing_fits() {
  const Quotas quotas{.strict = true};
  Decider decider(quotas);
  int id = 0;
  std::vector<int> small;
  const auto come = [&](int cohort) {
    small.push_back(id);
    decider.submit({id, cohort, 0, 1, 100, id});
    ++id;
  };
  for (int c = 0; c < quotas.cohorts; ++c) {
    for (int q = 0; q < quotas.queues; ++q) decider.submit({id, c, q, 900, 0, id}), ++id;
    come(c);
  }
  Costs before, costs;
  settle(decider, 0, before, [](const Decided&) {});
  constexpr int kRounds = 300;
  costs.start();
  for (int round = 1; round <= kRounds; ++round) {
    const auto ended = std::exchange(small, {});
    for (int c = 0; c < quotas.cohorts; ++c) {
      decider.finish(ended[static_cast<std::size_t>(c)]);
      come(c);
    }
    settle(decider, round, costs, [](const Decided&) {});
  }
  costs.stop();
  costs.decisions = std::int64_t{kRounds} * quotas.cohorts * quotas.queues;
  return costs;
}

/// Full queues in which one workload ends and one arrives: a round that admits and one that finds no free quota.
template <class Decider>
Costs turnover() {
  const Quotas quotas;
  Decider decider(quotas);
  std::vector<std::queue<int>> running(static_cast<std::size_t>(quotas.cohorts * quotas.queues));
  std::vector<std::size_t> queue_of;
  int id = 0;
  const auto come = [&](int c, int q) {
    queue_of.push_back(static_cast<std::size_t>(c * quotas.queues + q));
    decider.submit({id, c, q, 1, 0, id});
    ++id;
  };
  const auto note = [&](const Decided& made) {
    for (const int one : made.admitted) running[queue_of[static_cast<std::size_t>(one)]].push(one);
  };
  for (int i = 0; i < 110; ++i) {
    for (int c = 0; c < quotas.cohorts; ++c) {
      for (int q = 0; q < quotas.queues; ++q) come(c, q);
    }
  }
  Costs before, costs;
  settle(decider, 0, before, note);
  costs.start();
  for (int round = 1; round <= 50; ++round) {
    for (int c = 0; c < quotas.cohorts; ++c) {
      for (int q = 0; q < quotas.queues; ++q) {
        auto& own = running[static_cast<std::size_t>(c * quotas.queues + q)];
        decider.finish(own.front());
        own.pop();
        come(c, q);
      }
    }
    settle(decider, round, costs, note);
  }
  costs.stop();
  return costs;
}

struct Trace {
  Quotas quotas;
  struct Class {
    int count;
    std::int64_t cpus, runs_ms, every_ms;
    std::int32_t priority;
  };
  std::vector<Class> classes;  ///< in each queue
};

/// Kueue's test/performance/scheduler: 15,000 and 50,000 workloads.
const Trace kBaseline{{.cohorts = 5, .queues = 6, .nominal = 20, .borrowing_limit = 100},
                      {{350, 1, 200, 100, 50}, {100, 5, 500, 500, 100}, {50, 20, 1000, 1200, 200}}};
const Trace kLarge{{.cohorts = 10, .queues = 100, .nominal = 20, .borrowing_limit = 100},
                   {{35, 1, 150, 60, 50}, {11, 5, 350, 300, 100}, {4, 20, 700, 700, 200}}};

template <class Decider>
Costs play(const Trace& trace) {
  struct Happening {
    std::int64_t at;
    int id;
    int run;  ///< the workload that ends; none if it arrives
    bool operator>(const Happening& other) const { return std::tie(at, id) > std::tie(other.at, other.id); }
  };
  std::priority_queue<Happening, std::vector<Happening>, std::greater<>> coming;
  std::vector<Job> jobs;
  std::vector<std::int64_t> runs_ms;
  for (int c = 0; c < trace.quotas.cohorts; ++c) {
    for (int q = 0; q < trace.quotas.queues; ++q) {
      for (const auto& one : trace.classes) {
        for (int i = 0; i < one.count; ++i) {
          const int id = static_cast<int>(jobs.size());
          jobs.push_back({id, c, q, one.cpus, one.priority, i * one.every_ms});
          runs_ms.push_back(one.runs_ms);
          coming.push({i * one.every_ms, id, 0});
        }
      }
    }
  }
  std::vector<int> runs(jobs.size());
  Decider decider(trace.quotas);
  Costs costs;
  costs.start();
  while (!coming.empty()) {
    const auto now = coming.top().at;
    while (!coming.empty() && coming.top().at == now) {
      const auto one = coming.top();
      coming.pop();
      const auto at = static_cast<std::size_t>(one.id);
      if (one.run == 0) {
        decider.submit(jobs[at]);
      } else if (runs[at] == one.run) {
        decider.finish(one.id);
        costs.makespan = now;
      }
    }
    settle(decider, now, costs, [&](const Decided& made) {
      for (const int id : made.admitted) {
        const auto at = static_cast<std::size_t>(id);
        coming.push({now + runs_ms[at], id, ++runs[at]});
      }
      for (const int id : made.preempted) ++runs[static_cast<std::size_t>(id)];
    });
  }
  costs.stop();
  return costs;
}

template <class Fn>
void measure(const std::string& shape, const char* decider, Fn&& once) {
  Report report("admission." + shape, {{"decides", decider}});
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const Costs costs = once();
    report.add("cpu_s", costs.seconds());
    report.add("decisions_per_s", static_cast<double>(costs.decisions) / costs.seconds());
    report.add("us_per_decision", costs.seconds() * 1e6 / static_cast<double>(costs.decisions));
    report.add("us_per_admission", costs.seconds() * 1e6 / static_cast<double>(costs.admitted));
    report.add("admissions", static_cast<double>(costs.admitted));
    report.add("preemptions", static_cast<double>(costs.preempted));
    if (costs.makespan > 0) report.add("virtual_s", static_cast<double>(costs.makespan) / 1000);
  }
  report.print();
}

template <class Decider>
void all_shapes(const std::string& only) {
  const auto shape = [&](const std::string& name, const auto& once) {
    if (only.empty() || only == name) measure(name, Decider::kName, once);
  };
  shape("drain", [] { return drain<Decider>({}, 100); });
  shape("drain_fair", [] { return drain<Decider>({.fair = true}, 100); });
  shape("drain_wide", [] { return drain<Decider>({.queues = 100, .nominal = 50}, 50); });
  shape("nothing_fits", [] { return nothing_fits<Decider>(); });
  shape("turnover", [] { return turnover<Decider>(); });
  shape("baseline", [] { return play<Decider>(kBaseline); });
  shape("large_scale", [] { return play<Decider>(kLarge); });
}

}  // namespace

bool shapes(const std::string& decider, const std::string& only) {
  if (decider == "cycles") return all_shapes<Trees<InCycles>>(only), true;
  if (decider == "continuous") return all_shapes<Trees<Continuously>>(only), true;
  if (decider == "engine") return all_shapes<InEngine>(only), true;
  return false;
}

}  // namespace qm::bench
