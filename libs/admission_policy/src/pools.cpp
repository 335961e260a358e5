// The rules about the nodes that a pod selects, and about GPU sharing. The only inputs are the pools in the policy,
// the instance types in the catalog, and the pod itself.
#include "choice.hpp"
#include "pod.hpp"
#include "rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace qm::admission_policy {
namespace {

__extension__ typedef __int128 Wide;

/// Label of a namespace with users that accept that other pods can read data left in a shared GPU.
constexpr std::string_view kSharesGpus = "quartermaster.dev/shared-gpus";
constexpr std::array<std::string_view, 4> kSpotTaints{"karpenter.sh/capacity-type", "spot", "cloud.google.com/gke-spot",
                                                      "kubernetes.azure.com/scalesetpriority"};

/// Thousandths of a GPU that the pod uses on its node.
std::int64_t gpu_milli(const Json& spec, const Pool* pool) {
  const std::int64_t replicas = pool == nullptr || pool->sharing == Sharing::kNone ? 1 : pool->replicas;
  std::int64_t out = 0;
  each_container(spec, [&](const Json& container) {
    for (const auto& [name, value] : container["resources"]["limits"].members()) {
      const auto amount = quantity(value);
      if (!amount || !is_gpu(name)) continue;
      const std::int64_t units = std::clamp<std::int64_t>(amount->units(), 0, 1'000'000);
      if (name == words::kGpuMilliResource) {
        out += units;
      } else if (name.starts_with(words::kMigPrefix)) {
        out += units * 1000 * compute_slices(std::string_view(name).substr(words::kMigPrefix.size())) / 7;
      } else {
        out += units * 1000 / replicas;
      }
    }
  });
  return out;
}

/// Whether `asked`, of a node with `all`, is more than the share that belongs to `milli` thousandths of
/// its `gpus` GPUs.
bool exceeds(std::int64_t asked, std::int64_t all, std::int64_t milli, std::int64_t gpus) {
  return static_cast<Wide>(asked) * gpus * 1000 > static_cast<Wide>(all) * milli;
}

bool is_mig(const Json& spec) {
  bool any = false;
  each_container(spec, [&](const Json& container) {
    for (const auto& [name, value] : container["resources"]["limits"].members()) {
      any = any || name.starts_with(words::kMigPrefix);
    }
  });
  return any;
}

bool is_production(const Case& one) {
  const auto named = one.label(kEnvironment);
  return named == "production" || named == "prod";
}

std::string promised_latency(const Case& one) {
  for (const auto& key : one.facts().slo_labels) {
    if (!one.label(key).empty()) return key;
  }
  return {};
}

const char* word_of(Sharing sharing) { return sharing == Sharing::kMps ? "MPS" : "time-slicing"; }

/// Reports containers that request more than one share where the pool gives one to a container.
void check_share_count(const Case& one, const Pool& pool, Findings& out) {
  each_container(one.spec(), [&](const Json& container, const Place& place) {
    for (const auto& [name, value] : container["resources"]["limits"].members()) {
      const auto amount = quantity(value);
      if (!is_gpu(name) || !amount || amount->units() <= 1) continue;
      out.push_back({"gpu-sharing",
                     fmt::format("{} requests {} shares of pool {}, whose nodes allow one per container",
                                 in_container(container, place), amount->units(), pool.name),
                     place.path() + ".resources.limits", "request one; several shares are not faster than one",
                     container["name"].string()});
    }
  });
}

}  // namespace

bool wants_spot(const Json& spec) {
  const auto kinds = values_of(spec, words::kCapacityType);
  if (std::ranges::find(kinds, "spot") != kinds.end()) return true;
  return std::ranges::any_of(kSpotTaints, [&](const auto key) { return names_taint(spec, key); });
}

void require_on_demand(Json& spec) {
  const auto is_spot = [](const Json& toleration) {
    return std::ranges::find(kSpotTaints, toleration["key"].string()) != kSpotTaints.end();
  };
  if (auto* tolerations = spec.find("tolerations"); tolerations != nullptr && tolerations->is_array())
    std::erase_if(tolerations->items_mut(), is_spot);
  constexpr const char* kRequired = "requiredDuringSchedulingIgnoredDuringExecution";
  if (spec.path("affinity.nodeAffinity")[kRequired]["nodeSelectorTerms"].is_array()) {
    auto& terms = spec.set("affinity").set("nodeAffinity").set(kRequired).set("nodeSelectorTerms");
    for (auto& term : terms.items_mut()) {
      if (!term["matchExpressions"].is_array()) continue;
      // It is replaced and not removed: a term without expressions matches no node.
      for (auto& e : term.set("matchExpressions").items_mut()) {
        if (e["key"].string() == words::kCapacityType)
          e.set("operator", "In").set("values", Json::array({Json("on-demand")}));
      }
    }
  }
  spec.set("nodeSelector").set(words::kCapacityType, "on-demand");
}

bool sets_capacity_type(const Json& spec) { return !values_of(spec, words::kCapacityType).empty(); }

