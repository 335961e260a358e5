#include "qm/base/lookup.hpp"

#include <gtest/gtest.h>

#include <string>

namespace qm {
namespace lookup_test {

TEST(Lookup, FindsWhatWasPutThereAndShowsItInOrderOfKeys) {
  Lookup<int, std::string> lookup;
  for (int i = 100; i > 0; --i) lookup.emplace(i * 7, std::to_string(i));
  const std::string* seven = lookup.find(7);
  ASSERT_NE(seven, nullptr);
  EXPECT_EQ(lookup.emplace(7, "other"), "1") << "what was there before stays";
  lookup.erase(14);
  lookup.erase(15);
  EXPECT_FALSE(lookup.contains(14));
  EXPECT_EQ(lookup.find(7), seven) << "and where it was";
  int last = 0, count = 0;
  lookup.each([&](int key, const std::string&) {
    EXPECT_GT(key, last);
    last = key;
    ++count;
  });
  EXPECT_EQ(count, 99);
}

}  // namespace lookup_test
}  // namespace qm
