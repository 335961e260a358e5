// A plan for one instance against every way there is: each set of instances that may go, each start.
#include "qm/placement/mig/reslice.hpp"

#include "test/mig/layouts.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace qm::placement::mig::testing {
namespace reslice_prop_test {

std::optional<std::int64_t> least_cost(const StateTable& table, const Sliced& gpu, ProfileId wanted,
                                       const StepCosts& costs) {
  std::optional<std::int64_t> best;
  const auto better = [&](std::int64_t cost) { best = best ? std::min(*best, cost) : cost; };
  const auto there = table.instances(gpu.layout);
  for (unsigned gone = 0; gone < 1U << there.size(); ++gone) {
    std::int64_t cost = 0;
    bool allowed = true;
    std::vector<Spot> stays;
    for (std::size_t i = 0; i < there.size(); ++i) {
      const auto used = gpu.used.find(table.find_spot(there[i]).value());
      const auto drain = used == gpu.used.end() ? std::optional<std::int64_t>(0) : used->second;
      if ((gone >> i & 1U) == 0) {
        stays.push_back(there[i]);
        continue;
      }
      allowed = allowed && drain;
      cost += costs.destroy + drain.value_or(0);
    }
    if (!allowed) continue;
    for (const Spot& spot : stays) {
      const auto used = gpu.used.find(table.find_spot(spot).value());
      if (spot.profile == wanted && used == gpu.used.end()) better(cost);
      if (spot.profile == wanted && used != gpu.used.end() && used->second) better(cost + *used->second);
    }
    for (const SpotId spot : table.spots_of(wanted)) {
      auto with = stays;
      with.push_back(table.spot(spot));
      if (legal(table.geometry(), with)) better(cost + costs.create);
    }
  }
  return best;
}

TEST(ResliceLaws, APlanIsLegalAndNoneIsCheaper) {
  ASSERT_TRUE(rc::check("reslice", [] {
    const StateTable& table = StateTable::of(*rc::gen::element(Family::kSeven, Family::kFour));
    const auto profiles = table.geometry().profiles.size();
    const StepCosts costs{*rc::gen::inRange(0, 4), *rc::gen::inRange(0, 4), 10};
    std::vector<Sliced> gpus(*rc::gen::inRange<std::size_t>(1, 4));
    for (Sliced& gpu : gpus) {
      gpu.layout = static_cast<StateId>(
          *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<int>(0, static_cast<int>(table.size()))));
      for (SpotId spot = 0; spot < table.spots().size(); ++spot) {
        if (!table.has(gpu.layout, spot)) continue;
        const int use = *rc::gen::inRange(0, 4);
        if (use == 1) gpu.used[spot] = std::nullopt;
        if (use > 1) gpu.used[spot] = *rc::gen::inRange(0, 9);
      }
    }
    const auto wanted = static_cast<ProfileId>(*rc::gen::inRange<std::size_t>(0, profiles));
    const std::vector<ProfileId> one{wanted};
    const LeastLoss policy("fragmentation", fragmentation_worth(table, Mix(profiles, 1)));

    const auto plan = reslice(table, gpus, one, costs, policy);
    std::optional<std::int64_t> least;
    for (const Sliced& gpu : gpus) {
      const auto cost = least_cost(table, gpu, wanted, costs);
      if (cost && (!least || *cost < *least)) least = cost;
    }
    RC_ASSERT(plan.has_value() == least.has_value());
    if (!plan) return;
    RC_ASSERT(plan->cost == *least);
    RC_ASSERT(plan == reslice(table, gpus, one, costs, policy));

    // Done step by step: nothing in use is destroyed without a drain, each creation is legal, and the request is served.
    const Sliced& gpu = gpus[plan->gpu];
    StateId state = gpu.layout;
    for (const SpotId spot : plan->destroy) {
      RC_ASSERT(!gpu.used.contains(spot) || std::ranges::count(plan->drain, spot) == 1);
      state = table.free(state, spot);
      RC_ASSERT(state != kNoState);
    }
    for (const SpotId spot : plan->create) {
      const StateId lowest = place_lowest(table, state, table.spot(spot).profile);
      state = table.place(state, spot);
      RC_ASSERT(state != kNoState);
      RC_ASSERT(!plan->order_reaches || lowest == state);
    }
    RC_ASSERT(state == plan->layout);
    RC_ASSERT(plan->serve.size() == 1U && table.has(state, plan->serve[0]));
    RC_ASSERT(table.spot(plan->serve[0]).profile == wanted);
    for (const SpotId spot : plan->drain) RC_ASSERT(gpu.used.at(spot).has_value());

    // Once it is done, the request finds its place in a fleet cut so, and nowhere else if there was none before.
    Fleet fleet(table);
    std::vector<StateId> used;
    for (const Sliced& each : gpus) {
      std::vector<Spot> in_use;
      for (const auto& [spot, drain] : each.used) in_use.push_back(table.spot(spot));
      used.push_back(table.find(in_use));
      fleet.add({used.back(), each.layout});
    }
    const bool there = choose(fleet, wanted, policy).has_value();
    RC_ASSERT(there == (plan->drain.empty() && plan->destroy.empty() && plan->create.empty()));
    for (const SpotId spot : plan->drain) used[plan->gpu] = table.free(used[plan->gpu], spot);
    fleet.set(static_cast<GpuId>(plan->gpu), {used[plan->gpu], plan->layout});
    const auto choice = choose(fleet, wanted, policy);
    RC_ASSERT(choice.has_value());
    RC_ASSERT(there || *choice == (Choice{static_cast<GpuId>(plan->gpu), plan->serve[0]}));
  }));
}

}  // namespace reslice_prop_test
}  // namespace qm::placement::mig::testing
