#include "qm/base/ranked.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace qm {
namespace ranked_prop_test {

template <class T>
std::vector<T> values_of(const Ranked<T>& set) {
  std::vector<T> out;
  set.each([&](const T& value) { out.push_back(value); });
  return out;
}

RC_GTEST_PROP(Ranked, CountsAsAPlainSetDoes, ()) {
  Ranked<int> ranked;
  std::set<int> plain;
  const int most = *rc::gen::inRange(1, 200);
  const auto steps = *rc::gen::container<std::vector<std::pair<bool, int>>>(
      rc::gen::pair(rc::gen::weightedElement<bool>({{3, true}, {2, false}}), rc::gen::inRange(0, most)));
  for (const auto& [comes, value] : steps) {
    if (comes) {
      RC_ASSERT(ranked.insert(value) == plain.insert(value).second);
    } else {
      RC_ASSERT(ranked.erase(value) == (plain.erase(value) == 1));
    }
    RC_ASSERT(ranked.size() == plain.size());
    RC_ASSERT(ranked.empty() == plain.empty());
    if (!plain.empty()) RC_ASSERT(ranked.first() == *plain.begin());
    for (const int asked : {value - 1, value, value + 1}) {
      const auto before = std::distance(plain.begin(), plain.lower_bound(asked));
      RC_ASSERT(ranked.before(asked) == static_cast<std::size_t>(before));
      RC_ASSERT(ranked.contains(asked) == plain.contains(asked));
    }
  }
  RC_ASSERT(std::ranges::equal(values_of(ranked), plain));
}

/// Counts how often two are compared.
struct Counted {
  int value = 0;
  static inline int compared = 0;
  friend bool operator<(const Counted& a, const Counted& b) { return ++compared, a.value < b.value; }
  friend bool operator==(const Counted& a, const Counted& b) { return a.value == b.value; }
};

TEST(Ranked, StaysFlatWhateverTheOrder) {
  constexpr int kValues = 1 << 16;
  for (const bool up : {true, false}) {
    Ranked<Counted> ranked;
    for (int i = 0; i < kValues; ++i) ranked.insert({up ? i : -i});
    for (int i = 0; i < kValues; i += 2) ranked.erase({up ? i : -i});
    for (int i = 1; i < kValues; i += 999) {
      Counted::compared = 0;
      (void)ranked.before({up ? i : -i});
      EXPECT_LE(Counted::compared, 2 * 16);
    }
  }
}

TEST(Ranked, EqualIsWhatHoldsTheSame) {
  Ranked<int> up, down;
  for (int i = 0; i < 100; ++i) {
    up.insert(i);
    down.insert(99 - i);
  }
  EXPECT_EQ(up, down);
  up.erase(50);
  EXPECT_NE(up, down);
  up.insert(200);
  EXPECT_NE(up, down);
}

}  // namespace ranked_prop_test
}  // namespace qm
