// The rules for pods that use GPUs. Each checks one pod and reports its findings, by container where a container is
// the cause. The mode of the rule and the namespace decide whether a finding is a refusal, a warning or ignored.
#include "rules.hpp"

#include "pod.hpp"
#include "qm/admission_policy/pod_security.hpp"
#include "qm/base/assert.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace qm::admission_policy {
namespace {

/// Calls fn for each GPU resource of each container, in requests or limits.
template <class Fn>
void each_gpu_resource(const Json& spec, Fn&& fn) {
  each_container(spec, [&](const Json& container, const Place& place) {
    const auto& requests = container["resources"]["requests"];
    for (const auto& [name, value] : requests.members()) {
      if (is_gpu(name)) fn(container, place, name);
    }
    for (const auto& [name, value] : container["resources"]["limits"].members()) {
      if (is_gpu(name) && !requests.contains(name)) fn(container, place, name);
    }
  });
}

std::string shown(const Json& value) { return value.is_string() ? value.string() : value.dump(); }

void whole_gpus(const Case& one, Findings& out) {
  each_gpu_resource(one.spec(), [&](const Json& container, const Place& place, const std::string& name) {
    for (const auto* side : {"requests", "limits"}) {
      const auto& value = container["resources"][side][name];
      if (value.is_null()) continue;
      const auto amount = quantity(value);
      if (amount && !amount->negative() && *amount == Quantity::of(amount->units())) continue;
      out.push_back({"gpu-whole",
                     fmt::format("{} requests {} of {}, and GPUs are counted in whole numbers",
                                 in_container(container, place), shown(value), name),
                     fmt::format("{}.resources.{}", place.path(), side),
                     fmt::format("request whole devices, a MIG instance, or a share with {}", words::kGpuMilliResource),
                     container["name"].string()});
      return;  // reported once for both
    }
  });
}

void requests_equal_limits(const Case& one, Findings& out) {
  each_gpu_resource(one.spec(), [&](const Json& container, const Place& place, const std::string& name) {
    const auto& limit = container["resources"]["limits"][name];
    const auto& request = container["resources"]["requests"][name];
    if (limit.is_null()) {
      out.push_back(
          {"gpu-requests",
           fmt::format("{} requests {} of {} without a limit", in_container(container, place), shown(request), name),
           place.path() + ".resources.limits", "set the limit to the same number", container["name"].string()});
    } else if (!request.is_null() && quantity(request) != quantity(limit)) {
      out.push_back({"gpu-requests",
                     fmt::format("{} requests {} of {} and has the limit {}", in_container(container, place),
                                 shown(request), name, shown(limit)),
                     place.path() + ".resources.requests", "set both to the same number, or remove the request",
                     container["name"].string()});
    }
  });
}

void share_of_a_node(const Case& one, Findings& out) {
  gpu_need(one, out);
  each_container(one.spec(), [&](const Json& container, const Place& place) {
    if (gpus_of(container) == 0) return;
    const bool cpu = asked(container, "cpu").has_value(), memory = asked(container, "memory").has_value();
    if (cpu && memory) return;
    const auto* missing = cpu ? "no memory" : memory ? "no cpu" : "neither cpu nor memory";
    out.push_back({"gpu-share", fmt::format("{} requests GPUs but {}", in_container(container, place), missing),
                   place.path() + ".resources.requests", "request the share of the node that goes with its GPUs",
                   container["name"].string()});
  });
}

bool covers(const Json& toleration, const Settings& settings) {
  const auto& key = toleration["key"].string();
  const auto& op = toleration["operator"].string();
  if (op == "Exists") return key.empty() || key == settings.gpu_taint;
  return key == settings.gpu_taint && (op.empty() || op == "Equal") &&
         std::ranges::find(settings.gpu_taint_values, toleration["value"].string()) != settings.gpu_taint_values.end();
}

void toleration(const Case& one, Findings& out) {
  const auto& all = one.spec()["tolerations"].items();
  if (std::ranges::any_of(all, [&](const Json& t) { return covers(t, one.settings); })) return;
  out.push_back({"gpu-toleration",
                 fmt::format("the pod requests GPUs and does not tolerate the taint {}", one.settings.gpu_taint),
                 "tolerations",
                 fmt::format("add a toleration with key {} and operator Exists", one.settings.gpu_taint)});
}

/// Labels that every node has, or that do not describe its devices.
bool describes_devices(std::string_view key) {
  static constexpr std::array<std::string_view, 8> kTellNothing{"kubernetes.io/os",
                                                                "kubernetes.io/arch",
                                                                "beta.kubernetes.io/os",
                                                                "beta.kubernetes.io/arch",
                                                                "topology.kubernetes.io/zone",
                                                                "topology.kubernetes.io/region",
                                                                "karpenter.sh/capacity-type",
                                                                "node-role.kubernetes.io/worker"};
  return std::ranges::find(kTellNothing, key) == kTellNothing.end();
}

bool selects_gpu_nodes(const Json& spec) {
  const auto& selector = spec["nodeSelector"].members();
  if (std::ranges::any_of(selector, [](const auto& member) { return describes_devices(member.first); })) return true;
  const auto& terms =
      spec.path("affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution")["nodeSelectorTerms"].items();
  // Any one of the terms may match, so each must require the label.
  return !terms.empty() && std::ranges::all_of(terms, [](const Json& term) {
    const auto& expressions = term["matchExpressions"].items();
    return std::ranges::any_of(expressions, [](const Json& e) {
      const auto& op = e["operator"].string();
      return (op == "In" || op == "Exists" || op == "Gt") && describes_devices(e["key"].string());
    });
  });
}

void gpu_nodes(const Case& one, Findings& out) {
  if (selects_gpu_nodes(one.spec())) return;
  out.push_back({"gpu-node", "the pod requests GPUs and selects no nodes that have them", "nodeSelector",
                 fmt::format("add a node selector or a required node affinity, such as {}", words::kGpuProduct)});
}

/// "${CC_CODE}": a template with a variable that was not replaced.
bool is_placeholder(const std::string& value) { return value.find("${") != std::string::npos; }

void required_labels(const Case& one, Findings& out) {
  for (const auto& wanted : one.settings.required_labels) {
    const auto found = one.labels.find(wanted.key);
    const bool there = found != one.labels.end() && !found->second.empty();
    if (there && !is_placeholder(found->second) &&
        (wanted.values.empty() || std::ranges::find(wanted.values, found->second) != wanted.values.end())) {
      continue;
    }
    const auto choice =
        wanted.values.empty() ? std::string() : fmt::format(": one of {}", fmt::join(wanted.values, ", "));
    out.push_back({"required-labels",
                   there ? fmt::format("the pod's label {}={} is not allowed", wanted.key, found->second)
                         : fmt::format("the pod lacks the label {}", wanted.key),
                   "metadata.labels", fmt::format("set {}{}", wanted.key, choice)});
  }
}

/// Refuses a toleration of all taints: it allows nodes of other pools and broken nodes.
void toleration_key(const Case& one, Findings& out) {
  const auto& all = one.spec()["tolerations"].items();
  const auto blanket = [](const Json& t) { return t["operator"].string() == "Exists" && t["key"].string().empty(); };
  if (std::ranges::none_of(all, blanket)) return;
  out.push_back({"toleration-key", "the pod tolerates every taint, by a toleration without a key", "tolerations",
                 fmt::format("name the keys: {}, and that of its pool", one.settings.gpu_taint)});
}

/// The API server refuses the pods, not the template. Without this finding the pods would just never be created.
void pod_security(const Case& one, Findings& out) {
  if (!one.is_template) return;
  const auto asked = one.home.labels.find("pod-security.kubernetes.io/enforce");
  const auto level = asked == one.home.labels.end() ? std::nullopt : pod_security_of(asked->second);
  if (!level) return;
  for (auto& finding : pod_security_findings(one.spec(), *level)) {
    finding.field.erase(0, std::string_view("spec.").size());
    finding.message = fmt::format("namespace {} will refuse its pods: {}", one.ns, finding.message);
    out.push_back(std::move(finding));
  }
}

void quota_scope(const Case& one, Findings& out) {
  for (auto& finding : past_quota(one.quotas, one.spec())) out.push_back(std::move(finding));
}

enum class Of : std::uint8_t { kGpuPods, kNamedGpus, kAllPods, kObjects };

struct Rule {
  std::string_view name;
  Of of;
  void (*check)(const Case&, Findings&);  ///< null = it checks the object, not the pod
  std::optional<Mode> own = {};           ///< its default mode, where it differs from the general one
};
constexpr std::array<Rule, kRuleCount> kRules{{{"gpu-whole", Of::kNamedGpus, whole_gpus},
                                               {"gpu-requests", Of::kNamedGpus, requests_equal_limits},
                                               {"gpu-share", Of::kGpuPods, share_of_a_node},
                                               {"gpu-toleration", Of::kGpuPods, toleration},
                                               {"gpu-node", Of::kGpuPods, gpu_nodes},
                                               {"required-labels", Of::kGpuPods, required_labels},
                                               {"toleration-key", Of::kGpuPods, toleration_key},
                                               {"gpu-proportion", Of::kGpuPods, gpu_proportion},
                                               {"gpu-sharing", Of::kGpuPods, gpu_sharing},
                                               {"compliance", Of::kGpuPods, compliance},
                                               {"pool-purpose", Of::kGpuPods, pool_purpose},
                                               {"gpu-namespace", Of::kGpuPods, gpu_namespace},
                                               {"gpu-priority", Of::kGpuPods, gpu_priority},
                                               {"gang-topology", Of::kGpuPods, gang_topology},
                                               {"gang-environment", Of::kGpuPods, gang_environment, Mode::kMutate},
                                               {"pod-security", Of::kAllPods, pod_security, Mode::kWarn},
                                               {"quota-scope", Of::kGpuPods, quota_scope, Mode::kWarn},
                                               {"spot-checkpoint", Of::kGpuPods, spot_checkpoint, Mode::kWarn},
                                               {"lint", Of::kObjects, nullptr, Mode::kWarn}}};

/// Whether a container names a GPU resource, even with an invalid amount.
bool names_gpus(const Json& spec) {
  bool any = false;
  each_gpu_resource(spec, [&](const Json&, const Place&, const std::string&) { any = true; });
  return any;
}

std::optional<Mode> label_mode(const View::Namespace& home, const std::string& key) {
  const auto found = home.labels.find(key);
  return found == home.labels.end() ? std::nullopt : mode_of(found->second);
}

}  // namespace

