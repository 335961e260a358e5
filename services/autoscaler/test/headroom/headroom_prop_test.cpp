// Random histories: the plan holds, covers the quantile, and is within one step of the bound.

#include "qm/autoscaler/headroom/headroom.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace qm::autoscaler::headroom {
namespace headroom_prop_test {

constexpr Instant kStart = from_micros(1'800'000'000'000'000);

Problem problem() {
  Problem out;
  out.wait = std::chrono::seconds(*rc::gen::inRange(0, 300));
  out.quantile_ppm = *rc::gen::inRange(1, 1'000'000);
  out.from = kStart;
  out.until = kStart + std::chrono::hours(48);
  const int shapes = *rc::gen::inRange(1, 4);
  for (int s = 0; s < shapes; ++s) {
    Shape shape;
    shape.name = fmt::format("s{}", s);
    shape.nano_usd_hour = *rc::gen::inRange<std::int64_t>(1, 50) * 1'000'000'000;
    shape.boot = std::chrono::seconds(*rc::gen::inRange(1, 600));
    const int changes = *rc::gen::inRange(0, 60);
    for (int i = 0; i < changes; ++i)
      shape.changes.push_back({kStart + std::chrono::seconds(*rc::gen::inRange(0, 172'800)), *rc::gen::inRange(-4, 9)});
    std::ranges::sort(shape.changes, {}, &Change::at);
    out.shapes.push_back(shape);
  }
  return out;
}

RC_GTEST_PROP(HeadroomLaws, ThePlanHoldsAndCoversTheQuantile, ()) {
  const Problem p = problem();
  const auto result = plan(p);
  RC_ASSERT(result.has_value());
  RC_ASSERT(still_holds(p, *result).has_value());
  RC_ASSERT(result->covered * 1'000'000 >= result->arrivals * p.quantile_ppm);
  RC_ASSERT(result->bound <= result->usd + 1e-6);
}

RC_GTEST_PROP(HeadroomLaws, NoLevelCanBeLoweredWithoutMissingTheQuantile, ()) {
  const Problem p = problem();
  const auto result = plan(p);
  RC_ASSERT(result.has_value());
  // The bound differs from the price by less than the most expensive step: one band of one shape.
  double most = 0;
  for (std::size_t s = 0; s < p.shapes.size(); ++s) {
    for (const std::int64_t level : result->levels[s])
      most = std::max(most, static_cast<double>(level * p.shapes[s].nano_usd_hour) / 1e9 * 48);
  }
  RC_ASSERT(result->usd - result->bound <= most + 1e-6);
}

RC_GTEST_PROP(HeadroomLaws, AHigherQuantileNeverHasALowerBound, ()) {
  Problem p = problem();
  p.quantile_ppm = *rc::gen::inRange(1, 900'000);
  const auto low = plan(p);
  p.quantile_ppm += 50'000;
  const auto high = plan(p);
  RC_ASSERT(low.has_value() && high.has_value());
  RC_ASSERT(low->bound <= high->bound + 1e-6);
}

RC_GTEST_PROP(HeadroomLaws, ANeedIsFromOneNodeToAllTakenInOneLeadTime, ()) {
  const Problem p = problem();
  const Shape& shape = p.shapes.front();
  const auto needs = needs_of(shape, p.wait);
  const Duration lead = std::max(shape.boot - p.wait, Duration{1});
  for (const Need& need : needs) {
    std::int64_t sum = 0;
    for (const Change& change : shape.changes) {
      if (change.nodes > 0 && change.at > need.at - lead && change.at <= need.at) sum += change.nodes;
    }
    RC_ASSERT(need.nodes <= sum);
    RC_ASSERT(need.nodes >= 1);
  }
}

}  // namespace headroom_prop_test
}  // namespace qm::autoscaler::headroom
