// Auto Scaling groups of the account as facts for the engine, and as pools where no NodePool names them.
#include "qm/autoscaler/group_watch.hpp"

#include "qm/base/log.hpp"
#include "qm/catalog/catalog.hpp"
#include "qm/node_groups/node_group.hpp"
#include "qm/node_groups/node_template.hpp"

#include <algorithm>

namespace qm::autoscaler {
namespace {

constexpr int kDetailPolls = 30;

/// The type of the group's nodes; empty = not known.
std::string type_of(const cloud::AutoScalingGroup& group, const node_groups::NodeTemplate& nodes) {
  if (!group.instance_types.empty()) return group.instance_types.front();
  const auto label = nodes.labels.find(std::string(words::kInstanceType));
  return label == nodes.labels.end() ? std::string() : label->second;
}

bool is_spot(const cloud::AutoScalingGroup& group, const node_groups::NodeTemplate& nodes) {
  if (group.on_demand_percent >= 0) return group.on_demand_percent == 0 && group.on_demand_base == 0;
  const auto label = nodes.labels.find(std::string(words::kCapacityType));
  return label != nodes.labels.end() && label->second == "spot";
}

std::string why_not_ready(const cloud::AutoScalingGroup& group, const std::string& type) {
  if (type.empty()) {
    return fmt::format(
        "the instance type of Auto Scaling group {} is not known; add the tag {}label/{}, or use a mixed instances policy",
        group.name, node_groups::kTemplateTag, words::kInstanceType);
  }
  if (catalog::find(type) == nullptr)
    return fmt::format("the catalog does not have the instance type {} of Auto Scaling group {}", type, group.name);
  return {};
}

void fill_resources(const node_groups::NodeTemplate& nodes, Pool& pool) {
  // Those of the instance type are figures of the catalog.
  for (const auto& [resource, amount] : nodes.resources) {
    const bool of_type = resource == "cpu" || resource == "memory" || resource == "pods" ||
                         resource == words::kGpuResource || resource == "ephemeral-storage";
    if (!of_type) pool.node_resources[resource] = amount.units();
  }
}

ScalingGroup facts_of(const cloud::AutoScalingGroup& from) {
  ScalingGroup out;
  out.min = from.min;
  out.max = from.max;
  out.desired = from.desired;
  for (const auto& m : from.instances)
    out.members.push_back({InstanceId(m.instance_id), m.lifecycle, m.protected_from_scale_in});
  std::ranges::sort(out.members);
  return out;
}

}  // namespace

Pool pool_of_group(const cloud::AutoScalingGroup& group) {
  Pool out;
  out.name = node_groups::object_name(group.name);
  out.group = group.name;
  out.limit_nodes = group.max;
  out.consolidate_after = std::chrono::minutes(10);
  const auto nodes = node_groups::node_template_of(group.tags);
  if (!nodes) {
    out.not_ready = fmt::format("{}; {}", nodes.error().message, nodes.error().remedy);
    return out;
  }
  const std::string type = type_of(group, *nodes);
  out.not_ready = why_not_ready(group, type);
  out.instance_types = {type};
  out.markets = {is_spot(group, *nodes) ? Market::kSpot : Market::kOnDemand};
  out.labels = nodes->labels;
  out.taints = nodes->taints;
  fill_resources(*nodes, out);
  if (group.zones.size() == 1) out.zones = group.zones;
  if (nodes->unneeded) out.consolidate_after = *nodes->unneeded;
  out.unready_after = nodes->unready;
  out.scale_down = {nodes->utilization_milli, nodes->gpu_utilization_milli, nodes->ignore_daemon_sets};
  return out;
}

bool GroupWatch::discovers(const cloud::AutoScalingGroup& group) const {
  return std::ranges::any_of(discovery_, [&](const auto& wanted) {
    return std::ranges::all_of(wanted, [&](const auto& tag) {
      const auto it = group.tags.find(tag.first);
      return it != group.tags.end() && (tag.second.empty() || it->second == tag.second);
    });
  });
}

// Calls that a policy may forbid: without their answers the group is used as one without hooks, warm pool and failures.
void GroupWatch::add_details(const cloud::AutoScalingGroup& group, ScalingGroup& out, std::set<std::string>& warm) {
  Details& details = details_[group.name];
  const bool due = details.age % kDetailPolls == 0;
  ++details.age;
  if (due) {
    if (const auto hooks = aws_.describe_lifecycle_hooks(group.name)) {
      details.hooks.clear();
      for (const auto& hook : *hooks) details.hooks.push_back({hook.name, hook.launching, hook.heartbeat});
    } else {
      log::warn("lifecycle hooks cannot be read", {{"group", group.name}, {"error", hooks.error().to_string()}});
    }
  }
  out.hooks = details.hooks;
  if (due || details.has_warm_pool) {
    const auto members = aws_.describe_warm_pool(group.name);
    details.has_warm_pool = members && !members->empty();
    if (members) warm.insert(members->begin(), members->end());
    out.warm = members ? static_cast<std::int64_t>(members->size()) : 0;
  }
  if (std::ssize(group.instances) >= group.desired) return;
  const auto activities = aws_.describe_scaling_activities(group.name);
  if (!activities) return;
  const auto failed = std::ranges::find_if(*activities, [](const auto& activity) {
    return activity.status == "Failed" && activity.description.starts_with("Launching");
  });
  if (failed == activities->end()) return;
  out.failed_at = failed->start;
  out.failure = failed->message;
}

bool GroupWatch::is_warm(const std::string& instance) const {
  const std::scoped_lock lock(mutex_);
  return warm_.contains(instance);
}

Result<std::map<std::string, ScalingGroup>> GroupWatch::look(const std::set<std::string>& named) {
  std::map<std::string, ScalingGroup> out;
  std::vector<Pool> found;
  std::set<std::string> warm;
  if (!named.empty() || !discovery_.empty()) {
    // With discovery all groups are read: their tags decide.
    const std::vector<std::string> names(named.begin(), named.end());
    QM_ASSIGN(const auto groups, aws_.describe_groups(discovery_.empty() ? names : std::vector<std::string>{}));
    for (const auto& group : groups) {
      const bool discovered = discovers(group);
      if (discovered) found.push_back(pool_of_group(group));
      if (!discovered && !named.contains(group.name)) continue;
      add_details(group, out.emplace(group.name, facts_of(group)).first->second, warm);
    }
  }
  const std::scoped_lock lock(mutex_);
  discovered_ = std::move(found);
  warm_ = std::move(warm);
  return out;
}

std::optional<std::vector<Pool>> GroupWatch::discovered() const {
  if (discovery_.empty()) return std::vector<Pool>{};
  const std::scoped_lock lock(mutex_);
  return discovered_;
}

}  // namespace qm::autoscaler
