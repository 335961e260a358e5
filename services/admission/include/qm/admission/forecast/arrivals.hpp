#pragma once
#include "qm/admission/forecast/run_times.hpp"
#include "qm/admission/kueue/work.hpp"

#include <deque>
#include <vector>

namespace qm::admission::forecast {

/// Models future arrivals by recent ones: replays the recent past, from a random point of it, and from its
/// beginning once the end is reached. So each class arrives as often and as bursty as it did. Rates alone would
/// turn bursts into a steady stream.
///
/// Bound    the last `kept` arrivals, none older than `memory`; a class is kept forever.
/// Threads  one to add; any to read.
/// Cost     O(1) for each arrival.
/// Source   the block bootstrap (Künsch 1989) with one block, circular.
class Arrivals {
 public:
  struct Settings {
    Duration memory = std::chrono::hours(24 * 28);
    std::size_t kept = 32'768;
  };
  struct Class {
    kueue::Work pattern;
    JobClass job_class;
    Declared declared;
  };
  Arrivals() : Arrivals(Settings()) {}
  explicit Arrivals(Settings settings) : settings_(settings) {}

  /// Adds a class and returns its number.
  int add_class(Class one);
  void came(int of, Instant now);
  /// Observation began at this instant: initial time without arrivals is part of the past. Call before came().
  void listens_since(Instant at) { since_ = at; }

  [[nodiscard]] const std::vector<Class>& classes() const { return classes_; }

  struct Arrival {
    Instant at{};
    int of = 0;
  };
  /// A stream of arrivals after `now`; endless, or empty if there were none. It must not outlive the Arrivals object.
  class Stream {
   public:
    /// The next arrival, without removing it.
    [[nodiscard]] std::optional<Arrival> peek() const;
    void pop();

   private:
    friend class Arrivals;
    const std::deque<Arrival>* past_ = nullptr;
    std::size_t next_ = 0;
    Duration shift_{}, circle_{};
  };
  /// `point`: start position in the past, in [0, 1).
  [[nodiscard]] Stream after(Instant now, double point) const;

 private:
  Settings settings_;
  std::vector<Class> classes_;
  std::deque<Arrival> past_;
  std::optional<Instant> since_;  ///< start of observation
};

}  // namespace qm::admission::forecast
