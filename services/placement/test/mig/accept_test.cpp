// How many requests are taken, by policy and mix: printed, and held to what was seen.
#include "test/mig/loss_system.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

namespace qm::placement::mig::testing {
namespace {

constexpr std::size_t kGpus = 100;
constexpr int kSeeds = 10;
constexpr double kWarm = 4, kUntil = 16;  // mean stays

struct Seen {
  std::map<std::string, Accepted> by;
  [[nodiscard]] double gain(const std::string& policy) const {
    return 100 * (by.at(policy).requests() / by.at("first_fit").requests() - 1);
  }
  [[nodiscard]] double slices_gain(const std::string& policy) const {
    return 100 * (by.at(policy).slices() / by.at("first_fit").slices() - 1);
  }
};

Seen measure(const NamedMix& mix, double load) {
  const StateTable& table = StateTable::of(Family::kSeven);
  const FirstFit first;
  const LeastLoss fragmentation("fragmentation", fragmentation_worth(table, mix.mix));
  const LeastLoss scarcity("scarcity", scarcity_worth(table, mix.mix));
  const Fleet cut = cut_for(table, kGpus, mix.mix);
  Seen out;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    const auto coming = requests(table.geometry(), mix.mix, kGpus, load, kUntil, static_cast<std::uint64_t>(seed));
    for (const Policy* policy : {static_cast<const Policy*>(&first), static_cast<const Policy*>(&fragmentation),
                                 static_cast<const Policy*>(&scarcity)}) {
      out.by[std::string(policy->name())] += run(made_on_demand(table, kGpus), coming, kWarm, *policy);
    }
    out.by["cut beforehand"] += run(cut, coming, kWarm, scarcity);
  }
  fmt::print("{:>9} load {:.2f}  first fit {:5.2f} ({:5.2f})", mix.name, load, out.by["first_fit"].requests(),
             out.by["first_fit"].slices());
  for (const char* policy : {"fragmentation", "scarcity", "cut beforehand"}) {
    fmt::print("  {} {:5.2f} ({:5.2f}) {:+.1f} ({:+.1f})", policy, out.by[policy].requests(), out.by[policy].slices(),
               out.gain(policy), out.slices_gain(policy));
  }
  fmt::print("  at most {:.1f}\n", at_most(table.geometry(), mix.mix, load));
  return out;
}

TEST(MigAcceptance, OfFiveMixesAtThreeLoads) {
  fmt::print("per cent of requests taken (of compute slices), {} GPUs, {} seeds; gains over first fit in per cent\n",
             kGpus, kSeeds);
  for (const NamedMix& mix : mixes()) {
    for (const double load : {0.85, 1.0, 1.1}) {
      const Seen seen = measure(mix, load);
      SCOPED_TRACE(fmt::format("{} at {}", mix.name, load));
      EXPECT_GT(seen.gain("scarcity"), 0);
      EXPECT_GT(seen.slices_gain("scarcity"), 0.5);
    }
  }
}

}  // namespace
}  // namespace qm::placement::mig::testing
