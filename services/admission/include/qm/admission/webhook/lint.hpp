#pragma once
#include "qm/admission/webhook/policy.hpp"
#include "qm/base/json.hpp"

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace qm::admission::webhook {

/// What else is known while manifests are looked at.
struct LintContext {
  std::optional<std::set<std::string>> services = std::nullopt;  ///< in the namespace; unset = it is not known
};

/// What is allowed and still will not do what its author means: slots of an MPIJob that do not add up, replicas of a gang of
/// which some cannot reach the checkpoints, an index without Indexed mode, a master's name that nothing answers to, templates
/// of another language, tolerations where none are read, tensors split over more GPUs than there are.
///
/// A finding's message begins with a code in capitals, which does not change.
/// Threads  any; reads only its arguments.
void lint(const Json& object, const LintContext& context, std::vector<Finding>& out);
[[nodiscard]] std::vector<Finding> lint(const Json& object, const LintContext& context = {});

}  // namespace qm::admission::webhook
