#pragma once
#include "state.hpp"

#include <algorithm>
#include <optional>

namespace qm::autoscaler {

/// How long a node of the pool is empty before it is terminated.
[[nodiscard]] inline Duration idle_time(const Pool& pool, const NodeRow& node) {
  const bool down = !node.is_up();
  return down && pool.unready_after ? *pool.unready_after : pool.consolidate_after;
}

/// Nothing that is only empty is terminated for a time after a launch of any pool, as in Cluster Autoscaler: the load that
/// caused the launch may come back.
///
/// Cost     claims, if the delay is set.
class ScaleDownDelay {
 public:
  explicit ScaleDownDelay(const State& state) : options_(state.options), tables_(state.tables) {}

  /// When empty nodes may be terminated again; nullopt if nothing was launched, or there is no delay.
  [[nodiscard]] std::optional<Instant> until() const {
    std::optional<Instant> last;
    if (options_.scale_down_delay == Duration::zero()) return last;
    for (const auto& [name, c] : tables_.claims) {
      const bool adopted = name.value() == c.instance.value();
      if (!adopted && !c.pool.empty()) last = std::max(last.value_or(c.requested), c.requested);
    }
    return last ? std::optional(*last + options_.scale_down_delay) : std::nullopt;
  }

 private:
  const Options& options_;
  const Tables& tables_;
};

}  // namespace qm::autoscaler
