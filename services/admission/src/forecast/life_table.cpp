// Bounds of spans grow by the eighth root of two, so the relative resolution is about a tenth at any run time from a
// second to a year.
#include "qm/admission/forecast/life_table.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>
#include <limits>

namespace qm::admission::forecast {
namespace {

constexpr double kEighthRoot = 1.0905077326652577;

/// Uses multiplication only, so that the bounds are the same on every platform.
std::array<Duration, kSpans> make_begins() {
  std::array<Duration, kSpans> out{};
  double at = 1e6;
  for (std::size_t i = 1; i < kSpans; ++i) {
    out[i] = Duration(static_cast<std::int64_t>(at));
    at *= kEighthRoot;
  }
  return out;
}
const std::array<Duration, kSpans>& begins() {
  static const auto out = make_begins();
  return out;
}

double as_double(Duration d) { return static_cast<double>(d.count()); }

/// `us` microseconds as a duration, at most the longest one.
Duration microseconds(double us) {
  constexpr double kMost = 9e18;
  return us >= kMost ? Duration::max() : Duration(static_cast<std::int64_t>(us));
}

}  // namespace

Duration span_begin(std::size_t i) { return begins()[i]; }
std::size_t span_of(Duration age) {
  const auto& b = begins();
  return static_cast<std::size_t>(std::ranges::upper_bound(b, std::max(age, Duration::zero())) - b.begin()) - 1;
}

// ---- Lifetime ----

Lifetime::Lifetime(const Hazards& hazards) {
  alive_[0] = 1;
  for (std::size_t i = 0; i < kSpans; ++i) alive_[i + 1] = alive_[i] * (1 - hazards[i]);
  alive_[kSpans] = 0;
}

Lifetime Lifetime::limited(Duration most) const {
  Lifetime out = *this;
  out.limit_ = std::min(limit_, most);
  return out;
}

Lifetime Lifetime::stretched(double factor) const {
  QM_ASSERT(factor > 0, "a lifetime stretched by {}", factor);
  Lifetime out = *this;
  out.factor_ *= factor;
  return out;
}

double Lifetime::survival(Duration age) const {
  if (age >= limit_) return 0;
  const Duration own = microseconds(as_double(age) / factor_);
  const auto i = span_of(own);
  if (i + 1 == kSpans) return alive_[i];
  const double part = as_double(own - span_begin(i)) / as_double(span_begin(i + 1) - span_begin(i));
  return alive_[i] - part * (alive_[i] - alive_[i + 1]);
}

Duration Lifetime::quantile(double p, Duration age) const {
  if (age >= limit_) return age;
  // Of the jobs that reached `age`, a share p has ended where the curve has fallen to this level.
  const double level = survival(age) * (1 - p);
  const auto below = std::ranges::lower_bound(alive_, level, std::greater<>());
  const auto next = static_cast<std::size_t>(below - alive_.begin());
  if (next >= kSpans) return std::clamp(microseconds(as_double(span_begin(kSpans - 1)) * factor_), age, limit_);
  if (next == 0) return age;
  const double fall = alive_[next - 1] - alive_[next];
  const double part = fall > 0 ? (alive_[next - 1] - level) / fall : 1;
  const double own = as_double(span_begin(next - 1)) + part * as_double(span_begin(next) - span_begin(next - 1));
  return std::clamp(microseconds(own * factor_), age, limit_);
}

// ---- LifeTable ----

/// Approximates 2^-(elapsed / half-life) by straight lines between the halvings.
double LifeTable::fading(Instant now) const {
  const double halvings = std::max(0.0, as_double(now - at_) / as_double(half_life_));
  if (halvings > 60) return 0;
  const auto whole = static_cast<int>(halvings);
  return (1 - (halvings - whole) / 2) / static_cast<double>(std::uint64_t{1} << whole);
}

void LifeTable::fade(Instant now) {
  const double kept = fading(now);
  for (auto* sums : {&entered_, &ended_}) {
    for (auto& sum : *sums) sum *= kept;
  }
  at_ = std::max(at_, now);
}

void LifeTable::add(const LifeTable& other) {
  fade(other.at_);
  const double kept = other.fading(at_);
  for (std::size_t i = 0; i < kSpans; ++i) {
    entered_[i] += other.entered_[i] * kept;
    ended_[i] += other.ended_[i] * kept;
  }
}

std::vector<LifeTable::Span> LifeTable::spans() const {
  std::vector<Span> out;
  for (std::size_t i = 0; i < kSpans; ++i) {
    if (entered_[i] != 0 || ended_[i] != 0) out.push_back({i, entered_[i], ended_[i]});
  }
  return out;
}

void LifeTable::restore(Instant at, const std::vector<Span>& spans) {
  at_ = at;
  entered_ = ended_ = {};
  for (const auto& one : spans) {
    if (one.number >= kSpans) continue;
    entered_[one.number] = one.entered;
    ended_[one.number] = one.ended;
  }
}

void LifeTable::add(Duration lived, End end, Instant now) {
  fade(now);
  const auto last = span_of(lived);
  for (std::size_t i = 0; i < last; ++i) entered_[i] += 1;
  if (end == End::kEnded) {
    entered_[last] += 1;
    ended_[last] += 1;
  } else if (last + 1 < kSpans) {
    entered_[last] += as_double(lived - span_begin(last)) / as_double(span_begin(last + 1) - span_begin(last));
  }
}

LifeTable LifeTable::with_living(const std::multiset<Instant>& began, Instant now) const {
  LifeTable out = *this;
  for (const auto start : began) out.add(now - start, End::kCutOff, now);
  return out;
}

Lifetime::Hazards LifeTable::hazards(const Lifetime::Hazards& wider, double k, Instant now) const {
  Lifetime::Hazards out{};
  const double kept = fading(now);
  for (std::size_t i = 0; i < kSpans; ++i) out[i] = (ended_[i] * kept + k * wider[i]) / (entered_[i] * kept + k);
  return out;
}

Lifetime::Hazards log_logistic(Duration median, int shape) {
  const auto survival = [&](std::size_t i) {
    const double ratio = as_double(span_begin(i)) / as_double(median);
    double power = 1;
    for (int n = 0; n < shape; ++n) power *= ratio;
    return 1 / (1 + power);
  };
  Lifetime::Hazards out{};
  for (std::size_t i = 0; i + 1 < kSpans; ++i) out[i] = 1 - survival(i + 1) / survival(i);
  out[kSpans - 1] = 1;
  return out;
}

}  // namespace qm::admission::forecast
