#pragma once
#include "qm/admission/exact/tree.hpp"

#include <map>
#include <vector>

namespace qm::admission::exact {

/// What local queues used of late, so that the one that used least goes first (admission fair sharing).
///
/// Each sampling moves what a queue consumed towards what it holds, by the share of a half-life that passed. An admission
/// counts at once, with what one sampling will make of it, until the next sampling.
///
/// Units    canonical integers, weighted; times in seconds.
/// Threads  one.
/// Source   Kueue, pkg/cache/queue/afs; KEP 4136.
class UsageShares {
 public:
  struct Settings {
    double half_life = 0;  ///< 0 = the past does not count
    double sampling = 300;
    std::map<Resource, double> weights;  ///< 1 where none is given
  };
  UsageShares() = default;
  explicit UsageShares(Settings settings) : settings_(std::move(settings)) {}

  using Totals = std::map<Resource, double>;
  void set_weight(int local_queue, double weight) { queues_[local_queue].weight = weight; }
  void set_consumed(int local_queue, Totals consumed) { queues_[local_queue].consumed = std::move(consumed); }
  void set_penalty(int local_queue, Totals penalty) { queues_[local_queue].penalty = std::move(penalty); }
  /// An admission of so much; with `times` -1 one that came to nothing.
  void penalize(int local_queue, const Totals& requests, int times = 1);
  /// `passed` seconds after the last sampling the queue holds so much.
  void sample(int local_queue, const Totals& held, double passed);
  void forget(int local_queue) { queues_.erase(local_queue); }

  /// Its weighted usage over its weight; infinite where that is not positive.
  [[nodiscard]] double of(int local_queue) const;
  /// What one sampling makes of what was used until then, after so many seconds: the part that counts anew.
  [[nodiscard]] double share_of(double passed) const;
  [[nodiscard]] const Settings& settings() const { return settings_; }

 private:
  struct Queue {
    Totals consumed, penalty;
    double weight = 1;
  };

  Settings settings_;
  std::map<int, Queue> queues_;
};

}  // namespace qm::admission::exact
