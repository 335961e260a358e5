#include "qm/wire/parse.hpp"

#include "quartermaster/v1/events.pb.h"

#include <gtest/gtest.h>

namespace qm::wire {
namespace parse_test {

namespace pb = quartermaster::v1;
using namespace std::string_literals;

TEST(Parse, TakesWhatIsText) {
  pb::WorkloadEvent event;
  event.mutable_spec()->set_uid("uid");
  event.mutable_spec()->set_name("line\nline");
  event.mutable_spec()->add_pod_sets()->mutable_shape()->mutable_gpu()->set_whole(8);
  const auto again = parse<pb::WorkloadEvent>(event.SerializeAsString(), "qm.workload");
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_EQ(again->SerializeAsString(), event.SerializeAsString());
}

// However deep it lies, and in fields that may come several times and in maps too.
TEST(Parse, RefusesANulInAnyStringAndNamesTheField) {
  const auto refused = [](const pb::WorkloadEvent& event) {
    const auto parsed = parse<pb::WorkloadEvent>(event.SerializeAsString(), "qm.workload");
    EXPECT_FALSE(parsed);
    return parsed ? "" : parsed.error().to_string();
  };
  pb::WorkloadEvent uid, deep, mapped;
  uid.mutable_spec()->set_uid("a\0b"s);
  EXPECT_NE(refused(uid).find("WorkloadSpec.uid"), std::string::npos) << refused(uid);
  deep.mutable_spec()->add_pod_sets()->mutable_shape()->add_tolerations()->set_key("\0"s);
  EXPECT_NE(refused(deep).find("Toleration.key"), std::string::npos) << refused(deep);
  (*mapped.mutable_spec()->add_pod_sets()->mutable_shape()->mutable_node_selector())["zone"] = "a\0"s;
  EXPECT_NE(refused(mapped).find("NodeSelectorEntry.value"), std::string::npos) << refused(mapped);
}

TEST(Parse, RefusesWhatIsNoMessageOfItsKind) {
  for (const auto& bytes : {"\xff\xff"s,
                            "\x0a\x05"
                            "ab"s}) {
    const auto parsed = parse<pb::WorkloadEvent>(bytes, "qm.workload");
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().code, Code::kInvalid);
    EXPECT_NE(parsed.error().message.find("WorkloadEvent"), std::string::npos) << parsed.error().message;
  }
}

}  // namespace parse_test
}  // namespace qm::wire
