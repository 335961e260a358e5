// Random fleets, gangs and changes: results keep the laws, tables equal a count from scratch, and
// the same input gives the same result.
#include "test/gang/gangs.hpp"

namespace qm::placement::gang::testing {
namespace gang_prop_test {

TEST(GangLaws, PlacementsSatisfyConstraints) {
  int placed = 0, not_placed = 0, cut = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    World world = some_world(random, {});
    const GangSize size{random.between(1, 4), random.between(4, 80), true, true, true};
    const Request request = some_gang(random, world.fleet.tree(), size);
    const auto before = [&] {
      std::vector<pack::NodeState> states;
      for (NodeId node = 0; node < world.empty.size(); ++node) states.push_back(world.fleet.state(node));
      return states;
    };
    const auto states = before();
    const auto answer = place(world.fleet, request);
    ASSERT_TRUE(answer) << answer.error().to_string();
    ASSERT_EQ(states, before()) << "a query changed the fleet";
    cut += answer->exact ? 0 : 1;
    if (answer->placed()) {
      ++placed;
      ASSERT_NO_FATAL_FAILURE(satisfies_laws(world, request, *answer));
    } else {
      ++not_placed;
      ASSERT_TRUE(answer->shortfall);
      ASSERT_FALSE(explain(world.fleet.tree(), *answer).empty());
      ASSERT_TRUE(answer->shortfall->set < 0 || answer->shortfall->takes < answer->shortfall->asked);
    }
    // The same fleet built again, tables included, gives the same result.
    Random again(seed);
    World other = some_world(again, {});
    const auto repeated = place(other.fleet, request);
    ASSERT_EQ(repeated->members, answer->members);
    ASSERT_EQ(repeated->cost, answer->cost);
  }
  RecordProperty("placed", placed);
  RecordProperty("cut", cut);
  EXPECT_GT(placed, 500);
  EXPECT_GT(not_placed, 500);
  EXPECT_LT(cut, 300);
}

// pods_that_fit() equals the number of pods that can be placed, whichever device each of them uses.
TEST(GangLaws, CountedPodsCanBePlaced) {
  Random random(1);
  int shared = 0;
  for (int i = 0; i < 20'000; ++i) {
    auto state = some_use(empty_node(random.between(0, 8)), random, true);
    state.model = static_cast<std::uint8_t>(random.below(2));
    const auto pod = some_set(random, Tree({"rack"}), 8, true).pod;
    const auto count = pods_that_fit(state, pod);
    std::int32_t put = 0;
    for (; pack::fits(state, pod); ++put) {
      std::vector<std::int32_t> devices;
      for (std::size_t d = 0; d < state.gpus && state.free[d] >= pod.gpu_milli; ++d) devices.push_back(state.free[d]);
      const auto device =
          devices.empty() ? 0
                          : devices[static_cast<std::size_t>(random.below(static_cast<std::int32_t>(devices.size())))];
      state = pack::with(state, pod, device);
    }
    ASSERT_EQ(put, count);
    shared += pod.shares() && count > 1 ? 1 : 0;
  }
  EXPECT_GT(shared, 1000);
}

// A relaxation that is offered was tried: a request with it is placed.
TEST(GangLaws, RelaxationsCanBePlaced) {
  std::map<Relaxation::What, int> seen;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    World world = some_world(random, {40, true});
    const Request request = some_gang(random, world.fleet.tree(), {1, random.between(20, 120), true, false, false});
    const auto answer = place(world.fleet, request);
    if (answer->placed()) continue;
    for (const auto& [what, of, level, count] : answer->relaxations) {
      Request smaller = request;
      if (what == Relaxation::What::kShared) smaller.exclusive = false;
      if (what == Relaxation::What::kFewer) smaller.gang.sets[0].count = count;
      if (what == Relaxation::What::kWider) smaller.gang.required = level;
      const auto then = place(world.fleet, smaller);
      ASSERT_TRUE(then->placed()) << explain(world.fleet.tree(), *answer);
      ++seen[what];
      if (what == Relaxation::What::kFewer) {
        smaller.gang.sets[0].count += smaller.gang.sets[0].slices.size;
        ASSERT_FALSE(place(world.fleet, smaller)->placed()) << "more would have been placed";
      }
    }
  }
  EXPECT_EQ(seen.size(), 3U);
}

// After any history of gangs that start and finish and of nodes that change, every table equals a count from scratch.
TEST(GangLaws, TablesMatchRecount) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    World world = some_world(random, {});
    struct Running {
      Request request;
      std::vector<std::pair<NodeId, pack::NodeState>> before;
    };
    for (int step = 0; step < 60; ++step) {
      const auto node = static_cast<NodeId>(random.below(static_cast<std::int32_t>(world.empty.size())));
      switch (random.below(6)) {
        case 0:
          world.fleet.set(node, some_use(world.empty[node], random, true));
          break;
        case 1:
          world.fleet.remove(node);
          break;
        case 2:
          world.fleet.open(node);
          world.fleet.set(node, world.empty[node]);
          break;
        case 3: {
          const auto state = empty_node(4);
          const std::vector<std::string> path(static_cast<std::size_t>(world.fleet.tree().depth()) - 1, "new");
          world.fleet.add(path, "late", state);
          world.empty.push_back(state);
          break;
        }
        default: {
          const auto request =
              some_gang(random, world.fleet.tree(), {random.between(1, 2), random.between(2, 20), true, true, true});
          const auto answer = place(world.fleet, request);
          ASSERT_TRUE(answer);
          if (!answer->placed()) break;
          ASSERT_NO_FATAL_FAILURE(satisfies_laws(world, request, *answer));
          book(world.fleet, request, *answer);
          if (!request.exclusive) break;
          // No other pod fits on the nodes of an exclusive gang.
          for (const auto& member : answer->members)
            ASSERT_EQ(world.fleet.takes(member.node, Kind{pack::PodClass{}}), 0);
        }
      }
      if (step % 5 == 0) world.fleet.audit();
    }
    world.fleet.audit();
  }
}

// An elastic set gets as many pods as it would get if it had requested exactly that number.
TEST(GangLaws, ElasticSetsGetMaximum) {
  int smaller = 0;
  for (std::uint64_t seed = 0; seed < 800; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    World world = some_world(random, {40, true});
    Request request = some_gang(random, world.fleet.tree(), {1, random.between(20, 120), true, false, false});
    auto& set = request.gang.sets[0];
    const auto run = set.slices.size;
    std::int32_t most = 0;
    const auto asked = set.count;
    for (set.count = run; set.count <= asked; set.count += run) {
      if (place(world.fleet, request)->placed()) most = set.count;
    }
    set.count = asked;
    set.min_count = run;
    const auto answer = place(world.fleet, request);
    ASSERT_EQ(static_cast<std::int32_t>(answer->members.size()), most);
    smaller += most < asked ? 1 : 0;
  }
  EXPECT_GT(smaller, 100);
}

}  // namespace gang_prop_test
}  // namespace qm::placement::gang::testing
