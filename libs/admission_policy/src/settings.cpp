#include "qm/admission_policy/settings.hpp"

#include "qm/admission_policy/policy_file.hpp"
#include "qm/config/names.hpp"
#include "qm/config/settings.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::admission_policy {
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

using Read = Status (*)(const std::string& value, Settings& out);

Status exclude(const std::string& value, Settings& out) {
  for (auto& ns : split(value, ',')) out.excluded.insert(std::move(ns));
  return {};
}

Status own(const std::string& value, Settings& out) {
  for (auto& user : split(value, ',')) out.own_users.insert(std::move(user));
  return {};
}

Status controllers(const std::string& value, Settings& out) {
  for (auto& user : split(value, ',')) {
    if (!user.starts_with("system:serviceaccount:") || std::ranges::count(user, ':') != 3 || user.ends_with(':') ||
        user.ends_with('*')) {
      return fail(config::wrong_setting("webhook-controllers", user,
                                        "whole names of service accounts: system:serviceaccount:NAMESPACE:NAME"));
    }
    out.controllers.insert(std::move(user));
  }
  return {};
}

Status policy_file(const std::string& path, Settings& out) { return read_policy_file(path, out); }

constexpr const char* kModes = "enforce, warn, mutate or off";

Status policy(const std::string& value, Settings& out) {
  const auto mode = mode_of(value);
  if (!mode) return fail(config::wrong_setting("webhook-policy", value, kModes));
  out.mode = *mode;
  return {};
}

Status rules(const std::string& value, Settings& out) {
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
    out.rules[name] = *mode;
  }
  return {};
}

Status labels(const std::string& value, Settings& out) {
  for (const auto& one : split(value, ',')) {
    const auto equals = one.find('=');
    RequiredLabel label{one.substr(0, equals), {}};
    if (equals != std::string::npos) label.values = split(one.substr(equals + 1), '|');
    if (config::name_fault(config::NameRule::kLabelKey, label.key))
      return fail(config::wrong_setting("webhook-labels", one, "KEY or KEY=A|B, with a valid label key"));
    out.required_labels.push_back(std::move(label));
  }
  return {};
}

Status gate_pods(const std::string& value, Settings& out) {
  if (value != "true" && value != "false")
    return fail(config::wrong_setting("webhook-gate-pods", value, "true or false"));
  out.gate_pods = value == "true";
  return {};
}

Status scheduler(const std::string& value, Settings& out) {
  out.scheduler = value == "none" ? std::string() : value;
  return {};
}

constexpr std::string_view kPolicyFile = "webhook-policy-file";
constexpr std::string_view kService = "webhook-service";

const std::map<std::string_view, Read>& readers() {
  static const std::map<std::string_view, Read> all{{"webhook-exclude", exclude},
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

Result<Settings> read_policy_settings(const std::map<std::string, std::string>& extra) {
  Settings out;
  const auto given = [&](std::string_view name) {
    const auto found = extra.find(std::string(name));
    return found == extra.end() ? nullptr : &found->second;
  };
  // The command line takes precedence over the file.
  if (const auto* path = given(kPolicyFile)) QM_TRY(policy_file(*path, out));
  if (given("webhook-labels") != nullptr) out.required_labels.clear();
  for (const auto& [name, value] : extra) {
    if (!name.starts_with("webhook") || name == kPolicyFile) continue;
    QM_TRY(config::check_setting_names({{name, value}}, webhook_setting_names()));
    if (const auto found = readers().find(name); found != readers().end()) QM_TRY(found->second(value, out));
  }
  const auto* service = given(kService);
  const std::string home = service == nullptr ? std::string(kHomeNamespace) : service->substr(0, service->find('/'));
  out.excluded.insert(home);
  out.own_users.insert(fmt::format("system:serviceaccount:{}:*", home));
  return out;
}

std::vector<std::string_view> webhook_setting_names() {
  std::vector<std::string_view> out{"webhook", kService, "webhook-url", "webhook-only"};
  for (const auto& [name, read] : readers()) out.push_back(name);
  return out;
}

}  // namespace qm::admission_policy
