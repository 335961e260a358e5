#pragma once
#include <fmt/format.h>
#include <tl/expected.hpp>

#include <string>
#include <string_view>
#include <utility>

namespace qm {

/// The kind of an error, coarse enough to act on. The names and numbers follow google.rpc.Code.
enum class Code {
  kCancelled = 1,
  kUnknown = 2,  ///< the outcome is not known: the operation may or may not have happened
  kInvalid = 3,  ///< the input is invalid, independent of the state
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kExhausted = 8,           ///< a bound is reached; retry later
  kFailedPrecondition = 9,  ///< the state does not allow the operation (stale version, wrong epoch)
  kAborted = 10,            ///< lost a race; retry from the start
  kOutOfRange = 11,         ///< the requested position is no longer or not yet available
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,  ///< the other side is unavailable; retryable unchanged
  kUnauthenticated = 16,
};

std::string_view name_of(Code code);

/// An operating failure or a refusal: what happened, to which object, and what to do.
///
/// `message` is a complete sentence for a user. `field` is the invalid input (a path such as
/// "spec.podSets[0].count"). `remedy` is the action that solves the problem. The last two are empty where they do not
/// apply.
struct Error {
  Code code = Code::kInternal;
  std::string message;
  std::string field;
  std::string remedy;

  /// True if the same call may succeed later unchanged.
  [[nodiscard]] bool retryable() const {
    return code == Code::kUnavailable || code == Code::kAborted || code == Code::kExhausted ||
           code == Code::kDeadlineExceeded;
  }
  /// The same error with "context: " before its message, unless the message names it already.
  [[nodiscard]] Error with_context(std::string_view context) const;
  /// One line: code, message, field, remedy.
  [[nodiscard]] std::string to_string() const;
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

/// Creates the error of any Result: `return fail(Code::kNotFound, "queue {} does not exist", name);`
template <class... Args>
[[nodiscard]] tl::unexpected<Error> fail(Code code, fmt::format_string<Args...> text, Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(text, std::forward<Args>(args)...), {}, {}});
}
[[nodiscard]] inline tl::unexpected<Error> fail(Error error) { return tl::unexpected<Error>(std::move(error)); }

}  // namespace qm

/// `QM_TRY(expr)`: returns the error of a Result or Status to the caller.
#define QM_TRY(expr)                                                          \
  do {                                                                        \
    if (auto&& qm_try_result = (expr); !qm_try_result)                        \
      return ::tl::unexpected<::qm::Error>(std::move(qm_try_result).error()); \
  } while (false)

#define QM_CONCAT_(a, b) a##b
#define QM_CONCAT(a, b) QM_CONCAT_(a, b)
/// `QM_ASSIGN(auto row, load(key));`: declares the value or returns the error.
#define QM_ASSIGN(decl, expr)                                                                 \
  auto QM_CONCAT(qm_assign_, __LINE__) = (expr);                                              \
  if (!QM_CONCAT(qm_assign_, __LINE__))                                                       \
    return ::tl::unexpected<::qm::Error>(std::move(QM_CONCAT(qm_assign_, __LINE__)).error()); \
  decl = std::move(*QM_CONCAT(qm_assign_, __LINE__))
