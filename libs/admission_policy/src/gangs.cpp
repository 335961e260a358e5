// Gangs: the number of pods, the settings of NCCL and UCX in each pod, and the topology level that they request.
#include "pod.hpp"
#include "rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace qm::admission_policy {
namespace {

constexpr std::string_view kTopoFile = "NCCL_TOPO_FILE";
constexpr const char* kVolume = "nccl-topology";
constexpr std::array<std::string_view, 3> kTopologyRequested{"kueue.x-k8s.io/podset-required-topology",
                                                             "kueue.x-k8s.io/podset-preferred-topology",
                                                             "kueue.x-k8s.io/podset-unconstrained-topology"};
/// Labels and annotations that mark a pod of a gang, but do not specify its size.
constexpr std::array<std::string_view, 4> kGangLabels{
    "scheduling.k8s.io/group-name", "pod-group.scheduling.sigs.k8s.io", "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io/name"};

/// The number at the start of the text, such as the minimum of "2:4" (PET_NNODES of an elastic job); 0 where
/// there is none.
std::int64_t first_number(std::string_view text) {
  std::int64_t out = 0;
  std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

const Json* named(const Json& list, std::string_view name) {
  for (const auto& item : list.items()) {
    if (item["name"].string() == name) return &item;
  }
  return nullptr;
}

bool mounts_topology(const Json& container) {
  const auto& mounts = container["volumeMounts"].items();
  return std::ranges::any_of(mounts, [](const Json& m) { return m["mountPath"].string() == kTopologyPath; });
}

/// Variables of a ConfigMap or Secret are not visible here, and a variable added to the container
/// would override them.
bool knows_more(const Json& container) { return container["envFrom"].size() > 0; }

/// The variables that a container of the gang still lacks.
std::vector<const std::pair<std::string, std::string>*> missing(const Json& container, std::int64_t gang,
                                                                const GangDefaults& defaults, bool topology_file) {
  std::vector<const std::pair<std::string, std::string>*> out;
  if (knows_more(container)) return out;
  for (const auto& variable : defaults.environment) {
    const bool of_file = variable.first == kTopoFile;
    if (of_file ? !topology_file : gang <= 1) continue;
    if (named(container["env"], variable.first) == nullptr) out.push_back(&variable);
  }
  return out;
}

bool needs_mount(const Json& container, std::int64_t gang, const GangDefaults& defaults) {
  return gang > 1 && !defaults.topology_map.empty() && !mounts_topology(container);
}

bool sets_topology(const Json& pod) {
  const auto& annotations = pod["metadata"]["annotations"];
  return std::ranges::any_of(kTopologyRequested, [&](const auto key) { return annotations.contains(key); });
}

}  // namespace

const std::vector<std::pair<std::string, std::string>>& gang_environment() {
  static const std::vector<std::pair<std::string, std::string>> all{
      {"NCCL_DEBUG", "INFO"},
      {"NCCL_DEBUG_SUBSYS", "INIT,NET"},
      {"NCCL_SOCKET_IFNAME", "eth0"},
      {"NCCL_IB_HCA", "mlx5"},
      {"UCX_NET_DEVICES", "mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1"},
      {"NCCL_IB_DISABLE", "0"},
      {std::string(kTopoFile), std::string(kTopologyPath)}};
  return all;
}

std::int64_t gang_of(const Json& pod) {
  const auto& metadata = pod["metadata"];
  const auto& labels = metadata["labels"];
  const auto& annotations = metadata["annotations"];
  for (const auto* key : {"kueue.x-k8s.io/pod-group-total-count", "leaderworkerset.sigs.k8s.io/size"}) {
    if (const auto size = first_number(annotations[key].string()); size > 0) return size;
  }
  std::int64_t most = 1;
  for (const auto& container : pod["spec"]["containers"].items()) {
    for (const auto* key : {"PET_NNODES", "WORLD_SIZE"}) {  // set by the PyTorch operator, which counts pods
      if (const auto* variable = named(container["env"], key))
        most = std::max(most, first_number((*variable)["value"].string()));
    }
  }
  if (most > 1) return most;
  if (labels["training.kubeflow.org/operator-name"].string() == "mpi-operator") return 2;
  const bool grouped = std::ranges::any_of(
      kGangLabels, [&](const auto key) { return !labels[key].string().empty() || !annotations[key].string().empty(); });
  return grouped ? 2 : 1;
}

void join_gang(Json& pod, std::int64_t gang, const GangDefaults& defaults) {
  auto* spec = pod.find("spec");
  if (spec == nullptr) return;
  bool mounted = false;
  auto* containers = spec->find("containers");
  if (containers == nullptr || !containers->is_array()) return;
  for (auto& container : containers->items_mut()) {
    if (gpus_of(container) == 0) continue;
    if (needs_mount(container, gang, defaults)) {
      container.set("volumeMounts")
          .push_back(Json::object(
              {{"name", kVolume}, {"mountPath", kTopologyPath}, {"subPath", kTopologyKey}, {"readOnly", true}}));
      mounted = true;
    }
    for (const auto* variable : missing(container, gang, defaults, mounts_topology(container))) {
      container.set("env").push_back(Json::object({{"name", variable->first}, {"value", variable->second}}));
    }
  }
  if (!mounted || named((*spec)["volumes"], kVolume) != nullptr) return;
  spec->set("volumes").push_back(
      Json::object({{"name", kVolume}, {"configMap", Json::object({{"name", defaults.topology_map}})}}));
}

void gang_environment(const Case& one, Findings& out) {
  if (!one.facts().gangs) return;
  const auto& defaults = *one.facts().gangs;
  const auto& containers = one.spec()["containers"].items();
  for (std::size_t i = 0; i < containers.size(); ++i) {
    const auto& container = containers[i];
    if (gpus_of(container) == 0) continue;
    std::string names;
    for (const auto* variable : missing(container, one.gang, defaults, mounts_topology(container))) {
      names += (names.empty() ? "" : ", ") + variable->first;
    }
    if (needs_mount(container, one.gang, defaults))
      names += fmt::format("{}a mount of {}", names.empty() ? "" : ", ", kTopologyPath);
    if (names.empty()) continue;
    const Place place{"containers", i};
    out.push_back({"gang-environment", fmt::format("{} of a gang lacks {}", in_container(container, place), names),
                   place.path() + ".env", "set them, or let the webhook do it with mode mutate",
                   container["name"].string()});
  }
}

void request_topology(Json& pod, const GangDefaults& defaults) {
  if (defaults.topology.empty() || !uses_gpus(pod["spec"]) || sets_topology(pod)) return;
  pod.set("metadata").set("annotations").set(kTopologyRequested[1], defaults.topology);
}

void gang_topology(const Case& one, Findings& out) {
  if (one.gang <= 1 || !one.facts().gangs || one.facts().gangs->topology.empty() || sets_topology(one.pod)) return;
  out.push_back(
      {"gang-topology", "the pods of a gang request no topology", "metadata.annotations",
       fmt::format("set {} to {}, or another of its kind", kTopologyRequested[1], one.facts().gangs->topology)});
}

}  // namespace qm::admission_policy
