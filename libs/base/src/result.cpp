#include "qm/base/result.hpp"

#include <cctype>

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

namespace {

/// Whether the text contains the part as a whole word or phrase.
bool mentions(std::string_view text, std::string_view part) {
  const auto inside = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-'; };
  for (auto at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) {
    const auto end = at + part.size();
    if ((at == 0 || !inside(text[at - 1])) && (end == text.size() || !inside(text[end]))) return true;
  }
  return false;
}

/// A single lowercase word may occur in a sentence by chance; a path, an address or an object does not.
bool is_name(std::string_view text) {
  return text.find_first_not_of("abcdefghijklmnopqrstuvwxyz") != std::string_view::npos;
}

}  // namespace

Error Error::with_context(std::string_view context) const {
  Error e = *this;
  // Context that the error already has is not repeated.
  const bool named =
      message.starts_with(fmt::format("{}:", context)) || (is_name(context) && mentions(message, context));
  if (!named) e.message = fmt::format("{}: {}", context, message);
  return e;
}

std::string Error::to_string() const {
  std::string text = fmt::format("{}: {}", name_of(code), message);
  if (!field.empty() && !mentions(message, field)) text += fmt::format(" (field {})", field);
  if (!remedy.empty() && !mentions(message, remedy)) text += fmt::format("; {}", remedy);
  return text;
}

}  // namespace qm
