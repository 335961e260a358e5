#include "print.hpp"

#include "qm/base/assert.hpp"
#include "table.hpp"
#include "yaml.hpp"

#include <google/protobuf/util/json_util.h>

#include <ostream>

namespace qm::cli {

Json to_json(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  std::string text;
  const auto written = google::protobuf::util::MessageToJsonString(message, &text, options);
  QM_ASSERT(written.ok(), "{} cannot be written as JSON: {}", message.GetTypeName(), written.ToString());
  auto parsed = Json::parse(text);
  QM_ASSERT(parsed, "protobuf wrote no JSON: {}", parsed.error().message);
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
