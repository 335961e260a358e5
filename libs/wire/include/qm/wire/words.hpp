#pragma once
#include <google/protobuf/descriptor.h>
#include <google/protobuf/generated_enum_reflection.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::wire {

/// The words of enum values in texts: tables, JSON and event lines use the same one, as Kubernetes writes phases and
/// reasons.
///
/// Words    CamelCase without the prefix that all values of the enum share: NODE_NOT_READY is "NotReady",
///          QUOTA_RESERVED is "QuotaReserved". The value 0 is "Unknown"; a number without a name (of a newer service)
///          is its digits.
/// Threads  any. Fails: never.
std::string word_of(const google::protobuf::EnumDescriptor& type, int number);
/// All words except that of the value 0, in the order of the enum: the allowed values of an option.
std::vector<std::string> words_of(const google::protobuf::EnumDescriptor& type);
/// Parses a word or a name of the proto file, case-insensitive, with or without '-' and '_'; empty if it is neither,
/// or names the value 0.
std::optional<int> number_of(const google::protobuf::EnumDescriptor& type, std::string_view word);

/// The word of one value: word_of(event.phase()).
template <class Enum>
std::string word_of(Enum value) {
  return word_of(*google::protobuf::GetEnumDescriptor<Enum>(), static_cast<int>(value));
}

}  // namespace qm::wire
