#pragma once
#include "qm/apiserver/answers.hpp"
#include "qm/base/json.hpp"
#include "refusal.hpp"

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
  [[nodiscard]] apiserver::Type type() const;
};

/// Every kind that the API serves, in one table. A new kind is one more line.
const std::vector<Kind>& kinds();
const Kind* find_kind(std::string_view group, std::string_view version, std::string_view plural);
/// Asserts that the kind exists; for the kinds that the fleet itself uses.
const Kind& kind_of(std::string_view plural);

/// The Status object of a refusal.
Json status_of(const Refusal& refusal);
using Refused = tl::unexpected<Refusal>;
/// Converts an answer of the API server to a refusal.
Refused refused(apiserver::Answer answer);
Refused conflict(const Kind& kind, std::string_view name, std::string_view why);
Refused bad_request(std::string_view why);
Refused expired(std::string_view why);
/// The refusal of a list or watch from `wanted` if only `current` has been reached.
Refused too_large(std::uint64_t wanted, std::uint64_t current);

/// Sets the API server's defaults on create, and refuses what the API server refuses. Only the subset that the suite
/// needs: pods, jobs, all metadata, and the schemas of custom kinds (definitions.hpp).
Answered<void> prepare_create(const Kind& kind, Json& object);
/// Refuses changes of immutable fields, and applies the rules of prepare_create to metadata, jobs and custom kinds.
Answered<void> check_update(const Kind& kind, const Json& before, const Json& after);

}  // namespace qm::fleet
