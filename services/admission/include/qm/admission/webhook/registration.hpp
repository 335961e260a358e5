#pragma once
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"
#include "qm/kube/client.hpp"

#include <set>
#include <string>
#include <vector>

namespace qm::admission::webhook {

/// How the API server reaches us and what it asks about.
struct Registration {
  std::string name = "quartermaster";  ///< of both configurations
  std::string url;                     ///< "https://HOST:PORT"; empty = by the service
  std::string service_ns = "quartermaster-system", service = "quartermaster-admission-webhook";
  int service_port = 443;
  int timeout_seconds = 2;
  std::string only;  ///< "KEY=VALUE": ask only about namespaces with this label; empty = about all
  std::set<std::string> excluded{"kube-system", "kube-public", "kube-node-lease"};  ///< namespaces never asked about

  /// The names that the certificate must bear.
  [[nodiscard]] std::vector<std::string> names() const;
};

/// The two configurations, whole. docs/adr/0011-webhooks.md says why they are as they are: namespaces with the label
/// quartermaster.dev/webhook=required refuse what we cannot be asked about and have what is created judged last of all;
/// the others take it, and need no second call where /mutate had nothing to object to.
[[nodiscard]] Json mutating_configuration(const Registration& registration, const std::string& bundle);
[[nodiscard]] Json validating_configuration(const Registration& registration, const std::string& bundle);

/// Sees to it that both configurations exist and trust the bundle. Those that we made (label
/// app.kubernetes.io/managed-by=quartermaster) are kept as they should be in whole; of those that others made, as a
/// chart does, only the caBundle of each webhook is ours.
///
/// Fails    as the client; kAborted where somebody else wrote meanwhile: look again.
Status enrol(kube::Client& client, const Registration& registration, const std::string& bundle);

inline constexpr std::string_view kRequiredLabel = "quartermaster.dev/webhook";

}  // namespace qm::admission::webhook
