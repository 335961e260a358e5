// The rules for pods that use GPUs. Each looks at one pod and says what is against it, container by container where it
// is a container's fault. What a rule means (refusal, warning, nothing) is decided by who asks.
#include "pod.hpp"
#include "qm/admission/webhook/policy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace qm::admission::webhook {
namespace {

struct Pod {
  const Labels& labels;
  const Json& spec;
};
using Findings = std::vector<Finding>;

std::string in_container(const Json& container, const std::string& path) {
  return fmt::format("{} \"{}\"", path.starts_with("init") ? "init container" : "container",
                     container["name"].string_or("?"));
}

/// Calls fn for each GPU resource of each container, named on either side.
template <class Fn>
void each_gpu_resource(const Json& spec, Fn&& fn) {
  each_container(spec, [&](const Json& container, const std::string& path) {
    std::set<std::string> names;
    for (const auto* side : {"requests", "limits"}) {
      for (const auto& [name, value] : container["resources"][side].members()) {
        if (is_gpu(name)) names.insert(name);
      }
    }
    for (const auto& name : names) fn(container, path, name);
  });
}

std::string shown(const Json& value) { return value.is_string() ? value.string() : value.dump(); }

void whole_gpus(const Pod& pod, const Settings&, Findings& out) {
  each_gpu_resource(pod.spec, [&](const Json& container, const std::string& path, const std::string& name) {
    for (const auto* side : {"requests", "limits"}) {
      const auto& value = container["resources"][side][name];
      if (value.is_null()) continue;
      const auto amount = quantity(value);
      if (amount && !amount->negative() && *amount == Quantity::of(amount->units())) continue;
      out.push_back(
          {"gpu-whole",
           fmt::format("{} asks for {} of {}, which is no whole number", in_container(container, path), shown(value),
                       name),
           fmt::format("{}.resources.{}", path, side),
           fmt::format("ask for whole devices, for a MIG instance, or for a share with {}", words::kGpuMilliResource)});
      return;  // once for both sides
    }
  });
}

void requests_equal_limits(const Pod& pod, const Settings&, Findings& out) {
  each_gpu_resource(pod.spec, [&](const Json& container, const std::string& path, const std::string& name) {
    const auto& limit = container["resources"]["limits"][name];
    const auto& request = container["resources"]["requests"][name];
    if (limit.is_null()) {
      out.push_back(
          {"gpu-requests",
           fmt::format("{} requests {} of {} without a limit", in_container(container, path), shown(request), name),
           path + ".resources.limits", "set the limit to the same number"});
    } else if (!request.is_null() && quantity(request) != quantity(limit)) {
      out.push_back({"gpu-requests",
                     fmt::format("{} requests {} of {} and has the limit {}", in_container(container, path),
                                 shown(request), name, shown(limit)),
                     path + ".resources.requests", "set both to the same number, or leave the request out"});
    }
  });
}

void cpu_and_memory(const Pod& pod, const Settings&, Findings& out) {
  each_container(pod.spec, [&](const Json& container, const std::string& path) {
    if (gpus_of(container) == 0) return;
    std::string missing;
    for (const auto* name : {"cpu", "memory"}) {
      if (!asked(container, name)) missing += fmt::format("{}{}", missing.empty() ? "" : " and ", name);
    }
    if (missing.empty()) return;
    out.push_back({"gpu-share", fmt::format("{} uses GPUs and requests no {}", in_container(container, path), missing),
                   path + ".resources.requests", "request the share of the node that goes with its GPUs"});
  });
}

bool covers(const Json& toleration, const Settings& settings) {
  const auto& key = toleration["key"].string();
  const auto& op = toleration["operator"].string();
  if (op == "Exists") return key.empty() || key == settings.gpu_taint;
  return key == settings.gpu_taint && (op.empty() || op == "Equal") &&
         std::ranges::find(settings.gpu_taint_values, toleration["value"].string()) != settings.gpu_taint_values.end();
}

void toleration(const Pod& pod, const Settings& settings, Findings& out) {
  if (!uses_gpus(pod.spec)) return;
  const auto& all = pod.spec["tolerations"].items();
  if (std::ranges::any_of(all, [&](const Json& t) { return covers(t, settings); })) return;
  out.push_back({"gpu-toleration", fmt::format("the pod uses GPUs and does not tolerate {}", settings.gpu_taint),
                 "tolerations", fmt::format("add a toleration with key {} and operator Exists", settings.gpu_taint)});
}

/// Labels that every node has, or that say nothing of its devices.
bool tells_of_devices(std::string_view key) {
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

bool wants_gpu_nodes(const Json& spec) {
  const auto& selector = spec["nodeSelector"].members();
  if (std::ranges::any_of(selector, [](const auto& member) { return tells_of_devices(member.first); })) return true;
  const auto& terms =
      spec.path("affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution")["nodeSelectorTerms"].items();
  // Any of the terms may be the one that is met, so each must say it.
  return !terms.empty() && std::ranges::all_of(terms, [](const Json& term) {
    const auto& expressions = term["matchExpressions"].items();
    return std::ranges::any_of(expressions, [](const Json& e) {
      const auto& op = e["operator"].string();
      return (op == "In" || op == "Exists" || op == "Gt") && tells_of_devices(e["key"].string());
    });
  });
}

void gpu_nodes(const Pod& pod, const Settings&, Findings& out) {
  if (!uses_gpus(pod.spec) || wants_gpu_nodes(pod.spec)) return;
  out.push_back({"gpu-node", "the pod uses GPUs and says nothing of the nodes that have them", "nodeSelector",
                 fmt::format("add a node selector or a required node affinity, such as {}", words::kGpuProduct)});
}

void required_labels(const Pod& pod, const Settings& settings, Findings& out) {
  if (!uses_gpus(pod.spec)) return;
  for (const auto& wanted : settings.required_labels) {
    const auto found = pod.labels.find(wanted.key);
    const bool there = found != pod.labels.end() && !found->second.empty();
    if (there && (wanted.values.empty() || std::ranges::find(wanted.values, found->second) != wanted.values.end())) {
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

struct Rule {
  std::string_view name;
  void (*check)(const Pod&, const Settings&, Findings&);
};
constexpr std::array<Rule, 6> kRules{{{"gpu-whole", whole_gpus},
                                      {"gpu-requests", requests_equal_limits},
                                      {"gpu-share", cpu_and_memory},
                                      {"gpu-toleration", toleration},
                                      {"gpu-node", gpu_nodes},
                                      {"required-labels", required_labels}}};

}  // namespace

const std::vector<std::string>& rule_names() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> out;
    for (const auto& rule : kRules) out.emplace_back(rule.name);
    return out;
  }();
  return all;
}

std::vector<Finding> violations(const Labels& labels, const Json& pod_spec, const Settings& settings) {
  Findings out;
  for (const auto& rule : kRules) rule.check({labels, pod_spec}, settings, out);
  return out;
}

namespace {

void supply_shares(Json& spec, const View::Namespace& defaults) {
  const auto give = [&](Json& container, const char* name, std::string_view key) {
    const auto found = defaults.annotations.find(std::string(key));
    if (found == defaults.annotations.end() || asked(container, name)) return;
    const auto each = Quantity::parse(found->second);
    if (!each) return;
    auto sum = *each;
    for (auto more = gpus_of(container); more > 1; --more) sum = sum + *each;
    container.set("resources").set("requests").set(name, sum.to_string());
  };
  each_container(spec, [&](Json& container) {
    if (gpus_of(container) == 0) return;
    give(container, "cpu", kCpuPerGpu);
    give(container, "memory", kMemoryPerGpu);
  });
}

}  // namespace

void supply(Json& pod, const Labels& own, const View::Namespace& defaults, const Settings& settings) {
  if (!uses_gpus(pod["spec"])) return;
  for (const auto& wanted : settings.required_labels) {
    if (!pod["metadata"]["labels"][wanted.key].string().empty()) continue;
    for (const auto* from : {&own, &defaults.labels}) {
      const auto found = from->find(wanted.key);
      if (found == from->end() || found->second.empty()) continue;
      pod.set("metadata").set("labels").set(wanted.key, found->second);
      break;
    }
  }
  auto& spec = pod.set("spec");  // nothing is added beside it from here on
  const auto& tolerations = spec["tolerations"].items();
  if (std::ranges::none_of(tolerations, [&](const Json& t) { return covers(t, settings); })) {
    spec.set("tolerations").push_back(Json::object({{"key", settings.gpu_taint}, {"operator", "Exists"}}));
  }
  const auto nodes = defaults.annotations.find(std::string(kGpuNodes));
  if (nodes != defaults.annotations.end() && !wants_gpu_nodes(spec)) {
    const auto equals = nodes->second.find('=');
    if (equals != std::string::npos && equals > 0) {
      spec.set("nodeSelector").set(nodes->second.substr(0, equals), nodes->second.substr(equals + 1));
    }
  }
  supply_shares(spec, defaults);
}

}  // namespace qm::admission::webhook
