#include "qm/placement/disruption/hold_lifecycle.hpp"

#include <utility>

namespace qm::placement::disruption {

using relayout::Phase;

HoldStep release_hold(RepartitionHold hold, relayout::Row order) {
  hold.waits = false;
  if (order.phase == Phase::kWaiting || order.phase == Phase::kEmptying) order.withdrawn = true;
  return {std::move(hold), std::move(order)};
}

HoldStep advance_hold(RepartitionHold hold, relayout::Row order, const HoldObserved& seen, Instant now,
                      const MigRepartitionOptions& options) {
  if (order.phase == Phase::kWaiting && seen.occupied) {
    order.withdrawn = true;
    hold.waits = false;
  }
  if (!hold.waits) return {std::move(hold), std::move(order)};
  const Instant until = order.since + options.held;
  if (seen.pending && order.phase == Phase::kDone && now < until) return {std::move(hold), std::move(order), until};
  if (seen.pending && !order.over()) return {std::move(hold), std::move(order)};
  return release_hold(std::move(hold), std::move(order));
}

}  // namespace qm::placement::disruption
