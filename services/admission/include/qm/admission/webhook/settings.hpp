#pragma once
#include "qm/admission/webhook/certificates.hpp"
#include "qm/admission/webhook/policy.hpp"
#include "qm/admission/webhook/registration.hpp"
#include "qm/admission/webhook/server.hpp"

#include <map>
#include <optional>
#include <string>

namespace qm::admission::webhook {

/// All settings of the webhook, by --set NAME=VALUE of qm-admission.
///
///   webhook=HOST:PORT               listen address; absent = no webhook
///   webhook-service=NS/NAME[:PORT]  the Service by which the API server reaches it; NS also has the certificate
///   webhook-url=https://HOST:PORT   or its address, if the API server is not in the cluster network
///   webhook-only=KEY=VALUE          is called only for namespaces with this label
///   webhook-exclude=NS,...          namespaces without calls, in addition to kube-* and its own
///   webhook-own=USER,...            users that may do manually what admission decides; its own service accounts may
///   webhook-controllers=USER,...    service accounts of the controllers of JobSets, PyTorchJobs and others: what
///                                   they create is part of the workload that owns it; full names,
///                                   system:serviceaccount:NAMESPACE:NAME
///   webhook-policy-file=PATH        modes of rules and facts about the cluster (policy_file.hpp); the settings below
///                                   override it
///   webhook-policy=MODE             enforce (default), warn, mutate or off, in namespaces without a mode
///   webhook-rules=RULE:MODE,...     the same for single rules
///   webhook-labels=KEY[=A|B],...    labels that GPU pods must have
///   webhook-gate-pods=true|false    false: pods are not gated, only Jobs are held
///   webhook-scheduler=NAME          set on managed workloads; "none" keeps the scheduler that they name
struct WebhookSettings {
  ServerOptions server;
  Registration registration;
  Settings policy;
  KeeperOptions keeper;
};

/// The names of the settings.
[[nodiscard]] std::vector<std::string_view> setting_names();

/// Empty if no webhook is configured. kInvalid names the setting and its valid values; an unknown name that begins with
/// "webhook" is invalid too.
Result<std::optional<WebhookSettings>> read_settings(const std::map<std::string, std::string>& extra);

/// The policy of these settings, also without a configured webhook: the one that `qmctl admit` and Submit apply.
Result<Settings> read_policy(std::map<std::string, std::string> extra);

}  // namespace qm::admission::webhook
