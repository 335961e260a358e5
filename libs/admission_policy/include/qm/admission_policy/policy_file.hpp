#pragma once
#include "qm/admission_policy/policy.hpp"
#include "qm/base/result.hpp"

#include <string>

namespace qm::admission_policy {

/// Reads a policy in YAML: modes of rules, and their facts about the cluster. docs/policies.md has every field.
///
///   apiVersion: policy.quartermaster.dev/v1alpha1
///   kind: WebhookPolicy
///   spec: {mode, rules, requiredLabels, taint, pools, gangs, priorities, namespaces, compliance}
///
/// Fields of the file replace those of `settings`; omitted fields do not change. A file with an error has no effect.
///
/// Fails    kInvalid: "FILE:LINE: FIELD: what is wrong", with a valid value. All errors of the file are reported.
/// Bounds   libs/config's: 1 MiB, depth 64.
Status read_policy(const std::string& text, const std::string& file, Settings& settings);
Status read_policy_file(const std::string& path, Settings& settings);

}  // namespace qm::admission_policy
