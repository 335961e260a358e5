#pragma once
#include "qm/base/time.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

namespace qm::admission::forecast {

inline constexpr std::size_t kSpans = 256;
/// Start of a span of ages: span 0 at 0, span i at 2^(i/8) seconds. The last span is open: it begins after a
/// hundred years.
[[nodiscard]] Duration span_begin(std::size_t i);
/// The span of an age.
[[nodiscard]] std::size_t span_of(Duration age);

/// A distribution of lifetimes: for each span the probability to end in it, once it was reached.
///
/// Within a span ends are uniform. A lifetime beyond the last span ends where that begins.
///
/// Law      quantile() never decreases in p, is never below the age, and never above the limit unless the age is.
/// Threads  any; a value.
/// Cost     O(1) to construct, O(spans) for limited(); quantile: O(log spans).
class Lifetime {
 public:
  using Hazards = std::array<double, kSpans>;
  explicit Lifetime(const Hazards& hazards);

  /// The same, truncated at `most`: longer lifetimes end then.
  [[nodiscard]] Lifetime limited(Duration most) const;
  /// The same in a unit that is `factor` times as long.
  [[nodiscard]] Lifetime stretched(double factor) const;

  /// The probability of a longer lifetime than `age`.
  [[nodiscard]] double survival(Duration age) const;
  /// The age that a share p of the lifetimes that reached `age` does not exceed.
  [[nodiscard]] Duration quantile(double p, Duration age = Duration::zero()) const;
  /// Remaining time, likewise; zero for holders whose limit has passed.
  [[nodiscard]] Duration remaining(double p, Duration age) const { return quantile(p, age) - age; }

 private:
  std::array<double, kSpans + 1> alive_{};  ///< at the start of each span
  double factor_ = 1;
  Duration limit_ = Duration::max();
};

/// Observed lifetimes in bounded memory: how many entered each span, and how many ended in it.
///
/// A censored lifetime (still running, preempted) counts as having entered the spans that it lived through, and for
/// a part of its last. So long lifetimes are not counted as short ones before their ends are known. Observations
/// fade: after each half-life their weight is half.
///
/// Formula  hazard(i) = (ended(i) + k · hazard of the wider table(i)) / (entered(i) + k). The wider table has the
///          weight of k lifetimes in each span: with few observations the result stays close to it, and a span
///          without any is that of the wider table.
/// Threads  one.
/// Cost     O(spans) for each lifetime and each query. No libm: equal results on every IEEE machine.
/// Source   Kaplan and Meier 1958 in its actuarial form (Cutler and Ederer 1958); shrinkage as in empirical Bayes.
class LifeTable {
 public:
  explicit LifeTable(Duration half_life) : half_life_(half_life) {}

  enum class End : std::uint8_t { kEnded, kCutOff };
  void add(Duration lived, End end, Instant now);
  /// Adds the observations of another table. Requires the same half-life.
  void add(const LifeTable& other);
  /// The remaining weight of the observations.
  [[nodiscard]] double weight(Instant now) const { return entered_[0] * fading(now); }

  [[nodiscard]] Lifetime::Hazards hazards(const Lifetime::Hazards& wider, double k, Instant now) const;
  /// Counts running workloads, by their start, as censored now; for queries at this instant only.
  [[nodiscard]] LifeTable with_living(const std::multiset<Instant>& began, Instant now) const;

  /// For rows: the entered spans, with the sums as of `at`; and restore.
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
  Instant at_{};  ///< instant of the sums
  std::array<double, kSpans> entered_{}, ended_{};
};

/// The assumed lifetime without observations: half of those that have run for t run for `median` + t or longer again.
/// S(t) = 1 / (1 + t / median) (log-logistic with shape 1). With a shape of 2 or 4 the powers of t / median.
[[nodiscard]] Lifetime::Hazards log_logistic(Duration median, int shape);

}  // namespace qm::admission::forecast
