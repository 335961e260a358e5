#pragma once
#include "qm/admission/webhook/certificates.hpp"
#include "qm/admission/webhook/registration.hpp"
#include "qm/admission/webhook/server.hpp"
#include "qm/admission_policy/policy.hpp"

#include <map>
#include <optional>
#include <string>

namespace qm::admission::webhook {

/// The settings of the webhook's server, by --set NAME=VALUE of qm-admission. Those of its policy are in
/// qm/admission_policy/settings.hpp.
///
///   webhook=HOST:PORT               listen address; absent = no webhook
///   webhook-service=NS/NAME[:PORT]  the Service by which the API server reaches it; NS also has the certificate
///   webhook-url=https://HOST:PORT   or its address, if the API server is not in the cluster network
///   webhook-only=KEY=VALUE          is called only for namespaces with this label
///
/// Namespaces that the policy excludes are not called for either.
struct WebhookSettings {
  ServerOptions server;
  Registration registration;
  admission_policy::Settings policy;
  KeeperOptions keeper;
};

/// Empty if no webhook is configured. kInvalid names the setting and its valid values; an unknown name that begins with
/// "webhook" is invalid too.
Result<std::optional<WebhookSettings>> read_settings(const std::map<std::string, std::string>& extra);

}  // namespace qm::admission::webhook
