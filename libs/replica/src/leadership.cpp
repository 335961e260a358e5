#include "qm/replica/leadership.hpp"

#include "qm/base/log.hpp"

namespace qm::replica {

using store::boot_now;

namespace {
/// How long the last look of who waits, or the last failure of who leads, is worth something, in looks or leases.
constexpr int kFreshLooks = 10;
constexpr int kAwayLeases = 3;
}  // namespace

Leadership::Leadership(std::unique_ptr<store::Lease> lease, store::LeaseTiming timing, std::string holder)
    : lease_(std::move(lease)), timing_(timing), holder_(std::move(holder)), judge_(timing) {}

Leadership::~Leadership() { release(); }

Status Leadership::wait(const std::function<bool()>& give_up, const std::function<Status()>& stand_by, bool at_once) {
  {
    const std::lock_guard lock(mutex_);
    waiting_ = true;
  }
  for (bool told = false; !look_again(at_once);) {
    if (stand_by && !told) QM_TRY(stand_by());
    told = true;
    if (give_up()) {
      const std::lock_guard lock(mutex_);
      waiting_ = false;
      return fail(Code::kCancelled, "{} ends without having led", holder_);
    }
    lease_->wait(timing_.look);
  }
  thread_ = std::jthread([this](const std::stop_token& stop) { keep(stop); });
  return {};
}

bool Leadership::look_again(bool at_once) {
  const auto view = lease_->look();
  const auto now = boot_now();
  const bool gone = view && judge_.free(*view, now);
  const bool free = gone || (view && at_once);
  {
    const std::lock_guard lock(mutex_);
    if (!view) {
      if (!away_) log::warn("cannot see who leads", {{"error", view.error().to_string()}});
      away_ = now;
      return false;
    }
    away_.reset();
    if (!free && (view_.holder != view->holder || !looked_))
      log::info("another leads, standing by", {{"leader", view->holder}, {"term", view->terms}});
    view_ = *view;
    looked_ = now;
    served_ = judge_.served();
  }
  if (!free) return false;
  if (const auto fit = lease_->ready(); !fit) {
    if (!unfit_) log::error("nobody leads, and this replica cannot", {{"error", fit.error().to_string()}});
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
  ++view_.terms;
  view_.holder = holder_;
  proven_ = before;
  if (!gone) acts_from_ = boot_now() + timing_.proof;
  waiting_ = false;
  return true;
}

void Leadership::keep(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::string address;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, stop, timing_.renew, [this] { return poke_; });
      poke_ = false;
      address = address_;
    }
    if (stop.stop_requested()) return;
    const auto before = boot_now();
    const auto renewed = lease_->renew(holder_, address);
    const auto after = boot_now();
    const std::lock_guard lock(mutex_);
    if (!renewed) {
      if (!away_) log::warn("the lead cannot be renewed", {{"error", renewed.error().to_string()}});
      away_ = after;
      continue;
    }
    away_.reset();
    if (!*renewed) {
      lost_ = true;
      log::error("another replica has taken the lead", {{"holder", holder_}});
      return;
    }
    proven_ = before;
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
    if (released_ || !proven_ || lost_) return;
    released_ = true;
    proven_.reset();
  }
  if (const auto told = lease_->release(holder_); !told)
    log::warn("the lead is left without a word", {{"error", told.error().to_string()}});
}

bool Leadership::leads() const {
  const std::lock_guard lock(mutex_);
  const auto now = boot_now();
  return proven_ && !lost_ && now - *proven_ < timing_.proof && now >= acts_from_;
}

bool Leadership::may_answer() const {
  const std::lock_guard lock(mutex_);
  if (!proven_ || lost_) return false;
  const auto now = boot_now();
  return now - *proven_ < timing_.proof || (away_ && now - *away_ < timing_.lease * kAwayLeases);
}

bool Leadership::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

bool Leadership::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_;
}

bool Leadership::served() const {
  const std::lock_guard lock(mutex_);
  return waiting_ && served_ && looked_ && boot_now() - *looked_ < timing_.look * kFreshLooks;
}

store::LeaseView Leadership::view() const {
  const std::lock_guard lock(mutex_);
  return view_;
}

}  // namespace qm::replica
