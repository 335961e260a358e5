#include "qm/admission/forecast/budgets.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace qm::admission::forecast {
namespace {

__extension__ using Wide = __int128;

std::int64_t rounded_up(Wide amount, Wide by) {
  const Wide out = (amount + by - 1) / by;
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  return out > kMost ? kMost : static_cast<std::int64_t>(out);
}

/// The largest allotment that a grant may have: sums of a few such amounts do not overflow.
constexpr std::int64_t kMostGranted = std::numeric_limits<std::int64_t>::max() / 4;

}  // namespace

std::int64_t gpu_millis(std::int64_t gpu_milli, Duration run) {
  return rounded_up(Wide{gpu_milli} * run.count(), Duration(std::chrono::seconds(1)).count());
}
std::int64_t nano_usd(std::int64_t nano_usd_gpu_hour, std::int64_t gpu_milli, Duration run) {
  // Multiplied in two steps: the product of all three factors may exceed 128 bits.
  return rounded_up(Wide{nano_usd_gpu_hour} * gpu_millis(gpu_milli, run), Wide{3'600'000});
}

const Budget::Allotment* Budget::at(Instant now) const {
  auto after = allotments_.upper_bound(now);
  if (after == allotments_.begin()) return nullptr;
  const auto& found = std::prev(after)->second;
  return now < found.period.to ? &found : nullptr;
}
Budget::Allotment* Budget::current(Instant now) { return const_cast<Allotment*>(std::as_const(*this).at(now)); }

std::int64_t Budget::Hold::amount() const {
  std::int64_t sum = 0;
  for (const auto& [from, amount] : left) sum += amount;
  return sum;
}

/// Removes what a later grant reduced, carries free amounts of ended periods over to the current one, and pays what
/// is owed.
void Budget::turn(Instant now) {
  for (auto& [from, one] : allotments_) {
    if (one.granted > one.granted_total) one.granted -= std::min(one.granted - one.granted_total, one.free());
  }
  Allotment* const to = current(now);
  for (auto it = allotments_.begin(); it != allotments_.end() && to != nullptr && &it->second != to;) {
    auto& ended = it->second;
    const auto free = ended.free();
    const auto pays = std::min(owed_, free);
    owed_ -= pays;
    ended.spent += pays;
    const auto carried = static_cast<std::int64_t>(Wide{free - pays} * ended.carry_over_permille / 1000);
    ended.carried_out += carried;
    to->carried_in += carried;
    ended.lapsed += free - pays - carried;
    if (ended.held > 0) {
      ++it;
    } else {
      spent_before_ += ended.spent;
      it = allotments_.erase(it);
    }
  }
  if (to == nullptr) return;
  const auto pays = std::min(owed_, to->free());
  owed_ -= pays;
  to->spent += pays;
}

Status Budget::grant(const Period& period, std::int64_t amount, int carry_over_permille, Instant now) {
  if (amount < 0 || amount > kMostGranted || period.from >= period.to || carry_over_permille < 0 ||
      carry_over_permille > 1000) {
    return fail(Code::kInvalid, "an allotment of {} from {} to {} carrying {} of 1000 is not valid", amount,
                to_rfc3339(period.from), to_rfc3339(period.to), carry_over_permille);
  }
  const auto clash = std::ranges::find_if(allotments_, [&](const auto& one) {
    const auto& other = one.second.period;
    return !(other == period) && other.from < period.to && period.from < other.to;
  });
  if (clash != allotments_.end()) {
    return fail(Code::kInvalid, "the period from {} to {} overlaps the one from {}", to_rfc3339(period.from),
                to_rfc3339(period.to), to_rfc3339(clash->first));
  }
  if (period.to <= now && !allotments_.contains(period.from)) return {};  // an ended period accepts no new holds
  auto& allotment = allotments_[period.from];
  allotment.period = period;
  allotment.granted_total = amount;
  allotment.granted = std::max(allotment.granted, amount);
  allotment.carry_over_permille = carry_over_permille;
  turn(now);
  return {};
}

void Budget::forget_future(Instant now) {
  std::erase_if(allotments_, [&](const auto& one) { return one.first > now; });
}

Status Budget::take(Hold& hold, std::int64_t amount, Instant now) {
  if (amount < 0) return fail(Code::kInvalid, "{} cannot be held", amount);
  turn(now);
  if (amount == 0) return {};  // a hold of zero refers to no allotment
  Allotment* const from = current(now);
  if (from == nullptr) return fail(Code::kFailedPrecondition, "nothing is granted for {}", to_rfc3339(now));
  if (amount > from->free()) {
    return fail(Code::kExhausted, "{} is free until {}, {} is needed", from->free(), to_rfc3339(from->period.to),
                amount);
  }
  from->held += amount;
  hold.left[from->period.from] += amount;
  return {};
}

void Budget::give_up(Hold& hold) {
  for (const auto& [from, left] : hold.left) allotments_.at(from).held -= left;
  hold.left.clear();
}

void Budget::release(Hold& hold, Instant now) {
  give_up(hold);
  turn(now);
}

/// An increase is charged to the hold first (oldest allotment first), then to the free amount of the current
/// period; the rest is owed. A decrease is refunded: first from what is owed, then from the latest allotments
/// that have spending.
Status Budget::settle(Hold& hold, std::int64_t spent, Instant now) {
  if (spent < 0 || spent > kMostGranted) return fail(Code::kInvalid, "{} cannot be spent", spent);
  auto more = std::max<std::int64_t>(0, spent - hold.seen), back = std::max<std::int64_t>(0, hold.seen - spent);
  hold.seen = spent;
  const auto unowed = std::min(owed_, back);
  owed_ -= unowed;
  back -= unowed;
  for (auto it = allotments_.rbegin(); it != allotments_.rend() && back > 0; ++it) {
    const auto taken = std::min(it->second.spent, back);
    it->second.spent -= taken;
    back -= taken;
  }
  spent_before_ -= back;
  QM_ASSERT(spent_before_ >= 0, "more is given back than was spent");
  for (auto& [from, left] : hold.left) {
    auto& of = allotments_.at(from);
    const auto taken = std::min(left, more);
    left -= taken;
    of.held -= taken;
    of.spent += taken;
    more -= taken;
  }
  std::erase_if(hold.left, [](const auto& one) { return one.second == 0; });
  QM_ASSERT(owed_ <= std::numeric_limits<std::int64_t>::max() - more, "{} and {} are owed", owed_, more);
  owed_ += more;
  turn(now);
  return {};
}

std::int64_t Budget::free(Instant now) {
  turn(now);
  const Allotment* const of = current(now);
  return of == nullptr ? 0 : of->free();
}

Budget Budget::restored(std::map<Instant, Allotment> allotments, std::int64_t owed, std::int64_t spent_before) {
  Budget out;
  out.allotments_ = std::move(allotments);
  out.owed_ = owed;
  out.spent_before_ = spent_before;
  return out;
}

}  // namespace qm::admission::forecast
