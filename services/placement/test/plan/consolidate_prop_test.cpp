// Defragmentation: the promised nodes become free, the rules hold, and the lost work is less than
// that of other methods.
#include "test/plan/fleets.hpp"

namespace qm::placement::plan::testing {
namespace consolidate_prop_test {

std::int64_t free_nodes(const ClusterModel& model) {
  std::int64_t count = 0;
  for (NodeId node = 0; node < model.nodes(); ++node) count += model.on(node).empty() && !model.closed(node) ? 1 : 0;
  return count;
}

/// Replays the plan step by step. Each step is valid after the steps before it, frees its nodes,
/// and moves no gang twice; no step gains more nodes for its lost work than one before.
void replays(ClusterModel model, const DefragPlan& defrag, const CostModel& cost_model) {
  ASSERT_EQ(defrag.free_before, free_nodes(model));
  auto now = defrag.free_before;
  std::set<GangId> moved;
  Costs sum;
  std::int64_t gpu_seconds = 0, pods = 0;
  const NodeReclaim* last = nullptr;
  for (const auto& step : defrag.steps) {
    const auto status = still_holds(model, step, cost_model);
    ASSERT_TRUE(status) << status.error().message;
    for (const auto& move : step.moves) {
      ASSERT_TRUE(moved.insert(move.gang).second);
      ASSERT_TRUE(model.gang(move.gang).movable && model.gang(move.gang).preemptible);
      sum.lost_work += lost_by(model, move.gang, cost_model);
      pods += static_cast<std::int64_t>(move.from.size());
    }
    sum.topology += step.cost.topology;
    gpu_seconds += step.gpu_seconds;
    apply_plan(model, step.moves, cost_model);
    now += static_cast<std::int64_t>(step.nodes.size());
    ASSERT_GE(free_nodes(model), now);
    for (const auto node : step.nodes) ASSERT_TRUE(model.on(node).empty());
    if (last != nullptr) {
      ASSERT_LE(static_cast<double>(step.nodes.size()) * static_cast<double>(last->cost.lost_work),
                static_cast<double>(last->nodes.size()) * static_cast<double>(step.cost.lost_work));
    }
    last = &step;
  }
  ASSERT_NO_FATAL_FAILURE(model.audit());
  ASSERT_EQ(defrag.free_after, now);
  ASSERT_EQ(defrag.free_after, free_nodes(model));
  ASSERT_EQ(defrag.cost.total(), sum.total());
  ASSERT_EQ(defrag.gpu_seconds, gpu_seconds);
  ASSERT_EQ(defrag.pods, pods);
}

TEST(Consolidate, FreesThePlannedNodesWithinTheBudget) {
  int reclaimed = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    ModelSize size;
    size.shares = random.one_in(3);
    size.most_pods = random.between(1, 4);
    auto model = random_model(random, size);
    if (const auto node = static_cast<NodeId>(random.below(static_cast<std::int32_t>(model.nodes()))); random.one_in(3))
      model.close(node);
    const auto cost_model = usual_cost_model();
    Budget budget;
    if (random.one_in(4)) budget.pods = random.between(0, 6);
    if (random.one_in(4)) budget.gpu_seconds = random.between(0, 400) * 3600;
    if (random.one_in(4)) budget.cost = MicroUsd{random.between(0, 400)} * 3600 * cost_model.gpu_second;
    const auto defrag = consolidate(model, cost_model, budget);
    ASSERT_NO_FATAL_FAILURE(replays(model, defrag, cost_model));
    ASSERT_LE(defrag.pods, budget.pods);
    ASSERT_LE(defrag.gpu_seconds, budget.gpu_seconds);
    ASSERT_LE(defrag.cost.total(), budget.cost);
    reclaimed += static_cast<int>(defrag.free_after - defrag.free_before);
    ASSERT_EQ(consolidate(model, cost_model, budget).free_after, defrag.free_after);
    Budget none;
    none.pods = 0;
    ASSERT_TRUE(consolidate(model, cost_model, none).steps.empty());
  }
  EXPECT_GT(reclaimed, 150);
}

TEST(Consolidate, DoesNotIncreaseFragmentation) {
  const auto cost_model = usual_cost_model();
  std::vector<pack::Demand> mix;
  for (const std::int32_t gpus : {1, 2, 4, 8}) mix.push_back({gpu_pod(gpus), gpus == 8 ? 2 : 1});
  const pack::Fragmentation measure(mix, 1);
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const auto model = used_fleet(seed, 48, 65, true);
    const auto defrag = consolidate(model, cost_model, {}, &measure);
    ASSERT_NO_FATAL_FAILURE(replays(model, defrag, cost_model));
    EXPECT_GT(defrag.steps.size(), 0U);
    EXPECT_LT(defrag.fragment_after, defrag.fragment_before);
  }
}

