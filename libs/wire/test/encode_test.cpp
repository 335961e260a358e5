#include "qm/wire/encode.hpp"

#include "quartermaster/v1/model.pb.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace qm::wire {
namespace encode_test {

// The order in a map of protobuf depends on the process and on the insertions.
TEST(Encode, EqualMessagesHaveEqualBytes) {
  quartermaster::v1::WorkloadSpec forward, backward;
  for (int i = 0; i < 50; ++i) (*forward.mutable_labels())[fmt::format("label-{}", i)] = "value";
  for (int i = 49; i >= 0; --i) (*backward.mutable_labels())[fmt::format("label-{}", i)] = "value";
  EXPECT_EQ(encode(forward), encode(backward));
  quartermaster::v1::WorkloadSpec read;
  ASSERT_TRUE(read.ParseFromString(encode(forward)));
  EXPECT_EQ(read.labels().size(), 50);
  EXPECT_EQ(encode(quartermaster::v1::WorkloadSpec()), "");
}

}  // namespace encode_test
}  // namespace qm::wire