std::string_view Case::label(std::string_view key) const {
  const auto found = labels.find(std::string(key));
  return found == labels.end() ? std::string_view() : std::string_view(found->second);
}

std::string in_container(const Json& container, const Place& place) {
  return fmt::format("{} \"{}\"", place.runs_first() ? "init container" : "container",
                     container["name"].string_or("?"));
}

const std::vector<std::string>& rule_names() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> out;
    for (const auto& rule : kRules) out.emplace_back(rule.name);
    return out;
  }();
  return all;
}

RuleId rule_of(const Finding& finding) {
  const auto found = std::ranges::find(kRules, std::string_view(finding.rule), &Rule::name);
  QM_ASSERT(found != kRules.end(), "no rule is called {}", finding.rule);
  return static_cast<RuleId>(found - kRules.begin());
}

bool Modes::mutates() const { return std::ranges::find(modes_, Mode::kMutate) != modes_.end(); }

Modes modes_in(const View::Namespace& home, const Settings& settings) {
  static const std::string prefix(kPolicyPrefix), of_all(kPolicyMode);
  Modes out;
  const auto first = home.labels.lower_bound(prefix);
  const bool of_rule = first != home.labels.end() && first->first.starts_with(prefix);
  const auto of_home = of_rule ? label_mode(home, of_all) : std::nullopt;
  const auto general = of_home.value_or(settings.mode);
  for (std::size_t i = 0; i < kRuleCount; ++i) {
    const auto& rule = kRules[i];
    const auto id = static_cast<RuleId>(i);
    // A rule with its own default follows a general "off" or "warn", but a general "enforce" does not make
    // it a refusal.
    const bool keeps = rule.own && general != Mode::kOff && general != Mode::kWarn;
    out.set(id, keeps ? *rule.own : general);
    if (!settings.rules.empty() && (!of_home || keeps)) {
      const auto set = settings.rules.find(std::string(rule.name));
      if (set != settings.rules.end()) out.set(id, set->second);
    }
    if (!of_rule) continue;
    if (const auto own = label_mode(home, prefix + std::string(rule.name))) out.set(id, *own);
  }
  if (!settings.facts.gangs) {  // no defaults for gangs are configured
    out.set(RuleId::kGangEnvironment, Mode::kOff);
    out.set(RuleId::kGangTopology, Mode::kOff);
  }
  return out;
}

