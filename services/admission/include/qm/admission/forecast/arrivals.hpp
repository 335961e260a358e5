#pragma once
#include "qm/admission/exact/work.hpp"
#include "qm/admission/forecast/run_times.hpp"

#include <deque>
#include <vector>

namespace qm::admission::forecast {

/// Who came of late, as a model of who will come: the recent past is played again, from a point of it drawn by chance, and from its
/// beginning once its end is reached. So each class comes as often as it did, and as bunched as it did; rates alone would
/// make a calm stream of what comes in bursts.
///
/// Bound    the last `kept` arrivals, none older than `memory`; a class is kept for good.
/// Threads  one to add; any to ask.
/// Cost     O(1) for each arrival.
/// Source   the block bootstrap (Künsch 1989) with one block, a circle.
class Arrivals {
 public:
  struct Settings {
    Duration memory = std::chrono::hours(24 * 28);
    std::size_t kept = 32'768;
  };
  struct Class {
    exact::Work pattern;
    Kin kin;
    Declared declared;
  };
  Arrivals() : Arrivals(Settings()) {}
  explicit Arrivals(Settings settings) : settings_(settings) {}

  /// The number of a class from now on.
  int add_class(Class one);
  void came(int of, Instant now);
  /// It has listened since then: that nobody came at first is part of the past. Before anybody came.
  void listens_since(Instant at) { since_ = at; }

  [[nodiscard]] const std::vector<Class>& classes() const { return classes_; }

  struct Arrival {
    Instant at{};
    int of = 0;
  };
  /// A stream of arrivals after `now`; endless, or empty where nobody came. Lives no longer than what it was asked of.
  class Stream {
   public:
    /// The next one, without going on.
    [[nodiscard]] std::optional<Arrival> peek() const;
    void pop();

   private:
    friend class Arrivals;
    const std::deque<Arrival>* past_ = nullptr;
    std::size_t next_ = 0;
    Duration shift_{}, circle_{};
  };
  /// `point`: where in the past it begins, in [0, 1).
  [[nodiscard]] Stream after(Instant now, double point) const;

 private:
  Settings settings_;
  std::vector<Class> classes_;
  std::deque<Arrival> past_;
  std::optional<Instant> since_;  ///< that it listens
};

}  // namespace qm::admission::forecast
