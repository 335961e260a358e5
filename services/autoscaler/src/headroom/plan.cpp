// Levels at the lowest price.
//
//   for each shape:  needs of the arrivals -> the band in which each one's level was decided -> counts by need
//                    time in each band
//   all bands:       the concave hull of (level, arrivals covered), as steps
//   steps by arrivals covered per dollar, until the quantile is reached; of the last one only what is missing
#include "qm/autoscaler/headroom/headroom.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>

namespace qm::autoscaler::headroom {
namespace {

constexpr std::int64_t kOne = 1'000'000;
constexpr double kNano = 1e9, kHourUs = 3.6e9;

/// The band by the needs until an instant, for instants that do not decrease.
class RecentBand {
 public:
  explicit RecentBand(const std::vector<Need>& needs) : needs_(needs) {}
  std::size_t at(Instant now) {
    for (; next_ < needs_.size() && needs_[next_].at <= now; ++next_) {
      while (!largest_.empty() && largest_.back().nodes <= needs_[next_].nodes) largest_.pop_back();
      largest_.push_back(needs_[next_]);
    }
    while (!largest_.empty() && largest_.front().at <= now - kRecent) largest_.pop_front();
    const Duration quiet = next_ == 0 ? Duration::max() : now - needs_[next_ - 1].at;
    return band_of(largest_.empty() ? 0 : largest_.front().nodes, quiet);
  }

