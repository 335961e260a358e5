// Which inputs share the batch of those that follow them.
#include "little_kube.hpp"
#include "messages.hpp"
#include "qm/placement/shell.hpp"

#include <gtest/gtest.h>

namespace qm::placement {
namespace urgency_test {

namespace pb = quartermaster::v1;
using namespace testing;
using service::Source;

TEST(Urgency, OfMessagesOutcomesAndPods) {
  using service::Urgency;
  const auto workload = [](pb::WorkloadPhase phase) {
    return urgency_of(input_of(Source::kBus, "qm.workload", workload_event("a", 1, phase, 1, 1).SerializeAsString()));
  };
  EXPECT_EQ(workload(pb::QUOTA_RESERVED), Urgency::kNow);
  EXPECT_EQ(workload(pb::PENDING), Urgency::kNow);
  EXPECT_EQ(workload(pb::EVICTING), Urgency::kNow);
  for (const auto phase : {pb::ADMITTED, pb::FINISHED, pb::CANCELLED}) EXPECT_EQ(workload(phase), Urgency::kDeferred);
  EXPECT_EQ(urgency_of(input_of(Source::kBus, "qm.workload", "not a message")), Urgency::kNow);
  EXPECT_EQ(urgency_of(input_of(Source::kBus, "qm.gpu", "")), Urgency::kDeferred);
  EXPECT_EQ(urgency_of(input_of(Source::kBus, "qm.capacity", "")), Urgency::kNow);
  EXPECT_EQ(urgency_of(input_of(Source::kOutcome, "pod.bind", "")), Urgency::kDeferred);
  EXPECT_EQ(urgency_of(input_of(Source::kRequest, "Place", "")), Urgency::kNow);

  Json pod = make_pod("p", "a", 1, 0, 1);
  EXPECT_EQ(urgency_of_pod(pod), Urgency::kNow) << "it is to be bound";
  Json ended = pod;
  ended.set("status").set("phase", "Failed");
  EXPECT_EQ(urgency_of_pod(ended), Urgency::kDeferred);
  Json bound = pod;
  bound.set("spec").set("nodeName", "n1");
  EXPECT_EQ(urgency_of_pod(bound), Urgency::kDeferred);
  pod.set("deleted", true);
  EXPECT_EQ(urgency_of_pod(pod), Urgency::kDeferred);
}

}  // namespace urgency_test
}  // namespace qm::placement
