// The API only grows: every published field, enum value and call stays unchanged. api.txt lists what was published; the
// compiled descriptors are the API of this build.
#include "qm/testing/golden.hpp"
#include "qm/testing/testing.hpp"
#include "quartermaster/v1/admission_service.pb.h"
#include "quartermaster/v1/capacity_service.pb.h"
#include "quartermaster/v1/cost_service.pb.h"
#include "quartermaster/v1/journal.pb.h"
#include "quartermaster/v1/options.pb.h"
#include "quartermaster/v1/placement_service.pb.h"
#include "quartermaster/v1/telemetry_service.pb.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace api_test {

namespace pb = quartermaster::v1;
using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::MethodDescriptor;

using Lines = std::set<std::string>;

constexpr std::string_view kPackage = "quartermaster.v1";

std::string type_of(const FieldDescriptor& field) {
  if (field.is_map()) {
    return fmt::format("map<{}, {}>", type_of(*field.message_type()->map_key()),
                       type_of(*field.message_type()->map_value()));
  }
  if (field.message_type() != nullptr) return field.message_type()->full_name();
  if (field.enum_type() != nullptr) return field.enum_type()->full_name();
  return field.type_name();
}

std::string label_of(const FieldDescriptor& field) {
  if (field.is_map()) return "map";
  if (field.is_repeated()) return "repeated";
  // Moving a field into or out of a oneof changes what the absence of it means.
  const auto* oneof = field.real_containing_oneof();
  if (oneof != nullptr) return "oneof " + oneof->name();
  return field.has_presence() && field.message_type() == nullptr ? "optional" : "singular";
}

void walk(const EnumDescriptor& type, Lines& out) {
  for (int i = 0; i < type.value_count(); ++i)
    out.insert(fmt::format("enum {} {} = {}", type.full_name(), type.value(i)->name(), type.value(i)->number()));
}

void walk(const Descriptor& type, Lines& out) {
  if (type.options().map_entry()) return;
  out.insert(fmt::format("message {}", type.full_name()));
  for (int i = 0; i < type.field_count(); ++i) {
    const auto& field = *type.field(i);
    out.insert(fmt::format("field {} {} = {} {} {}", type.full_name(), field.name(), field.number(), type_of(field),
                           label_of(field)));
  }
  for (int i = 0; i < type.enum_type_count(); ++i) walk(*type.enum_type(i), out);
  for (int i = 0; i < type.nested_type_count(); ++i) walk(*type.nested_type(i), out);
}

std::string side(const Descriptor* type, bool stream) { return (stream ? "stream " : "") + type->full_name(); }

void walk(const FileDescriptor& file, Lines& out, std::set<std::string>& seen) {
  if (file.package() != kPackage || !seen.insert(file.name()).second) return;
  for (int i = 0; i < file.message_type_count(); ++i) walk(*file.message_type(i), out);
  for (int i = 0; i < file.enum_type_count(); ++i) walk(*file.enum_type(i), out);
  for (int i = 0; i < file.service_count(); ++i) {
    const auto& service = *file.service(i);
    for (int k = 0; k < service.method_count(); ++k) {
      const MethodDescriptor& call = *service.method(k);
      out.insert(fmt::format("rpc {} ({}) returns ({})", call.full_name(),
                             side(call.input_type(), call.client_streaming()),
                             side(call.output_type(), call.server_streaming())));
    }
  }
  for (int i = 0; i < file.dependency_count(); ++i) walk(*file.dependency(i), out, seen);
}

/// All files of the package: a file that none of those below imports must be named here.
std::vector<const FileDescriptor*> roots() {
  return {pb::SubmitRequest::descriptor()->file(), pb::CapacityPlan::descriptor()->file(),
          pb::Statement::descriptor()->file(),     pb::NodeView::descriptor()->file(),
          pb::QueryRequest::descriptor()->file(),  pb::JournalBatch::descriptor()->file()};
}
Lines spoken(std::set<std::string>* files = nullptr) {
  Lines out;
  std::set<std::string> seen;
  for (const auto* file : roots()) walk(*file, out, seen);
  if (files != nullptr) *files = seen;
  return out;
}

