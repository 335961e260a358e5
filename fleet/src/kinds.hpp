#pragma once
#include "qm/base/json.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::fleet {

/// One resource of the served API.
struct Kind {
  std::string group, version, plural, kind;
  bool namespaced = true;
  bool status = false;  ///< has a status subresource: the main endpoint cannot change status
  [[nodiscard]] std::string api_version() const { return group.empty() ? version : group + "/" + version; }
  /// "jobs.batch", as error messages name it.
  [[nodiscard]] std::string qualified() const { return group.empty() ? plural : plural + "." + group; }
};

/// Every kind that the API serves, in one table. Adding a kind is adding a line.
const std::vector<Kind>& kinds();
const Kind* find_kind(std::string_view group, std::string_view version, std::string_view plural);
/// Asserts that it exists; for the kinds that the fleet itself works with.
const Kind& kind_of(std::string_view plural);

/// A refusal as the API answers it.
struct ApiError {
  int code = 500;
  std::string reason, message;
  std::string field;                  ///< of the cause, for 422
  [[nodiscard]] Json status() const;  ///< the Status object
};
ApiError not_found(const Kind& kind, std::string_view name);
ApiError conflict(const Kind& kind, std::string_view name, std::string_view why);
ApiError invalid(const Kind& kind, std::string_view name, std::string_view field, std::string_view why);
ApiError bad_request(std::string_view why);
ApiError expired(std::string_view why);

/// Fills in what the API server defaults on create and refuses what it refuses. The subset that the
/// suite relies on: pods, jobs, and names everywhere.
std::optional<ApiError> prepare_create(const Kind& kind, Json& object);
/// Refuses changes of immutable fields.
std::optional<ApiError> check_update(const Kind& kind, const Json& before, const Json& after);

}  // namespace qm::fleet
