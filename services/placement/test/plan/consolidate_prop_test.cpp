// Defragmentation: the promised nodes become free, the rules hold, and the lost work is less than
// that of other methods.
#include "qm/placement/plan/repair.hpp"
#include "test/plan/fleets.hpp"

namespace qm::placement::plan::testing {
namespace consolidate_prop_test {

std::int64_t free_nodes(const Scene& scene) {
  std::int64_t count = 0;
  for (NodeId node = 0; node < scene.nodes(); ++node)
    count += scene.on(node).empty() && !scene.spare(node) && !scene.lost(node) ? 1 : 0;
  return count;
}

/// Replays the plan step by step. Each step is valid after the steps before it, frees its nodes,
/// and moves no gang twice; no step gains more nodes for its lost work than one before.
void replays(Scene scene, const Tidy& tidy, const Terms& terms) {
  ASSERT_EQ(tidy.free_before, free_nodes(scene));
  auto now = tidy.free_before;
  std::set<GangId> moved;
  Costs sum;
  std::int64_t gpu_seconds = 0, pods = 0;
  const Emptying* last = nullptr;
  for (const auto& step : tidy.steps) {
    const auto status = still_holds(scene, step, terms);
    ASSERT_TRUE(status) << status.error().message;
    for (const auto& move : step.moves) {
      ASSERT_TRUE(moved.insert(move.gang).second);
      ASSERT_TRUE(scene.gang(move.gang).movable && scene.gang(move.gang).touchable);
      sum.lost_work += lost_by(scene, move.gang, terms);
      pods += static_cast<std::int64_t>(move.from.size());
    }
    sum.topology += step.cost.topology;
    gpu_seconds += step.gpu_seconds;
    carry_out(scene, step.moves, terms);
    now += static_cast<std::int64_t>(step.nodes.size());
    ASSERT_GE(free_nodes(scene), now);
    for (const auto node : step.nodes) ASSERT_TRUE(scene.on(node).empty());
    if (last != nullptr) {
      ASSERT_LE(static_cast<double>(step.nodes.size()) * static_cast<double>(last->cost.lost_work),
                static_cast<double>(last->nodes.size()) * static_cast<double>(step.cost.lost_work));
    }
    last = &step;
  }
  ASSERT_NO_FATAL_FAILURE(scene.audit());
  ASSERT_EQ(tidy.free_after, now);
  ASSERT_EQ(tidy.free_after, free_nodes(scene));
  ASSERT_EQ(tidy.cost.total(), sum.total());
  ASSERT_EQ(tidy.gpu_seconds, gpu_seconds);
  ASSERT_EQ(tidy.pods, pods);
}

TEST(Consolidate, KeepsItsPromise) {
  int won = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    SceneSize size;
    size.shares = random.one_in(3);
    size.most_pods = random.between(1, 4);
    auto scene = some_scene(random, size);
    if (random.one_in(3)) reserve(scene, 1, 1);
    const auto terms = usual_terms();
    Budget budget;
    if (random.one_in(4)) budget.pods = random.between(0, 6);
    if (random.one_in(4)) budget.gpu_seconds = random.between(0, 400) * 3600;
    if (random.one_in(4)) budget.cost = MicroUsd{random.between(0, 400)} * 3600 * terms.gpu_second;
    const auto tidy = consolidate(scene, terms, budget);
    ASSERT_NO_FATAL_FAILURE(replays(scene, tidy, terms));
    ASSERT_LE(tidy.pods, budget.pods);
    ASSERT_LE(tidy.gpu_seconds, budget.gpu_seconds);
    ASSERT_LE(tidy.cost.total(), budget.cost);
    won += static_cast<int>(tidy.free_after - tidy.free_before);
    ASSERT_EQ(consolidate(scene, terms, budget).free_after, tidy.free_after);
    Budget none;
    none.pods = 0;
    ASSERT_TRUE(consolidate(scene, terms, none).steps.empty());
  }
  EXPECT_GT(won, 150);
}

TEST(Consolidate, TheDemandToComeLosesNothing) {
  const auto terms = usual_terms();
  std::vector<pack::Demand> mix;
  for (const std::int32_t gpus : {1, 2, 4, 8}) mix.push_back({gpu_pod(gpus), gpus == 8 ? 2 : 1});
  const pack::Fragmentation measure(mix, 1);
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const auto scene = used_fleet(seed, 48, 65, true);
    const auto tidy = consolidate(scene, terms, {}, &measure);
    ASSERT_NO_FATAL_FAILURE(replays(scene, tidy, terms));
    EXPECT_GT(tidy.steps.size(), 0U);
    EXPECT_LT(tidy.fragment_after, tidy.fragment_before);
  }
}

