#include "qm/placement/gap.hpp"

#include "qm/base/wake.hpp"
#include "qm/placement/shell.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

namespace qm::placement {
namespace {

/// The outline in the form that the bound requires.
class Question {
 public:
  explicit Question(const Outline& outline) {
    for (const auto& [machine, count] : outline.machines) {
      const auto number = std::min(models_.size(), std::size_t{pack::kMaxModels} - 1);
      const auto model = models_.try_emplace(machine.model, static_cast<std::uint8_t>(number)).first->second;
      std::int64_t free = 0;
      for (const auto milli : machine.free_milli) free += milli;
      gap.capacity += free * count;
      if (machine.free_milli.size() > pack::kMaxDevices) {
        huge += free * count;
        continue;
      }
      pack::NodeState node;
      node.cpu_milli = machine.cpu_milli;
      node.memory_bytes = machine.memory_bytes;
      node.pods = std::numeric_limits<std::int32_t>::max();
      node.model = model;
      node.gpus = static_cast<std::uint8_t>(machine.free_milli.size());
      for (std::size_t i = 0; i < node.gpus; ++i) node.free[i] = static_cast<std::uint16_t>(machine.free_milli[i]);
      nodes.push_back({node, count});
      machines.push_back(&machine);
    }
    for (const auto& [ask, pods] : outline.pods) {
      pack::PodClass pod{ask.cpu_milli, ask.memory_bytes, ask.gpus, ask.gpu_milli, pack::kAnyModel};
      if (!ask.models.empty()) pod.models = 0;
      for (const auto& name : ask.models) {
        if (const auto it = models_.find(name); it != models_.end()) pod.models |= pack::Models{1} << it->second;
      }
      wanted.push_back({pod, pods.placed + pods.waiting, pods.placed});
      gap.allocated += pod.total_milli() * pods.placed;
      gap.asked += pod.total_milli() * (pods.placed + pods.waiting);
    }
  }

  Gap gap;                ///< the values known without a search
  std::int64_t huge = 0;  ///< milli-GPU of nodes that are too large for the bound
  std::vector<bound::NodeGroup> nodes;
  std::vector<const Outline::NodeShape*> machines;  // by group
  std::vector<bound::Wanted> wanted;

 private:
  std::map<std::string, std::uint8_t> models_;
};

std::vector<Gap::Price> prices_of(const Question& question, const bound::Bound& bound) {
  struct Sum {
    std::int64_t nodes = 0;
    double milli = 0;
  };
  std::map<std::pair<std::string, std::int32_t>, Sum> sums;
  for (std::size_t i = 0; i < question.nodes.size(); ++i) {
    const auto& group = question.nodes[i];
    if (group.node.gpus == 0) continue;
    auto& sum = sums[{question.machines[i]->model, group.node.gpus}];
    sum.nodes += group.count;
    sum.milli += bound.node_milli[i] * static_cast<double>(group.count);
  }
  std::vector<Gap::Price> out;
  for (const auto& [kind, sum] : sums) {
    out.push_back({kind.first, kind.second, sum.nodes, sum.milli / static_cast<double>(sum.nodes)});
  }
  return out;
}

}  // namespace

Gap gap_of(const Outline& outline, const std::function<bool(bool second)>& stop) {
  Question question(outline);
  Gap out = question.gap;
  auto wanted = question.wanted;
  for (auto& one : wanted) one.least = 0;
  bound::Effort effort;
  effort.stop = [&] { return stop && stop(false); };
  const auto any = bound::upper_bound(question.nodes, wanted, effort);
  out.bound = std::max(any.gpu_milli + question.huge, out.allocated);
  out.prices = prices_of(question, any);
  out.keeping = out.bound;
  out.close = any.close;
  if (question.huge > 0) return out;  // pods on those nodes would have no place in the model
  effort.stop = [&] { return stop && stop(true); };
  const auto keeping = bound::upper_bound(question.nodes, question.wanted, effort);
  out.keeping = std::clamp(keeping.gpu_milli, out.allocated, out.bound);
  out.close = out.close && keeping.close;
  return out;
}

GapMeter::GapMeter(service::Host& host, const DomainClock& clock, Times times)
    : host_(host), clock_(clock), times_(times) {}

GapMeter::~GapMeter() { stop(); }

void GapMeter::start() {
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void GapMeter::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

GapMeter::Look GapMeter::look() {
  std::optional<Outline> outline;
  host_.read([&](const service::Shell& shell) {
    const Engine& engine = engine_of(shell);
    if (engine.synced()) outline = engine.outline();
  });
  const Instant at = clock_.now();
  if (!outline) return Look::kNotSynced;
  if (outline == seen_) return Look::kUnchanged;
  const auto begin = std::chrono::steady_clock::now();
  Gap gap = gap_of(*outline, [&](bool second) {
    return stop_.stop_requested() ||
           std::chrono::steady_clock::now() - begin > (second ? times_.most : times_.most / 2);
  });
  gap.at = at;
  seen_ = std::move(outline);
  const std::lock_guard lock(mutex_);
  latest_ = std::make_shared<const Gap>(std::move(gap));
  return Look::kComputed;
}

void GapMeter::run(const std::stop_token& stop) {
  stop_ = stop;
  while (!stop.stop_requested()) {
    // A service that has just started syncs its cluster within seconds.
    const auto wait =
        look() == Look::kNotSynced ? std::min<SteadyDuration>(std::chrono::seconds(1), times_.period) : times_.period;
    sleep_unless_stopped(wait, stop);
  }
}

std::shared_ptr<const Gap> GapMeter::latest() const {
  const std::lock_guard lock(mutex_);
  return latest_;
}

void GapMeter::export_metrics(metrics::Registry& registry) const {
  registry.on_collect([this] {
    std::vector<metrics::Family> out;
    const auto gap = latest();
    if (!gap) return out;
    const auto gpus = [](auto milli) { return static_cast<double>(milli) / 1000; };
    const metrics::Labels any{{"who", "any"}}, keeping{{"who", "keeping"}};
    const auto gauge = [&](std::string name, std::string help, std::vector<metrics::Family::Series> series) {
      out.push_back({std::move(name), std::move(help), metrics::Family::Kind::kGauge, std::move(series)});
    };
    gauge("qm_placement_gpus_allocated", "GPUs of placed pods, when the gap was last computed",
          {{{}, gpus(gap->allocated)}});
    gauge("qm_placement_gpus_bound",
          "Upper bound on the allocated GPUs of any scheduler: with any choice of pods, or with the placed pods kept",
          {{any, gpus(gap->bound)}, {keeping, gpus(gap->keeping)}});
    gauge("qm_placement_gpus_gap", "Bound minus allocated",
          {{any, gpus(gap->bound - gap->allocated)}, {keeping, gpus(gap->keeping - gap->allocated)}});
    std::vector<metrics::Family::Series> prices;
    for (const auto& price : gap->prices) {
      prices.push_back({{{"model", price.model}, {"gpus", std::to_string(price.gpus)}}, gpus(price.milli)});
    }
    gauge("qm_placement_scarcity_price", "GPUs that one more node of the model and size would add to the bound",
          std::move(prices));
    return out;
  });
}

}  // namespace qm::placement