 private:
  const std::vector<Need>& needs_;
  std::size_t next_ = 0;
  std::deque<Need> largest_;  ///< decreasing
};

/// One band of a shape: how many arrivals had each need, and the price of one free node for the time in the band.
struct Band {
  std::map<std::int64_t, std::int64_t> arrivals;  ///< by need
  Duration time{};
  double usd_node = 0;
};
using Bands = std::array<Band, kBands>;

Bands bands_of(const Shape& shape, const Problem& problem) {
  Bands out;
  const auto needs = needs_of(shape, problem.wait);
  const Duration lead = lead_time(shape.boot, problem.wait);
  RecentBand decided(needs);
  for (const Need& need : needs) {
    const std::size_t band = decided.at(need.at - lead);  // before its lead time: what a launch could know
    if (need.at >= problem.from && need.at < problem.until) ++out[band].arrivals[need.nodes];
  }
  std::vector<Instant> edges{problem.from, problem.until};
  for (const Need& need : needs) {
    const auto add = [&](Instant at) {
      if (at > problem.from && at < problem.until) edges.push_back(at);
    };
    add(need.at);
    add(need.at + kRecent);
    for (const Duration quiet : kQuiet) add(need.at + quiet);
  }
  std::ranges::sort(edges);
  RecentBand known(needs);
  for (std::size_t i = 0; i + 1 < edges.size(); ++i) out[known.at(edges[i])].time += edges[i + 1] - edges[i];
  for (Band& band : out) {
    // A band that was never entered for longer than its arrivals still costs something.
    const Duration time = std::max<Duration>(band.time, std::chrono::minutes(1));
    band.usd_node = static_cast<double>(shape.nano_usd_hour) / kNano * static_cast<double>(time.count()) / kHourUs;
  }
  return out;
}

struct Step {
  std::size_t shape = 0, band = 0;
  std::int64_t from = 0, to = 0;  ///< levels
  std::int64_t covered = 0;       ///< further arrivals
  double usd = 0;
  [[nodiscard]] double gain() const { return static_cast<double>(covered) / std::max(usd, 1e-12); }
};

/// The upper concave hull of the arrivals covered by level.
void add_steps(const Band& band, std::int64_t most, std::size_t shape, std::size_t number, std::vector<Step>& out) {
  struct Point {
    std::int64_t level = 0, covered = 0;
  };
  std::vector<Point> hull{{}};
  std::int64_t covered = 0;
  for (const auto& [need, count] : band.arrivals) {
    if (need > most) break;
    covered += count;
    const Point next{need, covered};
    const auto below = [&](const Point& a, const Point& b) {  // b is not above the line from a to next
      return (b.covered - a.covered) * (next.level - b.level) <= (next.covered - b.covered) * (b.level - a.level);
    };
    while (hull.size() >= 2 && below(hull[hull.size() - 2], hull.back())) hull.pop_back();
    hull.push_back(next);
  }
  for (std::size_t i = 0; i + 1 < hull.size(); ++i) {
    const Point &a = hull[i], &b = hull[i + 1];
    out.push_back({shape, number, a.level, b.level, b.covered - a.covered,
                   static_cast<double>(b.level - a.level) * band.usd_node});
  }
}

Status check(const Problem& problem) {
  const auto refuse = [](std::string field, std::string what, std::string remedy) {
    return fail(Error{Code::kInvalid, std::move(what), std::move(field), std::move(remedy)});
  };
  if (problem.quantile_ppm < 1 || problem.quantile_ppm >= kOne)
    return refuse("quantile_ppm", fmt::format("{} is not a quantile", problem.quantile_ppm), "use 1 to 999999");
  if (problem.wait < Duration{0})
    return refuse("wait", fmt::format("{} s is negative", seconds(problem.wait)), "use 0 s or more");
  if (problem.until <= problem.from) return refuse("until", "the history is empty", "use a time after `from`");
  for (const Shape& shape : problem.shapes) {
    const std::string at = fmt::format("shapes[{}]", shape.name);
    if (shape.nano_usd_hour <= 0)
      return refuse(at + ".nano_usd_hour", fmt::format("the price {} is not positive", shape.nano_usd_hour),
                    "use the price of a node");
    if (shape.boot <= Duration{0}) return refuse(at + ".boot", "the boot time is not positive", "use a measured one");
    if (shape.most < 0) return refuse(at + ".most", fmt::format("{} is negative", shape.most), "use 0 or more");
    if (!std::ranges::is_sorted(shape.changes, {}, &Change::at))
      return refuse(at + ".changes", "the changes are not in the order of time", "sort them");
  }
  return {};
}

/// Arrivals covered and price of the levels.
struct Effect {
  std::int64_t arrivals = 0, covered = 0;
  double usd = 0;
};
Effect effect_of(const std::vector<Bands>& shapes, const std::vector<Levels>& levels) {
  Effect out;
  for (std::size_t s = 0; s < shapes.size(); ++s) {
    for (std::size_t b = 0; b < kBands; ++b) {
      out.usd += static_cast<double>(levels[s][b]) * shapes[s][b].usd_node;
      for (const auto& [need, count] : shapes[s][b].arrivals) {
        out.arrivals += count;
        out.covered += need <= levels[s][b] ? count : 0;
      }
    }
  }
  return out;
}

/// The arrivals that have to be covered.
std::int64_t wanted(const Problem& problem, std::int64_t arrivals) {
  return (arrivals * problem.quantile_ppm + kOne - 1) / kOne;
}

}  // namespace

Result<Plan> plan(const Problem& problem) {
  QM_TRY(check(problem));
  std::vector<Bands> shapes;
  std::vector<Step> steps;
  for (std::size_t s = 0; s < problem.shapes.size(); ++s) {
    shapes.push_back(bands_of(problem.shapes[s], problem));
    for (std::size_t b = 0; b < kBands; ++b) add_steps(shapes[s][b], problem.shapes[s].most, s, b, steps);
  }
  std::ranges::stable_sort(steps, [](const Step& a, const Step& b) { return a.gain() > b.gain(); });
  Plan out;
  out.levels.assign(shapes.size(), Levels{});
  const std::int64_t goal = wanted(problem, effect_of(shapes, out.levels).arrivals);
  std::int64_t covered = 0;
  for (const Step& step : steps) {
    const std::int64_t missing = goal - covered;
    if (missing <= 0) break;
    std::int64_t level = step.to;
    std::int64_t gained = step.covered;
    if (missing < step.covered) {  // the lowest level of this band that reaches the goal
      gained = 0;
      const auto& arrivals = shapes[step.shape][step.band].arrivals;
      for (auto at = arrivals.upper_bound(step.from); gained < missing; ++at) level = at->first, gained += at->second;
    }
    out.bound += step.usd * static_cast<double>(std::min(missing, step.covered)) / static_cast<double>(step.covered);
    covered += gained;
    out.levels[step.shape][step.band] = level;
  }
  const Effect effect = effect_of(shapes, out.levels);
  out.arrivals = effect.arrivals, out.covered = effect.covered, out.usd = effect.usd;
  return out;
}

Status still_holds(const Problem& problem, const Plan& plan) {
  QM_TRY(check(problem));
  if (plan.levels.size() != problem.shapes.size())
    return fail(Code::kInvalid, "the plan has {} shapes, and the problem {}", plan.levels.size(),
                problem.shapes.size());
  std::vector<Bands> shapes;
  for (std::size_t s = 0; s < problem.shapes.size(); ++s) {
    const Shape& shape = problem.shapes[s];
    shapes.push_back(bands_of(shape, problem));
    for (const std::int64_t level : plan.levels[s]) {
      if (level < 0 || level > shape.most)
        return fail(Code::kInvalid, "{} free nodes of {} are planned, and {} are allowed", level, shape.name,
                    shape.most);
    }
  }
  const Effect effect = effect_of(shapes, plan.levels);
  constexpr double kRounding = 1e-6;
  if (effect.arrivals != plan.arrivals || effect.covered != plan.covered)
    return fail(Code::kInvalid, "the levels cover {} of {} arrivals, and the plan states {} of {}", effect.covered,
                effect.arrivals, plan.covered, plan.arrivals);
  if (std::abs(effect.usd - plan.usd) > kRounding * (1 + effect.usd))
    return fail(Code::kInvalid, "the levels cost {} USD, and the plan states {}", effect.usd, plan.usd);
  if (plan.covered >= wanted(problem, plan.arrivals) && plan.bound > plan.usd * (1 + kRounding) + kRounding)
    return fail(Code::kInvalid, "the bound {} USD is above the price {}", plan.bound, plan.usd);
  return {};
}

}  // namespace qm::autoscaler::headroom
