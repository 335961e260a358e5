// Pods with inter-pod constraints, one by one on a large fleet: nodes in zones of a hundred, each with
// capacity for 110 pods. Half as many pods as nodes are running; each new pod replaces the oldest one.
// A pod is queried, placed on the first feasible node, and counted there; all of it is timed.
#include "qm/kube_rules/rule_book.hpp"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <deque>

namespace qm::kube_rules {
namespace {

class Fleet {
 public:
  explicit Fleet(int nodes) {
    for (int i = 0; i < nodes; ++i) {
      NodeView node;
      node.name = NodeName(fmt::format("n{:06}", i));
      node.labels = {{"zone", fmt::format("z{:04}", i / 100)}, {"host", node.name.value()}};
      node.allocatable = {{"pods", 110}, {"cpu", 96000}, {"nvidia.com/gpu", 8}};
      book.put_node(node);
    }
  }
  /// Adds one more pod; false if no node fits it.
  bool place(TemplateId like) {
    const auto node = book.feasible(like).first();
    if (!node) return false;
    alive_.push_back(fmt::format("pod-{}", ++pods_));
    book.put_pod({alive_.back(), book.name_of(*node), like});
    return true;
  }
  void end_oldest() {
    book.drop_pod(alive_.front());
    alive_.pop_front();
  }

  RuleBook book;

 private:
  std::deque<std::string> alive_;
  std::int64_t pods_ = 0;
};

PodTemplate app(int number) {
  PodTemplate out{Namespace("default"), {{"app", fmt::format("a{}", number)}}, {}};
  out.rules.requests = {{"cpu", 100}};
  return out;
}
LabelSelector itself(const PodTemplate& pod) { return {{{"app", LabelRequirement::Op::kIn, {pod.labels.at("app")}}}}; }

/// `apps` kinds of pods alternate; `rules` gives the constraints of each.
template <class Fn>
void turns(benchmark::State& state, int apps, Fn&& rules) {
  const auto nodes = static_cast<int>(state.range(0));
  Fleet fleet(nodes);
  std::vector<TemplateId> likes;
  for (int i = 0; i < apps; ++i) {
    auto pod = app(i);
    rules(pod);
    likes.push_back(fleet.book.hold(pod));
  }
  std::size_t turn = 0;
  const auto next = [&] { return likes[turn++ % likes.size()]; };
  for (int i = 0; i < nodes / 2; ++i) {
    if (!fleet.place(next())) return state.SkipWithError("a pod finds no node");
  }
  for (auto _ : state) {
    if (!fleet.place(next())) return state.SkipWithError("a pod finds no node");
    fleet.end_oldest();
  }
  state.SetItemsProcessed(state.iterations());
}

void no_rules(benchmark::State& state) {
  turns(state, 1, [](PodTemplate&) {});
}
void anti_affinity_host(benchmark::State& state) {
  turns(state, 1, [](PodTemplate& pod) { pod.rules.anti_affinity = {{"host", itself(pod), {}, {}}}; });
}
void anti_affinity_host_200_apps(benchmark::State& state) {
  turns(state, 200, [](PodTemplate& pod) { pod.rules.anti_affinity = {{"host", itself(pod), {}, {}}}; });
}
void affinity_zone(benchmark::State& state) {
  turns(state, 20, [](PodTemplate& pod) { pod.rules.affinity = {{"zone", itself(pod), {}, {}}}; });
}
void spread_zone_and_host(benchmark::State& state) {
  turns(state, 20, [](PodTemplate& pod) {
    for (const char* key : {"zone", "host"}) {
      Spread spread;
      spread.topology_key = key;
      spread.pods = itself(pod);
      pod.rules.spread.push_back(std::move(spread));
    }
  });
}

/// Scores of the soft rules for every node: preferred anti-affinity and soft spread constraints.
void preferences(benchmark::State& state) {
  Fleet fleet(static_cast<int>(state.range(0)));
  auto pod = app(0);
  pod.rules.preferred_anti_affinity = {{100, {"host", itself(pod), {}, {}}}};
  Spread spread;
  spread.topology_key = "zone";
  spread.required = false;
  spread.pods = itself(pod);
  pod.rules.spread = {spread};
  const TemplateId like = fleet.book.hold(pod);
  for (int i = 0; i < state.range(0) / 2; ++i) fleet.place(like);
  for (auto _ : state) benchmark::DoNotOptimize(fleet.book.preferences(like, fleet.book.nodes()));
  state.SetItemsProcessed(state.iterations());
}

BENCHMARK(no_rules)->Arg(5000)->UseRealTime();
BENCHMARK(anti_affinity_host)->Arg(5000)->Arg(100000)->UseRealTime();
BENCHMARK(anti_affinity_host_200_apps)->Arg(5000)->UseRealTime();
BENCHMARK(affinity_zone)->Arg(5000)->UseRealTime();
BENCHMARK(spread_zone_and_host)->Arg(5000)->UseRealTime();
BENCHMARK(preferences)->Arg(5000)->UseRealTime();

}  // namespace
}  // namespace qm::kube_rules