bool is_text(const FieldDescriptor* field) { return field->cpp_type() == FieldDescriptor::CPPTYPE_STRING; }

/// Fields whose option `text` or `map_key` is missing, or is set although they contain no text.
void find_unbounded(const Descriptor& type, Lines& out) {
  if (type.options().map_entry()) return;
  for (int i = 0; i < type.field_count(); ++i) {
    const auto* field = type.field(i);
    const auto* key = field->is_map() ? field->message_type()->map_key() : nullptr;
    const auto* value = field->is_map() ? field->message_type()->map_value() : field;
    const auto& options = field->options();
    const auto is = [&](const FieldDescriptor* held, const auto& option) {
      const bool given = options.GetExtension(option) != pb::Text::UNSPECIFIED;
      return given == (held != nullptr && is_text(held));
    };
    if (!is(value, pb::text)) out.insert(field->full_name() + " (text)");
    if (!is(key, pb::map_key)) out.insert(field->full_name() + " (map_key)");
  }
  for (int i = 0; i < type.nested_type_count(); ++i) find_unbounded(*type.nested_type(i), out);
}

void find_unbounded(const FileDescriptor& file, Lines& out) {
  for (int i = 0; i < file.message_type_count(); ++i) find_unbounded(*file.message_type(i), out);
  for (int i = 0; i < file.dependency_count(); ++i) {
    if (file.dependency(i)->package() == kPackage) find_unbounded(*file.dependency(i), out);
  }
}

Lines lines_of(const std::string& text) {
  Lines out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line[0] != '#') out.insert(line);
  }
  return out;
}

/// Published lines that this build lacks or has changed.
std::vector<std::string> lost(const Lines& published, const Lines& now) {
  std::vector<std::string> out;
  std::ranges::set_difference(published, now, std::back_inserter(out));
  return out;
}

std::string path() { return std::string(QM_SOURCE_DIR) + "/tests/golden/api.txt"; }

constexpr auto kHead =
    "# Everything that package quartermaster.v1 has published: fields, enum values and calls. "
    "Lines are only added.\n"
    "# After an addition: QM_UPDATE_GOLDEN=1 build/release/bin/golden_test\n";

TEST(Api, OnlyGrows) {
  const auto now = spoken();
  const auto published = lines_of(qm::testing::read_file(path()));
  ASSERT_FALSE(published.empty()) << path() << " is missing or empty";
  const auto gone = lost(published, now);
  // An update never removes a line: every line in the file was published, and clients depend on it.
  EXPECT_TRUE(gone.empty()) << "removed or changed, which breaks clients of the published API:\n  "
                            << fmt::format("{}", fmt::join(gone, "\n  "))
                            << "\nGive a new field a new name and number, and leave the old one in place.";
  if (!gone.empty()) return;
  const auto added = lost(now, published);
  if (qm::testing::updating_golden()) {
    qm::testing::write_golden(path(), kHead + fmt::format("{}\n", fmt::join(now, "\n")));
  } else if (!added.empty()) {
    // Allowed, but not protected until it is in the file.
    std::cout << added.size() << " additions are not in api.txt yet: run this test with QM_UPDATE_GOLDEN=1\n  "
              << fmt::format("{}", fmt::join(added, "\n  ")) << '\n';
  }
}

TEST(Api, EveryFileOfThePackageIsWalked) {
  std::set<std::string> walked;
  (void)spoken(&walked);
  Lines files;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(QM_SOURCE_DIR) + "/proto/quartermaster/v1"))
    files.insert("quartermaster/v1/" + entry.path().filename().string());
  EXPECT_EQ(walked, files);
}

