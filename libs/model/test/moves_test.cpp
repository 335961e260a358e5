#include "qm/model/moves.hpp"

#include <gtest/gtest.h>

namespace qm {
namespace moves_test {

TEST(Moves, UnmovedPodsKeepTheirPlace) {
  EXPECT_FALSE(stays_where_it_is("Job", {}));
  EXPECT_FALSE(stays_where_it_is("PyTorchJob", {{"app", "train"}}));
  EXPECT_TRUE(stays_where_it_is("Pod", {})) << "no controller creates it again";
  EXPECT_TRUE(stays_where_it_is("PodGroup", {}));
  EXPECT_TRUE(stays_where_it_is("Job", {{"quartermaster.dev/movable", "false"}}));
  EXPECT_FALSE(stays_where_it_is("Job", {{"quartermaster.dev/movable", "true"}}));
  EXPECT_TRUE(stays_where_it_is("Job", {{"volcano.sh/preemptable", "false"}}));
  EXPECT_TRUE(stays_where_it_is("Job", {{"karpenter.sh/do-not-disrupt", "true"}}));
}

}  // namespace moves_test
}  // namespace qm
