#pragma once
// Fleets after hours of jobs that started and finished, and the defragmentation methods of other schedulers.
#include "qm/placement/plan/consolidate.hpp"
#include "test/plan/cluster_models.hpp"

#include <cmath>

namespace qm::placement::plan::testing {

/// Jobs with sizes and run times similar to the Philly trace: most on one GPU, some on whole nodes, few
/// on several nodes; minutes to days. Best fit places them until the fleet is full; then jobs finish and
/// start until the fleet has turned over; then jobs finish until the requested percentage is in use.
inline ClusterModel used_fleet(std::uint64_t seed, std::int32_t nodes, std::int32_t used_pct, bool checkpoints) {
  ClusterModel model({"rack"}, best_fit());
  std::mt19937_64 random(seed);
  for (std::int32_t i = 0; i < nodes; ++i) {
    const std::vector<std::string> path{fmt::format("r{}", i / 16)};
    model.add_node(path, fmt::format("n{}", i), empty_node(8));
  }
  std::int64_t used = 0;
  std::vector<GangId> live;
  std::lognormal_distribution<double> minutes(4.0, 2.0);
  const auto start = [&] {
    const auto die = random() % 100;
    const auto gpus = die < 60 ? 1 : die < 72 ? 2 : die < 82 ? 4 : 8;
    auto request = gang_of(gpu_pod(gpus), die < 96 ? 1 : 2);
    request.gang.sets[0].pod.cpu_milli = 8'000 * gpus;
    auto placements = placements_now(model, request);
    if (placements.empty()) return false;
    auto gang = running(fmt::format("g{}", model.gangs()), 0, request, std::move(placements));
    // Running jobs have run for long: the probability to observe a job is proportional to its run time.
    const auto ran = std::min(minutes(random) * 3, 20'000.0) * static_cast<double>(random() % 1000) / 1000;
    const auto lost = checkpoints ? std::fmod(ran, 60.0) : ran;
    gang.checkpoint = at_hour(kNow) - std::chrono::microseconds(static_cast<std::int64_t>(lost * 60e6));
    gang.restart = std::chrono::minutes(5);
    gang.waiting_per_s = 1'000;
    gang.movable = random() % 20 != 0;
    live.push_back(model.add(std::move(gang)));
    used += model.gpu_milli(live.back()) / pack::kDevice;
    return true;
  };
  const auto end = [&] {
    const auto i = random() % live.size();
    used -= model.gpu_milli(live[i]) / pack::kDevice;
    model.remove(live[i]);
    live[i] = live.back();
    live.pop_back();
  };
  const auto fill = [&] {
    for (int missed = 0; used * 100 < nodes * 8 * 95 && missed < 20;) missed += start() ? 0 : 1;
  };
  fill();
  for (auto left = 3 * live.size(); left > 0; --left) {
    end();
    fill();
  }
  while (used * 100 > nodes * 8 * used_pct) end();
  return model;
}

struct Reclaimed {
  std::int64_t nodes = 0;
  double gpu_hours = 0;
};

/// A job of a whole node is pending. Running jobs are removed one after the other, the most
/// recently started first, until the pending job has a node and all removed jobs have a placement.
/// With `other_nodes` the job tries another node if the best one fails. A removed job that gets its
/// node again has not moved. This is repeated until no job finds a node. Returns the nodes gained
/// and the GPU-hours lost after each of them.
inline std::vector<Reclaimed> job_by_job(ClusterModel model, const CostModel& cost_model, bool other_nodes) {
  std::vector<GangId> order;
  for (GangId gang = 0; gang < model.gangs(); ++gang) {
    if (model.runs(gang) && model.gang(gang).movable) order.push_back(gang);
  }
  std::ranges::stable_sort(order, std::greater<>(), [&](GangId gang) { return model.gang(gang).checkpoint; });
  const auto job = gang_of(gpu_pod(8), 1);
  for (NodeId node = 0; node < model.nodes(); ++node) {
    if (model.on(node).empty()) model.exclude(node, true);  // these nodes are free anyway
  }
  std::vector<Reclaimed> out;
  Reclaimed sum;
  std::set<NodeId> failed;  // free capacity only shrinks: a node whose jobs did not fit elsewhere fails again
  const auto placements_of_job = [&] {
    for (const auto node : failed) model.exclude(node, true);
    model.sync();
    auto placements = placements_now(model, job);
    for (const auto node : failed) model.exclude(node, false);
    return placements;
  };
  for (bool again = true; again;) {
    again = false;
    std::vector<GangId> taken;
    for (const auto next : order) {
      model.apply_eviction(next);
      taken.push_back(next);
      const auto placements = placements_of_job();
      if (placements.empty()) continue;
      std::map<GangId, std::vector<PodPlacement>> moves;
      model.exclude(placements[0].node, true);
      // Jobs that can stay do; the others are placed where they fit, the largest first.
      std::vector<GangId> displaced;
      for (const auto gang : taken) {
        const auto& own = model.gang(gang).placements;
        const bool stays = std::ranges::none_of(
            own, [&](const PodPlacement& placement) { return placement.node == placements[0].node; });
        if (stays) {
          model.revert_eviction(gang);
        } else {
          displaced.push_back(gang);
        }
      }
      model.sync();
      std::ranges::stable_sort(displaced, std::greater<>(), [&](GangId gang) { return model.gpu_milli(gang); });
      bool all = true;
      for (const auto gang : displaced) {
        const auto& request = model.gang(gang).request;
        auto place = placements_now(model, request);
        if (all = !place.empty(); !all) break;
        model.reserve(request, place);
        model.sync();
        moves[gang] = std::move(place);
      }
      for (const auto& [gang, place] : moves) model.unreserve(model.gang(gang).request, place);
      for (const auto gang : displaced) model.revert_eviction(gang);
      model.sync();
      if (all) {
        for (const auto& [gang, place] : moves) {
          const auto time = cost_model.now - model.gang(gang).checkpoint + model.gang(gang).restart;
          sum.gpu_hours += static_cast<double>(model.gpu_milli(gang)) / pack::kDevice * seconds(time) / 3600;
          model.at(gang).checkpoint = cost_model.now;
        }
        model.move(std::move(moves));
        ++sum.nodes;
        out.push_back(sum);
        again = true;
        break;
      }
      model.exclude(placements[0].node, false);
      if (other_nodes) failed.insert(placements[0].node);
      for (const auto gang : taken) {
        if (std::ranges::find(displaced, gang) == displaced.end()) model.apply_eviction(gang);
      }
      for (const auto gang : displaced) model.apply_eviction(gang);
    }
    if (!again) {
      for (const auto gang : taken) model.revert_eviction(gang);
      model.sync();
    }
  }
  return out;
}

}  // namespace qm::placement::plan::testing
