#include "aws_groups.hpp"

#include <algorithm>

namespace qm::fleet {
namespace {

constexpr Duration kRetry = std::chrono::seconds(30);
constexpr int kMaxPage = 100;
constexpr int kMaxSize = 10'000;

tl::unexpected<AwsFault> invalid(std::string message) { return aws_fault(400, "ValidationError", std::move(message)); }

std::string_view lifecycle(InstanceState state) {
  switch (state) {
    case InstanceState::kPending:
      return "Pending";
    case InstanceState::kRunning:
      return "InService";
    case InstanceState::kShuttingDown:
    case InstanceState::kTerminated:
      break;
  }
  return "Terminating";
}

}  // namespace

AwsReply AwsGroups::handle(const AwsCall& call) {
  if (call.action == "CreateAutoScalingGroup") return create(call);
  if (call.action == "DescribeAutoScalingGroups") return describe(call);
  if (call.action == "SetDesiredCapacity") return set_desired(call);
  if (call.action == "TerminateInstanceInAutoScalingGroup") return terminate(call);
  return aws_fault(400, "InvalidAction", fmt::format("Could not find operation {}", call.action));
}

AwsReply AwsGroups::create(const AwsCall& call) {
  Group group;
  group.name = call.param("AutoScalingGroupName");
  if (group.name.empty()) return invalid("AutoScalingGroupName is missing");
  if (groups_.contains(group.name)) {
    return aws_fault(400, "AlreadyExists", "AutoScalingGroup by this name already exists - " + group.name);
  }
  group.launch_template = call.param("LaunchTemplate.LaunchTemplateName");
  if (ec2_.find_template(group.launch_template) == nullptr) {
    return invalid(
        "You must use a valid fully-formed launch template. The specified launch template, with "
        "template "
        "name " +
        group.launch_template + ", does not exist.");
  }
  group.zones = call.list("AvailabilityZones.member");
  if (group.zones.empty()) group.zones = world_.options().zones;
  for (const auto& zone : group.zones) {
    if (std::ranges::find(world_.options().zones, zone) == world_.options().zones.end()) {
      return invalid("Invalid Availability Zone: " + zone);
    }
  }
  const auto max = call.number("MaxSize", 0, 0, kMaxSize);
  if (!max) return tl::unexpected<AwsFault>(max.error());
  const auto min = call.number("MinSize", 0, 0, *max);
  if (!min) return tl::unexpected<AwsFault>(min.error());
  const auto desired = call.number("DesiredCapacity", *min, *min, *max);
  if (!desired) return tl::unexpected<AwsFault>(desired.error());
  group.min = *min;
  group.max = *max;
  group.desired = *desired;
  group.tags = call.tags("Tags.member");
  for (int n = 1;; ++n) {
    const auto prefix = fmt::format("Tags.member.{}.", n);
    const auto& key = call.param(prefix + "Key");
    if (key.empty()) break;
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
  std::vector<const Group*> wanted;
  for (const auto& [name, group] : groups_) {
    if (names.empty() || std::ranges::find(names, name) != names.end()) wanted.push_back(&group);
  }
  const auto count = call.number("MaxRecords", 50, 1, kMaxPage);
  if (!count) return tl::unexpected<AwsFault>(count.error());
  const auto page = aws_page(call.param("NextToken"), wanted.size(), *count);
  if (!page) return tl::unexpected<AwsFault>(page.error());
  AwsXml xml;
  xml.open("AutoScalingGroups");
  for (auto n = page->begin; n < page->end; ++n) {
    const auto& group = *wanted[n];
    xml.open("member").leaf("AutoScalingGroupName", group.name).leaf("MinSize", group.min);
    xml.leaf("MaxSize", group.max).leaf("DesiredCapacity", group.desired).leaf("DefaultCooldown", 300);
    xml.open("AvailabilityZones");
    for (const auto& zone : group.zones) xml.leaf("member", zone);
    xml.close().open("Instances");
    for (const auto& id : group.members) {
      const auto instance = world_.instance(id);
      if (!instance) continue;
      xml.open("member").leaf("InstanceId", id).leaf("AvailabilityZone", instance->zone);
      xml.leaf("InstanceType", instance->type).leaf("LifecycleState", lifecycle(instance->state));
      xml.leaf("HealthStatus", instance->alive() ? "Healthy" : "Unhealthy")
          .leaf("ProtectedFromScaleIn", "false")
          .close();
    }
    xml.close().open("Tags");
    for (const auto& [key, value] : group.tags) {
      xml.open("member").leaf("ResourceId", group.name).leaf("ResourceType", "auto-scaling-group");
      xml.leaf("Key", key).leaf("Value", value);
      xml.leaf("PropagateAtLaunch", group.instance_tags.contains(key) ? "true" : "false").close();
    }
    xml.close().close();
  }
  xml.close();
  if (!page->next_token.empty()) xml.leaf("NextToken", page->next_token);
  return xml.str();
}

AwsReply AwsGroups::set_desired(const AwsCall& call) {
  const auto it = groups_.find(call.param("AutoScalingGroupName"));
  if (it == groups_.end()) {
    return invalid("AutoScalingGroup name not found - " + call.param("AutoScalingGroupName"));
  }
  auto& group = it->second;
  const auto desired = call.number("DesiredCapacity", -1, 0, kMaxSize);
  if (!desired) return tl::unexpected<AwsFault>(desired.error());
  if (*desired > group.max) {
    return invalid(fmt::format("New SetDesiredCapacity value {} is above max value {} for the AutoScalingGroup.",
                               *desired, group.max));
  }
  if (*desired < group.min) {
    return invalid(fmt::format("New SetDesiredCapacity value {} is below min value {} for the AutoScalingGroup.",
                               *desired, group.min));
  }
  group.desired = *desired;
  reconcile(group.name);
  return std::string();
}

AwsReply AwsGroups::terminate(const AwsCall& call) {
  const auto& id = call.param("InstanceId");
  auto* group = group_of(id);
  const auto instance = world_.instance(id);
  if (group == nullptr || !instance || !instance->alive()) {
    return invalid("Instance Id not found - No managed instance found for instance ID: " + id);
  }
  if (call.param("ShouldDecrementDesiredCapacity") == "true") {
    if (group->desired <= group->min) {
      return invalid(
          fmt::format("Currently, desiredSize equals minSize ({}). Terminating instance without replacement "
                      "will violate group's min size constraint.",
                      group->min));
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
  const auto* from = ec2_.find_template(group.launch_template);
  LaunchSpec spec;
  spec.type = from->type;
  spec.image_id = from->image_id;
  spec.market = from->market;
  spec.tags = group.instance_tags;
  spec.zone = *std::ranges::min_element(group.zones, {}, in_zone);
  const auto instance = world_.launch_instance(spec);
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
  // Not from inside the world's own step: a launch there would tell the listeners out of order.
  world_.post([this, name = group->name] { reconcile(name); });
}

}  // namespace qm::fleet
