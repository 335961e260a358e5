#include "qm/base/assert.hpp"
#include "qm/store/lease.hpp"

#include <ctime>

namespace qm::store {
namespace {
/// How long the last read of a standby, or the last failure of a leader, is valid: in reads, or leases.
constexpr int kFreshLooks = 10;
constexpr int kAwayLeases = 3;
}  // namespace

LeaseJudge::LeaseJudge(LeaseTiming timing) : timing_(timing) {
  QM_ASSERT(timing.exclusive(), "a standby could claim while a proof of the holder is valid");
}

bool LeaseJudge::free(const LeaseView& view, SteadyInstant now) {
  // A standby that could not read for a while, because it or the database was suspended, has not observed silence.
  if (beat_ != view.beat || now - looked_ > timing_.without_session) since_ = now;
  beat_ = view.beat;
  looked_ = now;
  const bool gone =
      view.holder.empty() || view.released || now - since_ >= (view.session ? timing_.lease : timing_.without_session);
  served_ = !gone && view.session && !view.address.empty();
  return gone;
}

bool LeaseState::looked(const Result<LeaseView>& view, SteadyInstant now, bool at_once) {
  if (!view) {
    away_ = now;
    return false;
  }
  gone_ = judge_.free(*view, now);
  away_.reset();
  view_ = *view;
  looked_ = now;
  served_ = judge_.served();
  return gone_ || at_once;
}

void LeaseState::claimed(const std::string& holder, SteadyInstant before, SteadyInstant after) {
  ++view_.terms;
  view_.holder = holder;
  proven_ = before;
  served_ = false;
  if (!gone_) acts_from_ = after + timing_.proof;
}

void LeaseState::renewed(const Result<Renewal>& answer, SteadyInstant before, SteadyInstant after) {
  if (!answer) {
    away_ = after;
    return;
  }
  away_.reset();
  watched_ = answer->watched;
  if (answer->holds) {
    // Another replica may have claimed meanwhile, in a database that was replaced: a restored one names this replica
    // again.
    if (!answer->same_session && proven_ && after - *proven_ >= timing_.without_session)
      acts_from_ = after + timing_.without_session;
    proven_ = before;
  } else {
    lost_ = true;
  }
}

bool LeaseState::release() {
  if (!proven_ || lost_) return false;
  proven_.reset();
  return true;
}

bool LeaseState::due(SteadyInstant now, bool used) const {
  return used || watched_ || away_ || !proven_ || now - *proven_ >= timing_.renew_alone;
}

bool LeaseState::rests(SteadyInstant now) const {
  return proven_ && !lost_ && !watched_ && !away_ && now - *proven_ >= timing_.proof &&
         now - *proven_ < timing_.renew_alone + timing_.proof;
}

bool LeaseState::holds(SteadyInstant now) const { return leads(now) || rests(now); }

bool LeaseState::leads(SteadyInstant now) const {
  return proven_ && !lost_ && now - *proven_ < timing_.proof && now >= acts_from_;
}

bool LeaseState::may_answer(SteadyInstant now) const {
  if (!proven_ || lost_) return false;
  return now - *proven_ < timing_.proof || (away_ && now - *away_ < timing_.lease * kAwayLeases);
}

bool LeaseState::served(SteadyInstant now) const {
  return served_ && looked_ && now - *looked_ < timing_.look * kFreshLooks;
}

SteadyInstant boot_now() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return SteadyInstant(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

}  // namespace qm::store
