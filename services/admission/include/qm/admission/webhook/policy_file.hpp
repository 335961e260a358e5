#pragma once
#include "qm/admission/webhook/policy.hpp"
#include "qm/base/result.hpp"

#include <string>

namespace qm::admission::webhook {

/// Reads a policy: how rules are meant and what they know of the cluster, as YAML. docs/policies.md has every field.
///
///   apiVersion: policy.quartermaster.dev/v1alpha1
///   kind: WebhookPolicy
///   spec: {mode, rules, requiredLabels, taint, pools, gangs, priorities, namespaces, compliance}
///
/// What it names replaces what `settings` had; what it leaves out stays. Nothing is taken of a file with an error.
///
/// Fails    kInvalid: "FILE:LINE: FIELD: what is wrong", with what would be right. All errors of the file are told.
/// Bounds   libs/config's: 1 MiB, depth 64.
Status read_policy(const std::string& text, const std::string& file, Settings& settings);
Status read_policy_file(const std::string& path, Settings& settings);

}  // namespace qm::admission::webhook
