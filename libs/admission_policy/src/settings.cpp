#include "qm/admission_policy/settings.hpp"

#include "qm/admission_policy/policy_file.hpp"
#include "qm/config/names.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::admission_policy {
namespace {

using Texts = std::set<std::string>;

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

using RuleModes = std::map<std::string, Mode>;

settings::Kind<RuleModes> rule_modes() {
  const auto read = [](const std::string& value) -> std::optional<RuleModes> {
    RuleModes out;
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

using LabelList = std::vector<RequiredLabel>;

settings::Kind<LabelList> required_labels() {
  const auto read = [](const std::string& value) -> std::optional<LabelList> {
    LabelList out;
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

/// Adds to the names of the policy's file.
auto added_to(Texts Settings::*member) {
  return settings::into([member](Settings& out, Texts names) { (out.*member).merge(names); });
}

constexpr std::string_view kService = "webhook-service";
constexpr std::string_view kServerOnly[] = {"webhook", "webhook-url", "webhook-only"};

}  // namespace

const settings::Table<Settings>& settings_table() {
  using namespace settings;
  const auto names = [](const char* what) {
    return settings::list<Texts>(fmt::format("{}, separated by commas", what));
  };
  const auto policy_file = into([](Settings& out, const std::string& path) { return read_policy_file(path, out); });
  const auto modes_of_rules = into([](Settings& out, const RuleModes& modes) {
    for (const auto& [rule, mode] : modes) out.rules[rule] = mode;
  });
  const Property scheduler{
      [](const Settings& s) { return s.scheduler; },
      [](Settings& s, const std::string& name) { s.scheduler = name == "none" ? std::string() : name; }};
  static const settings::Table<Settings> table{
      // The file comes first, so that the settings override it.
      {"webhook-policy-file", text("the path of a WebhookPolicy"), policy_file,
       "File with the modes of the rules and facts about the cluster; the settings below override it."},
      {"webhook-policy", mode(), at(&Settings::mode), "Mode of the rules in namespaces without a mode."},
      {"webhook-rules", rule_modes(), modes_of_rules, "Modes of single rules."},
      {"webhook-labels", required_labels(),
       into([](Settings& out, LabelList labels) { out.required_labels = std::move(labels); }),
       "Labels that GPU pods must have."},
      {"webhook-gate-pods", boolean(), at(&Settings::gate_pods), "Pods are gated; otherwise only Jobs are held."},
      {"webhook-scheduler", text("the name of a scheduler, or none to keep that of the pod"), scheduler,
       "Scheduler that is set on managed workloads."},
      {"webhook-own", names("names of users"), added_to(&Settings::own_users),
       "Users that may do manually what admission decides, in addition to its own service accounts."},
      {"webhook-controllers", controllers(), added_to(&Settings::controllers),
       "Accounts of the controllers of JobSets, PyTorchJobs and others; what they create belongs to the named owner."},
      {"webhook-exclude", names("names of namespaces"), added_to(&Settings::excluded),
       "Namespaces without calls, in addition to kube-system, kube-public, kube-node-lease and that of the webhook."}};
  return table;
}

void complete(Settings& settings, const std::string& home) {
  settings.excluded.insert(home);
  settings.own_users.insert(fmt::format("system:serviceaccount:{}:*", home));
}

Result<Settings> read_policy_settings(const settings::Values& given) {
  settings::Values own;
  std::string home(kHomeNamespace);
  for (const auto& [name, value] : given) {
    if (name == kService) home = value.substr(0, value.find('/'));
    if (name != kService && std::ranges::find(kServerOnly, name) == std::end(kServerOnly)) own.emplace(name, value);
  }
  QM_ASSIGN(auto out, settings_table().read(own));
  complete(out, home);
  return out;
}

}  // namespace qm::admission_policy
