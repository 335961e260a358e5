#pragma once
#include "qm/admission/webhook/certificates.hpp"
#include "qm/admission/webhook/policy.hpp"
#include "qm/admission/webhook/registration.hpp"
#include "qm/admission/webhook/server.hpp"

#include <map>
#include <optional>
#include <string>

namespace qm::admission::webhook {

/// Everything that can be set about the webhook, by --set NAME=VALUE of qm-admission.
///
///   webhook=HOST:PORT               where it listens; absent = there is none
///   webhook-service=NS/NAME[:PORT]  the Service by which the API server reaches it; NS also holds the certificate
///   webhook-url=https://HOST:PORT   or its address, where the API server is not in the cluster's network
///   webhook-only=KEY=VALUE          asks only about namespaces with this label
///   webhook-exclude=NS,...          more namespaces never to be asked about, beside kube-* and its own
///   webhook-own=USER,...            who else may do by hand what admission decides; its own service accounts may
///   webhook-controllers=USER,...    service accounts of the controllers of JobSets, PyTorchJobs and the like: what they make is
///                                   part of the workload that owns it; whole names, system:serviceaccount:NAMESPACE:NAME
///   webhook-policy-file=PATH        how rules are meant and what they know of the cluster (policy_file.hpp); what follows
///                                   goes before it
///   webhook-policy=MODE             enforce (default), warn, mutate or off, where the namespace is silent
///   webhook-rules=RULE:MODE,...     the same of single rules
///   webhook-labels=KEY[=A|B],...    labels that GPU pods must carry
///   webhook-gate-pods=true|false    false: pods are not gated, Jobs alone are held
///   webhook-scheduler=NAME          what managed workloads are given to; "none" leaves what they name
struct WebhookSettings {
  ServerOptions server;
  Registration registration;
  Settings policy;
  KeeperOptions keeper;
};

/// Their names.
[[nodiscard]] std::vector<std::string_view> setting_names();

/// None where no webhook is asked for. kInvalid names the setting and what it takes; a name that begins with "webhook"
/// and is not above is one, too.
Result<std::optional<WebhookSettings>> read_settings(const std::map<std::string, std::string>& extra);

/// The policy of these settings, also where no webhook is configured: what `qmctl admit` and Submit judge by.
Result<Settings> read_policy(std::map<std::string, std::string> extra);

}  // namespace qm::admission::webhook
