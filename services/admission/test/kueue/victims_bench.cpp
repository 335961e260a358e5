// Cost of the search for victims alone, where there are many: 2,000 nodes of 8 GPUs, each used by a workload of a
// queue that borrows it, and a workload that reclaims 700 of them, by shares and with nodes chosen by topology. Also
// the cost of the search for victims with less loss.
//
//   ./qm bench admission
#include "qm/admission/kueue/cheapest.hpp"
#include "qm/admission/kueue/forest.hpp"
#include "qm/admission/kueue/outcome.hpp"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <deque>

namespace {

using namespace qm;
using namespace qm::admission::kueue;

constexpr int kNodes = 2000, kWanted = 700, kQueues = 10, kGpusOfNode = 8;

struct Shape {
  bool fair = true, with_nodes = true, loop_free = false;
  bool scattered = false;  ///< the latest workloads are on random nodes, and the pods need one block
};

/// 10 queues borrow all nodes; the 11th owns 700 of them and requests these.
struct Fleet {
  QuotaState field{Tree({{}}, {}), {}, {}};
  std::deque<Work> works;
  PreemptionGraph preemptions;
  Work by;

  explicit Fleet(const Shape& shape) {
    auto topologies = std::make_shared<Topologies>();
    const auto gpu = topologies->names().intern("nvidia.com/gpu");
    if (shape.with_nodes) {
      std::vector<topology::Node> nodes;
      for (int n = 0; n < kNodes; ++n) {
        topology::Node node;
        node.name = fmt::format("node-{:04}", n);
        node.labels = {{"block", fmt::format("block-{}", n / 1000)},
                       {"rack", fmt::format("rack-{:03}", n / 20)},
                       {"kubernetes.io/hostname", node.name}};
        node.allocatable = {{gpu, kGpusOfNode}, {topology::kPods, 100}};
        nodes.push_back(std::move(node));
      }
      topologies->add(0, {"t", {"block", "rack", "kubernetes.io/hostname"}, {}, {}}, nodes);
    }
    Forest forest;
    for (int q = 0; q <= kQueues; ++q) {
      Forest::Queue queue;
      queue.cohort = "fleet";
      queue.rules.groups = {{{0}, {{0, {}}}}};
      queue.rules.reclaim_within_cohort = PreemptPolicy::kAny;
      const int owned = shape.scattered ? kNodes : kWanted;
      queue.quotas = {{0, 0, {q == kQueues ? owned * kGpusOfNode : (kNodes - owned) * kGpusOfNode / kQueues, {}, {}}}};
      forest.queues[fmt::format("queue-{:02}", q)] = std::move(queue);
    }
    auto planted = forest.plant();
    field = std::move(planted.fields.at(0));
    field.fair_sharing = shape.fair;
    if (shape.with_nodes) field.topologies = topologies;
    if (shape.loop_free) field.preemptions = &preemptions;
    constexpr std::int64_t kMinute = 60'000'000;
    field.now = 1000 * kMinute;
    for (int n = 0; n < kNodes; ++n) {
      Work& work = works.emplace_back(work_of(n + 1, 1, shape, gpu));
      work.queue = planted.queues.at(fmt::format("queue-{:02}", n % kQueues)).second;
      work.reserved = shape.scattered ? n * 7919 % kNodes : n;
      work.stake = {
          .gpu_milli = kGpusOfNode * 1000, .saved = field.now - n * 7919 % 60 * kMinute, .restart_us = n % 5 * kMinute};
      auto found = nominate(field, work);
      if (!found.fits()) break;
      work.usage = std::move(found.assignment.usage);
      work.on_nodes = std::move(found.assignment.on_nodes);
      field.hold(work);
    }
    by = work_of(0, kWanted, shape, gpu);
    by.queue = planted.queues.at(fmt::format("queue-{:02}", kQueues)).second;
  }

 private:
  static Work work_of(int id, int pods, const Shape& shape, topology::ResourceId gpu) {
    Work out;
    out.id = id;
    out.uid = WorkloadUid(fmt::format("{:05}", id));
    out.created = id;
    qm::admission::kueue::PodSet set{"main", pods, {}, {{0, kGpusOfNode}}, {}};
    if (shape.with_nodes) {
      topology::PodSetRequest nodes;
      nodes.name = "main";
      nodes.per_pod = {{gpu, kGpusOfNode}};
      nodes.topology.emplace();
      (shape.scattered && pods > 1 ? nodes.topology->required : nodes.topology->preferred) =
          shape.scattered && pods > 1 ? "block" : "rack";
      set.nodes = std::make_shared<const topology::PodSetRequest>(std::move(nodes));
    }
    out.pod_sets = {std::move(set)};
    return out;
  }
};

void search(benchmark::State& state, const Shape& shape, int cheaper_plan_searches) {
  Fleet fleet(shape);
  fleet.field.cheaper_plan_searches = cheaper_plan_searches;
  Plan plan;
  for (auto _ : state) plan.targets = nominate(fleet.field, fleet.by).targets;
  state.counters["holders"] = static_cast<double>(fleet.works.size());
  state.counters["victims"] = static_cast<double>(plan.targets.size());
  constexpr double kMicro = 1e-6;
  state.counters["lost_gpu_s"] = static_cast<double>(loss(plan, fleet.field.now)) * kMicro;
}

void TakeBackFair(benchmark::State& state) { search(state, {}, 0); }
void TakeBackFairLoopFree(benchmark::State& state) { search(state, {.loop_free = true}, 0); }
void TakeBackFairBlock(benchmark::State& state) { search(state, {.loop_free = true, .scattered = true}, 0); }
void TakeBackClassic(benchmark::State& state) { search(state, {.fair = false}, 0); }
void TakeBackFairQuota(benchmark::State& state) { search(state, {.with_nodes = false}, 0); }
void CheapestFairQuota(benchmark::State& state) {
  search(state, {.with_nodes = false}, static_cast<int>(state.range(0)));
}
void CheapestClassicQuota(benchmark::State& state) {
  search(state, {.fair = false, .with_nodes = false}, static_cast<int>(state.range(0)));
}
BENCHMARK(TakeBackFair)->Unit(benchmark::kMillisecond);
BENCHMARK(TakeBackFairLoopFree)->Unit(benchmark::kMillisecond);
BENCHMARK(TakeBackFairBlock)->Unit(benchmark::kMillisecond);
BENCHMARK(TakeBackClassic)->Unit(benchmark::kMillisecond);
BENCHMARK(TakeBackFairQuota)->Unit(benchmark::kMillisecond);
BENCHMARK(CheapestFairQuota)->Arg(10)->Arg(100)->Unit(benchmark::kMillisecond);
BENCHMARK(CheapestClassicQuota)->Arg(10)->Arg(100)->Unit(benchmark::kMillisecond);

}  // namespace
