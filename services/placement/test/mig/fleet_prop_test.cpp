// Any history of requests and ends on a fleet, of GPUs cut beforehand and on demand: the kinds are those of the GPUs, the
// choice is the least loss over all GPUs one by one, and the same history chooses the same.
#include "test/mig/layouts.hpp"
#include "test/mig/loss_system.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace qm::placement::mig::testing {
namespace fleet_prop_test {

std::optional<Choice> choose_plainly(const Fleet& fleet, ProfileId profile, const Policy& policy) {
  std::optional<Choice> best;
  std::int64_t least = 0;
  for (GpuId id = 0; id < fleet.size(); ++id) {
    const Gpu& gpu = fleet.gpu(id);
    for (SpotId spot = 0; spot < fleet.table().spots().size(); ++spot) {
      if (fleet.table().spot(spot).profile != profile) continue;
      auto used = fleet.table().instances(gpu.used);
      used.push_back(fleet.table().spot(spot));
      if (!legal(fleet.table().geometry(), used)) continue;
      if (gpu.layout != kNoState && !fleet.table().has(gpu.layout, spot)) continue;
      const std::int64_t loss = policy.loss(gpu.used, fleet.table().find(used));
      if (!best || loss < least) best = Choice{id, spot}, least = loss;
    }
  }
  return best;
}

const std::vector<std::unique_ptr<Policy>>& policies(const StateTable& table) {
  static const auto all = [&] {
    std::vector<std::unique_ptr<Policy>> out;
    out.push_back(std::make_unique<FirstFit>());
    out.push_back(std::make_unique<LeastLoss>("fragmentation", fragmentation_worth(table, mixes()[0].mix)));
    out.push_back(std::make_unique<LeastLoss>("scarcity", scarcity_worth(table, mixes()[2].mix)));
    return out;
  }();
  return all;
}

TEST(MigFleetLaws, AChoiceIsTheLeastLossOfAll) {
  const StateTable& table = StateTable::of(Family::kSeven);
  ASSERT_TRUE(rc::check("choose", [&] {
    const auto& policy = *policies(table)[*rc::gen::inRange<std::size_t>(0, 3)];
    Fleet fleet(table);
    const auto layouts = *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(-1000, 2319)));
    for (const int layout : layouts) {
      fleet.add(layout < 0 ? Gpu{} : Gpu{StateTable::empty(), static_cast<StateId>(layout)});
    }
    std::vector<Choice> held;
    const auto steps = *rc::gen::resize(200, rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 1000)));
    for (const int step : steps) {
      if (step % 3 == 0 && !held.empty()) {
        const auto which = static_cast<std::size_t>(step) % held.size();
        fleet.give_back(held[which].gpu, held[which].spot);
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
      } else {
        const auto profile = static_cast<ProfileId>(step % 7);
        const auto choice = choose(fleet, profile, policy);
        RC_ASSERT(choice == choose_plainly(fleet, profile, policy));
        if (!choice) continue;
        fleet.take(choice->gpu, choice->spot);
        held.push_back(*choice);
      }
      std::map<Gpu, std::set<GpuId>> kinds;
      for (GpuId id = 0; id < fleet.size(); ++id) {
        kinds[fleet.gpu(id)].insert(id);
        std::vector<Spot> used;
        for (const Choice& each : held) {
          if (each.gpu == id) used.push_back(table.spot(each.spot));
        }
        RC_ASSERT(legal(table.geometry(), used));
        RC_ASSERT(table.find(used) == fleet.gpu(id).used);
      }
      RC_ASSERT(kinds == fleet.kinds());
    }
  }));
}

}  // namespace fleet_prop_test
}  // namespace qm::placement::mig::testing
