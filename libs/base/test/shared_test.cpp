#include "qm/base/shared.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace qm {
namespace shared_test {

using Text = Shared<std::string>;

TEST(Shared, ReadsAsItsValue) {
  const Text text = "queue";
  EXPECT_EQ(text, "queue");
  EXPECT_EQ(std::string_view(text).size(), 5U);
  EXPECT_EQ(fmt::format("{:>6}", text), " queue");
  const Shared<std::map<std::string, int>> map = std::map<std::string, int>{{"a", 1}};
  EXPECT_EQ(map.find("a")->second, 1);
  EXPECT_FALSE(map.contains("b"));
  int sum = 0;
  for (const auto& [key, value] : map) sum += value;
  EXPECT_EQ(sum, 1);
}

TEST(Shared, AWriterGetsItsOwnCopy) {
  Text a = "one";
  const Text b = a;
  EXPECT_EQ(&*a, &*b);
  a.edit() += "!";
  EXPECT_EQ(a, "one!");
  EXPECT_EQ(b, "one");
  const auto* at = &*a;
  a.edit() = "alone";
  EXPECT_EQ(&*a, at) << "no other owner";
}

TEST(Shared, IsOrderedByValue) {
  const Text a = "a", b = "b", also_a = std::string("a");
  EXPECT_NE(&*a, &*also_a);
  EXPECT_EQ(a, also_a);
  EXPECT_LT(a, b);
  EXPECT_LT(Text(), a);
  EXPECT_EQ(Text(), Text(std::string()));
}

TEST(Pool, MakesEqualValuesOne) {
  Pool<std::string> pool;
  Text a = "x", b = "x", none;
  for (auto* one : {&a, &b, &none}) pool.unite(*one);
  EXPECT_EQ(&*a, &*b);
  b.edit() += "y";
  EXPECT_EQ(a, "x") << "what is in the pool is never written";
  Text c = "x";
  pool.unite(c);
  EXPECT_EQ(&*a, &*c);
}

TEST(Pool, ReleasesUnusedEntries) {
  struct Counted {
    int value = 0;
    std::shared_ptr<int> alive{};
    auto operator<=>(const Counted& other) const { return value <=> other.value; }
    bool operator==(const Counted& other) const { return value == other.value; }
  };
  const auto alive = std::make_shared<int>();
  Pool<Counted> pool;
  Shared<Counted> kept = Counted{1, alive};
  pool.unite(kept);
  for (int i = 2; i < 5000; ++i) {
    Shared<Counted> passing = Counted{i, alive};
    pool.unite(passing);
  }
  EXPECT_LT(alive.use_count(), 2500);
  Shared<Counted> again = Counted{1, alive};
  pool.unite(again);
  EXPECT_EQ(&*kept, &*again);
}

TEST(Rare, IsLikeAnOptional) {
  Rare<std::vector<int>> none;
  EXPECT_FALSE(none);
  EXPECT_EQ(none, Rare<std::vector<int>>(std::nullopt));
  Rare<std::vector<int>> one = std::vector<int>{1};
  const auto copy = one;
  one.edit().push_back(2);
  EXPECT_EQ(one->size(), 2U);
  EXPECT_EQ(copy->size(), 1U);
  EXPECT_EQ(Rare<int>(0).has_value(), true) << "a value, although it is the default one";
  one.reset();
  EXPECT_FALSE(one.has_value());
}

}  // namespace shared_test
}  // namespace qm
