#pragma once
#include "qm/base/result.hpp"

#include <google/protobuf/message.h>

#include <string>
#include <string_view>

namespace qm::wire {

/// Makes an external message storable: replaces each NUL in its strings by U+FFFD. kInvalid if a string, bytes field
/// or map key at any depth exceeds the bound of its declaration, option `text` or `map_key` of
/// quartermaster/v1/options.proto.
///
/// Threads  any, one for each message.
/// Cost     a pass over the fields.
Status clean(google::protobuf::Message& message);

/// Parses an external message. kInvalid if the bytes are not of its type, have a string that is not UTF-8, or fail
/// clean(). `what` begins the error.
template <class Message>
Result<Message> parse(const std::string& bytes, std::string_view what) {
  Message message;
  if (!message.ParseFromString(bytes)) {
    return fail(Error{Code::kInvalid,
                      fmt::format("{}: {} bytes are not a {}", what, bytes.size(), message.GetTypeName()),
                      "payload",
                      {}});
  }
  if (auto good = clean(message); !good) return fail(good.error().with_context(std::string(what)));
  return message;
}

}  // namespace qm::wire