TEST(Consolidate, AStepIsRefusedWhereTheSceneHasMovedOn) {
  const auto terms = usual_terms();
  auto scene = used_fleet(1, 32, 60, true);
  const auto tidy = consolidate(scene, terms);
  ASSERT_GT(tidy.steps.size(), 1U);
  const auto& step = tidy.steps[0];
  ASSERT_TRUE(still_holds(scene, step, terms));
  const auto refused = [&](const std::string& why) {
    const auto status = still_holds(scene, step, terms);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kAborted);
    EXPECT_NE(status.error().message.find(why), std::string::npos) << status.error().message;
  };
  pack::PodClass small;
  small.cpu_milli = 1;
  const auto guest = scene.add(running("guest", 0, gang_of(small, 1), {{0, 0, step.nodes[0], 0}}));
  refused("has come to the node");
  scene.remove(guest);
  const auto gang = step.moves[0].gang;
  scene.at(gang).movable = false;
  refused("may not be moved");
  scene.at(gang).movable = true;
  scene.at(gang).stays_until = terms.now + std::chrono::seconds(1);
  refused("minimum run time");
  scene.at(gang).stays_until = terms.now;
  ASSERT_TRUE(still_holds(scene, step, terms));
  // The pods next to which it would be placed have finished.
  for (const auto& seat : step.moves[0].seats) {
    for (const auto other : scene.on(seat.node)) scene.remove(other);
  }
  refused("nothing would be won");
  scene.remove(gang);
  refused("has ended");
}

struct Compared {
  double ours = 0, theirs = 0;  // GPU-hours
  std::int64_t nodes = 0, all_ours = 0, all_theirs = 0;
};

/// Compares the cost of as many nodes as both methods gain; the last step of the plan may gain some more.
void compare(const Tidy& tidy, const std::vector<Won>& other, Compared& sum) {
  std::size_t both = 0;
  for (const auto& step : tidy.steps) {
    if (both + step.nodes.size() > other.size()) break;
    both += step.nodes.size();
    sum.ours += static_cast<double>(step.gpu_seconds) / 3600;
  }
  sum.theirs += both == 0 ? 0 : other[both - 1].gpu_hours;
  sum.nodes += static_cast<std::int64_t>(both);
  sum.all_ours += tidy.free_after - tidy.free_before;
  sum.all_theirs += static_cast<std::int64_t>(other.size());
}

/// More whole nodes for each lost GPU-hour, for as many nodes as the job-by-job method gains.
TEST(Consolidate, WinsMoreForEachGpuHourThanJobByJob) {
  const auto terms = usual_terms();
  for (const bool checkpoints : {false, true}) {
    for (const std::int32_t used : {60, 75}) {
      Compared one_node, any_node;
      for (std::uint64_t seed = 100; seed < 108; ++seed) {
        const auto scene = used_fleet(seed, 64, used, checkpoints);
        const auto tidy = consolidate(scene, terms);
        ASSERT_NO_FATAL_FAILURE(replays(scene, tidy, terms));
        compare(tidy, job_by_job(scene, terms, false), one_node);
        compare(tidy, job_by_job(scene, terms, true), any_node);
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
