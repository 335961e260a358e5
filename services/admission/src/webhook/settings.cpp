#include "qm/admission/webhook/settings.hpp"

#include "qm/admission/webhook/policy_file.hpp"
#include "qm/config/names.hpp"
#include "qm/config/settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace qm::admission::webhook {
namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> out;
  for (std::size_t from = 0; from <= text.size();) {
    const auto end = std::min(text.find(at, from), text.size());
    if (end > from) out.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return out;
}

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

using Read = Status (*)(const std::string& value, WebhookSettings& out);

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

Status exclude(const std::string& value, WebhookSettings& out) {
  for (auto& ns : split(value, ',')) out.policy.excluded.insert(std::move(ns));
  return {};
}

Status own(const std::string& value, WebhookSettings& out) {
  for (auto& user : split(value, ',')) out.policy.own_users.insert(std::move(user));
  return {};
}

Status controllers(const std::string& value, WebhookSettings& out) {
  for (auto& user : split(value, ',')) {
    if (!user.starts_with("system:serviceaccount:") || std::ranges::count(user, ':') != 3 || user.ends_with(':') ||
        user.ends_with('*')) {
      return fail(config::wrong_setting("webhook-controllers", user,
                                        "whole names of service accounts: system:serviceaccount:NAMESPACE:NAME"));
    }
    out.policy.controllers.insert(std::move(user));
  }
  return {};
}

Status policy_file(const std::string& path, WebhookSettings& out) { return read_policy_file(path, out.policy); }

constexpr const char* kModes = "enforce, warn, mutate or off";

Status policy(const std::string& value, WebhookSettings& out) {
  const auto mode = mode_of(value);
  if (!mode) return fail(config::wrong_setting("webhook-policy", value, kModes));
  out.policy.mode = *mode;
  return {};
}

Status rules(const std::string& value, WebhookSettings& out) {
  for (const auto& one : split(value, ',')) {
    const auto colon = one.find(':');
    const auto name = one.substr(0, colon);
    const auto mode = colon == std::string::npos ? std::nullopt : mode_of(one.substr(colon + 1));
    if (std::ranges::find(rule_names(), name) == rule_names().end()) {
      return fail(config::wrong_setting(
          "webhook-rules", one, fmt::format("RULE:MODE with one of the rules {}", fmt::join(rule_names(), ", "))));
    }
    if (!mode)
      return fail(
          config::wrong_setting("webhook-rules", one, fmt::format("RULE:MODE with one of the modes {}", kModes)));
    out.policy.rules[name] = *mode;
  }
  return {};
}

Status labels(const std::string& value, WebhookSettings& out) {
  for (const auto& one : split(value, ',')) {
    const auto equals = one.find('=');
    RequiredLabel label{one.substr(0, equals), {}};
    if (equals != std::string::npos) label.values = split(one.substr(equals + 1), '|');
    if (config::name_fault(config::NameRule::kLabelKey, label.key))
      return fail(config::wrong_setting("webhook-labels", one, "KEY or KEY=A|B, with a valid label key"));
    out.policy.required_labels.push_back(std::move(label));
  }
  return {};
}

Status gate_pods(const std::string& value, WebhookSettings& out) {
  if (value != "true" && value != "false")
    return fail(config::wrong_setting("webhook-gate-pods", value, "true or false"));
  out.policy.gate_pods = value == "true";
  return {};
}

Status scheduler(const std::string& value, WebhookSettings& out) {
  out.policy.scheduler = value == "none" ? std::string() : value;
  return {};
}

constexpr const char* kPolicyFile = "webhook-policy-file";

const std::map<std::string, Read>& readers() {
  static const std::map<std::string, Read> all{{"webhook", listen},
                                               {"webhook-service", service},
                                               {"webhook-url", url},
                                               {"webhook-only", only},
                                               {"webhook-exclude", exclude},
                                               {"webhook-own", own},
                                               {"webhook-policy", policy},
                                               {kPolicyFile, policy_file},
                                               {"webhook-rules", rules},
                                               {"webhook-labels", labels},
                                               {"webhook-controllers", controllers},
                                               {"webhook-gate-pods", gate_pods},
                                               {"webhook-scheduler", scheduler}};
  return all;
}

}  // namespace

std::vector<std::string_view> setting_names() {
  std::vector<std::string_view> out;
  for (const auto& [name, read] : readers()) out.push_back(name);
  return out;
}

Result<std::optional<WebhookSettings>> read_settings(const std::map<std::string, std::string>& extra) {
  WebhookSettings out;
  // The command line takes precedence over the file.
  if (const auto file = extra.find(kPolicyFile); file != extra.end()) QM_TRY(policy_file(file->second, out));
  if (extra.contains("webhook-labels")) out.policy.required_labels.clear();
  for (const auto& [name, value] : extra) {
    if (!name.starts_with("webhook") || name == kPolicyFile) continue;
    QM_TRY(config::check_setting_names({{name, value}}, setting_names()));
    QM_TRY(readers().at(name)(value, out));
  }
  if (!extra.contains("webhook")) return std::optional<WebhookSettings>{};
  const auto& home = out.registration.service_ns;
  out.policy.excluded.insert(home);
  out.policy.own_users.insert(fmt::format("system:serviceaccount:{}:*", home));
  out.registration.excluded = out.policy.excluded;
  out.keeper.ns = home;
  out.keeper.names = out.registration.names();
  return std::optional<WebhookSettings>{std::move(out)};
}

Result<Settings> read_policy(std::map<std::string, std::string> extra) {
  extra.emplace("webhook", "127.0.0.1:1");  // an address for a webhook that is never started
  QM_ASSIGN(auto settings, read_settings(extra));
  return std::move(settings->policy);
}

}  // namespace qm::admission::webhook
