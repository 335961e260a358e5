#pragma once
#include "qm/apiserver/validation.hpp"
#include "qm/base/json.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::apiserver {

/// A resource and its kind: {"batch", "v1", "jobs", "Job"}. The core group is "".
struct Type {
  std::string_view group, version, plural, kind;
};

/// A failed request: HTTP code, reason, text, and the `details` of the Status about the object.
struct Answer {
  int code = 500;
  std::string reason, message;
  Json details = {};  ///< null = none
};
/// The body of the HTTP response.
[[nodiscard]] Json status_of(const Answer& answer);

[[nodiscard]] Answer no_such_resource();
[[nodiscard]] Answer bad_request(std::string_view why);
[[nodiscard]] Answer not_found(const Type& type, std::string_view name);
[[nodiscard]] Answer forbidden(const Type& type, std::string_view name, std::string_view why);
[[nodiscard]] Answer conflict(const Type& type, std::string_view name, std::string_view why);
[[nodiscard]] Answer already_exists(const Type& type, std::string_view name, bool is_being_deleted);
[[nodiscard]] Answer namespace_terminating(const Type& type, std::string_view name, std::string_view ns);
[[nodiscard]] Answer invalid(const Type& type, std::string_view name, const Causes& causes);

/// Checks an option of a request that must have one of these values or be absent: "CreateOptions",
/// "fieldValidation".
[[nodiscard]] std::optional<Answer> check_option(std::string_view options, std::string_view name,
                                                 std::string_view given, const std::vector<std::string>& allowed);

/// The decoded body of a write request.
struct Body {
  std::optional<Answer> refused;
  std::vector<std::string> warnings;  ///< values of Warning headers
};
/// Decodes the object of a create, an update, or (`is_patched`) the result of a patch, and removes fields unknown to
/// the kind. `validation` is the request's fieldValidation: "Strict", "Warn", "Ignore", or empty for Warn. `schema`
/// is that of a custom kind. A null `schema` means that the kind is built in, or that its fields are not known.
[[nodiscard]] Body decode_body(const Type& type, const Json* schema, bool is_patched, std::string_view validation,
                               Json& object);

}  // namespace qm::apiserver