void examine(const Case& one, const Modes& modes, Findings& out) {
  const bool named = one.gpus || names_gpus(one.spec());
  for (std::size_t i = 0; i < kRuleCount; ++i) {
    const auto& rule = kRules[i];
    if (modes[static_cast<RuleId>(i)] == Mode::kOff || rule.check == nullptr) continue;
    if (rule.of == Of::kAllPods || (rule.of == Of::kNamedGpus ? named : one.gpus)) rule.check(one, out);
  }
}

std::vector<Finding> violations(const Labels& labels, const Json& pod_spec, const Settings& settings,
                                const Json& annotations) {
  static const View::Namespace nowhere;
  static const std::string no_name;
  static const std::vector<ResourceQuota> no_quotas;
  Findings out;
  const auto pod = Json::object({{"metadata", Json::object({{"annotations", annotations}})}, {"spec", pod_spec}});
  Case one{labels, pod, settings, nowhere, no_name, no_quotas};
  one.gpus = requests_gpus(pod);
  examine(one, Modes(Mode::kEnforce), out);
  return out;
}

namespace {

/// Limit for one container. No share is filled in for more GPUs than any node has.
constexpr std::int64_t kMostGpus = 1024;

void supply_labels(Json& pod, const Labels& own, const View::Namespace& defaults, const Settings& settings) {
  for (const auto& wanted : settings.required_labels) {
    if (!pod["metadata"]["labels"][wanted.key].string().empty()) continue;
    for (const auto* from : {&own, &defaults.labels}) {
      const auto found = from->find(wanted.key);
      if (found == from->end() || found->second.empty()) continue;
      pod.set("metadata").set("labels").set(wanted.key, found->second);
      break;
    }
  }
}

void supply_shares(Json& spec, const View::Namespace& defaults) {
  const auto give = [&](Json& container, const char* name, std::string_view key) {
    const auto found = defaults.annotations.find(std::string(key));
    if (found == defaults.annotations.end() || asked(container, name)) return;
    const auto each = Quantity::parse(found->second);
    const auto gpus = gpus_of(container);
    if (!each || gpus > kMostGpus) return;
    auto sum = *each;
    for (auto more = gpus; more > 1; --more) sum = sum + *each;
    container.set("resources").set("requests").set(name, sum.to_string());
  };
  each_container_mut(spec, [&](Json& container) {
    if (gpus_of(container) == 0) return;
    give(container, "cpu", kCpuPerGpu);
    give(container, "memory", kMemoryPerGpu);
  });
}

}  // namespace

