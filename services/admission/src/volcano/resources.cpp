#include "qm/admission/volcano/resources.hpp"

#include <algorithm>

namespace qm::admission::volcano {
namespace {

/// Applies `change` to each amount of `a` and the amount of the same resource in `b`.
template <class Change>
void each(Resources& a, const Resources& b, Change change) {
  for (std::size_t r = 0; r < a.size() && r < b.size(); ++r) a[r] = change(a[r], b[r]);
}

}  // namespace

void add(Resources& to, const Resources& amounts) { each(to, amounts, kueue::plus); }
void take(Resources& from, const Resources& amounts) { each(from, amounts, kueue::minus); }

Resources sum(Resources a, const Resources& b) {
  add(a, b);
  return a;
}

Resources rest(Resources a, const Resources& b) {
  each(a, b, [](std::int64_t x, std::int64_t y) { return kueue::at_least_zero(kueue::minus(x, y)); });
  return a;
}

Resources least(Resources a, const Resources& b) {
  each(a, b, [](std::int64_t x, std::int64_t y) { return std::min(x, y); });
  return a;
}

Resources most(Resources a, const Resources& b) {
  each(a, b, [](std::int64_t x, std::int64_t y) { return std::max(x, y); });
  return a;
}

bool nothing(const Resources& a) {
  return std::ranges::all_of(a, [](std::int64_t v) { return v <= 0; });
}

bool within(const Resources& a, const Resources& limit) { return beyond(a, limit, a).empty(); }

std::vector<std::size_t> beyond(const Resources& a, const Resources& limit, const Resources& asked) {
  std::vector<std::size_t> out;
  for (std::size_t r = 0; r < asked.size(); ++r) {
    if (asked[r] > 0 && a[r] > limit[r]) out.push_back(r);
  }
  return out;
}

bool in_common(const Resources& a, const Resources& b) {
  for (std::size_t r = 0; r < a.size() && r < b.size(); ++r) {
    if (a[r] > 0 && b[r] > 0) return true;
  }
  return false;
}

Share dominant(const Resources& part, const Resources& whole) {
  Share out;
  for (std::size_t r = 0; r < whole.size(); ++r) {
    if (whole[r] > 0) out = std::max(out, Share{part[r], whole[r]});
  }
  return out;
}

}  // namespace qm::admission::volcano
