#include "qm/admission/webhook/settings.hpp"

#include "qm/admission_policy/settings.hpp"
#include "qm/config/settings.hpp"

#include <charconv>
#include <utility>

namespace qm::admission::webhook {
namespace {

/// Splits "HOST:PORT"; the port is 0 where there is none.
std::pair<std::string, int> host_and_port(const std::string& text) {
  const auto colon = text.rfind(':');
  int port = 0;
  if (colon == std::string::npos || colon == 0) return {text, 0};
  const auto* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, port);
  if (error != std::errc() || rest != end || port < 0 || port > 65535) return {text, 0};
  return {text.substr(0, colon), port};
}

Status listen(const std::string& value, WebhookSettings& out) {
  const auto [host, port] = host_and_port(value);
  if (port == 0) return fail(config::wrong_setting("webhook", value, "HOST:PORT"));
  out.server.address = host;
  out.server.port = static_cast<std::uint16_t>(port);
  return {};
}

Status service(const std::string& value, WebhookSettings& out) {
  const auto slash = value.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == value.size()) {
    return fail(config::wrong_setting("webhook-service", value, "NAMESPACE/NAME or NAMESPACE/NAME:PORT"));
  }
  const auto [name, port] = host_and_port(value.substr(slash + 1));
  if (port == 0 && name.find(':') != std::string::npos)
    return fail(config::wrong_setting("webhook-service", value, "a port of 1 to 65,535"));
  out.registration.service_ns = value.substr(0, slash);
  out.registration.service = name;
  if (port != 0) out.registration.service_port = port;
  return {};
}

Status url(const std::string& value, WebhookSettings& out) {
  const auto rest = value.starts_with("https://") ? value.substr(8) : std::string();
  if (rest.empty() || rest.find('/') != std::string::npos || host_and_port(rest).second == 0) {
    return fail(config::wrong_setting("webhook-url", value, "https://HOST:PORT, without a path"));
  }
  out.registration.url = value;
  return {};
}

Status only(const std::string& value, WebhookSettings& out) {
  const auto equals = value.find('=');
  if (equals == std::string::npos || equals == 0)
    return fail(config::wrong_setting("webhook-only", value, "KEY=VALUE"));
  out.registration.only = value;
  return {};
}

using Read = Status (*)(const std::string& value, WebhookSettings& out);
constexpr std::pair<const char*, Read> kReaders[] = {
    {"webhook", listen}, {"webhook-only", only}, {"webhook-service", service}, {"webhook-url", url}};

}  // namespace

Result<std::optional<WebhookSettings>> read_settings(const std::map<std::string, std::string>& extra) {
  WebhookSettings out;
  QM_ASSIGN(out.policy, admission_policy::read_policy_settings(extra));
  for (const auto& [name, read] : kReaders) {
    if (const auto found = extra.find(name); found != extra.end()) QM_TRY(read(found->second, out));
  }
  if (!extra.contains("webhook")) return std::optional<WebhookSettings>{};
  out.registration.excluded = out.policy.excluded;
  out.keeper.ns = out.registration.service_ns;
  out.keeper.names = out.registration.names();
  return std::optional<WebhookSettings>{std::move(out)};
}

}  // namespace qm::admission::webhook
