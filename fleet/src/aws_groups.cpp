#include "aws_groups.hpp"

#include <algorithm>

namespace qm::fleet {
namespace {

constexpr Duration kRetry = std::chrono::seconds(30);
constexpr AwsPaging kPages{"AutoScalingGroups", "MaxRecords", 50, 1, 100, "NextToken"};
constexpr int kMaxSize = 10'000;

template <class... Args>
tl::unexpected<Refusal> invalid(fmt::format_string<Args...> text, Args&&... args) {
  return refuse(400, "ValidationError", text, std::forward<Args>(args)...);
}

std::string_view lifecycle(const Instance& instance) {
  if (!instance.alive()) return "Terminating";
  return instance.state == InstanceState::kPending ? "Pending" : "InService";
}

}  // namespace

AwsReply AwsGroups::handle(const AwsCall& call) {
  if (call.action == "CreateAutoScalingGroup") return create(call);
  if (call.action == "DescribeAutoScalingGroups") return describe(call);
  if (call.action == "SetDesiredCapacity") return set_desired(call);
  if (call.action == "TerminateInstanceInAutoScalingGroup") return terminate(call);
  return refuse(400, "InvalidAction", "Could not find operation {}", call.action);
}

AwsReply AwsGroups::create(const AwsCall& call) {
  Group group;
  group.name = call.param("AutoScalingGroupName");
  if (group.name.empty()) return invalid("AutoScalingGroupName is missing");
  if (groups_.contains(group.name)) {
    return refuse(400, "AlreadyExists", "AutoScalingGroup by this name already exists - {}", group.name);
  }
  group.launch_template = call.param("LaunchTemplate.LaunchTemplateName");
  if (templates_.find(group.launch_template) == nullptr) {
    return invalid(
        "You must use a valid fully-formed launch template. The specified launch template, with template "
        "name {}, does not exist.",
        group.launch_template);
  }
  group.zones = call.list("AvailabilityZones.member");
  const auto& known = world_.options().zones;
  if (group.zones.empty()) group.zones = known;
  for (const auto& zone : group.zones) {
    if (std::ranges::find(known, zone) == known.end()) return invalid("Invalid Availability Zone: {}", zone);
  }
  FLEET_ASSIGN(group.max, call.number("MaxSize", 0, 0, kMaxSize));
  FLEET_ASSIGN(group.min, call.number("MinSize", 0, 0, group.max));
  FLEET_ASSIGN(group.desired, call.number("DesiredCapacity", group.min, group.min, group.max));
  group.tags = call.tags("Tags.member");
  int n = 0;
  for (const auto& key : call.list("Tags.member", ".Key")) {
    const auto prefix = fmt::format("Tags.member.{}.", ++n);
    if (call.param(prefix + "PropagateAtLaunch") == "true") group.instance_tags[key] = call.param(prefix + "Value");
  }
  group.instance_tags["aws:autoscaling:groupName"] = group.name;
  const auto name = group.name;
  groups_.emplace(name, std::move(group));
  reconcile(name);
  return std::string();
}

AwsReply AwsGroups::describe(const AwsCall& call) {
  const auto names = call.list("AutoScalingGroupNames.member");
  const auto key = [](const auto& entry) { return entry.first; };
  const auto wanted = [&](const auto& entry) {
    return names.empty() || std::ranges::find(names, entry.first) != names.end();
  };
  return aws_page(call, kPages, groups_, key, wanted, [this](AwsXml& xml, const auto& entry) {
    const Group& group = entry.second;
    xml.open("member").leaf("AutoScalingGroupName", group.name).leaf("MinSize", group.min);
    xml.leaf("MaxSize", group.max).leaf("DesiredCapacity", group.desired).leaf("DefaultCooldown", 300);
    xml.open("AvailabilityZones");
    for (const auto& zone : group.zones) xml.leaf("member", zone);
    xml.close().open("Instances");
    for (const auto& id : group.members) {
      const auto instance = world_.instance(id);
      if (!instance) continue;
      xml.open("member").leaf("InstanceId", id).leaf("AvailabilityZone", instance->zone);
      xml.leaf("InstanceType", instance->type).leaf("LifecycleState", lifecycle(*instance));
      xml.leaf("HealthStatus", instance->alive() ? "Healthy" : "Unhealthy").leaf("ProtectedFromScaleIn", "false");
      xml.close();
    }
    xml.close().open("Tags");
    for (const auto& [tag, value] : group.tags) {
      xml.open("member").leaf("ResourceId", group.name).leaf("ResourceType", "auto-scaling-group");
      xml.leaf("Key", tag).leaf("Value", value);
      xml.leaf("PropagateAtLaunch", group.instance_tags.contains(tag) ? "true" : "false").close();
    }
    xml.close().close();
  });
}

AwsReply AwsGroups::set_desired(const AwsCall& call) {
  const auto& name = call.param("AutoScalingGroupName");
  auto* const group = find_in(groups_, name);
  if (group == nullptr) return invalid("AutoScalingGroup name not found - {}", name);
  FLEET_ASSIGN(const int desired, call.number("DesiredCapacity", -1, 0, kMaxSize));
  if (desired < group->min || desired > group->max) {
    const bool above = desired > group->max;
    return invalid("New SetDesiredCapacity value {} is {} value {} for the AutoScalingGroup.", desired,
                   above ? "above max" : "below min", above ? group->max : group->min);
  }
  group->desired = desired;
  reconcile(name);
  return std::string();
}

AwsReply AwsGroups::terminate(const AwsCall& call) {
  const auto& id = call.param("InstanceId");
  auto* group = group_of(id);
  const auto instance = world_.instance(id);
  if (group == nullptr || !instance || !instance->alive()) {
    return invalid("Instance Id not found - No managed instance found for instance ID: {}", id);
  }
  if (call.param("ShouldDecrementDesiredCapacity") == "true") {
    if (group->desired <= group->min) {
      return invalid(
          "Currently, desiredSize equals minSize ({}). Terminating instance without replacement will violate "
          "group's min size constraint.",
          group->min);
    }
    --group->desired;
  }
  AwsXml xml;
  xml.open("Activity").leaf("ActivityId", world_.random_hex(32)).leaf("AutoScalingGroupName", group->name);
  xml.leaf("Description", "Terminating EC2 instance: " + id).leaf("StatusCode", "InProgress");
  xml.leaf("StartTime", aws_instant(world_.now())).leaf("Progress", 0).close();
  (void)world_.terminate_instance(id, "Client.UserInitiatedShutdown");
  return xml.str();
}

std::vector<Instance> AwsGroups::live_members(const Group& group) const {
  std::vector<Instance> out;
  for (const auto& id : group.members) {
    if (auto instance = world_.instance(id); instance && instance->alive()) out.push_back(std::move(*instance));
  }
  return out;
}

AwsGroups::Group* AwsGroups::group_of(const std::string& instance_id) {
  for (auto& [name, group] : groups_) {
    if (std::ranges::find(group.members, instance_id) != group.members.end()) return &group;
  }
  return nullptr;
}

void AwsGroups::reconcile(const std::string& name) {
  auto& group = groups_.at(name);
  const auto desired = static_cast<std::size_t>(group.desired);
  for (auto live = live_members(group).size(); live > desired; --live) end_one(group);
  for (auto live = live_members(group).size(); live < desired; ++live) {
    if (launch_one(group)) continue;
    if (!group.retrying) {
      group.retrying = true;
      world_.after(kRetry, [this, name] {
        groups_.at(name).retrying = false;
        reconcile(name);
      });
    }
    return;
  }
}

bool AwsGroups::launch_one(Group& group) {
  const auto members = live_members(group);
  const auto in_zone = [&members](const std::string& zone) {
    return std::ranges::count(members, zone, &Instance::zone);
  };
  auto spec = templates_.spec({{"LaunchTemplate.LaunchTemplateName", group.launch_template},
                               {"Placement.AvailabilityZone", *std::ranges::min_element(group.zones, {}, in_zone)}});
  if (!spec) return false;  // the template is gone, or its image
  for (const auto& [key, value] : group.instance_tags) spec->tags[key] = value;
  const auto instance = world_.launch_instance(*spec);
  if (!instance) return false;
  group.members.push_back(instance->id);
  return true;
}

void AwsGroups::end_one(Group& group) {
  const auto members = live_members(group);
  const auto in_zone = [&members](const Instance& instance) {
    return std::ranges::count(members, instance.zone, &Instance::zone);
  };
  // The first of the fullest zone: members are in launch order, so it is the zone's oldest.
  const auto chosen = std::ranges::max_element(members, {}, in_zone);
  (void)world_.terminate_instance(chosen->id, "Client.UserInitiatedShutdown");
}

void AwsGroups::on_instance(const Instance& instance, InstanceEvent event) {
  if (event != InstanceEvent::kStopping && event != InstanceEvent::kTerminated) return;
  auto* group = group_of(instance.id);
  if (group == nullptr) return;
  if (event == InstanceEvent::kTerminated) {
    std::erase(group->members, instance.id);
    return;
  }
  // Posted, because a launch inside the world's own step would notify the listeners out of order.
  world_.post([this, name = group->name] { reconcile(name); });
}

}  // namespace qm::fleet
