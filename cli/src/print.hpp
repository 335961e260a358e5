#pragma once
#include "commands.hpp"
#include "qm/base/json.hpp"

#include <google/protobuf/message.h>

#include <string>

namespace qm::cli {

/// A message as protobuf's JSON: lowerCamelCase names, every field present, 64-bit integers as strings; but enum
/// values are the words of the tables ("Ready", not "NODE_READY").
Json to_json(const google::protobuf::Message& message);
/// Writes one JSON or YAML document.
void print(const Context& context, const Json& value);
void print(const Context& context, const google::protobuf::Message& message);
/// Writes one document of a stream: a line of JSON, or a YAML document after "---".
void print_next(const Context& context, const google::protobuf::Message& message);

/// "queue      research": a line of a description; nothing if the value is empty.
void line(const Context& context, std::string_view name, std::string_view value);

}  // namespace qm::cli
