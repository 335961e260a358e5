#pragma once
#include "qm/admission/kueue/tree.hpp"

#include <map>
#include <vector>

namespace qm::admission::kueue {

/// Past usage of local queues, so that the least used one goes first (admission fair sharing).
///
/// Each sampling moves the consumption of a queue towards what it holds, by the fraction of a half-life that passed. An
/// admission counts at once, with the share that one sampling will give it, until the next sampling.
///
/// Units    canonical integers, weighted; times in seconds.
/// Threads  one.
/// Source   Kueue, pkg/cache/queue/afs; KEP 4136.
class UsageShares {
 public:
  struct Settings {
    double half_life = 0;  ///< 0 = the past does not count
    double sampling = 300;
    std::map<Resource, double> weights;  ///< default 1
  };
  UsageShares() = default;
  explicit UsageShares(Settings settings) : settings_(std::move(settings)) {}

  using Totals = std::map<Resource, double>;
  void set_weight(int local_queue, double weight) { queues_[local_queue].weight = weight; }
  void set_consumed(int local_queue, Totals consumed) { queues_[local_queue].consumed = std::move(consumed); }
  void set_penalty(int local_queue, Totals penalty) { queues_[local_queue].penalty = std::move(penalty); }
  /// Adds an admission with these requests; `times` -1 reverts one that failed.
  void penalize(int local_queue, const Totals& requests, int times = 1);
  /// `passed` seconds after the last sampling the queue holds this amount.
  void sample(int local_queue, const Totals& held, double passed);
  void forget(int local_queue) { queues_.erase(local_queue); }

  /// Weighted usage divided by the weight; infinite for a weight that is not positive.
  [[nodiscard]] double of(int local_queue) const;
  /// The fraction that a sampling after `passed` seconds replaces.
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

}  // namespace qm::admission::kueue
