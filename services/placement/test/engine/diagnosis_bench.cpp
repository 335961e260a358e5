// The time of a refusal with its reasons: a gang that lacks a selector, a toleration, a model and GPUs,
// on a number of nodes; and, in the engine, gangs whose claims, neighbors and type prevent placement.
#include "qm/kube_rules/text.hpp"
#include "qm/placement/engine.hpp"

#include <benchmark/benchmark.h>

namespace qm::placement {
namespace {

struct Large {
  std::map<NodeName, NodeFacts> facts;
  FreeCapacity free_capacity;
  Preference preference;

  explicit Large(std::int64_t nodes) {
    for (std::int64_t i = 0; i < nodes; ++i) {
      const NodeName name(fmt::format("n{:06}", i));
      auto& made = facts[name];
      made.model = i % 3 == 0 ? "A100" : "H100";
      made.labels = {{"pool", i % 5 == 0 ? "serve" : "train"},
                     {"zone", fmt::format("z{}", i % 3)},
                     {"rack", fmt::format("r{}", i / 32)}};
      if (i % 4 == 0) made.taints.push_back({"team", fmt::format("t{}", i % 3), "NoSchedule"});
      made.cpu_milli = 96'000;
      made.memory_bytes = std::int64_t{1} << 40;
      made.gpus = 8;
      NodeCapacity capacity;
      capacity.facts = &made;
      capacity.usable = i % 50 != 0;
      capacity.why_not = "cordoned";
      capacity.cpu_milli = 4'000 * (i % 20);
      capacity.memory_bytes = made.memory_bytes;
      capacity.free_milli.assign(8, 0);
      for (std::int64_t d = 0; d < i % 5; ++d) capacity.free_milli[static_cast<std::size_t>(d)] = 1000;
      free_capacity.emplace(name, capacity);
    }
    preference.prepare(free_capacity);
  }
};

/// Pods without rules.
class Plain final : public Trial {
 public:
  explicit Plain(const Preference& preference) : preference_(preference) {}
  [[nodiscard]] Demands demands(const PlacementRequest&, std::size_t) const override { return {}; }
  [[nodiscard]] PlacementResult place(const PlacementRequest& asked, FreeCapacity& free_capacity) const override {
    return place_gang(asked.pod_sets, free_capacity, preference_);
  }
  [[nodiscard]] bool fits(const PlacementRequest& asked, FreeCapacity& free_capacity) const override {
    return place_gang(asked.pod_sets, free_capacity, preference_, nullptr, nullptr, ResultDetail::kWhether)
        .plan.has_value();
  }
  [[nodiscard]] std::optional<placement::Diagnosis> near(const PlacementRequest&, const FreeCapacity&) const override {
    return {};
  }

