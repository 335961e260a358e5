#include "qm/topology/tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qm::topology {
namespace tree_test {

using Rows = std::vector<std::vector<std::string>>;
using ::testing::ElementsAre;

const Rows kRows{{"b2", "r1", "x5"}, {"b1", "r2", "x3"}, {"b1", "r1", "x9"}, {"b1", "r1", "x2"}, {"b2", "r1", "x4"}};

TEST(Tree, DomainsOfALevelAreInTheOrderOfTheirValues) {
  const Tree tree({"block", "rack", "host"}, kRows);
  ASSERT_EQ(tree.size(), 2 + 3 + 5);
  std::vector<std::string> leaves;
  for (DomainId d = tree.leaves().begin; d < tree.leaves().end; ++d) leaves.push_back(tree.value(d));
  EXPECT_THAT(leaves, ElementsAre("x2", "x9", "x3", "x4", "x5"));
  EXPECT_THAT(tree.values(tree.leaf_of_row(0)), ElementsAre("b2", "r1", "x5"));
}

TEST(Tree, ChildrenFollowOneAnother) {
  const Tree tree({"block", "rack", "host"}, kRows);
  const DomainRange blocks = tree.at(0);
  ASSERT_EQ(blocks.size(), 2);
  EXPECT_EQ(tree.children(blocks.begin).size(), 2);
  EXPECT_EQ(tree.children(blocks).size(), 3);
  EXPECT_EQ(tree.leaves_of(blocks.begin).size(), 3);
  EXPECT_EQ(tree.leaves_of(blocks.end - 1).begin, tree.leaves().begin + 3);
  for (DomainId d = 0; d < tree.size(); ++d) {
    const auto children = tree.children(d);
    for (DomainId c = children.begin; c < children.end; ++c) EXPECT_EQ(tree.parent(c), d);
    EXPECT_EQ(tree.ancestor(d, tree.level(d)), d);
  }
  EXPECT_EQ(tree.ancestor(tree.leaves().begin, 0), blocks.begin);
  EXPECT_EQ(tree.parent(blocks.begin), kNoDomain);
}

TEST(Tree, ALeafIsFoundByAllItsValues) {
  const Tree tree({"block", "rack", "host"}, kRows);
  for (std::size_t i = 0; i < kRows.size(); ++i) EXPECT_EQ(tree.find_leaf(kRows[i]), tree.leaf_of_row(i));
  EXPECT_EQ(tree.find_leaf(std::vector<std::string>{"x5"}), kNoDomain);
  EXPECT_EQ(tree.find_leaf(std::vector<std::string>{"b1", "r1", "x5"}), kNoDomain);
  EXPECT_EQ(tree.find_leaf(std::vector<std::string>{"b3", "r1", "x5"}), kNoDomain);
}

TEST(Tree, AHostIsFoundByItsNameAlone) {
  const Tree tree({"block", "rack", std::string(kHostnameLabel)}, kRows);
  EXPECT_EQ(tree.find_leaf(std::vector<std::string>{"x5"}), tree.leaf_of_row(0));
  EXPECT_EQ(tree.find_leaf(kRows[0]), kNoDomain);
  EXPECT_EQ(tree.find_leaf(std::vector<std::string>{"x6"}), kNoDomain);
}

TEST(Tree, OfOneHostnameTheFirstRowSetsItsParent) {
  const Rows rows{{"b2", "x1"}, {"b1", "x1"}, {"b1", "x2"}};
  const Tree tree({"block", std::string(kHostnameLabel)}, rows);
  EXPECT_EQ(tree.leaves().size(), 2);
  EXPECT_EQ(tree.leaf_of_row(1), tree.leaf_of_row(0));
  EXPECT_THAT(tree.values(tree.leaf_of_row(1)), ElementsAre("b2", "x1"));
}

TEST(Tree, WithoutRowsItStillKnowsItsLevels) {
  const Tree tree({"block", "rack"}, {});
  EXPECT_EQ(tree.size(), 0);
  EXPECT_EQ(tree.level_of("rack"), 1);
  EXPECT_EQ(tree.level_of("row"), std::nullopt);
  EXPECT_EQ(tree.find_leaf(std::vector<std::string>{"b1", "r1"}), kNoDomain);
}

}  // namespace tree_test
}  // namespace qm::topology
