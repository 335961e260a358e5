#include "qm/wire/parse.hpp"

#include "qm/base/text.hpp"
#include "quartermaster/v1/admission_service.pb.h"
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

/// The error of parsing the message; empty if it was parsed.
template <class Message>
std::string error_of(const Message& message) {
  const auto parsed = parse<Message>(message.SerializeAsString(), "message");
  return parsed ? "" : parsed.error().message;
}

// The bound is that of the declaration, whatever the name of the field: each kind of text, in map keys and values
// and in bytes.
TEST(Parse, RefusesWhatIsBeyondTheBoundOfItsField) {
  pb::CheckpointAck ack;
  ack.set_order_id(std::string(kMaxName + 1, 'o'));
  EXPECT_EQ(error_of(ack),
            "message: field quartermaster.v1.CheckpointAck.order_id has 513 bytes, at most 512 are allowed");

  pb::NodeReport report;
  (*report.mutable_annotations())["a"] = std::string(kMaxText, 'x');
  EXPECT_EQ(error_of(report), "");
  (*report.mutable_annotations())["a"] += 'x';
  EXPECT_EQ(
      error_of(report),
      "message: field quartermaster.v1.NodeReport.AnnotationsEntry.value has 1048577 bytes, at most 1048576 are allowed");
  report.Clear();
  (*report.mutable_labels())[std::string(kMaxName + 1, 'k')] = "v";
  EXPECT_EQ(error_of(report),
            "message: field quartermaster.v1.NodeReport.LabelsEntry.key has 513 bytes, at most 512 are allowed");

  pb::CancelRequest cancel;
  cancel.set_request_id("a\tb");
  EXPECT_EQ(error_of(cancel), "message: byte 1 of the request id is 0x09, which is not a printable ASCII character");

  pb::SnapshotRequest snapshot;
  snapshot.set_key(std::string(kMaxKey + 1, 'k'));
  EXPECT_EQ(error_of(snapshot),
            "message: field quartermaster.v1.SnapshotRequest.key has 1025 bytes, at most 1024 are allowed");

  pb::Envelope envelope;
  envelope.set_payload(std::string(kMaxText + 1, '\0'));
  EXPECT_EQ(error_of(envelope), "") << "bytes may hold a NUL";
  envelope.set_payload(std::string(kMaxDocument + 1, '\0'));
  EXPECT_EQ(error_of(envelope),
            "message: field quartermaster.v1.Envelope.payload has 16777217 bytes, at most 16777216 are allowed");
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
