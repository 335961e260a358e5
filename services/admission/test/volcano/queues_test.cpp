// Trees of queues, and amounts.
#include "qm/admission/volcano/queues.hpp"

#include <gtest/gtest.h>

namespace qm::admission::volcano {
namespace queues_test {

Queue queue(std::string name, std::string parent = {}) {
  Queue out;
  out.name = std::move(name);
  out.parent = std::move(parent);
  return out;
}

TEST(VolcanoQueues, AreNumberedByDepthAndNameInAnyOrder) {
  const auto one = Queues::plant({queue("b"), queue("a"), queue("deep", "b")}, {96});
  const auto other = Queues::plant({queue("deep", "b"), queue("a"), queue("b")}, {96});
  ASSERT_TRUE(one && other);
  for (const auto* queues : {&*one, &*other}) {
    ASSERT_EQ(queues->size(), 4);
    EXPECT_EQ((*queues)[0].name, "root");
    EXPECT_EQ((*queues)[1].name, "a");
    EXPECT_EQ((*queues)[2].name, "b");
    EXPECT_EQ((*queues)[3].name, "deep");
    EXPECT_EQ(queues->leaves(), (std::vector<QueueId>{1, 3}));
    EXPECT_EQ(queues->ancestors(3), (std::vector<QueueId>{0, 2}));
    EXPECT_EQ(queues->ancestor(3, 1), 2);
    EXPECT_EQ(queues->ancestor(3, 2), std::nullopt);
    EXPECT_EQ(queues->common(1, 3), 1);
    EXPECT_EQ(queues->find("deep"), 3);
    EXPECT_EQ(queues->find("shallow"), std::nullopt);
  }
}

TEST(VolcanoQueues, UsageAddsUpToRoot) {
  auto queues = *Queues::plant({queue("a"), queue("b", "a"), queue("c", "a")}, {96, 1000});
  queues.allocate(*queues.find("b"), {8, 100});
  queues.allocate(*queues.find("c"), {4, 10});
  queues.release(*queues.find("c"), {1, 0});
  EXPECT_EQ(queues.use(*queues.find("a")).allocated, (Resources{11, 110}));
  EXPECT_EQ(queues.use(0).allocated, (Resources{11, 110}));
  EXPECT_EQ(queues.use(*queues.find("b")).allocated, (Resources{8, 100}));
}

TEST(VolcanoQueues, InvalidTreeIsReported) {
  const auto lost = Queues::plant({queue("a", "nowhere")}, {1});
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().message, "the parent nowhere of queue a does not exist");
  EXPECT_EQ(lost.error().field, "spec.parent");
  const auto circle = Queues::plant({queue("a", "b"), queue("b", "a")}, {1});
  ASSERT_FALSE(circle);
  EXPECT_EQ(circle.error().message, "queue a is below itself");
  const auto twice = Queues::plant({queue("a"), queue("a")}, {1});
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().message, "there are two queues a");
  Queue root = queue("root");
  root.capability = {5};
  EXPECT_EQ((*Queues::plant({root}, {9}))[0].capability, Resources{5}) << "a root that is given is taken";
}

TEST(VolcanoResources, SharesAreComparedExactly) {
  EXPECT_LT((Share{1, 3}), (Share{1'000'000'000'000'000'001, 3'000'000'000'000'000'000}));
  EXPECT_EQ((Share{2, 6}), (Share{1, 3}));
  EXPECT_GT((Share{kUnlimited, 1}), (Share{kUnlimited - 1, 1}));
  EXPECT_EQ(dominant({3, 50}, {12, 100}), (Share{1, 2}));
  EXPECT_EQ(dominant({3, 50}, {12, 0}), (Share{1, 4})) << "no share of a resource without capacity";
  EXPECT_EQ(dominant({3}, {0}), (Share{0, 1}));
  EXPECT_EQ(beyond({9, 9, 9}, {8, 9, 8}, {1, 1, 0}), (std::vector<std::size_t>{0}));
  EXPECT_EQ(sum({1, kUnlimited}, {2, 5}), (Resources{3, kUnlimited}));
  EXPECT_EQ(rest({1, 5}, {2, 1}), (Resources{0, 4}));
  EXPECT_FALSE(in_common({1, 0}, {0, 1}));
}

}  // namespace queues_test
}  // namespace qm::admission::volcano
