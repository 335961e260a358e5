#include "qm/wire/parse.hpp"

#include "qm/base/text.hpp"

#include <google/protobuf/descriptor.h>

#include <vector>

namespace qm::wire {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

Status check_text(const Message& message) {
  const auto* reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const auto* field : fields) {
    const int count = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        QM_TRY(check_text(field->is_repeated() ? reflection->GetRepeatedMessage(message, field, i)
                                               : reflection->GetMessage(message, field)));
      } else if (field->type() == FieldDescriptor::TYPE_STRING) {
        std::string scratch;
        const auto& text = field->is_repeated() ? reflection->GetRepeatedStringReference(message, field, i, &scratch)
                                                : reflection->GetStringReference(message, field, &scratch);
        if (!is_text(text)) return fail(Code::kInvalid, "field {} holds a NUL byte", field->full_name());
      }
    }
  }
  return {};
}

}  // namespace qm::wire
