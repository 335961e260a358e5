#include "qm/base/result.hpp"

namespace qm {

std::string_view name_of(Code code) {
  switch (code) {
    case Code::kCancelled:
      return "CANCELLED";
    case Code::kUnknown:
      return "UNKNOWN";
    case Code::kInvalid:
      return "INVALID_ARGUMENT";
    case Code::kDeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case Code::kNotFound:
      return "NOT_FOUND";
    case Code::kAlreadyExists:
      return "ALREADY_EXISTS";
    case Code::kPermissionDenied:
      return "PERMISSION_DENIED";
    case Code::kExhausted:
      return "RESOURCE_EXHAUSTED";
    case Code::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case Code::kAborted:
      return "ABORTED";
    case Code::kOutOfRange:
      return "OUT_OF_RANGE";
    case Code::kUnimplemented:
      return "UNIMPLEMENTED";
    case Code::kInternal:
      return "INTERNAL";
    case Code::kUnavailable:
      return "UNAVAILABLE";
    case Code::kUnauthenticated:
      return "UNAUTHENTICATED";
  }
  return "UNKNOWN";
}

Error Error::with_context(std::string_view context) const {
  Error e = *this;
  e.message = fmt::format("{}: {}", context, message);
  return e;
}

std::string Error::to_string() const {
  std::string text = fmt::format("{}: {}", name_of(code), message);
  if (!field.empty()) text += fmt::format(" (field {})", field);
  if (!remedy.empty()) text += fmt::format("; {}", remedy);
  return text;
}

}  // namespace qm
