#include "qm/wire/words.hpp"

#include <algorithm>
#include <cctype>

namespace qm::wire {
namespace {

/// "QuotaReserved" and "quota-reserved" and "QUOTA_RESERVED" fold to the same text.
std::string folded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

/// "NODE_" of NodeState: the first part of the name if every value but 0 starts with it.
std::string_view prefix_of(const google::protobuf::EnumDescriptor& type) {
  std::string_view prefix;
  for (int i = 0; i < type.value_count(); ++i) {
    if (type.value(i)->number() == 0) continue;
    const std::string_view name = type.value(i)->name();
    if (prefix.empty()) prefix = name.substr(0, name.find('_') + 1);
    if (prefix.empty() || !name.starts_with(prefix)) return {};
  }
  return prefix;
}

std::string camel_case(std::string_view name) {
  std::string out;
  bool start = true;
  for (const char c : name) {
    if (c != '_') out += start ? c : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    start = c == '_';
  }
  return out;
}

}  // namespace

std::string word_of(const google::protobuf::EnumDescriptor& type, int number) {
  if (number == 0) return "Unknown";
  const auto* value = type.FindValueByNumber(number);
  if (value == nullptr) return std::to_string(number);
  return camel_case(std::string_view(value->name()).substr(prefix_of(type).size()));
}

std::vector<std::string> words_of(const google::protobuf::EnumDescriptor& type) {
  std::vector<std::string> out;
  for (int i = 0; i < type.value_count(); ++i) {
    if (type.value(i)->number() != 0) out.push_back(word_of(type, type.value(i)->number()));
  }
  return out;
}

std::optional<int> number_of(const google::protobuf::EnumDescriptor& type, std::string_view word) {
  for (int i = 0; i < type.value_count(); ++i) {
    const auto& value = *type.value(i);
    if (value.number() == 0) continue;
    if (folded(word_of(type, value.number())) == folded(word) || folded(value.name()) == folded(word))
      return value.number();
  }
  return std::nullopt;
}

}  // namespace qm::wire
