// The numbers that math/rand of Go 1.26 draws from the same seeds, printed by a Go program.
#include "go_random.hpp"

#include <gtest/gtest.h>

namespace qm::placement::openb {
namespace go_random_test {

struct Drawn {
  std::int64_t seed;
  std::uint64_t first;
  std::int32_t below_1000, below_1024;
  std::vector<int> shuffled;
  std::vector<std::size_t> permutation;
  std::uint64_t after_10000_more;
};

TEST(GoRandom, MatchesGoMathRand) {
  for (const auto& want : std::initializer_list<Drawn>{{42,
                                                        12663951391086054483U,
                                                        987,
                                                        644,
                                                        {6, 5, 3, 7, 4, 2, 0, 1},
                                                        {3, 7, 4, 6, 0, 2, 5, 1},
                                                        9366152304055688340U},
                                                       {-7,
                                                        9970479060831305739U,
                                                        928,
                                                        82,
                                                        {1, 7, 4, 6, 3, 5, 2, 0},
                                                        {3, 7, 6, 2, 1, 0, 5, 4},
                                                        11654483357305773515U},
                                                       {0,
                                                        8717895732742165505U,
                                                        514,
                                                        1017,
                                                        {5, 4, 3, 6, 7, 1, 2, 0},
                                                        {5, 1, 7, 6, 2, 3, 0, 4},
                                                        16016968400806440908U}}) {
    GoRandom draw(want.seed);
    EXPECT_EQ(draw.next(), want.first) << want.seed;
    EXPECT_EQ(draw.below(1000), want.below_1000) << want.seed;
    EXPECT_EQ(draw.below(1024), want.below_1024) << want.seed;
    std::vector<int> items{0, 1, 2, 3, 4, 5, 6, 7};
    draw.shuffle(items);
    EXPECT_EQ(items, want.shuffled) << want.seed;
    EXPECT_EQ(draw.permutation(8), want.permutation) << want.seed;
    for (int i = 0; i < 10'000; ++i) draw.next();
    EXPECT_EQ(draw.next(), want.after_10000_more) << want.seed;
  }
}

}  // namespace go_random_test
}  // namespace qm::placement::openb
