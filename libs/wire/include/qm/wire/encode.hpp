#pragma once
#include <google/protobuf/message_lite.h>

#include <string>

namespace qm::wire {

/// The message as bytes, with maps in the order of their keys: equal messages have equal bytes in every process. For
/// state rows, events and intents, so that a replay of the same inputs gives the same bytes.
[[nodiscard]] std::string encode(const google::protobuf::MessageLite& message);

}  // namespace qm::wire
