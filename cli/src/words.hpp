#pragma once
#include "qm/base/time.hpp"

#include <google/protobuf/generated_enum_reflection.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::cli {

/// How values are shown to a person, and how enum words are read back.
///
/// Ages      as kubectl shows them: "45s", "5m30s", "3h10m", "2d4h", "12d"; what lies ahead is "0s".
/// Amounts   CPU and GPU come in thousandths, memory in bytes, all else in units.
std::string age(Duration since);
std::string age(std::int64_t at_us, Instant now);  ///< empty where at_us is 0
std::string instant(std::int64_t at_us);           ///< RFC 3339; empty where it is 0
std::string thousandths(std::int64_t milli);       ///< "2", "0.25"
std::string bytes(std::int64_t n);                 ///< "96Gi", "1.5Gi", "200Mi"
std::string percent(double share);                 ///< 0..1 -> "87%"; empty where it is negative
std::string amount(std::string_view resource, std::int64_t n);
std::string gpu_hours(std::int64_t gpu_micros);  ///< three decimals, rounded half up

/// "QUOTA_RESERVED" -> "QuotaReserved"; a leading "NODE_" or the like is `prefix`.
std::string enum_word(std::string_view name, std::string_view prefix);
/// All words of an enum but the unspecified one, in their order.
std::vector<std::string> enum_words(const google::protobuf::EnumDescriptor& type, std::string_view prefix);
/// Reads a word whatever its case, with or without '-' and '_'.
std::optional<int> enum_number(const google::protobuf::EnumDescriptor& type, std::string_view prefix,
                               std::string_view word);

/// The word of one value: word_of(event.phase()), word_of(node.state(), "NODE_").
template <class Enum>
std::string word_of(Enum value, std::string_view prefix = {}) {
  const auto* found = google::protobuf::GetEnumDescriptor<Enum>()->FindValueByNumber(static_cast<int>(value));
  return found == nullptr ? std::to_string(static_cast<int>(value)) : enum_word(found->name(), prefix);
}

}  // namespace qm::cli
