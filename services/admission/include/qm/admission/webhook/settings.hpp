#pragma once
#include "qm/admission/webhook/certificates.hpp"
#include "qm/admission/webhook/registration.hpp"
#include "qm/admission/webhook/server.hpp"
#include "qm/admission_policy/policy.hpp"
#include "qm/settings/table.hpp"

namespace qm::admission::webhook {

/// Settings of the webhook, and the policy, which `qmctl admit` and Submit apply without a webhook too.
struct WebhookSettings {
  bool serves = false;  ///< an address is configured
  ServerOptions server;
  Registration registration;
  admission_policy::Settings policy;
  KeeperOptions keeper;
};

/// The table of the settings. The file of a policy is read first; the other settings override it.
[[nodiscard]] const settings::Table<WebhookSettings>& settings_table();

/// Fills in what follows from the settings: the own namespace is excluded, its accounts may do what admission decides,
/// and the certificate has the names of the registration.
void complete(WebhookSettings& settings);

}  // namespace qm::admission::webhook
