#include "qm/wire/parse.hpp"

#include "qm/base/text.hpp"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

namespace qm::wire {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

bool names_something(const FieldDescriptor* field) {
  static const std::vector<std::string_view> names{
      "id",          "uid",           "name",  "namespace", "node",     "nodes",          "pod",
      "instance_id", "instance_type", "zone",  "pool",      "claim",    "gpu_uuid",       "team",
      "key",         "cluster_queue", "queue", "owner",     "workload", "reservation_id", "tenant",
      "cohort",      "resource"};
  return std::ranges::find(names, field->name()) != names.end();
}

/// The fields of a type that hold text or messages: looked up once for each type and thread.
struct Fields {
  struct Text {
    const FieldDescriptor* field;
    bool name;
  };
  std::vector<Text> texts;
  std::vector<const FieldDescriptor*> messages;
};
const Fields& fields_of(const Descriptor* type) {
  thread_local std::unordered_map<const Descriptor*, Fields> known;
  const auto [it, fresh] = known.try_emplace(type);
  if (!fresh) return it->second;
  for (int i = 0; i < type->field_count(); ++i) {
    const auto* field = type->field(i);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) it->second.messages.push_back(field);
    if (field->type() == FieldDescriptor::TYPE_STRING) it->second.texts.push_back({field, names_something(field)});
  }
  return it->second;
}

Status clean_text(Message& message, const Fields::Text& text, int index) {
  const auto* reflection = message.GetReflection();
  const auto* field = text.field;
  std::string scratch;
  const auto& value = index < 0 ? reflection->GetStringReference(message, field, &scratch)
                                : reflection->GetRepeatedStringReference(message, field, index, &scratch);
  if (text.name && value.size() > kMaxName)
    return fail(Code::kInvalid, "field {} has {} bytes, {} are taken at most", field->full_name(), value.size(),
                kMaxName);
  if (is_text(value)) return {};
  std::string cleaned;
  for (const char c : value) {
    if (c == '\0') {
      cleaned += "\xef\xbf\xbd";
    } else {
      cleaned += c;
    }
  }
  if (index < 0) {
    reflection->SetString(&message, field, cleaned);
  } else {
    reflection->SetRepeatedString(&message, field, index, cleaned);
  }
  return {};
}

}  // namespace

Status clean(Message& message) {
  const auto* reflection = message.GetReflection();
  const auto& fields = fields_of(message.GetDescriptor());
  for (const auto& text : fields.texts) {
    if (!text.field->is_repeated()) {
      if (text.field->has_presence() && !reflection->HasField(message, text.field)) continue;
      QM_TRY(clean_text(message, text, -1));
      continue;
    }
    for (int i = 0; i < reflection->FieldSize(message, text.field); ++i) QM_TRY(clean_text(message, text, i));
  }
  for (const auto* field : fields.messages) {
    if (!field->is_repeated()) {
      if (reflection->HasField(message, field)) QM_TRY(clean(*reflection->MutableMessage(&message, field)));
      continue;
    }
    for (int i = 0; i < reflection->FieldSize(message, field); ++i)
      QM_TRY(clean(*reflection->MutableRepeatedMessage(&message, field, i)));
  }
  return {};
}

}  // namespace qm::wire
