#pragma once
#include "qm/base/result.hpp"

#include <google/protobuf/message.h>

#include <string>
#include <string_view>

namespace qm::wire {

/// kInvalid where a string field of the message, or of one inside it, holds a NUL: no column of text takes it.
/// Cost: a pass over the fields.
Status check_text(const google::protobuf::Message& message);

/// A message from outside. kInvalid where the bytes are none of its kind, hold a string that is not UTF-8, or fail
/// check_text(). `what` begins the error.
template <class Message>
Result<Message> parse(const std::string& bytes, std::string_view what) {
  Message message;
  if (!message.ParseFromString(bytes))
    return fail(Error{Code::kInvalid,
                      fmt::format("{}: {} bytes are no {}", what, bytes.size(), message.GetTypeName()),
                      "payload",
                      {}});
  // Most messages hold no zero byte at all.
  if (bytes.find('\0') != std::string::npos) {
    if (auto good = check_text(message); !good) return fail(good.error().with_context(std::string(what)));
  }
  return message;
}

}  // namespace qm::wire
