// The time that the engine needs for a decision: on a fleet in use to nine tenths, one workload
// finishes and one is submitted, a step each; and gangs whose own pods have anti-affinity, or
// spread, so that each pod changes where the next may be placed.
#include "qm/kube_rules/text.hpp"
#include "qm/placement/engine.hpp"

#include <benchmark/benchmark.h>

#include <deque>
#include <random>

namespace qm::placement {
namespace {

class Fleet {
 public:
  /// With `volumes` every pod has a volume of its own, and nodes have attach limits.
  explicit Fleet(std::int64_t nodes, bool volumes = false) : random_(7), engine_(options()) {
    if (volumes) {
      rules::PodTemplate like{Namespace("default"), {}, {}};
      like.rules.tolerations = {{"nvidia.com/gpu", "Exists", "", "NoSchedule"}};
      like.rules.own_claims = {{"scratch", "fast"}};
      rules_ = rules::text_of(like);
    }
    std::vector<Command> batch{WatchStarted{}};
    std::set<NodeName> names;
    for (std::int64_t i = 0; i < nodes; ++i) {
      const NodeName name(fmt::format("n{:06}", i));
      NodeFacts facts;
      facts.model = i % 3 == 0 ? "A100" : "H100";
      facts.labels = {{"kubernetes.io/hostname", name.value()},
                      {"pool", i % 5 == 0 ? "serve" : "train"},
                      {"topology.kubernetes.io/zone", fmt::format("z{}", i % 3)}};
      if (i % 10 == 0) facts.taints.push_back({"nvidia.com/gpu", "present", "NoSchedule"});
      facts.cpu_milli = 96'000;
      facts.memory_bytes = std::int64_t{1} << 40;
      facts.gpus = facts.gpus_installed = 8;
      facts.ready = true;
      names.insert(name);
      batch.emplace_back(NodeUpdated{name, facts});
      if (volumes) batch.emplace_back(StorageUpdated{fmt::format("limits/{}", name), AttachLimits{{{"driver", 25}}}});
    }
    if (volumes) {
      batch.emplace_back(StorageUpdated{"class/fast", StorageClass{true, true, "", "driver", false}});
      for (const char* kind : {"claim", "volume", "class"}) batch.emplace_back(StorageSynced{kind, {"class/fast"}});
    }
    batch.emplace_back(NodesSynced{names});
    batch.emplace_back(PodsSynced{});
    step(batch);
    while (asked_ < nodes * 8 * 1000 * 9 / 10) {
      batch.clear();
      for (int i = 0; i < 100; ++i) batch.emplace_back(next());
      step(batch);
    }
  }
  void exchange() {
    WorkloadUpdated gone = there_.front();
    gone.phase = WorkloadPhase::kCancelled;
    asked_ -= gone.spec.pod_sets[0].shape.gpu.total_milli();
    there_.pop_front();
    step({gone, next()});
  }
  [[nodiscard]] std::int64_t reserved() const { return reserved_; }
  /// Submits a gang, and removes it without timing the removal.
  void visit(benchmark::State& state, const PodSet& set) {
    WorkloadUpdated latest;
    latest.spec.uid = WorkloadUid(fmt::format("w{}", ++number_));
    latest.spec.pod_sets = {set};
    latest.phase = WorkloadPhase::kQuotaReserved;
    step({latest});
    state.PauseTiming();
    latest.phase = WorkloadPhase::kCancelled;
    step({latest});
    state.ResumeTiming();
  }
  [[nodiscard]] const Engine& engine() const { return engine_; }

