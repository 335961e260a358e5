// gcloud container node-pools create.
#include "flag_table.hpp"
#include "qm/node_groups/commands.hpp"
#include "shell_words.hpp"
#include "values.hpp"

#include <algorithm>

namespace qm::node_groups {
namespace {

/// What the flags of one command set.
struct Gke {
  NodeGroup group;
  std::string accelerator;  ///< "nvidia-tesla-a100"
  std::int64_t accelerators = 0;
  std::int64_t nodes = 3;  ///< gcloud's default
  std::optional<std::int64_t> min, max, total_min, total_max;
  bool autoscaled = false;
};

std::function<Status(std::string_view, Gke&)> gke_number(std::string_view flag,
                                                         std::function<void(Gke&, std::int64_t)> set) {
  return [flag, set = std::move(set)](std::string_view text, Gke& out) -> Status {
    const auto value = whole_number(text);
    if (!value || *value < 0)
      return bad_flag(flag, fmt::format("'{}' is not a number of nodes", text), "write 0 or more");
    set(out, *value);
    return {};
  };
}

std::function<Status(std::string_view, Gke&)> gke_truth(std::string_view flag, std::function<void(Gke&, bool)> set) {
  return [flag, set = std::move(set)](std::string_view text, Gke& out) -> Status {
    const auto value = bool_of(text);
    if (!value) return bad_flag(flag, fmt::format("'{}' is not a boolean", text), "write true or false");
    set(out, *value);
    return {};
  };
}

// "type=nvidia-tesla-a100,count=8,gpu-driver-version=latest"
Status read_accelerator(std::string_view text, Gke& out) {
  QM_ASSIGN(const auto parts, labels_of(text));
  out.accelerators = 1;
  for (const auto& [key, value] : parts) {
    if (key == "type") out.accelerator = value;
    if (key != "count") continue;
    const auto count = whole_number(value);
    if (!count || *count < 1)
      return bad_flag("accelerator", fmt::format("count '{}' is not a number of GPUs", value), "write 1 or more");
    out.accelerators = *count;
  }
  if (out.accelerator.empty()) return bad_flag("accelerator", "it has no type", "write type=nvidia-tesla-a100,count=8");
  return {};
}

const std::vector<Flag<Gke>>& gke_flags() {
  constexpr std::string_view kTemplate = "the node class or the launch template of the pool has it";
  static const std::vector<Flag<Gke>> all{
      {"accelerator", false, read_accelerator},
      {"machine-type", false,
       [](std::string_view text, Gke& out) -> Status {
         out.group.instance_type = text;
         return {};
       }},
      {"spot", true, gke_truth("spot", [](Gke& out, bool on) { out.group.spot |= on; })},
      {"preemptible", true, gke_truth("preemptible", [](Gke& out, bool on) { out.group.spot |= on; })},
      {"enable-autoscaling", true, gke_truth("enable-autoscaling", [](Gke& out, bool on) { out.autoscaled = on; })},
      {"num-nodes", false, gke_number("num-nodes", [](Gke& out, std::int64_t n) { out.nodes = n; })},
      {"min-nodes", false, gke_number("min-nodes", [](Gke& out, std::int64_t n) { out.min = n; })},
      {"max-nodes", false, gke_number("max-nodes", [](Gke& out, std::int64_t n) { out.max = n; })},
      {"total-min-nodes", false, gke_number("total-min-nodes", [](Gke& out, std::int64_t n) { out.total_min = n; })},
      {"total-max-nodes", false, gke_number("total-max-nodes", [](Gke& out, std::int64_t n) { out.total_max = n; })},
      {"node-taints", false,
       [](std::string_view text, Gke& out) -> Status {
         QM_ASSIGN(out.group.taints, taints_of(text));
         return {};
       }},
      {"node-labels", false,
       [](std::string_view text, Gke& out) -> Status {
         QM_ASSIGN(out.group.labels, labels_of(text));
         return {};
       }},
      {"node-locations", false,
       [](std::string_view text, Gke& out) -> Status {
         for (const auto zone : split(text, ',')) out.group.zones.emplace_back(zone);
         return {};
       }},
      {"zone", false,
       [](std::string_view text, Gke& out) -> Status {
         if (out.group.zones.empty()) out.group.zones.emplace_back(text);
         return {};
       }},
      {"cluster"},
      {"region"},
      {"location"},
      {"project"},
      {"async", true},
      {"quiet", true},
      {"format"},
      {"account"},
      {"verbosity"},
      {"disk-size", false, {}, kTemplate},
      {"disk-type", false, {}, kTemplate},
      {"image-type", false, {}, kTemplate},
      {"boot-disk-kms-key", false, {}, kTemplate},
      {"local-ssd-count", false, {}, kTemplate},
      {"ephemeral-storage-local-ssd", false, {}, kTemplate},
      {"local-nvme-ssd-block", false, {}, kTemplate},
      {"scopes", false, {}, kTemplate},
      {"service-account", false, {}, kTemplate},
      {"metadata", false, {}, kTemplate},
      {"tags", false, {}, kTemplate},
      {"labels", false, {}, kTemplate},
      {"enable-gvnic", true, {}, kTemplate},
      {"enable-image-streaming", true, {}, kTemplate},
      {"min-cpu-platform", false, {}, kTemplate},
      {"max-pods-per-node", false, {}, kTemplate},
      {"node-version", false, {}, kTemplate},
      {"shielded-secure-boot", true, {}, kTemplate},
      {"shielded-integrity-monitoring", true, {}, kTemplate},
      {"workload-metadata", false, {}, kTemplate},
      {"system-config-from-file", false, {}, kTemplate},
      {"enable-autorepair", true, {}, "a faulty node is drained and terminated by its health"},
      {"enable-autoupgrade", true, {}, "change the image of the node class"},
      {"max-surge-upgrade", false, {}, "disruption budgets of the NodePool limit it"},
      {"max-unavailable-upgrade", false, {}, "disruption budgets of the NodePool limit it"},
      {"location-policy", false, {}, "the cheapest zone with capacity is used"},
      {"placement-type", false, {}, "the node class has the placement group"},
      {"placement-policy", false, {}, "the node class has the placement group"},
      {"reservation-affinity", false, {}, "the node class selects reservations"},
      {"reservation", false, {}, "the node class selects reservations"},
      {"enable-queued-provisioning", true, {}, "a gang is launched whole in any case"}};
  return all;
}

/// "a100" of "nvidia-tesla-a100" and of "nvidia-a100-80gb".
std::string gpu_model_of(std::string_view accelerator) {
  for (const std::string_view prefix : {"nvidia-", "tesla-"}) {
    if (accelerator.starts_with(prefix)) accelerator.remove_prefix(prefix.size());
  }
  return std::string(accelerator.substr(0, accelerator.find('-')));
}

/// The GPUs that belong to a machine type: 8 of "a2-highgpu-8g"; 0 = the accelerator decides.
std::int64_t gpus_of_machine(std::string_view type) {
  const auto dash = type.rfind('-');
  const bool accelerated = type.starts_with("a2-") || type.starts_with("a3-") || type.starts_with("a4-");
  if (!accelerated || dash == std::string_view::npos || !type.ends_with('g')) return 0;
  return whole_number(type.substr(dash + 1, type.size() - dash - 2)).value_or(0);
}

// Bounds count the nodes of one zone, unless they are totals.
Status fill_gke_bounds(Gke& from, std::vector<std::string>& notes) {
  NodeGroup& group = from.group;
  const auto zones = static_cast<std::int64_t>(std::max<std::size_t>(group.zones.size(), 1));
  group.autoscaled = from.autoscaled;
  if (!from.autoscaled) {
    group.min = group.max = from.nodes * zones;
    notes.emplace_back(
        "the pool is sized manually, so it becomes a static NodePool: its replicas never shrink by demand");
    return {};
  }
  if (!from.max && !from.total_max)
    return bad_flag("enable-autoscaling", "it has no upper bound", "add --max-nodes or --total-max-nodes");
  group.min = from.total_min ? *from.total_min : from.min.value_or(0) * zones;
  group.max = from.total_max ? *from.total_max : *from.max * zones;
  if (group.min > group.max) {
    return bad_flag("min-nodes", fmt::format("the minimum {} is above the maximum {}", group.min, group.max),
                    "exchange the bounds");
  }
  if (from.max && group.zones.empty())
    notes.emplace_back("--max-nodes counts the nodes of one zone: if the pool spans several, multiply spec.limits");
  if (group.min > 0) {
    notes.push_back(
        fmt::format("a NodePool has no minimum: for the {} node(s) add a static NodePool with replicas", group.min));
  }
  return {};
}

Result<Imported> read_gke(std::span<const std::string> args) {
  Gke read;
  Imported out;
  std::vector<std::string> names;
  QM_TRY(read_flag_table<Gke>(args, gke_flags(), read, names, out.notes));
  if (names.size() != 1) {
    return fail(Error{Code::kInvalid,
                      fmt::format("{} names of a node pool, one is expected", names.size()),
                      {},
                      "name the pool after create"});
  }
  read.group.name = names.front();
  read.group.provider = "gce";
  QM_TRY(fill_gke_bounds(read, out.notes));
  const std::int64_t built_in = gpus_of_machine(read.group.instance_type);
  if (built_in > 0 && read.accelerators > 0 && built_in != read.accelerators) {
    return bad_flag("accelerator",
                    fmt::format("count {} does not match {}, which has {} GPUs", read.accelerators,
                                read.group.instance_type, built_in),
                    fmt::format("write count={}", built_in));
  }
  read.group.gpus = read.accelerators > 0 ? read.accelerators : built_in;
  read.group.gpu_model = gpu_model_of(read.accelerator);
  out.group = std::move(read.group);
  return out;
}

}  // namespace

Result<std::vector<Imported>> gke_node_pools(std::string_view script) {
  QM_ASSIGN(const auto commands, shell_commands(script));
  std::vector<Imported> out;
  for (const auto& words : commands) {
    // "gcloud beta container node-pools create" is the same command.
    const std::vector<std::string> wanted{"container", "node-pools", "create"};
    const auto at = std::ranges::search(words, wanted);
    if (words.front() != "gcloud" || at.empty() || at.begin() - words.begin() > 2) continue;
    const std::span<const std::string> args(std::to_address(at.begin()) + 3, words.data() + words.size());
    QM_ASSIGN(auto one, read_gke(args));
    out.push_back(std::move(one));
  }
  if (out.empty()) {
    return fail(Error{
        Code::kInvalid, "no node pool is created", {}, "give a script with `gcloud container node-pools create NAME`"});
  }
  return out;
}

}  // namespace qm::node_groups
