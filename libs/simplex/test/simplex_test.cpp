#include "qm/simplex/simplex.hpp"

#include <gtest/gtest.h>

namespace qm {
namespace simplex_test {

// Worth 3 and 5; x <= 4, 2y <= 12, 3x + 2y <= 18: the best is x = 2, y = 6 (Hillier and Lieberman, chapter 3).
TEST(Simplex, SolvesAProgramOfTwoColumns) {
  Simplex program;
  const auto a = program.add_at_most(4), b = program.add_at_most(12), c = program.add_at_most(18);
  const auto x = program.add_column(3, {{a, 1.0}, {c, 3.0}});
  const auto y = program.add_column(5, {{b, 2.0}, {c, 2.0}});
  ASSERT_TRUE(program.solve({}));
  EXPECT_NEAR(program.value(), 36, 1e-3);
  EXPECT_NEAR(program.amount(x), 2, 1e-3);
  EXPECT_NEAR(program.amount(y), 6, 1e-3);
  EXPECT_NEAR(program.dual(a), 0, 1e-9);
  EXPECT_NEAR(program.dual(b), 1.5, 1e-9);
  EXPECT_NEAR(program.dual(c), 1, 1e-9);
}

TEST(Simplex, AMissingUnitCostsItsPenalty) {
  Simplex program;
  const auto row = program.add_at_least(3, 10);
  ASSERT_TRUE(program.solve({}));
  EXPECT_NEAR(program.value(), -30, 1e-3);
  program.add_column(-4, {{row, 2.0}});  // added after a solution: the next one starts from there
  ASSERT_TRUE(program.solve({}));
  EXPECT_NEAR(program.value(), -6, 1e-3);
  EXPECT_NEAR(program.dual(row), -2, 1e-9);
}

}  // namespace simplex_test
}  // namespace qm
