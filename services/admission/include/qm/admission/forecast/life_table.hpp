#pragma once
#include "qm/base/time.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

namespace qm::admission::forecast {

inline constexpr std::size_t kSpans = 256;
/// Where a span of ages begins: span 0 at 0, span i at 2^(i/8) seconds. The last is open: it begins after a hundred years.
[[nodiscard]] Duration span_begin(std::size_t i);
/// The span that an age lies in.
[[nodiscard]] std::size_t span_of(Duration age);

/// How long something lives: for each span the chance to end in it, once it was reached.
///
/// Within a span ends are spread evenly. What outlives the last span is taken to end where that begins.
///
/// Law      quantile() never falls as p rises, is never below the age, and never above the limit unless the age is.
/// Threads  any; a value.
/// Cost     O(1) to make, O(spans) for limited(); quantile: O(log spans).
class Lifetime {
 public:
  using Hazards = std::array<double, kSpans>;
  explicit Lifetime(const Hazards& hazards);

  /// The same, where nobody lives longer than this: who would, ends then.
  [[nodiscard]] Lifetime limited(Duration most) const;
  /// The same in a unit that is `factor` times as long.
  [[nodiscard]] Lifetime stretched(double factor) const;

  /// The chance to live longer than this.
  [[nodiscard]] double survival(Duration age) const;
  /// The age at its end that a share p of those does not outlive who have reached `age`.
  [[nodiscard]] Duration quantile(double p, Duration age = Duration::zero()) const;
  /// How long it still runs, likewise; for holders whose limit has passed this is nothing.
  [[nodiscard]] Duration remaining(double p, Duration age) const { return quantile(p, age) - age; }

 private:
  std::array<double, kSpans + 1> alive_{};  ///< at the beginning of each span
  double factor_ = 1;
  Duration limit_ = Duration::max();
};

/// What was seen of lives, in bounded memory: how many entered each span and how many ended in it.
///
/// A life that was cut off (still running, displaced) counts as having entered the spans that it lived through, and for the part that
/// it saw of its last, so that long lives are not taken for short ones because their ends are not known yet. What was seen fades:
/// after each half-life it counts half.
///
/// Formula  hazard(i) = (ended(i) + k · hazard of the wider table(i)) / (entered(i) + k): each span leans on the wider table by k
///          lives, so that little evidence stays close to it, and a span that nobody has reached is the wider table's.
/// Threads  one.
/// Cost     O(spans) for each life and each question. No libm: the same figures on every IEEE machine.
/// Source   Kaplan and Meier 1958 in its actuarial form (Cutler and Ederer 1958); shrinking as in empirical Bayes.
class LifeTable {
 public:
  explicit LifeTable(Duration half_life) : half_life_(half_life) {}

  enum class End : std::uint8_t { kEnded, kCutOff };
  void add(Duration lived, End end, Instant now);
  /// What the other one saw counts here too. Requires the same half-life.
  void add(const LifeTable& other);
  /// How much of what it knows counts still.
  [[nodiscard]] double weight(Instant now) const { return entered_[0] * fading(now); }

  [[nodiscard]] Lifetime::Hazards hazards(const Lifetime::Hazards& wider, double k, Instant now) const;
  /// Those who live still, by when they began, count as cut off now; for the questions of this moment only.
  [[nodiscard]] LifeTable with_living(const std::multiset<Instant>& began, Instant now) const;

  /// For rows: the spans that were entered, as the sums stood at `at`; and back.
  struct Span {
    std::size_t number = 0;
    double entered = 0, ended = 0;
  };
  [[nodiscard]] Instant at() const { return at_; }
  [[nodiscard]] std::vector<Span> spans() const;
  void restore(Instant at, const std::vector<Span>& spans);
  friend bool operator==(const LifeTable&, const LifeTable&) = default;

 private:
  void fade(Instant now);
  [[nodiscard]] double fading(Instant now) const;
  Duration half_life_;
  Instant at_{};  ///< the time by which the sums stand
  std::array<double, kSpans> entered_{}, ended_{};
};

/// The lifetime that is supposed where nothing is known: half of those who have run for t run for `median` + t or longer again,
/// S(t) = 1 / (1 + t / median) (log-logistic with shape 1). With a shape of 2 or 4 the powers of t / median.
[[nodiscard]] Lifetime::Hazards log_logistic(Duration median, int shape);

}  // namespace qm::admission::forecast
