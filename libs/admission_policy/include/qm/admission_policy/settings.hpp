#pragma once
#include "qm/admission_policy/policy.hpp"
#include "qm/base/result.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace qm::admission_policy {

/// The policy by the settings of qm-admission (--set NAME=VALUE). `qmctl admit` and Submit apply the same one, so they
/// refuse what the webhook refuses.
///
///   webhook-policy-file=PATH        modes of rules and facts about the cluster (policy_file.hpp); the settings below
///                                   override it
///   webhook-policy=MODE             enforce (default), warn, mutate or off, in namespaces without a mode
///   webhook-rules=RULE:MODE,...     the same for single rules
///   webhook-labels=KEY[=A|B],...    labels that GPU pods must have
///   webhook-exclude=NS,...          namespaces that are left alone, in addition to kube-* and that of admission
///   webhook-own=USER,...            users that may do manually what admission decides; its own service accounts may
///   webhook-controllers=USER,...    service accounts of the controllers of JobSets, PyTorchJobs and others: what
///                                   they create is part of the workload that owns it; full names,
///                                   system:serviceaccount:NAMESPACE:NAME
///   webhook-gate-pods=true|false    false: pods are not gated, only Jobs are held
///   webhook-scheduler=NAME          set on managed workloads; "none" keeps the scheduler that they name
///   webhook-service=NS/NAME[:PORT]  here only NS counts: the namespace of admission (default: kHomeNamespace)
///
/// Of the other settings of the webhook (webhook, webhook-url, webhook-only) only the names are checked; the service
/// reads them.
///
/// Fails    kInvalid names the setting and its valid values; an unknown name that begins with "webhook" is invalid too.
[[nodiscard]] Result<Settings> read_policy_settings(const std::map<std::string, std::string>& extra);

/// The names of all settings of the webhook.
[[nodiscard]] std::vector<std::string_view> webhook_setting_names();

}  // namespace qm::admission_policy
