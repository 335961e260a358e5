#include "qm/wire/parse.hpp"

#include "qm/base/text.hpp"
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

// At any depth, in repeated fields and in maps.
TEST(Parse, PutsTheReplacementCharacterForANul) {
  pb::WorkloadEvent event;
  event.mutable_spec()->set_uid("a\0b"s);
  auto* shape = event.mutable_spec()->add_pod_sets()->mutable_shape();
  shape->add_tolerations()->set_key("\0"s);
  (*shape->mutable_node_selector())["zone"] = "a\0"s;
  const auto parsed = parse<pb::WorkloadEvent>(event.SerializeAsString(), "qm.workload");
  ASSERT_TRUE(parsed) << parsed.error().to_string();
  EXPECT_EQ(parsed->spec().uid(),
            "a\xef\xbf\xbd"
            "b");
  EXPECT_EQ(parsed->spec().pod_sets(0).shape().tolerations(0).key(), "\xef\xbf\xbd");
  EXPECT_EQ(parsed->spec().pod_sets(0).shape().node_selector().at("zone"), "a\xef\xbf\xbd");
}

TEST(Parse, RefusesANameThatIsTooLongForKeysAndTakesLongText) {
  pb::WorkloadEvent event;
  event.mutable_spec()->add_pod_sets()->set_rules(std::string(10'000, 'x'));
  EXPECT_TRUE(parse<pb::WorkloadEvent>(event.SerializeAsString(), "qm.workload"));
  event.mutable_spec()->set_namespace_(std::string(kMaxName + 1, 'n'));
  const auto parsed = parse<pb::WorkloadEvent>(event.SerializeAsString(), "qm.workload");
  ASSERT_FALSE(parsed);
  EXPECT_NE(parsed.error().message.find("WorkloadSpec.namespace has 513 bytes"), std::string::npos)
      << parsed.error().message;
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
