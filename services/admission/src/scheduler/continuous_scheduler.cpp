#include "scheduler/continuous_scheduler.hpp"

#include "qm/admission/forecast/reservations.hpp"

#include <algorithm>
#include <memory>

namespace qm::admission {

ContinuousScheduler::ContinuousScheduler(kueue::QuotaState quota, kueue::UsageShares usage)
    : tree_(std::move(quota), std::move(usage)) {
  if (std::ranges::any_of(tree_.field().rules, &kueue::QueueRules::backfill)) {
    tree_.set_backfill(std::make_unique<forecast::Reservations>());
  }
}

}  // namespace qm::admission
