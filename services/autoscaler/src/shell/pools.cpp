// Converts NodePools to the engine's form: the requirements are compared with the labels of a node of each type in the
// catalog.
#include "manifests.hpp"
#include "qm/autoscaler/shell.hpp"
#include "qm/base/log.hpp"
#include "qm/base/parse.hpp"
#include "qm/catalog/catalog.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>

namespace qm::autoscaler {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

/// "NVIDIA-A100-SXM4-40GB" -> "a100", "Tesla-T4" -> "t4", "NVIDIA-RTX-PRO-Server-6000" -> "rtx-pro-server-6000"
std::string gpu_name(std::string_view product) {
  std::string name = lower(product.substr(product.find('-') + 1));
  return name.starts_with("rtx") ? name : name.substr(0, name.find('-'));
}

/// The well-known label of a node of this type; nullopt = the node does not have it, or the key does not depend on the
/// type.
std::optional<std::string> label_of(const catalog::Type& t, std::string_view key) {
  const auto dot = t.name.find('.');
  const std::string_view family = t.name.substr(0, dot), size = t.name.substr(dot + 1);
  const auto digit = std::find_if(family.begin(), family.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  const std::string category(family.begin(), digit);
  const auto after = std::find_if(digit, family.end(), [](unsigned char c) { return std::isdigit(c) == 0; });
  if (key == words::kInstanceType) return std::string(t.name);
  if (key == "kubernetes.io/os") return "linux";
  if (key == "kubernetes.io/arch") return architecture_of(t.name) == "arm64" ? "arm64" : "amd64";
  if (key == words::kGpuProduct) return t.gpus == 0 ? std::nullopt : std::optional(std::string(t.gpu_product));
  constexpr std::string_view prefix = "karpenter.k8s.aws/instance-";
  if (!key.starts_with(prefix)) return std::nullopt;
  key.remove_prefix(prefix.size());
  if (key == "family") return std::string(family);
  if (key == "size") return std::string(size);
  if (key == "category") return category;
  if (key == "generation") return std::string(digit, after);
  if (key == "cpu") return std::to_string(t.vcpu);
  if (key == "memory") return std::to_string(t.memory_mib);
  if (t.gpus == 0) return std::nullopt;
  if (key == "gpu-count") return std::to_string(t.gpus);
  if (key == "gpu-manufacturer") return "nvidia";
  if (key == "gpu-name") return gpu_name(t.gpu_product);
  return std::nullopt;
}

bool about_types(std::string_view key) {
  return key == words::kInstanceType || key == words::kGpuProduct || key == "kubernetes.io/os" ||
         key == "kubernetes.io/arch" || key.starts_with("karpenter.k8s.aws/instance-");
}

bool allows(const config::NodePoolRequirement& r, const std::optional<std::string>& value) {
  const bool listed = value && std::find(r.values.begin(), r.values.end(), *value) != r.values.end();
  if (r.op == "In") return listed;
  if (r.op == "NotIn") return !listed;
  if (r.op == "Exists") return value.has_value();
  if (r.op == "DoesNotExist") return !value;
  if (!value || r.values.empty()) return false;
  const auto have = whole_number(*value), bound = whole_number(r.values.front());
  if (!have || !bound) return false;
  if (r.op == "Gt") return *have > *bound;
  if (r.op == "Gte") return *have >= *bound;
  if (r.op == "Lt") return *have < *bound;
  return r.op == "Lte" && *have <= *bound;
}

/// Whether the label is a user's own: not one that Kubernetes, a cloud or Karpenter sets on nodes. Of the domains of
/// Kubernetes these are the ones that Karpenter allows in a NodePool.
bool is_custom(std::string_view key) {
  if (about_types(key) || key == words::kZone || key == words::kCapacityType) return false;
  if (key == "node.kubernetes.io/windows-build") return false;
  const std::string_view domain = key.substr(0, key.find('/') == std::string_view::npos ? 0 : key.find('/'));
  const auto within = [&](std::string_view other) {
    return domain == other || (domain.ends_with(other) && domain[domain.size() - other.size() - 1] == '.');
  };
  constexpr std::string_view kOpen[] = {"node.kubernetes.io", "node-restriction.kubernetes.io", "kops.k8s.io"};
  constexpr std::string_view kTheirs[] = {
      "kubernetes.io",     "k8s.io",           "karpenter.sh",        "k8s.aws",
      "eks.amazonaws.com", "cloud.google.com", "karpenter.azure.com", "kubernetes.azure.com"};
  return std::ranges::any_of(kOpen, within) || std::ranges::none_of(kTheirs, within);
}

/// The intersection of the requirements on the key; nullopt = it is empty.
std::optional<LabelRule> rule_of(const std::vector<config::NodePoolRequirement>& requirements, const std::string& key) {
  LabelRule rule;
  rule.key = key;
  std::optional<std::set<std::string>> listed;
  std::set<std::string> excluded;
  for (const auto& r : requirements) {
    if (r.key != key) continue;
    const std::set<std::string> values(r.values.begin(), r.values.end());
    if (r.op == "In") {
      std::set<std::string> both;
      for (const auto& value : values) {
        if (!listed || listed->contains(value)) both.insert(value);
      }
      listed = std::move(both);
    } else if (r.op == "NotIn") {
      excluded.insert(values.begin(), values.end());
    } else if (r.op == "DoesNotExist") {
      rule.absent = true;
    } else if (r.op != "Exists") {
      const auto bound = r.values.empty() ? std::nullopt : whole_number(r.values.front());
      if (!bound) return std::nullopt;
      if (r.op == "Gt" || r.op == "Gte")
        rule.at_least = std::max(rule.at_least.value_or(0), *bound + (r.op == "Gt" ? 1 : 0));
      if (r.op == "Lt" || r.op == "Lte")
        rule.at_most = std::min(rule.at_most.value_or(INT64_MAX), *bound - (r.op == "Lt" ? 1 : 0));
    }
    rule.required = rule.required || (r.op != "NotIn" && r.op != "DoesNotExist");
  }
  if (rule.absent) return rule.required ? std::nullopt : std::optional(rule);
  rule.listed = listed.has_value();
  if (listed) {
    rule.values.assign(listed->begin(), listed->end());
    const LabelRule all = rule;
    std::erase_if(rule.values, [&](const auto& value) { return excluded.contains(value) || !allows(all, value); });
    if (rule.values.empty()) return std::nullopt;
  } else {
    rule.values.assign(excluded.begin(), excluded.end());
    if (rule.required && rule.at_most && std::stoll(*lowest(rule)) > *rule.at_most) return std::nullopt;
  }
  return rule;
}

}  // namespace

Pool pool_from(const config::NodePool& from) {
  Pool p;
  p.name = from.name;
  p.weight = from.weight;
  p.labels = from.labels;
  p.taints = from.taints;
  p.group = from.scaling_group;
  p.node_class = from.node_class;
  p.consolidate_empty = from.consolidate_after != Duration::max();
  p.consolidate_after = p.consolidate_empty ? from.consolidate_after : Duration{0};
  // "No node at any time, also for being empty" is the only budget that is enforced so far.
  for (const auto& b : from.budgets) {
    const bool of_empty =
        b.reasons.empty() || std::find(b.reasons.begin(), b.reasons.end(), "Empty") != b.reasons.end();
    if (b.schedule.empty() && of_empty && (b.nodes == "0" || b.nodes == "0%")) p.consolidate_empty = false;
  }
  for (const auto& [resource, limit] : from.limits) {
    if (resource == words::kGpuResource) p.limit_gpus = limit.units();
    if (resource == "cpu") p.limit_cpu_milli = limit.milli();
    if (resource == "memory") p.limit_memory_bytes = limit.units();
    if (resource == "nodes") p.limit_nodes = limit.units();
  }
  p.replicas = from.replicas;
  for (const auto& t : catalog::types()) {
    const bool fits = std::all_of(from.requirements.begin(), from.requirements.end(),
                                  [&](const auto& r) { return !about_types(r.key) || allows(r, label_of(t, r.key)); });
    if (fits && !t.usd_hour.empty()) p.instance_types.emplace_back(t.name);
  }
  for (const Market m : {Market::kOnDemand, Market::kSpot}) {
    const bool fits = std::all_of(from.requirements.begin(), from.requirements.end(), [&](const auto& r) {
      return r.key != words::kCapacityType || allows(r, std::string(name_of(m)));
    });
    if (fits) p.markets.push_back(m);
  }
  std::set<std::string> keys;
  for (const auto& r : from.requirements) {
    const bool of_zone = r.key == words::kZone, custom = is_custom(r.key);
    if (!of_zone && !custom && !about_types(r.key) && r.key != words::kCapacityType)
      log::warn("a requirement of the pool is not used", {{"pool", p.name}, {"key", r.key}, {"operator", r.op}});
    if ((of_zone || custom) && keys.insert(r.key).second) {
      const auto rule = rule_of(from.requirements, r.key);
      // No zone is a number, and every instance has one.
      bool possible = rule && !(of_zone && (rule->absent || rule->at_least || rule->at_most));
      if (possible && of_zone) {
        (rule->listed ? p.zones : p.not_zones) = rule->values;
      } else if (const auto own = p.labels.find(r.key); possible && own != p.labels.end()) {
        possible = allows(*rule, own->second);  // the template's label is the value
      } else if (possible) {
        p.rules.push_back(*rule);
      }
      if (!possible) {
        log::warn("no instance type meets the requirement of the NodePool on this label",
                  {{"pool", p.name}, {"key", r.key}});
        p.instance_types.clear();
      }
    }
    if (r.key != words::kInstanceType || r.op != "In") continue;
    for (const auto& value : r.values) {
      if (catalog::find(value) == nullptr) {
        log::warn("the catalog does not have this instance type; the NodePool is used without it",
                  {{"pool", p.name}, {"type", value}});
      }
    }
  }
  std::sort(p.rules.begin(), p.rules.end());
  return p;
}

Result<std::vector<Pool>> pools_from_manifests(std::span<const std::string> paths) {
  QM_ASSIGN(const auto read, typed_manifests<config::NodePool>(paths));
  std::vector<Pool> pools;
  for (const auto& pool : read) pools.push_back(pool_from(pool));
  QM_TRY(one_pool_for_each_group(pools));
  return pools;
}

Status one_pool_for_each_group(std::span<const Pool> pools) {
  for (auto a = pools.begin(); a != pools.end(); ++a) {
    const auto same =
        std::find_if(a + 1, pools.end(), [&](const Pool& b) { return !a->group.empty() && a->group == b.group; });
    if (same == pools.end()) continue;
    return fail(
        Error{Code::kInvalid,
              fmt::format("NodePools {} and {} name the same Auto Scaling group {}", a->name, same->name, a->group),
              fmt::format("metadata.annotations[{}]", words::kScalingGroup),
              "use one Auto Scaling group per NodePool, or merge the NodePools"});
  }
  return {};
}

}  // namespace qm::autoscaler
