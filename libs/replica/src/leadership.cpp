#include "qm/replica/leadership.hpp"

#include "qm/base/log.hpp"

namespace qm::replica {

using store::boot_now;

Leadership::Leadership(std::unique_ptr<store::Lease> lease, store::LeaseTiming timing, std::string holder)
    : lease_(std::move(lease)), timing_(timing), holder_(std::move(holder)), state_(timing) {}

Leadership::~Leadership() { release(); }

Status Leadership::wait(const std::function<bool()>& give_up, const std::function<Status()>& stand_by, bool at_once) {
  {
    const std::lock_guard lock(mutex_);
    waiting_ = true;
  }
  for (bool notified = false; !look_again(at_once);) {
    if (stand_by && !notified) QM_TRY(stand_by());
    notified = true;
    if (give_up()) {
      const std::lock_guard lock(mutex_);
      waiting_ = false;
      return fail(Code::kCancelled, "{} ends without having led", holder_);
    }
    lease_->wait(timing_.look);
  }
  keeps_ = true;
  thread_ = std::jthread([this](const std::stop_token& stop) { keep(stop); });
  return {};
}

bool Leadership::look_again(bool at_once) {
  const auto view = lease_->look();
  const auto now = boot_now();
  bool free = false;
  {
    const std::lock_guard lock(mutex_);
    const bool was_away = state_.away(), was_known = state_.known();
    const auto before = state_.view().holder;
    free = state_.looked(view, now, at_once);
    if (!view) {
      if (!was_away) log::warn("the current leader cannot be read", {{"error", view.error().to_string()}});
    } else if (!free && (before != view->holder || !was_known)) {
      log::info("another replica leads; this one is standby", {{"leader", view->holder}, {"term", view->terms}});
    }
  }
  if (!free) return false;
  if (const auto fit = lease_->ready(); !fit) {
    if (!unfit_) log::error("there is no leader, and this replica cannot lead", {{"error", fit.error().to_string()}});
    unfit_ = true;
    return false;
  }
  unfit_ = false;
  const auto before = boot_now();
  const auto won = lease_->claim(view->beat, holder_);
  if (!won || !*won) return false;
  log::info(
      "this replica leads now",
      {{"after", view->holder}, {"released", view->released}, {"session", view->session}, {"term", view->terms + 1}});
  const std::lock_guard lock(mutex_);
  state_.claimed(holder_, before, boot_now());
  waiting_ = false;
  return true;
}

void Leadership::keep(const std::stop_token& stop) {
  renew_until(stop);
  const std::lock_guard lock(mutex_);
  keeps_ = asked_ = false;
  renewed_.notify_all();
}

void Leadership::renew_until(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::string address;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, stop, state_.tick(), [this] { return poke_ || asked_; });
      const bool due = poke_ || asked_ || state_.due(boot_now(), used_);
      // Only this thread uses the lease.
      if (!due && !stop.stop_requested() && lease_->quiet()) continue;
      poke_ = used_ = false;
      address = address_;
    }
    if (stop.stop_requested()) return;
    const auto before = boot_now();
    const auto renewed = lease_->renew(holder_, address);
    const auto after = boot_now();
    const std::lock_guard lock(mutex_);
    if (!renewed && !state_.away())
      log::warn("the leader lease cannot be renewed", {{"error", renewed.error().to_string()}});
    state_.renewed(renewed, before, after);
    asked_ = false;
    renewed_.notify_all();
    if (state_.lost()) {
      log::error("another replica is the leader now", {{"holder", holder_}});
      return;
    }
  }
}

void Leadership::serves_at(std::string address) {
  {
    const std::lock_guard lock(mutex_);
    address_ = std::move(address);
    poke_ = true;
  }
  changed_.notify_all();
}

void Leadership::release() {
  thread_ = {};
  {
    const std::lock_guard lock(mutex_);
    if (released_ || !state_.release()) return;
    released_ = true;
  }
  if (const auto released = lease_->release(holder_); !released)
    log::warn("the leader lease is dropped without a release", {{"error", released.error().to_string()}});
}

bool Leadership::proves(bool (store::LeaseState::*condition)(SteadyInstant) const) const {
  std::unique_lock lock(mutex_);
  used_ = true;
  const auto now = boot_now();
  if ((state_.*condition)(now) || !keeps_ || !state_.rests(now)) return (state_.*condition)(now);
  asked_ = true;
  changed_.notify_all();
  renewed_.wait_for(lock, timing_.proof, [this] { return !asked_; });
  return (state_.*condition)(boot_now());
}

bool Leadership::leads() const { return proves(&store::LeaseState::leads); }
bool Leadership::may_answer() const { return proves(&store::LeaseState::may_answer); }

bool Leadership::holds() const {
  const std::lock_guard lock(mutex_);
  return state_.holds(boot_now());
}

bool Leadership::would_answer() const {
  const std::lock_guard lock(mutex_);
  const auto now = boot_now();
  return state_.may_answer(now) || state_.rests(now);
}

bool Leadership::lost() const {
  const std::lock_guard lock(mutex_);
  return state_.lost();
}

bool Leadership::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_;
}

bool Leadership::served() const {
  const std::lock_guard lock(mutex_);
  return waiting_ && state_.served(boot_now());
}

store::LeaseView Leadership::view() const {
  const std::lock_guard lock(mutex_);
  return state_.view();
}

}  // namespace qm::replica