void supply(Json& pod, const Labels& own, const View::Namespace& defaults, const Settings& settings,
            const Modes& modes) {
  if (!uses_gpus(pod["spec"])) return;
  const auto mends = [&](RuleId rule) { return modes.mends(rule); };
  if (mends(RuleId::kRequiredLabels)) supply_labels(pod, own, defaults, settings);
  auto& spec = pod.set("spec");  // no other member is added to the pod from here on
  const auto& tolerations = spec["tolerations"].items();
  if (mends(RuleId::kGpuToleration) &&
      std::ranges::none_of(tolerations, [&](const Json& t) { return covers(t, settings); })) {
    spec.set("tolerations").push_back(Json::object({{"key", settings.gpu_taint}, {"operator", "Exists"}}));
  }
  const auto nodes = defaults.annotations.find(std::string(kGpuNodes));
  if (mends(RuleId::kGpuNode) && nodes != defaults.annotations.end() && !selects_gpu_nodes(spec)) {
    const auto equals = nodes->second.find('=');
    if (equals != std::string::npos && equals > 0) {
      spec.set("nodeSelector").set(nodes->second.substr(0, equals), nodes->second.substr(equals + 1));
    }
  }
  if (mends(RuleId::kGpuShare)) supply_shares(spec, defaults);
  const auto& facts = settings.facts;
  const auto under = defaults.labels.find(facts.compliance_label);
  if (mends(RuleId::kCompliance) && under != defaults.labels.end() && facts.no_spot.contains(under->second) &&
      !wants_spot(spec) && !sets_capacity_type(spec)) {
    spec.set("nodeSelector").set(words::kCapacityType, "on-demand");
  }
  if (mends(RuleId::kSpotCheckpoint)) supply_on_demand(pod);
  if (mends(RuleId::kGpuPriority) && !pod["spec"].contains("priorityClassName")) {
    const auto found = facts.default_priority.find(pod["metadata"]["labels"][kWorkloadType].string());
    if (found != facts.default_priority.end()) {
      // The API server has already set both without a class, and then refuses other values; without them it computes
      // them again.
      auto& named = pod.set("spec");
      named.erase("priority");
      named.erase("preemptionPolicy");
      named.set("priorityClassName", found->second);
    }
  }
}

void supply(Json& pod, const Labels& own, const View::Namespace& defaults, const Settings& settings) {
  supply(pod, own, defaults, settings, Modes(Mode::kMutate));
}

}  // namespace qm::admission_policy
