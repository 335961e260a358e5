#pragma once
#include "qm/admission_policy/policy.hpp"
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"
#include "qm/kube/client.hpp"

#include <set>
#include <string>
#include <vector>

namespace qm::admission::webhook {

/// How the API server reaches the webhook, and for which objects it calls it.
struct Registration {
  std::string name = "quartermaster";  ///< of both configurations
  std::string url;                     ///< "https://HOST:PORT"; empty = by the service
  std::string service_ns{admission_policy::kHomeNamespace}, service = "quartermaster-admission-webhook";
  int service_port = 443;
  int timeout_seconds = 2;
  std::string only;  ///< "KEY=VALUE": only for namespaces with this label; empty = for all
  std::set<std::string> excluded{"kube-system", "kube-public", "kube-node-lease"};  ///< namespaces without calls

  /// The names that the certificate must have.
  [[nodiscard]] std::vector<std::string> names() const;
};

/// The two complete configurations. docs/adr/0011-webhooks.md explains them. Namespaces with the label
/// quartermaster.dev/webhook=required refuse objects while the webhook is not reachable, and validate each created
/// object last. The others accept them, and need no second call if /mutate had no finding.
[[nodiscard]] Json mutating_configuration(const Registration& registration, const std::string& bundle);
[[nodiscard]] Json validating_configuration(const Registration& registration, const std::string& bundle);

/// Ensures that both configurations exist and trust the bundle. Configurations that this service created (label
/// app.kubernetes.io/managed-by=quartermaster) are reconciled in full. In those of other owners, such as a chart,
/// only the caBundle of each webhook is reconciled.
///
/// Fails    as the client; kAborted after a concurrent write: call again.
Status enrol(kube::Client& client, const Registration& registration, const std::string& bundle);

}  // namespace qm::admission::webhook
