#pragma once
#include "qm/base/result.hpp"

#include <google/protobuf/message.h>

#include <string>
#include <string_view>

namespace qm::wire {

/// Makes a message from outside one that can be kept: puts U+FFFD for each NUL in a string, which no column of text takes.
/// kInvalid where a name or a uid (a field of these names, at any depth) is longer than kMaxName: it becomes part of keys.
/// Cost: a pass over the fields.
Status clean(google::protobuf::Message& message);

/// A message from outside. kInvalid where the bytes are none of its kind, hold a string that is not UTF-8, or fail clean().
/// `what` begins the error.
template <class Message>
Result<Message> parse(const std::string& bytes, std::string_view what) {
  Message message;
  if (!message.ParseFromString(bytes)) {
    return fail(Error{Code::kInvalid,
                      fmt::format("{}: {} bytes are no {}", what, bytes.size(), message.GetTypeName()),
                      "payload",
                      {}});
  }
  if (auto good = clean(message); !good) return fail(good.error().with_context(std::string(what)));
  return message;
}

}  // namespace qm::wire
