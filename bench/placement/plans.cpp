#include "plans.hpp"

#include "qm/placement/plan/consolidate.hpp"
#include "report.hpp"

#include <fmt/format.h>

#include <random>

namespace qm::bench {
namespace {

using namespace placement::plan;  // NOLINT: the whole file is about it
namespace gang = placement::gang;
namespace pack = placement::pack;

constexpr std::int32_t kGpus = 8;
constexpr std::int64_t kNow = 1000;  // hours

const pack::Policy& policy() {
  static const auto made = pack::make_policy("bestfit", {});
  return *made;
}

Instant at_hour(std::int64_t hours) { return from_micros(hours * 3'600'000'000); }

gang::Request gang_of(std::int32_t gpus, std::int32_t pods, Level preferred = gang::kFleet) {
  gang::Request request;
  request.gang.preferred = preferred;
  gang::PodSet set;
  set.pod = {gpus * 10'000, std::int64_t{gpus} << 34, gpus, pack::kDevice, pack::kAnyModel};
  set.count = pods;
  request.gang.sets.push_back(set);
  return request;
}

/// A fleet in which gangs run.
class Site {
 public:
  explicit Site(std::size_t nodes) : model({"block", "rack"}, policy()) {
    pack::NodeState empty;
    empty.cpu_milli = 12'000 * kGpus;
    empty.memory_bytes = std::int64_t{1} << 40;
    empty.pods = 110;
    empty.gpus = kGpus;
    std::fill_n(empty.free.begin(), kGpus, std::uint16_t{pack::kDevice});
    for (std::size_t i = 0; i < nodes; ++i) {
      const std::vector<std::string> path{fmt::format("b{}", i / 512), fmt::format("r{}", i / 32)};
      model.add_node(path, fmt::format("n{}", i), empty);
    }
  }
  bool start(const gang::Request& request) {
    const auto answer = must(gang::place(model.fleet(), request));
    if (!answer.placed()) return false;
    Gang one{fmt::format("g{}", model.gangs()), 0, request, model.placements_for(request, answer)};
    one.restart = std::chrono::minutes(10);
    one.waiting_per_s = static_cast<MicroUsd>(random() % 5) * 1000;
    model.add(std::move(one));
    checkpoint(model.gangs() - 1);
    return true;
  }
  void checkpoint(GangId gang) {
    if (model.runs(gang)) model.at(gang).checkpoint = at_hour(kNow) - std::chrono::minutes(random() % 6000);
  }

  ClusterModel model;
  std::mt19937_64 random{1};
};

void ask(const std::string& what, Site& site, const gang::Request& request, bool migrate) {
  constexpr int kQuestions = 100;
  PendingGang pending{"pending", request, 100};
  CostModel cost_model;
  cost_model.now = at_hour(kNow);
  cost_model.requeue = std::chrono::hours(2);
  for (GangId gang = 0; gang < site.model.gangs(); ++gang) site.model.at(gang).movable = migrate;
  Report report("placement." + what, {{"nodes", static_cast<std::int64_t>(site.model.nodes())},
                                      {"gangs", static_cast<std::int64_t>(site.model.gangs())}});
  for (int i = -1; i < kQuestions; ++i) {
    for (int k = 0; k < 64; ++k) site.checkpoint(static_cast<GangId>(site.random() % site.model.gangs()));
    const auto start = Clock::now();
    const auto used = processor_seconds();
    const auto found = must(plan(site.model, pending, cost_model));
    const auto took = since(start) * 1e3;
    const auto processor = (processor_seconds() - used) * 1e3;
    const auto again = Clock::now();
    must(still_holds(site.model, pending, found, cost_model));
    const auto checked = since(again) * 1e3;
    if (i < 0) continue;
    report.add("ms", took);
    report.add("processor_ms", processor);
    report.add("check_ms", checked);
    report.add("displaced", static_cast<double>(found.displaced().size()));
    report.add("cost_usd", static_cast<double>(found.cost.total()) / 1e6);
  }
  report.print();
}

/// Sizes similar to Philly: many small gangs, few on several nodes; until nothing more fits.
void fill(Site& site) {
  for (int missed = 0; missed < 200;) {
    const auto die = site.random() % 100;
    const auto request = die < 60   ? gang_of(1, 1)
                         : die < 72 ? gang_of(2, 1)
                         : die < 84 ? gang_of(4, 1)
                         : die < 96 ? gang_of(8, 1)
                         : die < 99 ? gang_of(8, 2, 2)
                                    : gang_of(8, 8, 2);
    missed += site.start(request) ? 0 : 1;
  }
}

}  // namespace

void preempt(std::size_t nodes) {
  {
    Site site(nodes);
    while (site.start(gang_of(1, 1))) continue;
    ask("preempt_ones_for_250x8", site, gang_of(8, 250, 2), true);
    ask("preempt_ones_for_2000x1", site, gang_of(1, 2000, 2), true);
  }
  Site site(nodes);
  fill(site);
  ask("preempt_mix_for_250x8", site, gang_of(8, 250, 2), true);
  ask("preempt_mix_for_2000x1", site, gang_of(1, 2000, 2), true);
  auto rack = gang_of(8, 16);
  rack.gang.required = 2;
  ask("preempt_mix_for_rack_of_16x8", site, rack, true);
}

void consolidate(std::size_t nodes) {
  constexpr int kQuestions = 20;
  CostModel cost_model;
  cost_model.now = at_hour(kNow);
  const auto ask = [&](const std::string& what, Site& site) {
    Report report("placement." + what, {{"nodes", static_cast<std::int64_t>(site.model.nodes())},
                                        {"gangs", static_cast<std::int64_t>(site.model.gangs())}});
    for (int i = -1; i < kQuestions; ++i) {
      for (int k = 0; k < 64; ++k) site.checkpoint(static_cast<GangId>(site.random() % site.model.gangs()));
      const auto start = Clock::now();
      const auto found = placement::plan::consolidate(site.model, cost_model);
      // The gangs that the plan is for, on the nodes that it reclaims.
      auto after = site.model;
      for (const auto& step : found.steps) {
        must(still_holds(after, step, cost_model));
        apply_plan(after, step.moves, cost_model);
      }
      std::int64_t placed = 0;
      for (bool more = true; more;) {
        const auto request = gang_of(8, 10, 2);
        const auto answer = must(gang::place(after.fleet(), request));
        more = answer.placed();
        if (more) gang::book(after.fleet(), request, answer);
        placed += more ? 1 : 0;
      }
      const auto took = since(start) * 1e3;
      if (i < 0) continue;
      report.add("ms", took);
      report.add("nodes_reclaimed", static_cast<double>(found.free_after - found.free_before));
      report.add("gpu_hours", static_cast<double>(found.gpu_seconds) / 3600);
      report.add("gangs_of_10", static_cast<double>(placed));
    }
    report.print();
  };
  {
    // One pod on every node, the fleet otherwise empty.
    Site site(nodes);
    while (site.start(gang_of(8, 1))) continue;
    std::vector<std::vector<PodPlacement>> placements;
    for (GangId gang = 0; gang < site.model.gangs(); ++gang) {
      const auto node = site.model.gang(gang).placements[0].node;
      site.model.remove(gang);
      placements.push_back({{0, 0, node, 1}});
    }
    for (auto& one : placements) {
      Gang small{fmt::format("s{}", site.model.gangs()), 0, gang_of(1, 1), std::move(one)};
      small.restart = std::chrono::minutes(10);
      site.model.add(std::move(small));
      site.checkpoint(site.model.gangs() - 1);
    }
    ask("consolidate_ones", site);
  }
  Site site(nodes);
  fill(site);
  for (GangId gang = 0; gang < site.model.gangs(); ++gang) {
    if (site.random() % 100 < 40) site.model.remove(gang);
  }
  ask("consolidate_mix", site);
}

}  // namespace qm::bench
