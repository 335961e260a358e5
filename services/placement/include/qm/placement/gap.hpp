#pragma once
#include "qm/clock/clock.hpp"
#include "qm/metrics/metrics.hpp"
#include "qm/placement/bound/bound.hpp"
#include "qm/placement/outline.hpp"
#include "qm/service/host.hpp"

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace qm::placement {

/// What is allocated beside what any scheduler could have allocated: of the same nodes to the same pods. Milli-GPU.
struct Gap {
  struct Price {
    std::string model;
    std::int32_t gpus = 0;  ///< of a node
    std::int64_t nodes = 0;
    double milli = 0;  ///< what one more such node would add to the bound; mean over the nodes
  };
  Instant at{};  ///< of the state that it speaks of
  std::int64_t capacity = 0, asked = 0, allocated = 0;
  std::int64_t bound = 0;    ///< nobody could have allocated more
  std::int64_t keeping = 0;  ///< nor more than this, with a place for each pod that has one now, be it another place
  bool close = false;        ///< both are as low as they get; else time was up
  std::vector<Price> prices;
};

/// The gap of a fleet. Its bounds are those of bound::upper_bound, with its law, and never below what is allocated.
///
/// `stop`   is asked again and again, with true for the second of the two bounds: true = be content with what there is.
/// Bounds   nodes with more than pack::kMaxDevices devices count as if all of them could be used; models behind the 63rd as one.
/// Cost     two upper bounds.
[[nodiscard]] Gap gap_of(const Outline& outline, const std::function<bool(bool second)>& stop);

/// Looks at a service's fleet from time to time and reckons its gap, on a thread of its own: the engine's thread only copies the
/// outline. Nothing is reckoned where nothing changed.
///
/// Threads  latest(): any. look(): one at a time, and only where start() was not called.
class GapMeter {
 public:
  struct Times {
    SteadyDuration period = std::chrono::seconds(60);
    SteadyDuration most = std::chrono::seconds(10);  ///< for one look's reckoning
  };
  GapMeter(service::Host& host, const DomainClock& clock, Times times);
  GapMeter(service::Host& host, const DomainClock& clock) : GapMeter(host, clock, Times{}) {}
  ~GapMeter();
  void start();
  void stop();
  enum class Look { kNotSynced, kUnchanged, kReckoned };
  Look look();
  /// Null until the first look that saw the whole fleet.
  [[nodiscard]] std::shared_ptr<const Gap> latest() const;
  /// Sets up the gauges qm_placement_gpus_allocated, _gpus_bound, _gpus_gap and _scarcity_price; the registry must not be scraped
  /// any more when this ends.
  void export_metrics(metrics::Registry& registry) const;

 private:
  void run(const std::stop_token& stop);

  service::Host& host_;
  const DomainClock& clock_;
  const Times times_;
  std::optional<Outline> seen_;
  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  std::shared_ptr<const Gap> latest_;
  std::stop_token stop_;  // of the thread, while it runs
  std::jthread thread_;
};

}  // namespace qm::placement
