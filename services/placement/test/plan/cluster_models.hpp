#pragma once
// Random fleets with gangs on them, and the laws that every plan must keep, checked independently.
#include "qm/placement/plan/plan.hpp"
#include "test/gang/gangs.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace qm::placement::plan::testing {

using gang::testing::best_fit;
using gang::testing::empty_node;
using gang::testing::gpu_pod;
using gang::testing::Random;
using gang::testing::set_of;

inline Instant at_hour(std::int64_t hours) { return from_micros(hours * 3'600'000'000); }
constexpr std::int64_t kNow = 1000;  // hours

inline gang::Request gang_of(const pack::PodClass& pod, std::int32_t count, Level required = gang::kFleet) {
  gang::Request request;
  request.gang.required = required;
  request.gang.sets.push_back(set_of(pod, count));
  return request;
}

inline Gang running(std::string name, std::int32_t priority, gang::Request request,
                    std::vector<PodPlacement> placements, std::int64_t hours_lost = 1) {
  Gang out;
  out.name = std::move(name);
  out.priority = priority;
  out.request = std::move(request);
  out.placements = std::move(placements);
  out.checkpoint = at_hour(kNow - hours_lost);
  out.min_runtime_until = at_hour(0);
  return out;
}

/// The placement in the current fleet; empty if the gang does not fit.
inline std::vector<PodPlacement> placements_now(ClusterModel& model, const gang::Request& request) {
  const auto answer = gang::place(model.fleet(), request);
  return answer && answer->placed() ? model.placements_for(request, *answer) : std::vector<PodPlacement>{};
}

struct ModelSize {
  std::int32_t nodes = 12, gangs = 12, gpus = 4;
  std::int32_t most_pods = 4;
  bool shares = false, racks = true, movable = true;
};

inline ClusterModel random_model(Random& random, ModelSize size) {
  ClusterModel model(size.racks ? std::vector<std::string>{"rack"} : std::vector<std::string>{}, best_fit());
  const auto nodes = random.between(2, size.nodes);
  const auto per_rack = random.between(2, 4);
  for (std::int32_t i = 0; i < nodes; ++i) {
    const auto path =
        size.racks ? std::vector<std::string>{fmt::format("r{}", i / per_rack)} : std::vector<std::string>{};
    model.add_node(path, fmt::format("n{}", i), empty_node(random.one_in(6) ? size.gpus / 2 : size.gpus));
  }
  for (NodeId node = 0; node < model.nodes(); ++node)
    model.fleet().set_gate(node, static_cast<std::uint8_t>(random.one_in(6) ? 1 : 0));
  for (std::int32_t g = 0; g < size.gangs; ++g) {
    auto pod = gpu_pod(random.one_in(10) ? 0 : std::min(size.gpus, std::int32_t{1} << random.below(3)));
    if (size.shares && pod.gpus == 1 && random.one_in(2)) pod.gpu_milli = 100 * random.between(2, 9);
    auto request = gang_of(pod, random.between(1, size.most_pods));
    if (random.one_in(4)) request.gang.required = random.below(model.tree().depth() + 1);
    request.exclusive = random.one_in(12);
    if (random.one_in(8)) request.gang.sets[0].gates = 1;
    // The placement is random, not the best one: nodes that are excluded are drawn.
    for (NodeId node = 0; node < model.nodes(); ++node) model.exclude(node, random.one_in(2));
    auto placements = placements_now(model, request);
    for (NodeId node = 0; node < model.nodes(); ++node) model.exclude(node, false);
    if (placements.empty()) continue;
    auto gang = running(fmt::format("g{}", g), random.between(0, 3) * 100, request, std::move(placements),
                        random.between(0, 50));
    gang.restart = std::chrono::minutes(random.below(30));
    gang.waiting_per_s = random.below(3) * 5'000;
    gang.preemptible = !random.one_in(10);
    gang.movable = size.movable && !random.one_in(4);
    if (random.one_in(10)) gang.min_runtime_until = at_hour(kNow + random.between(-1, 1));
    model.add(std::move(gang));
  }
  return model;
}

inline PendingGang random_pending_gang(Random& random, const ClusterModel& model, std::int32_t most_pods,
                                       std::int32_t gpus, bool rich) {
  PendingGang pending{"pending"};
  pending.priority = random.between(1, 4) * 100;
  const auto gpus_each = random.one_in(8) ? 0 : std::min(gpus, std::int32_t{1} << random.below(3));
  pending.request = gang_of(gpu_pod(gpus_each), random.between(1, most_pods));
  auto& group = pending.request.gang;
  if (random.one_in(2)) group.required = random.below(model.tree().depth() + 1);
  if (random.one_in(2)) group.preferred = random.below(model.tree().depth() + 1);
  pending.request.exclusive = random.one_in(10);
  if (random.one_in(3)) group.sets[0].min_count = random.between(1, group.sets[0].count);
  if (random.one_in(6)) group.sets[0].gates = 1;
  if (random.one_in(6)) group.sets[0].spread = {random.between(1, 2), model.tree().depth()};
  if (rich && random.one_in(2)) group.sets.push_back(set_of(gpu_pod(random.below(2)), 1));
  if (rich && random.one_in(3) && model.tree().depth() > 1) {
    gang::Group child;
    child.required = 1;
    child.sets.push_back(set_of(gpu_pod(1), random.between(1, 3)));
    group.children.push_back(child);
  }
  if (random.one_in(5)) {
    pending.victims.emplace();
    for (GangId gang = 0; gang < model.gangs(); ++gang) {
      if (random.one_in(2)) pending.victims->push_back(gang);
    }
  }
  return pending;
}

inline CostModel usual_cost_model() {
  CostModel cost_model;
  cost_model.now = at_hour(kNow);
  cost_model.requeue = std::chrono::hours(2);
  return cost_model;
}

/// True if the pending gang fits after these have left; the model is not changed.
inline bool fits_without(ClusterModel& model, const PendingGang& pending, const std::vector<GangId>& gangs) {
  for (const auto gang : gangs) model.apply_eviction(gang);
  model.sync();
  const auto answer = gang::place(model.fleet(), pending.request);
  for (const auto gang : gangs) model.revert_eviction(gang);
  model.sync();
  return answer->placed();
}

inline std::vector<GangId> without(const std::vector<GangId>& gangs, std::size_t one) {
  std::vector<GangId> out;
  for (std::size_t i = 0; i < gangs.size(); ++i) {
    if (i != one) out.push_back(gangs[i]);
  }
  return out;
}

inline std::vector<GangId> allowed(const ClusterModel& model, const PendingGang& pending, const CostModel& cost_model) {
  std::vector<GangId> out;
  for (GangId gang = 0; gang < model.gangs(); ++gang) {
    if (model.runs(gang) && may_evict(model, pending, gang, cost_model)) out.push_back(gang);
  }
  return out;
}

inline MicroUsd eviction_cost(const ClusterModel& model, GangId gang, const CostModel& cost_model) {
  return lost_by(model, gang, cost_model) + model.gang(gang).waiting_per_s * cost_model.requeue.count() / 1'000'000;
}

/// Evicts the cheapest first until the gang fits, then removes victims that are not needed, the
/// most expensive first: the method of other schedulers.
inline std::optional<std::vector<GangId>> greedy(ClusterModel& model, const PendingGang& pending,
                                                 const CostModel& cost_model) {
  auto order = allowed(model, pending, cost_model);
  std::ranges::stable_sort(order, {}, [&](GangId gang) { return eviction_cost(model, gang, cost_model); });
  std::vector<GangId> gone;
  for (const auto gang : order) {
    if (fits_without(model, pending, gone)) break;
    gone.push_back(gang);
  }
  if (!fits_without(model, pending, gone)) return std::nullopt;
  for (auto i = gone.size(); i-- > 0;) {
    if (auto fewer = without(gone, i); fits_without(model, pending, fewer)) gone = std::move(fewer);
  }
  return gone;
}

}  // namespace qm::placement::plan::testing
