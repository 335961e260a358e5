// Every value of every enum has its word: a new value fails here until its word is in the table.
#include "qm/wire/words.hpp"

#include "quartermaster/v1/admission_service.pb.h"
#include "quartermaster/v1/capacity_service.pb.h"
#include "quartermaster/v1/cost_service.pb.h"
#include "quartermaster/v1/placement_service.pb.h"
#include "quartermaster/v1/telemetry_service.pb.h"

#include <gtest/gtest.h>

#include <map>

namespace qm::wire {
namespace words_test {

namespace pb = quartermaster::v1;

using Words = std::map<std::string, std::vector<std::string>>;

void add_enums(const google::protobuf::Descriptor& type, std::vector<const google::protobuf::EnumDescriptor*>& all) {
  for (int i = 0; i < type.enum_type_count(); ++i) all.push_back(type.enum_type(i));
  for (int i = 0; i < type.nested_type_count(); ++i) add_enums(*type.nested_type(i), all);
}

/// The enums of the five services' files and of their imports from the same package.
std::vector<const google::protobuf::EnumDescriptor*> every_enum() {
  std::map<std::string, const google::protobuf::FileDescriptor*> files;
  const auto visit = [&files](const auto& self, const google::protobuf::FileDescriptor* file) -> void {
    if (!files.emplace(file->name(), file).second) return;
    for (int i = 0; i < file->dependency_count(); ++i) {
      if (file->dependency(i)->package() == "quartermaster.v1") self(self, file->dependency(i));
    }
  };
  for (const auto* message : {pb::Workload::descriptor(), pb::CapacityPlan::descriptor(), pb::Statement::descriptor(),
                              pb::Gap::descriptor(), pb::EventLine::descriptor()})
    visit(visit, message->file());
  std::vector<const google::protobuf::EnumDescriptor*> all;
  for (const auto& [name, file] : files) {
    for (int i = 0; i < file->enum_type_count(); ++i) all.push_back(file->enum_type(i));
    for (int i = 0; i < file->message_type_count(); ++i) add_enums(*file->message_type(i), all);
  }
  return all;
}

TEST(Words, EveryValueOfEveryEnumHasOne) {
  Words words;
  for (const auto* type : every_enum()) {
    if (type->full_name() == "quartermaster.v1.Text.Kind") continue;  // an option of fields, in no message
    words[type->name()] = words_of(*type);
  }
  EXPECT_EQ(words,
            (Words{{"AssignmentState", {"Reserved", "Short", "Bound", "Released", "Expired"}},
                   {"BudgetUnit", {"GpuMilliseconds", "NanoUsd"}},
                   {"CheckState", {"Pending", "Ready", "Retry", "Rejected"}},
                   {"HealthAction", {"None", "Watch", "ResetGpu", "Cordon"}},
                   {"InstanceState", {"Requested", "Running", "Stopped", "Failed"}},
                   {"NodeState", {"Ready", "NotReady", "Cordoned", "Gone"}},
                   {"WorkloadPhase",
                    {"Pending", "QuotaReserved", "Admitted", "Evicting", "Finished", "Cancelled", "Rejected"}}}));
}

TEST(Words, EachIsReadBackWhateverItsCase) {
  for (const auto* type : every_enum()) {
    for (int i = 0; i < type->value_count(); ++i) {
      const auto& value = *type->value(i);
      if (value.number() == 0) {
        EXPECT_EQ(word_of(*type, 0), "Unknown");
        EXPECT_FALSE(number_of(*type, value.name())) << value.name();
        continue;
      }
      EXPECT_EQ(number_of(*type, word_of(*type, value.number())), value.number()) << value.name();
      EXPECT_EQ(number_of(*type, value.name()), value.number()) << value.name();
    }
  }
  const auto& phases = *pb::WorkloadPhase_descriptor();
  for (const auto* text : {"QuotaReserved", "quota-reserved", "QUOTA_RESERVED", "quotareserved"})
    EXPECT_EQ(number_of(phases, text), pb::QUOTA_RESERVED) << text;
  EXPECT_FALSE(number_of(phases, ""));
  EXPECT_FALSE(number_of(phases, "Unknown"));
  EXPECT_EQ(word_of(static_cast<pb::WorkloadPhase>(77)), "77");  // a newer service may know more values
}

}  // namespace words_test
}  // namespace qm::wire
