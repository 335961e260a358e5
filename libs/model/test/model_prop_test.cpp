#include "qm/model/money.hpp"
#include "qm/model/quantity.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

namespace qm {
namespace model_prop_test {

__extension__ typedef __int128 Wide;

/// mantissa * 10^exponent10 * 2^exponent2 with its text; small enough that its nano-units fit 128 bits exactly.
struct Sample {
  std::string text;
  Wide nano = 0;
};

Sample sample() {
  struct Suffix {
    const char* text;
    int tens, twos;
  };
  static const std::vector<Suffix> kSuffixes{{"n", 0, 0},   {"u", 3, 0},   {"m", 6, 0},   {"", 9, 0},
                                             {"k", 12, 0},  {"M", 15, 0},  {"e-9", 0, 0}, {"e3", 12, 0},
                                             {"E5", 14, 0}, {"Ki", 9, 10}, {"Mi", 9, 20}, {"Gi", 9, 30}};
  const Suffix suffix = kSuffixes[*rc::gen::inRange<std::size_t>(0, kSuffixes.size())];
  const auto mantissa = *rc::gen::inRange<std::int64_t>(-2'000'000'000, 2'000'000'000);
  Sample out{std::to_string(mantissa) + suffix.text, mantissa};
  for (int i = 0; i < suffix.tens; ++i) out.nano *= 10;
  out.nano *= Wide(1) << suffix.twos;
  return out;
}

RC_GTEST_PROP(Quantity, PrintedIsReadBack, ()) {
  const Sample s = sample();
  const Quantity q = *Quantity::parse(s.text);
  const auto again = Quantity::parse(q.to_string());
  RC_ASSERT(again.has_value());
  RC_ASSERT(*again == q);
  RC_ASSERT(again->to_string() == q.to_string());
}

RC_GTEST_PROP(Quantity, OrderAndSumsAgreeWithExactNumbers, ()) {
  const Sample a = sample();
  const Sample b = sample();
  const Quantity qa = *Quantity::parse(a.text);
  const Quantity qb = *Quantity::parse(b.text);
  RC_ASSERT((qa < qb) == (a.nano < b.nano));
  RC_ASSERT((qa == qb) == (a.nano == b.nano));
  const Wide milli = a.nano + b.nano;
  const Wide unit = 1'000'000;
  Wide expected = milli / unit;
  if (milli % unit != 0) expected += milli < 0 ? -1 : 1;
  RC_PRE(expected < std::numeric_limits<std::int64_t>::max() && expected > std::numeric_limits<std::int64_t>::min());
  RC_ASSERT((qa + qb).milli() == static_cast<std::int64_t>(expected));
  RC_ASSERT(qa + qb - qb == qa);
  RC_ASSERT(qa + qb == qb + qa);
}

RC_GTEST_PROP(Quantity, NeverCrashesOnAnyText, ()) {
  const auto text = *rc::gen::container<std::string>(rc::gen::elementOf(std::string("0123456789.eEinumkKMGTPE+- ")));
  const auto parsed = Quantity::parse(text);
  if (parsed) RC_ASSERT(*Quantity::parse(parsed->to_string()) == *parsed);
}

RC_GTEST_PROP(Money, SplitConservesAndIsFair, (std::int64_t amount, std::vector<std::uint32_t> raw)) {
  RC_PRE(!raw.empty());
  std::vector<std::int64_t> weights(raw.begin(), raw.end());
  if (*rc::gen::weightedElement<bool>({{1, true}, {9, false}})) std::fill(weights.begin(), weights.end(), 0);
  const auto parts = split(Money::nano(amount), weights);
  RC_ASSERT(parts.size() == weights.size());
  Wide sum = 0;
  const Wide total = std::accumulate(weights.begin(), weights.end(), Wide(0));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    sum += parts[i].nano();
    if (total == 0) continue;
    // Within one nano-dollar of the exact share, never with the opposite sign.
    const Wide difference = Wide(parts[i].nano()) * total - Wide(amount) * weights[i];
    RC_ASSERT(difference < total && -difference < total);
    RC_ASSERT((amount < 0 ? parts[i].nano() <= 0 : parts[i].nano() >= 0));
  }
  RC_ASSERT(sum == amount);
  if (total == 0) RC_ASSERT(parts[0].nano() == amount);
}

RC_GTEST_PROP(Money, AccruedTelescopes, ()) {
  const HourlyRate rate{Money::nano(*rc::gen::inRange<std::int64_t>(-200'000'000'000, 200'000'000'000))};
  const std::int64_t day = 86'400'000'000;
  const Instant origin = from_micros(*rc::gen::inRange<std::int64_t>(0, day));
  auto cuts = *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(-day, 400 * day));
  std::sort(cuts.begin(), cuts.end());
  RC_PRE(cuts.size() >= 2u);
  Money sum;
  for (std::size_t i = 1; i < cuts.size(); ++i) {
    sum += rate.accrued(origin, from_micros(cuts[i])) - rate.accrued(origin, from_micros(cuts[i - 1]));
  }
  RC_ASSERT(sum == rate.accrued(origin, from_micros(cuts.back())) - rate.accrued(origin, from_micros(cuts.front())));
}

RC_GTEST_PROP(Money, PrintedIsReadBack, (std::int64_t nano)) {
  RC_ASSERT(Money::parse_usd(Money::nano(nano).to_usd())->nano() == nano);
}

}  // namespace model_prop_test
}  // namespace qm
