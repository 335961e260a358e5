// Streams of events over one model: gangs start, finish and save checkpoints, nodes are closed, and
// preemption and defragmentation plans are applied. After each event the counters equal a count from
// scratch, and a plan made before an event is either refused or can still be applied.
#include "qm/placement/plan/consolidate.hpp"
#include "test/plan/cluster_models.hpp"

namespace qm::placement::plan::testing {
namespace stream_prop_test {

class Stream {
 public:
  explicit Stream(std::uint64_t seed) : random_(seed), model_(random_model(random_, {})) {}

  void run(int events) {
    for (int i = 0; i < events; ++i) {
      cost_model_.now += std::chrono::minutes(random_.below(60));
      switch (random_.below(7)) {
        case 0:
          end();
          break;
        case 1:
          save();
          break;
        case 2:
          close();
          break;
        case 3:
          defrag();
          break;
        default:
          preempt();
      }
      ASSERT_NO_FATAL_FAILURE(model_.audit());
      ASSERT_NO_FATAL_FAILURE(recheck());
    }
  }
  int applied = 0, refused = 0, defrag_steps = 0;

 private:
  [[nodiscard]] std::optional<GangId> any() {
    std::vector<GangId> live;
    for (GangId gang = 0; gang < model_.gangs(); ++gang) {
      if (model_.runs(gang)) live.push_back(gang);
    }
    if (live.empty()) return std::nullopt;
    return live[static_cast<std::size_t>(random_.below(static_cast<std::int32_t>(live.size())))];
  }
  /// Plans for a pending gang. The plan is applied at once, or kept for later.
  void preempt() {
    const auto pending = random_pending_gang(random_, model_, 5, 4, random_.one_in(2));
    const auto found = plan(model_, pending, cost_model_);
    ASSERT_TRUE(found);
    if (!found->placed()) return;
    const auto holds = still_holds(model_, pending, *found, cost_model_);
    ASSERT_TRUE(holds) << holds.error().message;
    if (random_.one_in(3)) {
      kept_.emplace_back(pending, *found);
    } else {
      apply_plan(model_, pending, *found, cost_model_);
    }
  }
  void recheck() {
    if (kept_.empty() || !random_.one_in(2)) return;
    const auto [pending, found] = kept_.back();
    kept_.pop_back();
    if (still_holds(model_, pending, found, cost_model_)) {
      apply_plan(model_, pending, found, cost_model_);
      ++applied;
    } else {
      ++refused;
    }
    ASSERT_NO_FATAL_FAILURE(model_.audit());
  }
  void end() {
    if (const auto gang = any()) model_.remove(*gang);
  }
  void save() {
    if (const auto gang = any()) model_.at(*gang).checkpoint = cost_model_.now;
  }
  void close() {
    const auto node = static_cast<NodeId>(random_.below(static_cast<std::int32_t>(model_.nodes())));
    if (!random_.one_in(3) || model_.closed(node)) return;
    model_.close(node);
    for (const auto gang : model_.on(node)) model_.remove(gang);
  }
  void defrag() {
    const auto found = consolidate(model_, cost_model_);
    for (const auto& step : found.steps) {
      const auto holds = still_holds(model_, step, cost_model_);
      ASSERT_TRUE(holds) << holds.error().message;
      apply_plan(model_, step.moves, cost_model_);
      ++defrag_steps;
    }
  }

  Random random_;
  ClusterModel model_;
  CostModel cost_model_ = usual_cost_model();
  std::vector<std::pair<PendingGang, Plan>> kept_;
};

TEST(PlanStreams, CountersMatchAfterEveryEvent) {
  int applied = 0, refused = 0, defrag_steps = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    Stream stream(seed);
    ASSERT_NO_FATAL_FAILURE(stream.run(60));
    applied += stream.applied;
    refused += stream.refused;
    defrag_steps += stream.defrag_steps;
  }
  EXPECT_GT(applied, 50);
  EXPECT_GT(refused, 50);
  EXPECT_GT(defrag_steps, 50);
}

}  // namespace stream_prop_test
}  // namespace qm::placement::plan::testing
