// Gangs of every form lose nodes: they keep their rules, their other pods do not move, and where they are told that there is no room there is
// none.
#include "qm/placement/plan/repair.hpp"

#include "test/plan/scenes.hpp"

namespace qm::placement::plan::testing {
namespace repair_prop_test {

struct Part {
  Level required;
  std::int32_t first, end;
};

void parts_of(const gang::Group& group, std::int32_t& set, std::vector<Part>& out) {
  const auto self = out.size();
  out.push_back({group.required, set, 0});
  set += static_cast<std::int32_t>(group.sets.size());
  for (const auto& child : group.children) parts_of(child, set, out);
  out[self].end = set;
}

void keeps_its_rules(const Scene& scene, const gang::Request& request, const std::vector<Seat>& seats) {
  const auto& tree = scene.tree();
  const auto above = [&](NodeId node, Level level) { return tree.above({tree.depth(), node}, level); };
  std::vector<Part> parts;
  std::int32_t end = 0;
  parts_of(request.gang, end, parts);
  for (const auto& part : parts) {
    std::set<Domain> domains;
    for (const auto& seat : seats) {
      if (seat.set >= part.first && seat.set < part.end) domains.insert(above(seat.node, part.required));
    }
    ASSERT_LE(domains.size(), 1U) << "a group is torn";
  }
  const auto sets = sets_of(request);
  for (std::size_t i = 0; i < sets.size(); ++i) {
    std::map<Domain, std::int32_t> spread;
    std::map<std::int32_t, std::set<Domain>> slices;
    for (const auto& seat : seats) {
      if (seat.set != static_cast<std::int32_t>(i)) continue;
      if (sets[i].spread.most > 0) {
        ASSERT_LE(++spread[above(seat.node, sets[i].spread.level)], sets[i].spread.most);
      }
      slices[seat.rank / sets[i].slices.size].insert(above(seat.node, sets[i].slices.level));
    }
    for (const auto& [slice, domains] : slices) ASSERT_EQ(domains.size(), 1U) << "slice " << slice << " is torn";
  }
}

TEST(RepairLaws, GangsKeepTheirRulesAndTheirOtherPods) {
  int repaired = 0, none = 0, spares = 0, displaced = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    SceneSize size;
    size.gangs = random.between(0, 10);
    size.shares = random.one_in(3);
    auto scene = some_scene(random, size);
    if (random.one_in(2)) reserve(scene, random.below(2), 1);
    for (const auto node : reserve(scene, 1, random.one_in(4) ? 1 : 0)) ASSERT_TRUE(scene.spare(node));
    const auto request = gang::testing::some_gang(random, scene.tree(), {random.between(1, 3), 10, true, true, true});
    auto seats = seats_now(scene, request);
    if (seats.empty()) continue;
    const auto id = scene.add(running("it", 200, request, seats));
    const auto lost = seats[static_cast<std::size_t>(random.below(static_cast<std::int32_t>(seats.size())))].node;
    scene.lose(lost);
    RepairOptions options;
    options.displace = !random.one_in(4);
    const auto found = repair(scene, id, lost, usual_terms(), options);
    ASSERT_NO_FATAL_FAILURE(scene.audit());
    if (!found) {
      ASSERT_EQ(found.error().code, Code::kExhausted);
      ++none;
      // A set without rules that is bound to a domain: nodes there take fewer than were lost.
      const auto sets = sets_of(request);
      if (sets.size() > 1 || sets[0].slices.size > 1 || sets[0].spread.most > 0) continue;
      std::int32_t missing = 0, room = 0;
      std::optional<Domain> domain;
      for (const auto& seat : seats) {
        missing += seat.node == lost ? 1 : 0;
        if (seat.node != lost) domain = scene.tree().above({scene.tree().depth(), seat.node}, request.gang.required);
      }
      for (NodeId node = 0; domain && node < scene.nodes(); ++node) {
        if (!scene.tree().within({scene.tree().depth(), node}, *domain)) continue;
        room += scene.takes(node, {.pod = sets[0].pod, .gates = sets[0].gates, .exclusive = request.exclusive}, true);
      }
      ASSERT_TRUE(!domain || room < missing);
      continue;
    }
    ++repaired;
    const auto& after = found->steps.back().seats;
    ASSERT_EQ(after.size(), seats.size());
    for (std::size_t i = 0; i < seats.size(); ++i) {
      ASSERT_EQ(after[i].set, seats[i].set);
      ASSERT_EQ(after[i].rank, seats[i].rank);
      ASSERT_NE(after[i].node, lost);
      ASSERT_TRUE(seats[i].node == lost || after[i] == seats[i]);
    }
    ASSERT_NO_FATAL_FAILURE(keeps_its_rules(scene, request, after));
    ASSERT_TRUE(still_holds(scene, *found));
    spares += found->spares.empty() ? 0 : 1;
    displaced += found->steps.size() > 1 ? 1 : 0;
    for (const auto& step : found->steps)
      ASSERT_TRUE(step.gang == id || (options.displace && scene.gang(step.gang).priority < 200));
    carry_out(scene, *found, usual_terms());
    ASSERT_NO_FATAL_FAILURE(scene.audit());
  }
  EXPECT_GT(repaired, 300);
  EXPECT_GT(none, 100);
  EXPECT_GT(spares, 30);
  EXPECT_GT(displaced, 10);
}

}  // namespace repair_prop_test
}  // namespace qm::placement::plan::testing
