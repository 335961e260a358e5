#include "qm/admission/webhook/settings.hpp"

#include "qm/admission/webhook/policy_file.hpp"
#include "qm/config/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace qm::admission::webhook {

namespace {

using Texts = std::set<std::string>;

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

/// A text for which `valid` is true.
settings::Kind<std::string> text_of(std::string allowed, std::string pattern, bool (*valid)(const std::string&)) {
  auto out = settings::text(std::move(allowed));
  out.form.pattern = std::move(pattern);
  out.read = [valid](const std::string& value) { return valid(value) ? std::optional(value) : std::nullopt; };
  return out;
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
  return text_of("https://HOST:PORT, without a path", "^https://[^/]+:[0-9]+$", [](const std::string& value) {
    const auto rest = value.starts_with("https://") ? value.substr(8) : std::string();
    return rest.find('/') == std::string::npos && host_port(rest).has_value();
  });
}

settings::Kind<std::string> namespace_label() {
  return text_of("KEY=VALUE", "^[^=]+=", [](const std::string& value) {
    const auto equals = value.find('=');
    return equals != std::string::npos && equals > 0;
  });
}

settings::Kind<Texts> controllers() {
  return settings::list<Texts>(
      "whole names of service accounts: system:serviceaccount:NAMESPACE:NAME", {}, [](const auto& users) {
        return std::ranges::all_of(users, [](const std::string& user) {
          return user.starts_with("system:serviceaccount:") && std::ranges::count(user, ':') == 3 &&
                 !user.ends_with(':') && !user.ends_with('*');
        });
      });
}

settings::Kind<Mode> mode() {
  return settings::choice<Mode>(
      {{"enforce", Mode::kEnforce}, {"warn", Mode::kWarn}, {"mutate", Mode::kMutate}, {"off", Mode::kOff}});
}

using Modes = std::map<std::string, Mode>;

settings::Kind<Modes> rule_modes() {
  const auto read = [](const std::string& value) -> std::optional<Modes> {
    Modes out;
    for (const auto& one : settings::split(value, ',')) {
      const auto colon = one.find(':');
      const auto name = one.substr(0, colon);
      const auto found = colon == std::string::npos ? std::nullopt : mode_of(one.substr(colon + 1));
      if (!found || std::ranges::find(rule_names(), name) == rule_names().end()) return std::nullopt;
      out[name] = *found;
    }
    return out;
  };
  return {{.type = settings::Type::kList,
           .allowed = fmt::format("RULE:MODE with one of the rules {} and one of the modes {}",
                                  fmt::join(rule_names(), ", "), mode().form.allowed)},
          read,
          {}};
}

using RequiredLabels = std::vector<RequiredLabel>;

settings::Kind<RequiredLabels> required_labels() {
  const auto read = [](const std::string& value) -> std::optional<RequiredLabels> {
    RequiredLabels out;
    for (const auto& one : settings::split(value, ',')) {
      const auto equals = one.find('=');
      RequiredLabel label{one.substr(0, equals), {}};
      if (equals != std::string::npos) label.values = settings::split(one.substr(equals + 1), '|');
      if (config::name_fault(config::NameRule::kLabelKey, label.key)) return std::nullopt;
      out.push_back(std::move(label));
    }
    return out;
  };
  return {{.type = settings::Type::kList, .allowed = "KEY or KEY=A|B, with a valid label key"}, read, {}};
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

auto policy_file() {
  return settings::into(
      [](WebhookSettings& out, const std::string& path) { return read_policy_file(path, out.policy); });
}

/// Adds to the names of the policy's file.
auto added_to(Texts Settings::*member) {
  return settings::into([member](WebhookSettings& out, Texts names) { (out.policy.*member).merge(names); });
}

auto modes_of_rules() {
  return settings::into([](WebhookSettings& out, const Modes& modes) {
    for (const auto& [rule, mode] : modes) out.policy.rules[rule] = mode;
  });
}

auto scheduler() {
  return settings::Property{
      [](const WebhookSettings& s) { return s.policy.scheduler; },
      [](WebhookSettings& s, const std::string& name) { s.policy.scheduler = name == "none" ? std::string() : name; }};
}

}  // namespace

const settings::Table<WebhookSettings>& settings_table() {
  using namespace settings;
  constexpr auto policy = &WebhookSettings::policy;
  const auto names = [](const char* what) {
    return settings::list<Texts>(fmt::format("{}, separated by commas", what));
  };
  static const settings::Table<WebhookSettings> table{
      // The policy. Its file comes first, so that the settings override it.
      {"webhook-policy-file", text("the path of a WebhookPolicy"), policy_file(),
       "File with the modes of the rules and facts about the cluster; the settings below override it."},
      {"webhook-policy", mode(), at(policy, &Settings::mode), "Mode of the rules in namespaces without a mode."},
      {"webhook-rules", rule_modes(), modes_of_rules(), "Modes of single rules."},
      {"webhook-labels", required_labels(),
       into([](WebhookSettings& out, RequiredLabels labels) { out.policy.required_labels = std::move(labels); }),
       "Labels that GPU pods must have."},
      {"webhook-gate-pods", boolean(), at(policy, &Settings::gate_pods),
       "Pods are gated; otherwise only Jobs are held."},
      {"webhook-scheduler", text("the name of a scheduler, or none to keep that of the pod"), scheduler(),
       "Scheduler that is set on managed workloads."},
      {"webhook-own", names("names of users"), added_to(&Settings::own_users),
       "Users that may do manually what admission decides, in addition to its own service accounts."},
      {"webhook-controllers", controllers(), added_to(&Settings::controllers),
       "Accounts of the controllers of JobSets, PyTorchJobs and others; what they create belongs to the named owner."},
      {"webhook-exclude", names("names of namespaces"), added_to(&Settings::excluded),
       "Namespaces without calls, in addition to kube-system, kube-public, kube-node-lease and that of the webhook."},
      // How the API server calls the webhook.
      {"webhook", address(), listen(), "Address that the webhook listens on; not set = there is no webhook."},
      {"webhook-service", service(), registered_service(),
       "Service by which the API server reaches the webhook; its namespace also has the certificate."},
      {"webhook-url", url(), at(&WebhookSettings::registration, &Registration::url),
       "Address of the webhook, if the API server is not in the cluster network."},
      {"webhook-only", namespace_label(), at(&WebhookSettings::registration, &Registration::only),
       "Label of the namespaces for which the webhook is called; not set = all."}};
  return table;
}

void complete(WebhookSettings& settings) {
  const auto& home = settings.registration.service_ns;
  settings.policy.excluded.insert(home);
  settings.policy.own_users.insert(fmt::format("system:serviceaccount:{}:*", home));
  settings.registration.excluded = settings.policy.excluded;
  settings.keeper.ns = home;
  settings.keeper.names = settings.registration.names();
}

Result<Settings> read_policy(const settings::Values& given) {
  QM_ASSIGN(auto settings, settings_table().read(given));
  complete(settings);
  return std::move(settings.policy);
}

}  // namespace qm::admission::webhook
