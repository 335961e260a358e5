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

/// Sums of grants stay far from overflow.
constexpr std::int64_t kMostGranted = std::numeric_limits<std::int64_t>::max() / 4;

}  // namespace

std::int64_t gpu_millis(std::int64_t gpu_milli, Duration run) {
  return rounded_up(Wide{gpu_milli} * run.count(), Duration(std::chrono::seconds(1)).count());
}
std::int64_t nano_usd(std::int64_t nano_usd_gpu_hour, std::int64_t gpu_milli, Duration run) {
  // A price of an hour is beyond 64 bits only after multiplication, and 128 hold three such factors only in parts.
  return rounded_up(Wide{nano_usd_gpu_hour} * gpu_millis(gpu_milli, run), Wide{3'600'000});
}

Budget::Allotment* Budget::current(Instant now) {
  auto after = allotments_.upper_bound(now);
  if (after == allotments_.begin()) return nullptr;
  auto& found = std::prev(after)->second;
  return now < found.period.to ? &found : nullptr;
}

/// What ended periods have free goes where it belongs, and what is owed is paid.
void Budget::turn(Instant now) {
  Allotment* const to = current(now);
  for (auto it = allotments_.begin(); it != allotments_.end() && to != nullptr && &it->second != to;) {
    auto& ended = it->second;
    const auto free = ended.free();
    const auto pays = std::min(owed_, free);
    owed_ -= pays;
    ended.spent += pays;
    const auto carried = static_cast<std::int64_t>(Wide{free - pays} * ended.carry_permille / 1000);
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

Result<bool> Budget::grant(const Grant& grant, Instant now) {
  const auto& [sequence, period, amount, carry] = grant;
  if (sequence <= last_) return pass_over();
  if (amount < 0 || amount > kMostGranted || period.from >= period.to || carry < 0 || carry > 1000) {
    return fail(Code::kInvalid, "an allotment of {} from {} to {} carrying {} of 1000 is none", amount,
                to_rfc3339(period.from), to_rfc3339(period.to), carry);
  }
  const auto clash = std::ranges::find_if(allotments_, [&](const auto& one) {
    const auto& other = one.second.period;
    return !(other == period) && other.from < period.to && period.from < other.to;
  });
  if (clash != allotments_.end()) {
    return fail(Code::kInvalid, "the period from {} to {} overlaps the one from {}", to_rfc3339(period.from),
                to_rfc3339(period.to), to_rfc3339(clash->first));
  }
  const auto before = allotments_.find(period.from);
  if (before != allotments_.end() && before->second.granted > kMostGranted - amount) {
    return fail(Code::kInvalid, "{} more than {} is more than can be counted", amount, before->second.granted);
  }
  last_ = sequence;
  auto& allotment = allotments_[period.from];
  allotment.period = period;
  allotment.granted += amount;
  allotment.carry_permille = carry;
  turn(now);
  return true;
}

Status Budget::take(Hold& hold, std::int64_t amount, Instant now) {
  if (amount < 0) return fail(Code::kInvalid, "{} cannot be held", amount);
  turn(now);
  Allotment* const from = current(now);
  if (from == nullptr) return fail(Code::kFailedPrecondition, "nothing is granted for {}", to_rfc3339(now));
  if (amount > from->free()) {
    return fail(Code::kExhausted, "{} is free until {}, {} is needed", from->free(), to_rfc3339(from->period.to),
                amount);
  }
  if (amount == 0) return {};  // what holds nothing keeps no allotment
  from->held += amount;
  hold.left[from->period.from] += amount;
  return {};
}

void Budget::give_up(Hold& hold) {
  for (const auto& [from, left] : hold.left) allotments_.at(from).held -= left;
  hold.left.clear();
}

Status Budget::hold(const std::string& workload, std::int64_t amount, Instant until, Instant now) {
  if (holds_.contains(workload)) return fail(Code::kAlreadyExists, "something is held for {} already", workload);
  Hold made;
  made.until = until;
  QM_TRY(take(made, amount, now));
  holds_.emplace(workload, std::move(made));
  return {};
}

Status Budget::extend(const std::string& workload, std::int64_t more, Instant until, Instant now) {
  const auto found = holds_.find(workload);
  if (found == holds_.end()) return fail(Code::kNotFound, "nothing is held for {}", workload);
  QM_TRY(take(found->second, more, now));
  found->second.until = std::max(found->second.until, until);
  return {};
}

Status Budget::release(const std::string& workload, Instant now) {
  const auto found = holds_.find(workload);
  if (found == holds_.end()) return fail(Code::kNotFound, "nothing is held for {}", workload);
  give_up(found->second);
  holds_.erase(found);
  turn(now);
  return {};
}

/// From its hold, the oldest allotment first; then from what is free; the rest is owed.
void Budget::charge(Hold& hold, std::int64_t amount, Instant now) {
  for (auto& [from, left] : hold.left) {
    auto& of = allotments_.at(from);
    const auto taken = std::min(left, amount);
    left -= taken;
    of.held -= taken;
    of.spent += taken;
    amount -= taken;
  }
  std::erase_if(hold.left, [](const auto& one) { return one.second == 0; });
  QM_ASSERT(owed_ <= std::numeric_limits<std::int64_t>::max() - amount, "{} and {} are owed", owed_, amount);
  owed_ += amount;
  turn(now);
}

Result<bool> Budget::settle(const Settlement& settlement, Instant now) {
  const auto& [sequence, workload, spent, final] = settlement;
  if (spent < 0 || spent > kMostGranted) return fail(Code::kInvalid, "{} cannot be spent", spent);
  if (sequence <= last_) return pass_over();
  const auto found = holds_.find(workload);
  if (found == holds_.end()) return fail(Code::kNotFound, "nothing is held for {}", workload);
  last_ = sequence;
  auto& hold = found->second;
  const auto more = std::max<std::int64_t>(0, spent - hold.seen);
  hold.seen += more;
  charge(hold, more, now);
  if (!final) return true;
  give_up(hold);
  holds_.erase(found);
  turn(now);
  return true;
}

std::vector<std::string> Budget::due(Instant now) const {
  std::vector<std::string> out;
  for (const auto& [workload, hold] : holds_) {
    if (hold.until <= now) out.push_back(workload);
  }
  return out;
}

std::int64_t Budget::free(Instant now) {
  turn(now);
  const Allotment* const of = current(now);
  return of == nullptr ? 0 : of->free();
}

}  // namespace qm::admission::forecast
