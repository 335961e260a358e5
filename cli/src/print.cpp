#include "print.hpp"

#include "qm/base/assert.hpp"
#include "qm/wire/words.hpp"
#include "table.hpp"
#include "yaml.hpp"

#include <google/protobuf/util/json_util.h>

#include <ostream>

namespace qm::cli {
namespace {

using google::protobuf::FieldDescriptor;

void replace_enum_names(const google::protobuf::Descriptor& type, Json& message);

/// One value of the field as protobuf wrote it; the value of a map is field 2 of its entry.
void replace_enum_names(const FieldDescriptor& field, Json& value) {
  if (field.enum_type() != nullptr) {
    // A number without a name is written as a number.
    const auto* named = field.enum_type()->FindValueByName(value.string());
    value = wire::word_of(*field.enum_type(), named == nullptr ? static_cast<int>(value.integer()) : named->number());
  } else if (field.message_type() != nullptr && value.is_object()) {
    replace_enum_names(*field.message_type(), value);
  }
}

void replace_enum_names(const google::protobuf::Descriptor& type, Json& message) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    Json* value = message.find(field.json_name());
    if (value == nullptr) continue;
    if (field.is_map()) {
      for (auto& [key, each] : value->members_mut()) replace_enum_names(*field.message_type()->field(1), each);
    } else if (field.is_repeated()) {
      for (auto& each : value->items_mut()) replace_enum_names(field, each);
    } else {
      replace_enum_names(field, *value);
    }
  }
}

}  // namespace

Json to_json(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  std::string text;
  const auto written = google::protobuf::util::MessageToJsonString(message, &text, options);
  QM_ASSERT(written.ok(), "{} cannot be written as JSON: {}", message.GetTypeName(), written.ToString());
  auto parsed = Json::parse(text);
  QM_ASSERT(parsed, "protobuf wrote no JSON: {}", parsed.error().message);
  replace_enum_names(*message.GetDescriptor(), *parsed);
  return std::move(*parsed);
}

void print(const Context& context, const Json& value) {
  if (context.format == Format::kYaml) {
    context.out << to_yaml(value);
  } else {
    context.out << value.pretty() << '\n';
  }
}

void print(const Context& context, const google::protobuf::Message& message) { print(context, to_json(message)); }

void print_next(const Context& context, const google::protobuf::Message& message) {
  if (context.format == Format::kYaml) {
    context.out << "---\n" << to_yaml(to_json(message));
  } else {
    context.out << to_json(message).dump() << '\n';
  }
}

void line(const Context& context, std::string_view name, std::string_view value) {
  if (!value.empty()) context.out << fmt::format("{:<10} {}\n", name, printable(value));
}

}  // namespace qm::cli
