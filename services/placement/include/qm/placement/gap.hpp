#pragma once
#include "qm/clock/clock.hpp"
#include "qm/metrics/metrics.hpp"
#include "qm/placement/bound/bound.hpp"
#include "qm/placement/outline.hpp"
#include "qm/service/host.hpp"

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace qm::placement {

/// Allocated GPUs compared with the most that any scheduler could allocate: on the same nodes, to the same
/// pods. Milli-GPU.
struct Gap {
  struct Price {
    std::string model;
    std::int32_t gpus = 0;  ///< per node
    std::int64_t nodes = 0;
    double milli = 0;  ///< what one more node of this kind would add to the bound; mean over the nodes
  };
  Instant at{};  ///< time of the evaluated state
  std::int64_t capacity = 0, asked = 0, allocated = 0;
  std::int64_t bound = 0;    ///< no scheduler could allocate more
  std::int64_t keeping = 0;  ///< the same if every placed pod keeps a placement, on any node
  bool close = false;        ///< both bounds converged; false: the time limit was reached
  std::vector<Price> prices;
};

/// Computes the gap of a fleet. Its bounds are those of bound::upper_bound, with its law, and never below
/// what is allocated.
///
/// `stop`   is called repeatedly, with true for the second of the two bounds; true ends the computation with
///          the current bound.
/// Bounds   nodes with more than pack::kMaxDevices devices count as fully usable; models after the 63rd count
///          as one.
/// Cost     two upper bounds.
[[nodiscard]] Gap gap_of(const Outline& outline, const std::function<bool(bool second)>& stop);

/// Computes the gap of a service's fleet periodically on a thread of its own. The engine's thread only copies
/// the outline. An unchanged outline is not evaluated again.
///
/// Threads  latest(): any. look(): one at a time, and only if start() was not called.
class GapMeter {
 public:
  struct Times {
    SteadyDuration period = std::chrono::seconds(60);
    SteadyDuration most = std::chrono::seconds(10);  ///< limit of one evaluation
  };
  GapMeter(service::Host& host, const DomainClock& clock, Times times);
  GapMeter(service::Host& host, const DomainClock& clock) : GapMeter(host, clock, Times{}) {}
  ~GapMeter();
  void start();
  void stop();
  enum class Look { kNotSynced, kUnchanged, kComputed };
  Look look();
  /// Null until the first evaluation of a complete fleet.
  [[nodiscard]] std::shared_ptr<const Gap> latest() const;
  /// Registers the gauges qm_placement_gpus_allocated, _gpus_bound, _gpus_gap and _scarcity_price. The
  /// registry must not be scraped after the destruction of this object.
  void export_metrics(metrics::Registry& registry) const;

 private:
  void run(const std::stop_token& stop);

  service::Host& host_;
  const DomainClock& clock_;
  const Times times_;
  std::optional<Outline> seen_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Gap> latest_;
  std::stop_token stop_;  // of the thread, while it runs
  std::jthread thread_;
};

}  // namespace qm::placement
