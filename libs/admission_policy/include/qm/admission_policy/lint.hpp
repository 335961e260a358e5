#pragma once
#include "qm/admission_policy/policy.hpp"
#include "qm/base/json.hpp"

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace qm::admission_policy {

/// Additional facts for linting manifests.
struct LintContext {
  std::optional<std::set<std::string>> services = std::nullopt;  ///< in the namespace; unset = unknown
};

/// Finds what is valid but will not work as intended:
///   - MPIJob slots that do not add up;
///   - gang replicas that cannot reach the checkpoints;
///   - an index without Indexed mode;
///   - a master name without a Service;
///   - templates of another language;
///   - tolerations where none are read;
///   - tensor parallelism over more GPUs than there are.
///
/// The message of a finding begins with a stable code in capitals.
/// Threads  any; reads only its arguments.
void lint(const Json& object, const LintContext& context, std::vector<Finding>& out);
[[nodiscard]] std::vector<Finding> lint(const Json& object, const LintContext& context = {});

}  // namespace qm::admission_policy