void gpu_proportion(const Case& one, Findings& out) {
  const auto nodes = nodes_of(one.spec(), one.facts());
  if (nodes.empty()) return;
  const auto milli = gpu_milli(one.spec(), pool_of(one.spec(), one.facts()));
  if (milli == 0) return;
  const auto charge = charge_of(one.spec());
  const auto asked = [&](const char* name) {
    const auto found = charge.find(name);
    return found == charge.end() ? Quantity() : found->second;
  };
  const auto cpu = asked("requests.cpu"), memory = asked("requests.memory");
  const auto beyond = [&](const KnownNode& node) {
    const auto& s = node.shape;
    if (s.gpus <= 0) return std::string();
    if (s.cpu != Quantity() && exceeds(cpu.milli(), s.cpu.milli(), milli, s.gpus)) return std::string("cpu");
    if (s.memory != Quantity() && exceeds(memory.units(), s.memory.units(), milli, s.gpus))
      return std::string("memory");
    return std::string();
  };
  // One instance type with enough capacity suffices.
  if (std::ranges::any_of(nodes, [&](const auto& node) { return beyond(node).empty(); })) return;
  const auto& node = nodes.front();
  const auto what = beyond(node);
  const bool is_cpu = what == "cpu";
  const auto all = is_cpu ? node.shape.cpu.milli() : node.shape.memory.units();
  const auto share = static_cast<std::int64_t>(static_cast<Wide>(all) * milli / (Wide{1000} * node.shape.gpus));
  const auto shown = is_cpu ? Quantity::of_milli(share) : Quantity::of(share, Quantity::Format::kBinarySi);
  out.push_back({"gpu-proportion",
                 fmt::format("the pod requests {} {} with {:g} of the {} GPUs of {}, whose share is {}",
                             (is_cpu ? cpu : memory).to_string(), what, static_cast<double>(milli) / 1000,
                             node.shape.gpus, node.name, shown.to_string()),
                 "containers", fmt::format("request at most {} {}, or more of its GPUs", shown.to_string(), what)});
}

void gpu_sharing(const Case& one, Findings& out) {
  const auto sharing = sharing_of(one.spec(), one.facts());
  if (sharing == Sharing::kNone) return;
  const auto* pool = pool_of(one.spec(), one.facts());
  const auto refuse = [&](std::string what, std::string remedy) {
    out.push_back({"gpu-sharing", std::move(what), "nodeSelector", std::move(remedy)});
  };
  const auto whole = "request a whole GPU or a MIG instance, on nodes that do not share GPUs";
  if (pool != nullptr && pool->one_each) check_share_count(one, *pool, out);
  if (one.label(kWorkloadType) == "training") {
    refuse(fmt::format("SHARED_GPU_FOR_PROD: training must not use GPUs shared by {}", word_of(sharing)), whole);
  }
  if (const auto slo = promised_latency(one); is_production(one) && (!slo.empty() || is_mig(one.spec()))) {
    refuse(fmt::format("SHARED_GPU_FOR_PROD: production{} must not use GPUs shared by {}",
                       slo.empty() ? std::string() : fmt::format(" with a promise ({})", slo), word_of(sharing)),
           whole);
  }
  const bool own = pool != nullptr && pool->namespaces == std::set<std::string>{one.ns};
  const auto agreed = one.home.labels.find(std::string(kSharesGpus));
  if (own || (agreed != one.home.labels.end() && agreed->second == "true")) return;
  refuse(fmt::format("GPUs shared by {} are not isolated from other namespaces", word_of(sharing)),
         fmt::format("label the namespace {}=true to allow it, or dedicate the pool to this namespace", kSharesGpus));
}

void compliance(const Case& one, Findings& out) {
  const auto under = one.home.labels.find(one.facts().compliance_label);
  if (under == one.home.labels.end() || under->second.empty()) return;
  const auto label = fmt::format("{}={}", under->first, under->second);
  bool part = sharing_of(one.spec(), one.facts()) != Sharing::kNone;
  each_container(one.spec(), [&](const Json& container) {
    part = part || container["resources"]["limits"].contains(words::kGpuMilliResource);
  });
  if (part) {
    out.push_back({"compliance", fmt::format("a namespace with {} has whole GPUs and MIG instances only", label),
                   "containers", "request a whole GPU or a MIG instance"});
  }
  if (one.facts().no_spot.contains(under->second) && wants_spot(one.spec())) {
    out.push_back({"compliance", fmt::format("a namespace with {} does not run on spot capacity", label),
                   "nodeSelector",
                   fmt::format("require {}=on-demand, and tolerate no taint of spot nodes", words::kCapacityType)});
  }
}

void pool_purpose(const Case& one, Findings& out) {
  const auto type = std::string(one.label(kWorkloadType));
  const auto refuse = [&](const Pool& pool, const char* field, const char* how, std::string why) {
    out.push_back({"pool-purpose", fmt::format("the pod {} pool {}, which {}", how, pool.name, std::move(why)), field,
                   "choose a pool that is for it"});
  };
  for (const auto& pool : one.facts().pools) {
    const bool chosen = chooses(one.spec(), pool.selector);
    const bool tolerated =
        !pool.taint.empty() && pool.taint != one.settings.gpu_taint && names_taint(one.spec(), pool.taint);
    if (!chosen && !tolerated) continue;
    const auto* how = chosen ? "chooses" : "tolerates the taint of";
    const auto* field = chosen ? "nodeSelector" : "tolerations";
    if (!type.empty() && !pool.serves.empty() && !pool.serves.contains(type)) {
      refuse(pool, field, how, fmt::format("is for {} and not for {}", fmt::join(pool.serves, " and "), type));
    }
    if (!pool.namespaces.empty() && !pool.namespaces.contains(one.ns)) {
      refuse(pool, field, how, fmt::format("belongs to {}", fmt::join(pool.namespaces, " and ")));
    }
  }
}

}  // namespace qm::admission_policy
