// Which inputs share the batch of those that follow them.
#include "qm/admission/codec.hpp"
#include "quartermaster/v1/events.pb.h"

#include <gtest/gtest.h>

namespace qm::admission {
namespace urgency_test {

namespace pb = quartermaster::v1;
using service::Input;
using service::Source;

TEST(Urgency, OfMessagesAndOutcomes) {
  using service::Urgency;
  const auto urgency = [](auto fill) {
    pb::PlacementEvent event;
    fill(event);
    Input input;
    input.source = Source::kBus;
    input.name = "qm.placement";
    input.bytes = event.SerializeAsString();
    return urgency_of(input);
  };
  const auto assignment = [&](pb::AssignmentState state) {
    return urgency([&](pb::PlacementEvent& event) { event.mutable_assignment()->set_state(state); });
  };
  EXPECT_EQ(assignment(pb::RESERVED), Urgency::kNow) << "the Job starts";
  EXPECT_EQ(assignment(pb::SHORT), Urgency::kNow);
  EXPECT_EQ(assignment(pb::EXPIRED), Urgency::kNow);
  EXPECT_EQ(assignment(pb::BOUND), Urgency::kDeferred);
  EXPECT_EQ(assignment(pb::RELEASED), Urgency::kDeferred);
  EXPECT_EQ(urgency([](pb::PlacementEvent& event) { event.mutable_eviction(); }), Urgency::kNow);
  EXPECT_EQ(urgency([](pb::PlacementEvent& event) { event.mutable_proposal(); }), Urgency::kNow);
  EXPECT_EQ(urgency([](pb::PlacementEvent& event) { event.mutable_requeue(); }), Urgency::kNow);
  Input input;
  input.source = Source::kBus;
  input.name = "qm.placement";
  input.bytes = "not a message";
  EXPECT_EQ(urgency_of(input), Urgency::kNow);
  input.name = "qm.capacity";
  EXPECT_EQ(urgency_of(input), Urgency::kDeferred);
  input.source = Source::kOutcome;
  input.name = "job.unsuspend";
  EXPECT_EQ(urgency_of(input), Urgency::kDeferred);
  input.source = Source::kRequest;
  input.name = "Submit";
  EXPECT_EQ(urgency_of(input), Urgency::kNow);
}

}  // namespace urgency_test
}  // namespace qm::admission