 private:
  /// No pods exist that would confirm a reservation, and finished workloads are not relevant here.
  static Options options() {
    Options options;
    options.hold = std::chrono::hours(10'000);
    options.keep_ended = std::chrono::seconds(10);
    return options;
  }
  WorkloadUpdated next() {
    static constexpr std::array<std::int64_t, 8> kMilli{1000, 1000, 1000, 2000, 4000, 8000, 500, 250};
    const auto milli = kMilli[random_() % kMilli.size()];
    WorkloadUpdated latest;
    latest.spec.uid = WorkloadUid(fmt::format("w{}", ++number_));
    auto& set = latest.spec.pod_sets.emplace_back();
    set.shape.cpu_milli =
        static_cast<std::int64_t>(4'000 * (1 + random_() % 3)) * std::max<std::int64_t>(milli / 1000, 1);
    set.shape.memory_bytes = std::int64_t{16} << 30;
    if (milli >= 1000) {
      set.shape.gpu.whole = milli / 1000;
    } else {
      set.shape.gpu.milli = milli;
    }
    set.shape.tolerations.push_back({"nvidia.com/gpu", "Exists", "", "NoSchedule"});
    set.rules = rules_;
    if (number_ % 4 == 0) set.shape.node_selector = {{"pool", "train"}};
    latest.phase = WorkloadPhase::kQuotaReserved;
    asked_ += milli;
    there_.push_back(latest);
    return latest;
  }
  void step(const std::vector<Command>& batch) {
    now_ += std::chrono::milliseconds(100);
    for (const auto& event : engine_.step(batch, now_).events) {
      const auto* changed = std::get_if<AssignmentChanged>(&event);
      reserved_ += changed != nullptr && !changed->forgotten && changed->state.state == AssignmentState::kReserved;
    }
    engine_.commit();
  }

  std::mt19937 random_;
  std::string rules_;
  Engine engine_;
  Instant now_ = from_micros(1'000'000'000);
  std::deque<WorkloadUpdated> there_;
  std::int64_t number_ = 0, asked_ = 0, reserved_ = 0;
};

void decisions(benchmark::State& state) {
  Fleet fleet(state.range(0));
  const auto before = fleet.reserved();
  for (auto _ : state) fleet.exchange();
  state.counters["placed"] = static_cast<double>(fleet.reserved() - before) / static_cast<double>(state.iterations());
}
BENCHMARK(decisions)->Arg(1000)->Arg(5000)->Arg(20000)->Arg(100000)->Iterations(5000)->Unit(benchmark::kMicrosecond);

/// One GPU for each pod; the pods of the gang have anti-affinity by the label, or spread over its values.
PodSet ruled(std::int32_t pods, const std::string& apart, const std::string& spread) {
  rules::PodTemplate like{Namespace("default"), {{"app", "ranks"}}, {}};
  const LabelSelector own{{{"app", LabelRequirement::Op::kIn, {"ranks"}}}};
  if (!apart.empty()) like.rules.anti_affinity = {{apart, own, {}, {}}};
  if (!spread.empty()) like.rules.spread = {{spread, 1, 1, true, own}};
  PodSet set;
  set.count = pods;
  set.shape.cpu_milli = 4'000;
  set.shape.gpu.whole = 1;
  set.shape.tolerations.push_back({"nvidia.com/gpu", "Exists", "", "NoSchedule"});
  set.rules = rules::text_of(like);
  return set;
}

/// As many pods as a twenty-fifth of the nodes.
void gangs(benchmark::State& state, const std::string& apart, const std::string& spread) {
  const auto set = ruled(static_cast<std::int32_t>(state.range(0) / 25), apart, spread);
  Fleet fleet(state.range(0));
  const auto before = fleet.reserved();
  for (auto _ : state) fleet.visit(state, set);
  state.counters["placed"] = static_cast<double>(fleet.reserved() - before) / static_cast<double>(state.iterations());
}

void GangsOneToANode(benchmark::State& state) { gangs(state, "kubernetes.io/hostname", ""); }
BENCHMARK(GangsOneToANode)->Arg(5000)->Iterations(20)->Unit(benchmark::kMillisecond);

void GangsSpreadOverZones(benchmark::State& state) { gangs(state, "", "topology.kubernetes.io/zone"); }
BENCHMARK(GangsSpreadOverZones)->Arg(5000)->Iterations(20)->Unit(benchmark::kMillisecond);

/// More pods than there are zones: unschedulable, with the reason.
void GangsOneToAZone(benchmark::State& state) { gangs(state, "topology.kubernetes.io/zone", ""); }
BENCHMARK(GangsOneToAZone)->Arg(5000)->Iterations(20)->Unit(benchmark::kMillisecond);

void DryRunsOneToANode(benchmark::State& state) {
  const Fleet fleet(state.range(0));
  const auto set = ruled(static_cast<std::int32_t>(state.range(0) / 25), "kubernetes.io/hostname", "");
  for (auto _ : state) {
    if (!fleet.engine().dry_run({set}).plan) state.SkipWithError("there is no place");
  }
}
BENCHMARK(DryRunsOneToANode)->Arg(5000)->Unit(benchmark::kMillisecond);

/// All nodes are considered for each pod.
void decisions_with_volumes(benchmark::State& state) {
  Fleet fleet(state.range(0), true);
  for (auto _ : state) fleet.exchange();
}
BENCHMARK(decisions_with_volumes)->Arg(1000)->Iterations(1000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace qm::placement
