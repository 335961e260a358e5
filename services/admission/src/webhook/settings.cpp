#include "qm/admission/webhook/settings.hpp"

#include "qm/admission_policy/settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace qm::admission::webhook {
namespace {

struct HostPort {
  std::string host;
  int port = 0;
};

/// Splits "HOST:PORT"; nullopt: there is no valid port.
std::optional<HostPort> host_port(const std::string& text) {
  const auto colon = text.rfind(':');
  int port = 0;
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  const auto* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, port);
  if (error != std::errc() || rest != end || port < 1 || port > 65535) return std::nullopt;
  return HostPort{text.substr(0, colon), port};
}

// ---- kinds of values ----

settings::Kind<HostPort> address() { return {{.allowed = "HOST:PORT", .pattern = "^.+:[0-9]+$"}, host_port, {}}; }

struct Service {
  std::string ns, name;
  std::optional<int> port;
};

settings::Kind<Service> service() {
  const auto read = [](const std::string& value) -> std::optional<Service> {
    const auto slash = value.find('/');
    if (slash == std::string::npos || slash == 0 || slash + 1 == value.size()) return std::nullopt;
    Service out{value.substr(0, slash), value.substr(slash + 1), {}};
    if (out.name.find(':') == std::string::npos) return out;
    const auto named = host_port(out.name);
    if (!named) return std::nullopt;
    return Service{out.ns, named->host, named->port};
  };
  return {{.allowed = "NAMESPACE/NAME or NAMESPACE/NAME:PORT", .pattern = "^[^/]+/[^/]+$"}, read, {}};
}

settings::Kind<std::string> url() {
  return settings::text("https://HOST:PORT, without a path", "^https://[^/]+:[0-9]+$", [](const std::string& value) {
    const auto rest = value.starts_with("https://") ? value.substr(8) : std::string();
    return rest.find('/') == std::string::npos && host_port(rest).has_value();
  });
}

settings::Kind<std::string> namespace_label() {
  return settings::text("KEY=VALUE", "^[^=]+=", [](const std::string& value) {
    const auto equals = value.find('=');
    return equals != std::string::npos && equals > 0;
  });
}

// ---- places in the settings that are not one member ----

auto listen() {
  return settings::into([](WebhookSettings& out, HostPort where) {
    out.serves = true;
    out.server.address = std::move(where.host);
    out.server.port = static_cast<std::uint16_t>(where.port);
  });
}

auto registered_service() {
  return settings::into([](WebhookSettings& out, const Service& value) {
    out.registration.service_ns = value.ns;
    out.registration.service = value.name;
    if (value.port) out.registration.service_port = *value.port;
  });
}

}  // namespace

const settings::Table<WebhookSettings>& settings_table() {
  using namespace settings;
  static const auto table =
      settings::Table<WebhookSettings>{
          {"webhook", address(), listen(), "Address that the webhook listens on; not set = there is no webhook."},
          {"webhook-service", service(), registered_service(),
           "Service by which the API server reaches the webhook; its namespace also has the certificate."},
          {"webhook-url", url(), at(&WebhookSettings::registration, &Registration::url),
           "Address of the webhook, if the API server is not in the cluster network."},
          {"webhook-only", namespace_label(), at(&WebhookSettings::registration, &Registration::only),
           "Label of the namespaces for which the webhook is called; not set = all."}}
          .with(admission_policy::settings_table(), &WebhookSettings::policy);
  return table;
}

void complete(WebhookSettings& settings) {
  const auto& home = settings.registration.service_ns;
  admission_policy::complete(settings.policy, home);
  settings.registration.excluded = settings.policy.excluded;
  settings.keeper.ns = home;
  settings.keeper.names = settings.registration.names();
}

}  // namespace qm::admission::webhook
