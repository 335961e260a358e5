#pragma once
#include "qm/base/result.hpp"

#include <string>

namespace qm::autoscaler {

/// The message of a stored row. Fails with kInternal, which names the kind.
template <class Message>
Result<Message> parsed(const std::string& bytes, const char* kind) {
  Message out;
  if (!out.ParseFromString(bytes)) return fail(Code::kInternal, "a stored {} cannot be read", kind);
  return out;
}

}  // namespace qm::autoscaler
