#include "qm/wire/parse.hpp"

#include "qm/base/text.hpp"
#include "quartermaster/v1/options.pb.h"

#include <google/protobuf/descriptor.h>

#include <unordered_map>
#include <vector>

namespace qm::wire {
namespace {

namespace pb = quartermaster::v1;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

/// The kind in the field's declaration; for the two fields of a map's entry, that of the map.
pb::Text::Kind kind_of(const FieldDescriptor* field) {
  const auto* type = field->containing_type();
  if (!type->options().map_entry()) return field->options().GetExtension(pb::text);
  // A map's field and its entry are declared in one message, and the name of an entry is derived from the field's.
  const auto* owner = type->containing_type();
  for (int i = 0; i < owner->field_count(); ++i) {
    const auto& options = owner->field(i)->options();
    if (owner->field(i)->message_type() == type)
      return options.GetExtension(field == type->map_key() ? pb::map_key : pb::text);
  }
  return pb::Text::UNSPECIFIED;
}

Status check(const FieldDescriptor* field, pb::Text::Kind kind, std::string_view value) {
  std::size_t most = 0;
  switch (kind) {
    case pb::Text::REQUEST_ID:
      return check_request_id(value);
    case pb::Text::KEY:
      return check_key("field " + field->full_name(), value);
    case pb::Text::NAME:
      most = kMaxName;
      break;
    case pb::Text::DOCUMENT:
      most = kMaxDocument;
      break;
    default:
      most = kMaxText;
  }
  if (value.size() <= most) return {};
  return fail(Code::kInvalid, "field {} has {} bytes, at most {} are allowed", field->full_name(), value.size(), most);
}

/// The fields of a type that hold text, bytes or messages: looked up once for each type and thread.
struct Fields {
  struct Bounded {
    const FieldDescriptor* field;
    pb::Text::Kind kind;
  };
  std::vector<Bounded> texts;
  std::vector<const FieldDescriptor*> messages;
};
const Fields& fields_of(const Descriptor* type) {
  thread_local std::unordered_map<const Descriptor*, Fields> known;
  const auto [it, fresh] = known.try_emplace(type);
  if (!fresh) return it->second;
  for (int i = 0; i < type->field_count(); ++i) {
    const auto* field = type->field(i);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) it->second.messages.push_back(field);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) it->second.texts.push_back({field, kind_of(field)});
  }
  return it->second;
}

Status clean_text(Message& message, const Fields::Bounded& text, int index) {
  const auto* reflection = message.GetReflection();
  const auto* field = text.field;
  std::string scratch;
  const auto& value = index < 0 ? reflection->GetStringReference(message, field, &scratch)
                                : reflection->GetRepeatedStringReference(message, field, index, &scratch);
  QM_TRY(check(field, text.kind, value));
  if (field->type() == FieldDescriptor::TYPE_BYTES || is_text(value)) return {};
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
