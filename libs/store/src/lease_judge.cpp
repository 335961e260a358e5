#include "qm/base/assert.hpp"
#include "qm/store/lease.hpp"

#include <ctime>

namespace qm::store {

LeaseJudge::LeaseJudge(LeaseTiming timing) : timing_(timing) {
  QM_ASSERT(timing.exclusive(), "a standby could claim while a proof of the holder is valid");
}

bool LeaseJudge::free(const LeaseView& view, SteadyInstant now) {
  // Who could not look for a while, because it or the database stood still, has not seen silence.
  if (beat_ != view.beat || now - looked_ > timing_.without_session) since_ = now;
  beat_ = view.beat;
  looked_ = now;
  const bool gone =
      view.holder.empty() || view.released || now - since_ >= (view.session ? timing_.lease : timing_.without_session);
  served_ = !gone && view.session && !view.address.empty();
  return gone;
}

SteadyInstant boot_now() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return SteadyInstant(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

}  // namespace qm::store
