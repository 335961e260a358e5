// How many requests are taken, by policy and mix: printed, and held to what was seen.
#include "test/mig/loss_system.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <random>

namespace qm::placement::mig::testing {
namespace accept_test {

struct Trial {
  Mix mix;
  double load = 1;
  Stays stays = kEqualStays;
  std::size_t gpus = 100;
  int seeds = 10;
  double warm = 4, until = 16;
};

struct Seen {
  std::map<std::string, Accepted> by;
  [[nodiscard]] double gain(const std::string& policy) const {
    return 100 * (by.at(policy).requests() / by.at("first_fit").requests() - 1);
  }
  [[nodiscard]] double slices_gain(const std::string& policy) const {
    return 100 * (by.at(policy).slices() / by.at("first_fit").slices() - 1);
  }
};

Seen measure(const Trial& trial) {
  const StateTable& table = StateTable::of(Family::kSeven);
  const FirstFit first;
  const LeastLoss fragmentation("fragmentation", fragmentation_worth(table, trial.mix));
  const LeastLoss scarcity("scarcity", scarcity_worth(table, trial.mix));
  const std::array<const Policy*, 3> policies{&first, &fragmentation, &scarcity};
  Mix present = trial.mix;  // those that are there at a time
  for (ProfileId id = 0; id < present.size(); ++id) present[id] *= std::llround(trial.stays[id] * 2);
  const Fleet cut = cut_for(table, trial.gpus, present);
  Seen out;
  for (int seed = 1; seed <= trial.seeds; ++seed) {
    const auto coming = requests(table.geometry(), trial.mix, trial.gpus, trial.load, trial.until,
                                 static_cast<std::uint64_t>(seed), trial.stays);
    for (const Policy* policy : policies) {
      out.by[std::string(policy->name())] += run(made_on_demand(table, trial.gpus), coming, trial.warm, *policy);
    }
    out.by["cut beforehand"] += run(cut, coming, trial.warm, scarcity);
  }
  return out;
}

void print(std::string_view name, double load, Seen seen) {
  fmt::print("{:>9} load {:.2f}  first fit {:5.2f} ({:5.2f})", name, load, seen.by["first_fit"].requests(),
             seen.by["first_fit"].slices());
  for (const char* policy : {"fragmentation", "scarcity", "cut beforehand"}) {
    fmt::print("  {} {:5.2f} ({:5.2f}) {:+.1f} ({:+.1f})", policy, seen.by[policy].requests(), seen.by[policy].slices(),
               seen.gain(policy), seen.slices_gain(policy));
  }
}

TEST(MigAcceptance, OfFiveMixesAtThreeLoads) {
  fmt::print("per cent of requests taken (of compute slices); gains over first fit in per cent\n");
  for (const NamedMix& mix : mixes()) {
    for (const double load : {0.85, 1.0, 1.1}) {
      const Seen seen = measure({mix.mix, load});
      print(mix.name, load, seen);
      fmt::print("  at most {:.1f}\n", at_most(geometry_of(Family::kSeven), mix.mix, load));
      SCOPED_TRACE(fmt::format("{} at {}", mix.name, load));
      EXPECT_GT(seen.gain("scarcity"), 0);
      EXPECT_GT(seen.slices_gain("scarcity"), 0.5);
    }
  }
}

TEST(MigAcceptance, TenPerCentMoreOnFourMixesOfSmallOnesWith4g) {
  for (const NamedMix& mix : mixes_with_4g()) {
    for (const double load : {0.85, 1.0, 1.1}) {
      const Seen seen = measure({mix.mix, load});
      print(mix.name, load, seen);
      fmt::print("  at most {:.1f}\n", at_most(geometry_of(Family::kSeven), mix.mix, load));
      EXPECT_GE(seen.gain("scarcity"), load > 1 ? 9 : 10) << mix.name << " at " << load;
    }
  }
}

/// Small ones stay eight times as long as whole GPUs; no policy is told.
TEST(MigAcceptance, WhereSmallOnesStayLonger) {
  const Stays stays{4, 4, 4, 2, 1, 1, 0.5};
  for (const NamedMix& mix : mixes()) {
    const Seen seen = measure({mix.mix, 1.0, stays, 100, 10, 10, 22});
    print(mix.name, 1.0, seen);
    fmt::print("\n");
    SCOPED_TRACE(mix.name);
    EXPECT_GT(seen.gain("scarcity"), 2);
    EXPECT_GT(seen.slices_gain("scarcity"), 5);
  }
}

/// Mixes that nobody looked at while choosing the policy.
TEST(MigAcceptance, OfMixesDrawnByChance) {
  std::mt19937_64 random(26);
  double requests = 0, slices = 0, over_fragmentation = 0, least = 100;
  constexpr int kMixes = 20;
  for (int n = 0; n < kMixes; ++n) {
    Mix mix(seven::kProfiles);
    for (std::int64_t& weight : mix) weight = random() % 3 == 0 ? 0 : static_cast<std::int64_t>(random() % 100);
    mix[seven::k1gMedia] /= 20;
    mix[seven::k2g] += 1;  // never empty
    const Seen seen = measure({mix, 1.0, kEqualStays, 50, 2, 4, 12});
    requests += seen.gain("scarcity") / kMixes;
    slices += seen.slices_gain("scarcity") / kMixes;
    over_fragmentation += (seen.slices_gain("scarcity") - seen.slices_gain("fragmentation")) / kMixes;
    least = std::min(least, seen.gain("scarcity"));
  }
  fmt::print(
      "{} mixes drawn by chance, load 1, 50 GPUs: requests {:+.1f} ({:+.1f}) over first fit, the least {:+.1f}; slices "
      "{:+.1f} over fragmentation\n",
      kMixes, requests, slices, least, over_fragmentation);
  EXPECT_GT(requests, 1);
  EXPECT_GT(slices, 2);
  EXPECT_GT(least, -1);
}

}  // namespace accept_test
}  // namespace qm::placement::mig::testing
