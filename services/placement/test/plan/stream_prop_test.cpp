// Streams of events over one scene: gangs start, finish and save their work, nodes are lost, kept for
// repairs and repartitioned, and plans of all kinds are applied. After each event the books equal a
// count from scratch, and a plan made before an event is either refused or can still be applied.
#include "qm/placement/plan/consolidate.hpp"
#include "qm/placement/plan/repair.hpp"
#include "test/plan/scenes.hpp"

namespace qm::placement::plan::testing {
namespace stream_prop_test {

class Stream {
 public:
  explicit Stream(std::uint64_t seed) : random_(seed), scene_(some_scene(random_, {})) {
    for (NodeId node = 0; node < scene_.nodes(); ++node) scene_.can_be_cut(node, mig::Family::kSeven);
  }

  void run(int events) {
    for (int i = 0; i < events; ++i) {
      terms_.now += std::chrono::minutes(random_.below(60));
      terms_.reslice = !random_.one_in(5);
      switch (random_.below(8)) {
        case 0:
        case 1:
          ask();
          break;
        case 2:
          end();
          break;
        case 3:
          save();
          break;
        case 4:
          lose();
          break;
        case 5:
          tidy();
          break;
        case 6:
          reserve(scene_, random_.below(2), 1);
          break;
        default:
          slice();
      }
      ASSERT_NO_FATAL_FAILURE(scene_.audit());
      ASSERT_NO_FATAL_FAILURE(recheck());
    }
  }
  int carried = 0, refused = 0, repaired = 0, tidied = 0;

 private:
  [[nodiscard]] std::optional<GangId> any() {
    std::vector<GangId> live;
    for (GangId gang = 0; gang < scene_.gangs(); ++gang) {
      if (scene_.runs(gang)) live.push_back(gang);
    }
    if (live.empty()) return std::nullopt;
    return live[static_cast<std::size_t>(random_.below(static_cast<std::int32_t>(live.size())))];
  }
  void ask() {
    auto wish = some_wish(random_, scene_, 5, 4, random_.one_in(2));
    keep(wish);
  }
  void slice() {
    Wish wish{"slices", gang_of(gpu_pod(0), random_.between(1, 2)), random_.below(4) * 100};
    wish.slices = {static_cast<mig::ProfileId>(random_.below(7))};
    keep(wish);
  }
  /// A plan is applied at once, or kept for later.
  void keep(const Wish& wish) {
    const auto found = plan(scene_, wish, terms_);
    ASSERT_TRUE(found);
    if (!found->placed()) return;
    const auto holds = still_holds(scene_, wish, *found, terms_);
    ASSERT_TRUE(holds) << holds.error().message;
    if (random_.one_in(3)) {
      kept_.emplace_back(wish, *found);
    } else {
      carry_out(scene_, wish, *found, terms_);
    }
  }
  void recheck() {
    if (kept_.empty() || !random_.one_in(2)) return;
    const auto [wish, found] = kept_.back();
    kept_.pop_back();
    if (still_holds(scene_, wish, found, terms_)) {
      carry_out(scene_, wish, found, terms_);
      ++carried;
    } else {
      ++refused;
    }
    ASSERT_NO_FATAL_FAILURE(scene_.audit());
  }
  void end() {
    if (const auto gang = any()) scene_.remove(*gang);
  }
  void save() {
    if (const auto gang = any()) scene_.at(*gang).checkpoint = terms_.now;
  }
  void lose() {
    const auto node = static_cast<NodeId>(random_.below(static_cast<std::int32_t>(scene_.nodes())));
    if (!random_.one_in(3) || scene_.lost(node)) return;
    scene_.lose(node);
    for (const auto gang : scene_.on(node)) {
      if (!scene_.runs(gang)) continue;  // displaced by the repair of another gang
      const auto found = repair(scene_, gang, node, terms_, {true, {}});
      if (!found) {
        scene_.remove(gang);
        continue;
      }
      const auto holds = still_holds(scene_, *found);
      ASSERT_TRUE(holds) << holds.error().message;
      carry_out(scene_, *found, terms_);
      ++repaired;
    }
  }
  void tidy() {
    const auto found = consolidate(scene_, terms_);
    for (const auto& step : found.steps) {
      const auto holds = still_holds(scene_, step, terms_);
      ASSERT_TRUE(holds) << holds.error().message;
      carry_out(scene_, step.moves, terms_);
      ++tidied;
    }
  }

  Random random_;
  Scene scene_;
  Terms terms_ = usual_terms();
  std::vector<std::pair<Wish, Plan>> kept_;
};

TEST(PlanStreams, BooksHoldAfterEveryEvent) {
  int carried = 0, refused = 0, repaired = 0, tidied = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    Stream stream(seed);
    ASSERT_NO_FATAL_FAILURE(stream.run(60));
    carried += stream.carried;
    refused += stream.refused;
    repaired += stream.repaired;
    tidied += stream.tidied;
  }
  EXPECT_GT(carried, 50);
  EXPECT_GT(refused, 50);
  EXPECT_GT(repaired, 20);
  EXPECT_GT(tidied, 50);
}

}  // namespace stream_prop_test
}  // namespace qm::placement::plan::testing
