// The life of a group: creation, size, launches, ends and lifecycle hooks. The other actions: aws_group_actions.cpp.
#include "aws_groups.hpp"

#include <algorithm>

namespace qm::fleet {
namespace {

constexpr Duration kRetry = std::chrono::seconds(30);
constexpr Duration kLongestWait = std::chrono::hours(48);
constexpr AwsPaging kGroupsPages{"AutoScalingGroups", "MaxRecords", 50, 1, 100, "NextToken"};
constexpr int kMaxSize = 10'000;
constexpr std::size_t kMostActivities = 100;
constexpr const char *kLaunching = "autoscaling:EC2_INSTANCE_LAUNCHING",
                     *kTerminating = "autoscaling:EC2_INSTANCE_TERMINATING";

template <class... Args>
tl::unexpected<Refusal> invalid(fmt::format_string<Args...> text, Args&&... args) {
  return refuse(400, "ValidationError", text, std::forward<Args>(args)...);
}

}  // namespace

AwsReply AwsGroups::handle(const AwsCall& call) {
  static const std::map<std::string, AwsReply (AwsGroups::*)(const AwsCall&)> kActions = {
      {"CreateAutoScalingGroup", &AwsGroups::create},
      {"DescribeAutoScalingGroups", &AwsGroups::describe},
      {"SetDesiredCapacity", &AwsGroups::set_desired},
      {"TerminateInstanceInAutoScalingGroup", &AwsGroups::terminate},
      {"DescribeAutoScalingInstances", &AwsGroups::describe_instances},
      {"DescribeScalingActivities", &AwsGroups::describe_activities},
      {"DescribeTags", &AwsGroups::describe_tags},
      {"LaunchInstances", &AwsGroups::launch_instances},
      {"SetInstanceProtection", &AwsGroups::set_protection},
      {"DetachInstances", &AwsGroups::detach},
      {"PutLifecycleHook", &AwsGroups::put_hook},
      {"DescribeLifecycleHooks", &AwsGroups::describe_hooks},
      {"CompleteLifecycleAction", &AwsGroups::complete_action},
      {"RecordLifecycleActionHeartbeat", &AwsGroups::heartbeat},
      {"PutWarmPool", &AwsGroups::put_warm_pool},
      {"DescribeWarmPool", &AwsGroups::describe_warm_pool}};
  if (const auto* action = find_in(kActions, call.action)) return (this->**action)(call);
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
  group.protects = call.param("NewInstancesProtectedFromScaleIn") == "true";
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
  return aws_page(call, kGroupsPages, groups_, key, wanted, [this](AwsXml& xml, const auto& entry) {
    const Group& group = entry.second;
    xml.open("member").leaf("AutoScalingGroupName", group.name).leaf("MinSize", group.min);
    xml.leaf("MaxSize", group.max).leaf("DesiredCapacity", group.desired).leaf("DefaultCooldown", 300);
    xml.leaf("NewInstancesProtectedFromScaleIn", group.protects ? "true" : "false");
    xml.open("AvailabilityZones");
    for (const auto& zone : group.zones) xml.leaf("member", zone);
    xml.close().open("Instances");
    for (const Member& member : group.members) {
      const auto instance = world_.instance(member.id);
      if (instance && !member.warm) write_member(xml, member, *instance);
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
  FLEET_ASSIGN(auto* const group, named(call));
  FLEET_ASSIGN(const int desired, call.number("DesiredCapacity", -1, 0, kMaxSize));
  if (desired < group->min || desired > group->max) {
    const bool above = desired > group->max;
    return invalid("New SetDesiredCapacity value {} is {} value {} for the AutoScalingGroup.", desired,
                   above ? "above max" : "below min", above ? group->max : group->min);
  }
  group->desired = desired;
  reconcile(group->name);
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
  Member& member = *member_of(*group, id);
  if (!member.leaving) leave(*group, member);
  AwsXml xml;
  // The newest of the instance: that of its end.
  const auto found = std::ranges::find(group->activities, id, &Activity::instance);
  const bool forgotten = found == group->activities.end();
  write_activity(xml.open("Activity"), *group,
                 forgotten ? begin_activity(*group, "Terminating EC2 instance: " + id, id) : *found);
  xml.close();
  reconcile(group->name);
  return xml.str();
}

Answered<AwsGroups::Group*> AwsGroups::named(const AwsCall& call) {
  const auto& name = call.param("AutoScalingGroupName");
  if (auto* const group = find_in(groups_, name)) return group;
  return invalid("AutoScalingGroup name not found - {}", name);
}

std::vector<Instance> AwsGroups::live_members(const Group& group) const {
  std::vector<Instance> out;
  for (const Member& member : group.members) {
    if (member.leaving || member.warm) continue;
    if (auto instance = world_.instance(member.id); instance && instance->alive()) out.push_back(std::move(*instance));
  }
  return out;
}

AwsGroups::Member* AwsGroups::member_of(Group& group, const std::string& instance_id) {
  const auto it = std::ranges::find(group.members, instance_id, &Member::id);
  return it == group.members.end() ? nullptr : &*it;
}

AwsGroups::Group* AwsGroups::group_of(const std::string& instance_id) {
  for (auto& [name, group] : groups_) {
    if (member_of(group, instance_id) != nullptr) return &group;
  }
  return nullptr;
}

std::string AwsGroups::lifecycle(const Member& member, const Instance& instance) const {
  std::string state = "InService";
  if (member.leaving || !instance.alive()) {
    state = "Terminating";
  } else if (member.warm) {
    return instance.state == InstanceState::kPending ? "Warmed:Pending" : "Warmed:Running";
  } else if (member.wait || instance.state == InstanceState::kPending) {
    state = "Pending";
  }
  return member.wait && instance.alive() ? state + ":Wait" : state;
}

void AwsGroups::write_member(AwsXml& xml, const Member& member, const Instance& instance) const {
  xml.open("member").leaf("InstanceId", member.id).leaf("AvailabilityZone", instance.zone);
  xml.leaf("InstanceType", instance.type).leaf("LifecycleState", lifecycle(member, instance));
  xml.leaf("HealthStatus", instance.alive() ? "Healthy" : "Unhealthy");
  xml.leaf("ProtectedFromScaleIn", member.is_protected ? "true" : "false").close();
}

AwsGroups::Activity& AwsGroups::begin_activity(Group& group, std::string description, std::string instance) {
  Activity made;
  made.id = dashed(world_.random_hex(32));
  made.description = std::move(description);
  made.instance = std::move(instance);
  made.start = world_.now_floor();
  group.activities.push_front(std::move(made));
  if (group.activities.size() > kMostActivities) group.activities.pop_back();
  return group.activities.front();
}

void AwsGroups::end_activity(Group& group, const std::string& instance, std::string_view status) {
  const auto it = std::ranges::find(group.activities, instance, &Activity::instance);
  if (it == group.activities.end() || it->end) return;
  it->status = status;
  it->end = world_.now_floor();
}

void AwsGroups::reconcile(const std::string& name) {
  auto& group = groups_.at(name);
  const auto desired = static_cast<std::size_t>(group.desired);
  for (auto live = live_members(group).size(); live > desired && end_one(group); --live) {
  }
  for (auto live = live_members(group).size(); live < desired; ++live) {
    if (add_one(group)) continue;
    if (!group.retrying) {
      group.retrying = true;
      world_.after(kRetry, [this, name] {
        groups_.at(name).retrying = false;
        reconcile(name);
      });
    }
    return;
  }
  fill_warm_pool(group);
}

void AwsGroups::fill_warm_pool(Group& group) {
  if (!group.warm_pool) return;
  const int prepared = group.warm_pool->most_prepared.value_or(group.max);
  const int wanted = std::max(group.warm_pool->min, prepared - group.desired);
  for (auto have = std::ranges::count_if(group.members, &Member::warm); have < wanted; ++have) {
    if (!launch(group, {}, true)) return;
  }
}

Answered<Instance> AwsGroups::launch(Group& group, std::string zone, bool warm) {
  const auto members = live_members(group);
  const auto in_zone = [&members](const std::string& of) { return std::ranges::count(members, of, &Instance::zone); };
  if (zone.empty()) zone = *std::ranges::min_element(group.zones, {}, in_zone);
  // The template may be gone, or its image.
  FLEET_ASSIGN(auto spec, templates_.spec({{"LaunchTemplate.LaunchTemplateName", group.launch_template},
                                           {"Placement.AvailabilityZone", zone}}));
  for (const auto& [key, value] : group.instance_tags) spec.tags[key] = value;
  auto instance = world_.launch_instance(spec);
  if (!instance) {
    auto& failed = begin_activity(group, "Launching a new EC2 instance. Status Reason: no capacity", {});
    failed.status = "Failed";
    failed.end = failed.start;
    failed.message = fmt::format(
        "We currently do not have sufficient {} capacity in the Availability Zone you requested ({}). Launching EC2 "
        "instance failed.",
        spec.type, spec.zone);
    return refuse(400, "InsufficientInstanceCapacity", "{}", failed.message);
  }
  begin_activity(group, "Launching a new EC2 instance: " + instance->id, instance->id);
  Member member;
  member.id = instance->id;
  member.is_protected = group.protects;
  member.warm = warm;
  group.members.push_back(std::move(member));
  // A world without boot time has already reported it as running.
  if (instance->state == InstanceState::kRunning) on_instance(*instance, InstanceEvent::kRunning);
  return std::move(*instance);
}

bool AwsGroups::add_one(Group& group) {
  for (Member& member : group.members) {
    const auto instance = world_.instance(member.id);
    if (!member.warm || !instance || instance->state != InstanceState::kRunning) continue;
    member.warm = false;
    begin_activity(group, "Launching a new EC2 instance from warm pool: " + member.id, member.id);
    next_hook(group, member, {});
    return true;
  }
  return launch(group, {}).has_value();
}

bool AwsGroups::end_one(Group& group) {
  auto members = live_members(group);
  const auto in_zone = [&members](const Instance& instance) {
    return std::ranges::count(members, instance.zone, &Instance::zone);
  };
  std::map<std::string, std::ptrdiff_t> sizes;
  for (const Instance& one : members) sizes[one.zone] = in_zone(one);
  std::erase_if(members, [&](const Instance& one) { return member_of(group, one.id)->is_protected; });
  if (members.empty()) return false;
  // The first of the fullest zone: members are in launch order, so it is the zone's oldest.
  const auto chosen = std::ranges::max_element(members, {}, [&](const Instance& one) { return sizes[one.zone]; });
  leave(group, *member_of(group, chosen->id));
  return true;
}

void AwsGroups::leave(Group& group, Member& member) {
  if (member.wait) world_.cancel(member.wait->timer);
  member.wait.reset();
  member.leaving = true;
  begin_activity(group, "Terminating EC2 instance: " + member.id, member.id);
  next_hook(group, member, {});
}

void AwsGroups::next_hook(Group& group, Member& member, const std::string& after) {
  member.wait.reset();
  const std::string transition = member.leaving ? kTerminating : kLaunching;
  const auto hook = std::find_if(group.hooks.upper_bound(after), group.hooks.end(),
                                 [&](const auto& entry) { return entry.second.transition == transition; });
  if (hook == group.hooks.end()) {
    if (member.leaving) {
      (void)world_.terminate_instance(member.id, "Client.UserInitiatedShutdown");
    } else {
      end_activity(group, member.id, "Successful");
    }
    return;
  }
  const Hook& chosen = hook->second;
  const auto heartbeats = std::chrono::seconds(100 * chosen.heartbeat_s);
  member.wait =
      Wait{chosen.name, dashed(world_.random_hex(32)), world_.now() + std::min<Duration>(kLongestWait, heartbeats), {}};
  start_timer(group, member);
  publish_(member.leaving ? "EC2 Instance-terminate Lifecycle Action" : "EC2 Instance-launch Lifecycle Action",
           group.name,
           Json::object({{"LifecycleActionToken", member.wait->token},
                         {"AutoScalingGroupName", group.name},
                         {"LifecycleHookName", chosen.name},
                         {"EC2InstanceId", member.id},
                         {"LifecycleTransition", transition},
                         {"NotificationMetadata", chosen.metadata},
                         {"Origin", member.leaving ? "AutoScalingGroup" : "EC2"},
                         {"Destination", member.leaving ? "EC2" : "AutoScalingGroup"}}));
}

void AwsGroups::start_timer(Group& group, Member& member) {
  const Hook& hook = group.hooks.at(member.wait->hook);
  const auto until = std::min<Instant>(world_.now() + std::chrono::seconds(hook.heartbeat_s), member.wait->last);
  member.wait->timer = world_.at(until, [this, name = group.name, id = member.id, continues = hook.continues] {
    auto& of = groups_.at(name);
    if (auto* waiting = member_of(of, id); waiting != nullptr && waiting->wait) finish_wait(of, *waiting, continues);
  });
}

void AwsGroups::finish_wait(Group& group, Member& member, bool continues) {
  world_.cancel(member.wait->timer);
  const auto hook = member.wait->hook;
  if (continues) return next_hook(group, member, hook);
  member.wait.reset();
  if (!member.leaving) end_activity(group, member.id, "Cancelled");
  member.leaving = true;
  (void)world_.terminate_instance(member.id, "Client.UserInitiatedShutdown");
}

void AwsGroups::on_instance(const Instance& instance, InstanceEvent event) {
  auto* group = group_of(instance.id);
  if (group == nullptr) return;
  Member& member = *member_of(*group, instance.id);
  if (event == InstanceEvent::kRunning && !member.leaving && !member.wait) {
    if (member.warm) {
      end_activity(*group, member.id, "Successful");
    } else {
      next_hook(*group, member, {});
    }
  }
  if (event == InstanceEvent::kTerminated) {
    if (member.wait) world_.cancel(member.wait->timer);
    end_activity(*group, instance.id, "Successful");
    std::erase_if(group->members, [&](const Member& one) { return one.id == instance.id; });
  }
  // Posted, because a launch inside the world's own step would notify the listeners out of order.
  if (event == InstanceEvent::kStopping) world_.post([this, name = group->name] { reconcile(name); });
}

}  // namespace qm::fleet
