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

/// An answer that is no success: HTTP code, reason, text, and what a Status says of the object in `details`.
struct Answer {
  int code = 500;
  std::string reason, message;
  Json details = {};  ///< null = none
};
/// As the body of the HTTP answer.
[[nodiscard]] Json status_of(const Answer& answer);

[[nodiscard]] Answer no_such_resource();
[[nodiscard]] Answer bad_request(std::string_view why);
[[nodiscard]] Answer not_found(const Type& type, std::string_view name);
[[nodiscard]] Answer forbidden(const Type& type, std::string_view name, std::string_view why);
[[nodiscard]] Answer conflict(const Type& type, std::string_view name, std::string_view why);
[[nodiscard]] Answer already_exists(const Type& type, std::string_view name, bool is_being_deleted);
[[nodiscard]] Answer namespace_terminating(const Type& type, std::string_view name, std::string_view ns);
[[nodiscard]] Answer invalid(const Type& type, std::string_view name, const Causes& causes);

/// An option of a request that has to be one of these words, or not given: "CreateOptions", "fieldValidation".
[[nodiscard]] std::optional<Answer> check_option(std::string_view options, std::string_view name,
                                                 std::string_view given, const std::vector<std::string>& allowed);

/// What comes of the body of a write.
struct Body {
  std::optional<Answer> refused;
  std::vector<std::string> warnings;  ///< values of Warning headers
};
/// Decodes the object of a create, an update, or (`is_patched`) the result of a patch, and removes what the kind does not know.
/// `validation` is the request's fieldValidation: "Strict", "Warn", "Ignore", or empty for Warn. `schema` is that of a custom kind; null = the
/// kind is the API server's own, or nothing is known of its fields.
[[nodiscard]] Body decode_body(const Type& type, const Json* schema, bool is_patched, std::string_view validation,
                               Json& object);

}  // namespace qm::apiserver