TEST(Consolidate, AStepIsRefusedIfTheModelHasChanged) {
  const auto cost_model = usual_cost_model();
  auto model = used_fleet(1, 32, 60, true);
  const auto defrag = consolidate(model, cost_model);
  ASSERT_GT(defrag.steps.size(), 1U);
  const auto& step = defrag.steps[0];
  ASSERT_TRUE(still_holds(model, step, cost_model));
  const auto refused = [&](const std::string& why) {
    const auto status = still_holds(model, step, cost_model);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kAborted);
    EXPECT_NE(status.error().message.find(why), std::string::npos) << status.error().message;
  };
  pack::PodClass small;
  small.cpu_milli = 1;
  const auto guest = model.add(running("guest", 0, gang_of(small, 1), {{0, 0, step.nodes[0], 0}}));
  refused("is on the node and not part of the step");
  model.remove(guest);
  const auto gang = step.moves[0].gang;
  model.at(gang).movable = false;
  refused("may not be moved");
  model.at(gang).movable = true;
  model.at(gang).min_runtime_until = cost_model.now + std::chrono::seconds(1);
  refused("minimum run time");
  model.at(gang).min_runtime_until = cost_model.now;
  ASSERT_TRUE(still_holds(model, step, cost_model));
  // The pods next to which it would be placed have finished.
  for (const auto& placement : step.moves[0].placements) {
    for (const auto other : model.on(placement.node)) model.remove(other);
  }
  refused("is empty now");
  model.remove(gang);
  refused("has ended");
}

struct Compared {
  double ours = 0, theirs = 0;  // GPU-hours
  std::int64_t nodes = 0, all_ours = 0, all_theirs = 0;
};

/// Compares the cost of as many nodes as both methods gain; the last step of the plan may gain some more.
void compare(const DefragPlan& defrag, const std::vector<Reclaimed>& other, Compared& sum) {
  std::size_t both = 0;
  for (const auto& step : defrag.steps) {
    if (both + step.nodes.size() > other.size()) break;
    both += step.nodes.size();
    sum.ours += static_cast<double>(step.gpu_seconds) / 3600;
  }
  sum.theirs += both == 0 ? 0 : other[both - 1].gpu_hours;
  sum.nodes += static_cast<std::int64_t>(both);
  sum.all_ours += defrag.free_after - defrag.free_before;
  sum.all_theirs += static_cast<std::int64_t>(other.size());
}

/// More whole nodes for each lost GPU-hour, for as many nodes as the job-by-job method gains.
TEST(Consolidate, FreesMoreNodesPerGpuHourThanJobByJob) {
  const auto cost_model = usual_cost_model();
  for (const bool checkpoints : {false, true}) {
    for (const std::int32_t used : {60, 75}) {
      Compared one_node, any_node;
      for (std::uint64_t seed = 100; seed < 108; ++seed) {
        const auto model = used_fleet(seed, 64, used, checkpoints);
        const auto defrag = consolidate(model, cost_model);
        ASSERT_NO_FATAL_FAILURE(replays(model, defrag, cost_model));
        compare(defrag, job_by_job(model, cost_model, false), one_node);
        compare(defrag, job_by_job(model, cost_model, true), any_node);
      }
      for (const auto& [name, sum] : {std::pair{"one_node", one_node}, std::pair{"any_node", any_node}}) {
        RecordProperty(fmt::format("used_{}_{}_{}", used, checkpoints ? "checkpoints" : "none", name),
                       fmt::format("{} nodes for {:.1f} GPU-hours, job by job {:.1f}; all: {}, job by job {}",
                                   sum.nodes, sum.ours, sum.theirs, sum.all_ours, sum.all_theirs));
        EXPECT_LT(sum.ours, sum.theirs);
        EXPECT_GE(sum.all_ours, sum.all_theirs);
      }
    }
  }
}

}  // namespace consolidate_prop_test
}  // namespace qm::placement::plan::testing