 private:
  const Preference& preference_;
};

void Diagnosis(benchmark::State& state) {
  Large fleet(state.range(0));
  PodSet set;
  set.count = static_cast<std::int32_t>(state.range(0));
  set.shape.cpu_milli = 12'000;
  set.shape.gpu.whole = 4;
  set.shape.gpu.models = {"H100"};
  set.shape.node_selector = {{"pool", "train"}, {"zone", "z1"}};
  for (auto _ : state) {
    const auto found = diagnose_request({{set}, {}}, fleet.free_capacity, Plain(fleet.preference));
    if (found.conflict.empty()) state.SkipWithError("the gang fits");
    benchmark::DoNotOptimize(found.remedies.size());
  }
}
BENCHMARK(Diagnosis)->Arg(1000)->Arg(5000)->Arg(20000)->Unit(benchmark::kMillisecond);

/// Nodes in three zones and racks of 32, each with a pod of the app "loud" and some GPUs free; volumes in zone z1.
class Ruled {
 public:
  explicit Ruled(std::int64_t nodes) {
    std::vector<Command> batch{WatchStarted{}};
    NodesSynced all;
    for (std::int64_t i = 0; i < nodes; ++i) {
      const NodeName name(fmt::format("n{:06}", i));
      NodeFacts facts;
      facts.model = i % 3 == 0 ? "A100" : "H100";
      facts.labels = {{std::string(kHostname), name.value()},
                      {"pool", i % 5 == 0 ? "serve" : "train"},
                      {"zone", fmt::format("z{}", i % 3)},
                      {"rack", fmt::format("r{}", i / 32)}};
      if (i % 7 == 0) facts.labels["nvidia.com/gpu.replicas"] = "2";
      facts.cpu_milli = 96'000;
      facts.memory_bytes = std::int64_t{1} << 40;
      facts.gpus = facts.gpus_installed = 8;
      facts.ready = true;
      batch.emplace_back(NodeUpdated{name, facts});
      all.nodes.insert(name);
      PodFacts pod;
      pod.uid = pod.name = "s" + name.value();
      pod.ns = "default";
      pod.node = name;
      pod.phase = PodPhase::kRunning;
      pod.shape.gpu.whole = 8 - i % 5;
      pod.rules = rules::text_of({Namespace("default"), {{"app", "loud"}}, {}});
      if (i % 11 == 0) pod.workload_type = "inference";
      batch.emplace_back(PodUpdated{pod});
    }
    PodsSynced pods;
    for (const auto& name : all.nodes) pods.uids.insert("s" + name.value());
    batch.emplace_back(all);
    batch.emplace_back(pods);
    rules::PodTemplate reach;
    reach.rules.volumes = {{"pv", {{{{"zone", rules::Requirement::Op::kIn, {"z1"}}}, {}}}}};
    batch.emplace_back(StorageUpdated{"volume/pv", Volume{rules::text_of(reach)}});
    batch.emplace_back(StorageUpdated{"claim/default/data", Claim{"pv", "", "", false}});
    batch.emplace_back(StorageSynced{"volume", {"volume/pv"}});
    batch.emplace_back(StorageSynced{"claim", {"claim/default/data"}});
    batch.emplace_back(StorageSynced{"class", {}});
    (void)engine.step(batch, from_micros(1'000'000));
    engine.commit();
  }
  /// The pod set of a training workload with these rules.
  PodSet receive(std::int32_t pods, std::int64_t gpus, const rules::PodTemplate& like) {
    WorkloadUpdated latest;
    latest.spec.uid = WorkloadUid("w");
    latest.spec.labels[std::string(kWorkloadType)] = "training";
    auto& set = latest.spec.pod_sets.emplace_back();
    set.count = pods;
    set.shape.cpu_milli = 4'000;
    set.shape.gpu.whole = gpus;
    set.rules = rules::text_of(like);
    latest.phase = WorkloadPhase::kPending;
    (void)engine.step(std::vector<Command>{latest}, from_micros(2'000'000));
    engine.commit();
    return set;
  }
  const Options options;
  Engine engine{options};
};

rules::PodTemplate quiet() { return {Namespace("default"), {{"app", "quiet"}}, {}}; }
LabelSelector app(const std::string& name) { return {{{"app", LabelRequirement::Op::kIn, {name}}}}; }

void ask(benchmark::State& state, const rules::PodTemplate& like, std::int32_t pods, std::int64_t gpus) {
  Ruled fleet(state.range(0));
  const auto set = fleet.receive(pods, gpus, like);
  double remedies = 0;
  for (auto _ : state) {
    const auto found = fleet.engine.diagnose({set}, WorkloadUid("w"));
    if (found.conflict.empty()) state.SkipWithError("the gang fits");
    remedies = static_cast<double>(found.remedies.size());
  }
  state.counters["ways"] = remedies;
}

/// A volume in one zone whose nodes together have too few GPUs.
void DiagnosisOfVolumes(benchmark::State& state) {
  auto like = quiet();
  like.rules.claims = {"data"};
  ask(state, like, static_cast<std::int32_t>(state.range(0) / 4), 3);
}
BENCHMARK(DiagnosisOfVolumes)->Arg(1000)->Arg(5000)->Unit(benchmark::kMillisecond);

/// Pods with anti-affinity to a pod on every node.
void DiagnosisOfInterPodRules(benchmark::State& state) {
  auto like = quiet();
  like.rules.anti_affinity = {{std::string(kHostname), app("loud"), {}, {}}};
  ask(state, like, 64, 2);
}
BENCHMARK(DiagnosisOfInterPodRules)->Arg(1000)->Arg(5000)->Unit(benchmark::kMillisecond);

/// Pods with anti-affinity to one another, more than there are racks.
void DiagnosisOfOwnRules(benchmark::State& state) {
  auto like = quiet();
  like.rules.anti_affinity = {{"rack", app("quiet"), {}, {}}};
  ask(state, like, static_cast<std::int32_t>(state.range(0) / 25), 2);
}
BENCHMARK(DiagnosisOfOwnRules)->Arg(1000)->Arg(5000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace qm::placement