TEST(Api, ARemovalOrAChangeIsFound) {
  const auto now = spoken();
  ASSERT_GT(now.size(), 300U);
  for (const std::string line :
       {"field quartermaster.v1.Envelope key_version = 3 uint64 singular",
        "enum quartermaster.v1.WorkloadPhase ADMITTED = 3",
        "field quartermaster.v1.QueueState used = 6 map<string, int64> map",
        "field quartermaster.v1.CapacityEvent drain = 6 quartermaster.v1.NodeDrain oneof event",
        "rpc quartermaster.v1.Telemetry.Push (stream quartermaster.v1.AgentMessage) returns "
        "(stream "
        "quartermaster.v1.AgentOrder)"}) {
    ASSERT_TRUE(now.contains(line)) << line;
    auto without = now;
    without.erase(line);
    EXPECT_EQ(lost(now, without), std::vector<std::string>{line});
  }
  auto renumbered = now;
  renumbered.erase("field quartermaster.v1.Envelope key = 2 string singular");
  renumbered.insert("field quartermaster.v1.Envelope key = 11 string singular");
  EXPECT_EQ(lost(now, renumbered).size(), 1U);
  auto grown = now;
  grown.insert("field quartermaster.v1.Envelope region = 11 string singular");
  EXPECT_TRUE(lost(now, grown).empty());
}

// The bound of a text is declared with its field: wire::parse refuses longer texts.
TEST(Api, EveryTextFieldHasABound) {
  Lines unbounded;
  for (const auto* file : roots()) find_unbounded(*file, unbounded);
  EXPECT_TRUE(unbounded.empty()) << "add or remove the option of quartermaster/v1/options.proto:\n  "
                                 << fmt::format("{}", fmt::join(unbounded, "\n  "));
}

TEST(Api, AMissingAndAMisplacedBoundAreFound) {
  google::protobuf::FileDescriptorProto file;
  pb::Text::descriptor()->file()->CopyTo(&file);
  file.set_name("test.proto");
  file.set_package("test");
  file.clear_message_type();
  file.clear_extension();
  auto& message = *file.add_message_type();
  message.set_name("Message");
  const auto add = [&](const char* name, auto type) {
    auto& field = *message.add_field();
    field.set_name(name);
    field.set_number(message.field_size());
    field.set_type(type);
    field.set_label(google::protobuf::FieldDescriptorProto::LABEL_OPTIONAL);
    return field.mutable_options();
  };
  using Proto = google::protobuf::FieldDescriptorProto;
  add("unbounded", Proto::TYPE_STRING);
  add("bytes", Proto::TYPE_BYTES);
  add("bounded", Proto::TYPE_STRING)->SetExtension(pb::text, pb::Text::NAME);
  add("number", Proto::TYPE_INT32)->SetExtension(pb::text, pb::Text::NAME);
  add("no_map", Proto::TYPE_STRING)->SetExtension(pb::map_key, pb::Text::NAME);
  google::protobuf::DescriptorPool pool(google::protobuf::DescriptorPool::generated_pool());
  const auto* built = pool.BuildFile(file);
  ASSERT_NE(built, nullptr);
  Lines found;
  find_unbounded(*built, found);
  EXPECT_EQ(found, (Lines{"test.Message.unbounded (text)", "test.Message.bytes (text)", "test.Message.number (text)",
                          "test.Message.no_map (text)", "test.Message.no_map (map_key)"}));
}

TEST(Golden, ADifferenceNamesItsLine) {
  const qm::testing::TempDir dir;
  const auto file = dir.path() + "/a.txt";
  qm::testing::write_golden(file, "one\ntwo\n");
  if (qm::testing::updating_golden()) GTEST_SKIP() << "golden files are being written";
  EXPECT_TRUE(qm::testing::matches_golden(file, "one\ntwo\n"));
  const auto other = qm::testing::matches_golden(file, "one\n2\n");
  EXPECT_FALSE(other);
  EXPECT_NE(std::string(other.message()).find("a.txt:2: is \"2\", must be \"two\""), std::string::npos)
      << other.message();
  EXPECT_FALSE(qm::testing::matches_golden(file, "one\n"));
  EXPECT_FALSE(qm::testing::matches_golden(dir.path() + "/none.txt", "one\n"));
}

}  // namespace api_test
