// The flags of Cluster Autoscaler, and the settings with their meaning.
#include "qm/node_groups/flags.hpp"

#include "flag_table.hpp"
#include "qm/config/manifest.hpp"
#include "qm/settings/kind.hpp"
#include "values.hpp"

#include <algorithm>

namespace qm::node_groups {
namespace {

using Setter = std::function<Status(std::string_view, Flags&)>;

template <class Place>
Setter duration(std::string_view flag, Place place) {
  return [flag, place](std::string_view text, Flags& out) -> Status {
    const auto value = config::parse_duration(text);
    if (!value || *value < Duration::zero())
      return bad_flag(flag, fmt::format("'{}' is not a duration", text), "write one such as 10m");
    place(out) = *value;
    return {};
  };
}
template <class Place>
Setter truth(std::string_view flag, Place place) {
  return [flag, place](std::string_view text, Flags& out) -> Status {
    const auto value = bool_of(text);
    if (!value) return bad_flag(flag, fmt::format("'{}' is not a boolean", text), "write true or false");
    place(out) = *value;
    return {};
  };
}
template <class Place>
Setter share(std::string_view flag, Place place) {
  return [flag, place](std::string_view text, Flags& out) -> Status {
    const auto value = share_of(text);
    if (!value)
      return bad_flag(flag, fmt::format("'{}' is not a share", text), "write a number of 0 to 1, such as 0.5");
    place(out) = *value;
    return {};
  };
}

template <class Place>
Setter count(std::string_view flag, Place place) {
  return [flag, place](std::string_view text, Flags& out) -> Status {
    const auto value = whole_number(text);
    if (!value || *value < 0)
      return bad_flag(flag, fmt::format("'{}' is not a number", text), "write a whole number, such as 10");
    place(out) = *value;
    return {};
  };
}

Status add_nodes(std::string_view text, Flags& out) {
  QM_ASSIGN(auto nodes, nodes_flag(text));
  const auto same = std::ranges::find(out.nodes, nodes.name, &NodesFlag::name);
  if (same != out.nodes.end())
    return bad_flag("nodes", fmt::format("group {} is named twice", nodes.name), "remove one of the flags");
  out.nodes.push_back(std::move(nodes));
  return {};
}

Status add_discovery(std::string_view text, Flags& out) {
  QM_TRY(discovery_flag(text));
  if (!out.discovery.empty())
    return bad_flag("node-group-auto-discovery", "it is repeated", "give all groups one more tag, and name that");
  out.discovery.emplace_back(text);
  return {};
}

Status set_expanders(std::string_view text, Flags& out) {
  QM_ASSIGN(out.expanders, expanders_of(text));
  return {};
}

Status set_provider(std::string_view text, Flags& out) {
  out.cloud_provider = text;
  if (text != "aws") {
    return bad_flag("cloud-provider", fmt::format("'{}' has no driver", text),
                    "use aws; import groups of another provider by their own commands");
  }
  return {};
}

const std::vector<Flag<Flags>>& ca_flags() {
  constexpr std::string_view kStep = "decisions are made at each change, not in a scan";
  constexpr std::string_view kLimits = "set spec.limits of the NodePools";
  constexpr std::string_view kAsDriver = "the settings of qm-autoscaler have the cloud and its cluster";
  constexpr std::string_view kBudgets = "disruption budgets of the NodePool limit it";
  constexpr std::string_view kOwnScheduler = "pods are placed by their own rules";
  constexpr std::string_view kRegistration = "a node that does not register in 15 minutes is replaced";
  static const std::vector<Flag<Flags>> all{
      {"cloud-provider", false, set_provider},
      {"nodes", false, add_nodes},
      {"node-group-auto-discovery", false, add_discovery},
      {"expander", false, set_expanders},
      {"balance-similar-node-groups", true,
       truth("balance-similar-node-groups", [](Flags& f) -> bool& { return f.balance_similar; })},
      {"scale-down-enabled", true, truth("scale-down-enabled", [](Flags& f) -> bool& { return f.scale_down.enabled; })},
      {"scale-down-delay-after-add", false,
       duration("scale-down-delay-after-add", [](Flags& f) -> Duration& { return f.scale_down.delay_after_add; })},
      {"scale-down-unneeded-time", false,
       duration("scale-down-unneeded-time", [](Flags& f) -> Duration& { return f.scale_down.unneeded; })},
      {"scale-down-unready-time", false,
       duration("scale-down-unready-time", [](Flags& f) -> Duration& { return f.scale_down.unready; })},
      {"scale-down-utilization-threshold", false,
       share("scale-down-utilization-threshold",
             [](Flags& f) -> std::int64_t& { return f.scale_down.utilization_milli; })},
      {"scale-down-gpu-utilization-threshold", false,
       share("scale-down-gpu-utilization-threshold",
             [](Flags& f) -> std::int64_t& { return f.scale_down.gpu_utilization_milli; })},
      {"skip-nodes-with-system-pods", true,
       truth("skip-nodes-with-system-pods", [](Flags& f) -> bool& { return f.scale_down.skip_system_pods; })},
      {"skip-nodes-with-local-storage", true,
       truth("skip-nodes-with-local-storage", [](Flags& f) -> bool& { return f.scale_down.skip_local_storage; })},
      {"ignore-daemonsets-utilization", true,
       truth("ignore-daemonsets-utilization", [](Flags& f) -> bool& { return f.scale_down.ignore_daemon_sets; })},
      {"skip-nodes-with-custom-controller-pods", true,
       truth("skip-nodes-with-custom-controller-pods",
             [](Flags& f) -> bool& { return f.scale_down.skip_custom_controllers; })},
      {"scale-down-delay-after-delete", false,
       duration("scale-down-delay-after-delete",
                [](Flags& f) -> Duration& { return f.scale_down.delay_after_delete; })},
      {"scale-down-delay-after-failure", false,
       duration("scale-down-delay-after-failure",
                [](Flags& f) -> Duration& { return f.scale_down.delay_after_failure; })},
      {"max-empty-bulk-delete", false,
       count("max-empty-bulk-delete", [](Flags& f) -> std::int64_t& { return f.scale_down.max_empty; })},
      {"max-scale-down-parallelism", false,
       count("max-scale-down-parallelism", [](Flags& f) -> std::int64_t& { return f.scale_down.max_empty; })},
      {"max-drain-parallelism", false,
       count("max-drain-parallelism", [](Flags& f) -> std::int64_t& { return f.scale_down.max_drains; })},
      {"max-graceful-termination-sec", false,
       count("max-graceful-termination-sec", [](Flags& f) -> std::int64_t& { return f.scale_down.max_grace_seconds; })},
      {"max-node-provision-time", false,
       duration("max-node-provision-time", [](Flags& f) -> Duration& { return f.max_provision; })},
      // Without an effect here.
      {"scan-interval", false, {}, kStep},
      {"new-pod-scale-up-delay", false, {}, kStep},
      {"max-binpacking-time", false, {}, kStep},
      {"max-nodegroup-binpacking-duration", false, {}, kStep},
      {"max-nodes-per-scaleup", false, {}, "a gang is launched whole"},
      {"scale-down-delay-type-local", true, {}, "the delay counts from the last launch of any group"},
      {"scale-down-non-empty-candidates-count", false, {}, kBudgets},
      {"scale-down-candidates-pool-ratio", false, {}, kBudgets},
      {"scale-down-candidates-pool-min-count", false, {}, kBudgets},
      {"scale-down-simulation-timeout", false, {}, kStep},
      {"max-pod-eviction-time", false, {}, "evictions are retried for 2 minutes"},
      {"node-deletion-delay-timeout", false, {}, kStep},
      {"node-delete-delay-after-taint", false, {}, "a node is terminated once its cordon is confirmed"},
      {"unremovable-node-recheck-timeout", false, {}, kStep},
      {"node-deletion-batcher-interval", false, {}, kStep},
      {"cordon-node-before-terminating", true, {}, "nodes are always cordoned"},
      {"min-replica-count", false, {}, "PodDisruptionBudgets limit it"},
      {"daemonset-eviction-for-empty-nodes", true, {}, "pods of DaemonSets end with their node"},
      {"daemonset-eviction-for-occupied-nodes", true, {}, "pods of DaemonSets end with their node"},
      {"expendable-pods-priority-cutoff", false, {}, kOwnScheduler},
      {"ignore-mirror-pods-utilization", true, {}, "mirror pods are not utilization"},
      {"balancing-ignore-label", false, {}, "labels of zones, hosts and node groups are ignored"},
      {"balancing-label", false, {}, "similar pools have the same instance types, labels and taints"},
      {"memory-difference-ratio", false, {}, "similar pools have the same instance types"},
      {"max-free-difference-ratio", false, {}, "similar pools have the same instance types"},
      {"max-allocatable-difference-ratio", false, {}, "similar pools have the same instance types"},
      {"ignore-taint", false, {}, "startup taints of the node class do not count"},
      {"startup-taint", false, {}, "startup taints of the node class do not count"},
      {"status-taint", false, {}, "startup taints of the node class do not count"},
      {"force-ds", true, {}, "DaemonSets always count"},
      {"node-autoprovisioning-enabled", true, {}, "a NodePool without an Auto Scaling group provisions any type"},
      {"max-autoprovisioned-node-group-count", false, {}, kLimits},
      {"max-nodes-total", false, {}, kLimits},
      {"cores-total", false, {}, kLimits},
      {"memory-total", false, {}, kLimits},
      {"gpu-total", false, {}, kLimits},
      {"ok-total-unready-count", false, {}, "the launches of each group fail by themselves"},
      {"max-total-unready-percentage", false, {}, "the launches of each group fail by themselves"},
      {"initial-node-group-backoff-duration", false, {}, "an offering without capacity is not tried for 3 minutes"},
      {"max-node-group-backoff-duration", false, {}, "an offering without capacity is not tried for 3 minutes"},
      {"node-group-backoff-reset-timeout", false, {}, "an offering without capacity is not tried for 3 minutes"},
      {"max-node-startup-time", false, {}, kRegistration},
      {"max-inactivity", false, {}, "/healthz shows progress"},
      {"max-failing-time", false, {}, "/healthz shows progress"},
      {"enable-provisioning-requests", true, {}, "ProvisioningRequests are not read"},
      {"enforce-node-group-min-size", true, {}, "MinSize of the Auto Scaling group is kept"},
      {"scale-up-from-zero", true, {}, "groups always scale up from zero"},
      {"parallel-scale-up", true, {}, kStep},
      {"grpc-expander-url", false, {}, "there is no external expander"},
      {"grpc-expander-cert", false, {}, "there is no external expander"},
      {"aws-use-static-instance-list", true, {}, kAsDriver},
      {"cloud-config", false, {}, kAsDriver},
      {"clusterapi-cloud-config-authoritative", true, {}, kAsDriver},
      {"cluster-name", false, {}, kAsDriver},
      {"gpu-total-limit", false, {}, kLimits},
      {"regional", true, {}, kAsDriver},
      {"namespace"},
      {"kubernetes"},
      {"kubeconfig"},
      {"kube-client-qps"},
      {"kube-client-burst"},
      {"kube-api-content-type"},
      {"status-config-map-name", false, {}, "`qmctl plan` shows the status"},
      {"write-status-configmap", true, {}, "`qmctl plan` shows the status"},
      {"record-duplicated-events", true},
      {"emit-per-nodegroup-metrics", true},
      {"debugging-snapshot-enabled", true},
      {"leader-elect", true},
      {"leader-elect-lease-duration"},
      {"leader-elect-renew-deadline"},
      {"leader-elect-retry-period"},
      {"leader-elect-resource-lock"},
      {"leader-elect-resource-name"},
      {"leader-elect-resource-namespace"},
      {"user-agent"},
      {"address"},
      {"profiling", true},
      {"feature-gates"},
      {"v"},
      {"vmodule"},
      {"logtostderr", true},
      {"alsologtostderr", true},
      {"stderrthreshold"},
      {"logging-format"},
      {"log-file"},
      {"log-dir"},
      {"log-file-max-size"},
      {"skip-headers", true},
      {"skip-log-headers", true},
      {"add-dir-header", true},
      {"one-output", true}};
  return all;
}

}  // namespace

Result<std::vector<std::string>> expanders_of(std::string_view text) {
  std::vector<std::string> out;
  for (const auto item : split(text, ',')) {
    if (std::ranges::find(kExpanders, item) == kExpanders.end()) {
      return bad_flag("expander", fmt::format("'{}' is unknown", item),
                      "use priority, price, least-waste, most-pods, least-nodes or random");
    }
    if (std::ranges::find(out, item) != out.end())
      return bad_flag("expander", fmt::format("{} is repeated", item), "name each expander once");
    if (!out.empty() && out.back() == "random")
      return bad_flag("expander", fmt::format("{} follows random, which leaves no tie", item), "put random last");
    out.emplace_back(item);
  }
  return out;
}

Result<NodesFlag> nodes_flag(std::string_view text) {
  constexpr const char* kForm = "write --nodes=MIN:MAX:NAME";
  const auto first = text.find(':');
  const auto second = first == std::string_view::npos ? first : text.find(':', first + 1);
  if (second == std::string_view::npos) return bad_flag("nodes", fmt::format("'{}' has no three parts", text), kForm);
  const auto min = whole_number(text.substr(0, first));
  const auto max = whole_number(text.substr(first + 1, second - first - 1));
  if (!min || !max || *min < 0)
    return bad_flag("nodes", fmt::format("the bounds of '{}' are not numbers of nodes", text), kForm);
  if (*min > *max) {
    return bad_flag("nodes", fmt::format("the minimum {} is above the maximum {}", *min, *max),
                    fmt::format("write --nodes={}:{}:{}", *max, *min, text.substr(second + 1)));
  }
  if (*max == 0) return bad_flag("nodes", "the maximum is 0, so the group never has a node", "raise it");
  const std::string_view name = text.substr(second + 1);
  if (name.empty()) return bad_flag("nodes", fmt::format("'{}' names no group", text), kForm);
  return NodesFlag{*min, *max, std::string(name)};
}

Result<std::map<std::string, std::string>> discovery_flag(std::string_view text) {
  constexpr std::string_view kPrefix = "asg:tag=";
  constexpr const char* kForm = "write asg:tag=KEY[=VALUE],...";
  const std::string_view flag = "node-group-auto-discovery";
  if (!text.starts_with(kPrefix)) return bad_flag(flag, fmt::format("'{}' is not a list of tags", text), kForm);
  std::map<std::string, std::string> tags;
  for (const auto item : split(text.substr(kPrefix.size()), ',')) {
    const auto equals = item.find('=');
    const std::string_view value = equals == std::string_view::npos ? std::string_view() : item.substr(equals + 1);
    if (item.substr(0, equals).empty()) return bad_flag(flag, "a tag has no key", kForm);
    tags[std::string(item.substr(0, equals))] = value;
  }
  return tags;
}

Result<Flags> read_flags(std::span<const std::string> args) {
  Flags out;
  std::vector<std::string> others;
  QM_TRY(read_flag_table<Flags>(args, ca_flags(), out, others, out.notes));
  if (!others.empty())
    return fail(Error{Code::kInvalid, fmt::format("unexpected argument '{}'", others.front()), {}, "remove it"});
  return out;
}

Result<std::vector<std::string>> flags_of_workload(const Json& object) {
  for (const Json& container : object.path("spec.template.spec.containers").items()) {
    std::vector<std::string> words;
    for (const char* field : {"command", "args"}) {
      for (const Json& word : container[field].items()) words.push_back(word.string());
    }
    const auto program = std::ranges::find_if(
        words, [](const auto& word) { return word == "cluster-autoscaler" || word.ends_with("/cluster-autoscaler"); });
    if (program != words.end()) return std::vector<std::string>(program + 1, words.end());
    // The image's own program, with arguments only.
    const bool by_image = container["image"].string().find("/cluster-autoscaler:") != std::string::npos;
    if (by_image && container["command"].size() == 0) return words;
  }
  return fail(Error{Code::kNotFound,
                    fmt::format("{} {} runs no cluster-autoscaler", object["kind"].string_or("the object"),
                                object.path("metadata.name").string()),
                    "spec.template.spec.containers", "give the Deployment of Cluster Autoscaler"});
}

std::map<std::string, std::string> settings_of(const Flags& flags) {
  std::map<std::string, std::string> out;
  std::string chain;
  for (const auto& each : flags.expanders) chain += (chain.empty() ? "" : ",") + each;
  out["expander"] = chain;
  const ScaleDown& down = flags.scale_down;
  const ScaleDown defaults;
  const auto differs = [&](const char* name, const auto& value, const auto& standard, auto text) {
    if (value != standard) out[name] = text(value);
  };
  const auto truth_text = [](bool value) { return std::string(value ? "true" : "false"); };
  const auto number_text = [](std::int64_t value) { return std::to_string(value); };
  if (down.enabled) {
    out["scale-down-utilization-threshold"] = share_text(down.utilization_milli);
    differs("scale-down-gpu-utilization-threshold", down.gpu_utilization_milli, defaults.gpu_utilization_milli,
            share_text);
    differs("scale-down-delay-after-delete", down.delay_after_delete, defaults.delay_after_delete,
            settings::duration_text);
    differs("scale-down-delay-after-failure", down.delay_after_failure, defaults.delay_after_failure,
            settings::duration_text);
    differs("skip-nodes-with-local-storage", down.skip_local_storage, true, truth_text);
    differs("skip-nodes-with-custom-controller-pods", down.skip_custom_controllers, true, truth_text);
    differs("ignore-daemonsets-utilization", down.ignore_daemon_sets, false, truth_text);
    differs("max-empty-bulk-delete", down.max_empty, defaults.max_empty, number_text);
    differs("max-drain-parallelism", down.max_drains, defaults.max_drains, number_text);
    differs("max-graceful-termination-sec", down.max_grace_seconds, defaults.max_grace_seconds, number_text);
  }
  if (flags.balance_similar) out["balance-similar-node-groups"] = "true";
  if (!down.skip_system_pods) out["skip-nodes-with-system-pods"] = "false";
  if (!flags.discovery.empty()) out["node-group-auto-discovery"] = flags.discovery.front();
  out["scale-down-delay-after-add"] = settings::duration_text(down.delay_after_add);
  out["scale-down-unready-time"] = settings::duration_text(down.unready);
  return out;
}

}  // namespace qm::node_groups
