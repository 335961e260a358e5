// Rows written by earlier releases.
#include "qm/placement/shell.hpp"
#include "state/placement_state.pb.h"

#include <gtest/gtest.h>

namespace qm::placement {
namespace earlier_rows_test {

TEST(Rows, PodsOfEarlierReleasesKeepTheirGpus) {
  quartermaster::placement::v1::Pod bound, waiting, other;
  for (auto* row : {&bound, &waiting, &other}) {
    row->set_uid(row == &bound ? "bound" : row == &waiting ? "waiting" : "other");
    row->set_owner("w");
    row->set_ours(row != &other);
    row->add_annotated_gpus(3);
    if (row != &waiting) row->set_node("a");
  }
  Shell shell(std::make_unique<Engine>(), Codec());
  std::vector<store::StateRow> rows;
  for (const auto* row : {&bound, &other, &waiting}) rows.push_back({"pod", row->uid(), row->SerializeAsString()});
  ASSERT_TRUE(shell.load(rows));
  const auto& pods = shell.engine().tables().pods;
  EXPECT_EQ(pods.find("bound")->planned_gpus(), std::vector<std::int32_t>{3});
  EXPECT_EQ(pods.find("bound")->facts.controller, WorkloadUid("w"));
  EXPECT_TRUE(pods.find("waiting")->planned_gpus().empty()) << "no bind wrote its annotation";
  EXPECT_TRUE(pods.find("other")->planned_gpus().empty());
}

}  // namespace earlier_rows_test
}  // namespace qm::placement
