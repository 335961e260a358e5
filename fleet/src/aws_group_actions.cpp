// The actions of Auto Scaling on members, hooks, tags and warm pools.
#include "aws_groups.hpp"

#include <algorithm>

namespace qm::fleet {
namespace {

constexpr AwsPaging kMemberPages{"AutoScalingInstances", "MaxRecords", 50, 1, 50, "NextToken"};
constexpr AwsPaging kActivityPages{"Activities", "MaxRecords", 100, 1, 100, "NextToken"};
constexpr AwsPaging kTagPages{"Tags", "MaxRecords", 50, 1, 100, "NextToken"};
constexpr AwsPaging kWarmPages{"Instances", "MaxRecords", 50, 1, 50, "NextToken"};
constexpr int kMostLaunched = 100;
constexpr int kMostWarm = 10'000;

template <class... Args>
tl::unexpected<Refusal> not_valid(fmt::format_string<Args...> text, Args&&... args) {
  return refuse(400, "ValidationError", text, std::forward<Args>(args)...);
}

/// One tag of one group.
struct TagRow {
  std::string group, key, value;
  bool propagates = false;
};

}  // namespace

AwsReply AwsGroups::describe_instances(const AwsCall& call) {
  struct Row {
    const Group* group;
    const Member* member;
    Instance instance;
  };
  std::vector<Row> rows;
  for (const auto& [name, group] : groups_) {
    for (const Member& member : group.members) {
      if (auto instance = world_.instance(member.id)) rows.push_back({&group, &member, std::move(*instance)});
    }
  }
  const auto ids = call.list("InstanceIds.member");
  return aws_page(
      call, kMemberPages, rows, [](const Row& row) { return row.member->id; },
      [&](const Row& row) { return asked(ids, row.member->id); },
      [this](AwsXml& xml, const Row& row) {
        xml.open("member").leaf("InstanceId", row.member->id).leaf("InstanceType", row.instance.type);
        xml.leaf("AutoScalingGroupName", row.group->name).leaf("AvailabilityZone", row.instance.zone);
        xml.leaf("LifecycleState", lifecycle(*row.member, row.instance));
        xml.leaf("HealthStatus", row.instance.alive() ? "HEALTHY" : "UNHEALTHY");
        xml.open("LaunchTemplate").leaf("LaunchTemplateName", row.group->launch_template).leaf("Version", 1).close();
        xml.leaf("ProtectedFromScaleIn", row.member->is_protected ? "true" : "false").close();
      });
}

void AwsGroups::write_activity(AwsXml& xml, const Group& group, const Activity& activity) {
  xml.leaf("ActivityId", activity.id).leaf("AutoScalingGroupName", group.name);
  xml.leaf("Description", activity.description);
  xml.leaf("Cause", fmt::format("At {} the desired capacity was {}.", aws_instant(activity.start), group.desired));
  xml.leaf("StartTime", aws_instant(activity.start));
  if (activity.end) xml.leaf("EndTime", aws_instant(*activity.end));
  xml.leaf("StatusCode", activity.status);
  if (!activity.message.empty()) xml.leaf("StatusMessage", activity.message);
  xml.leaf("Progress", activity.end ? 100 : 50);
}

AwsReply AwsGroups::describe_activities(const AwsCall& call) {
  std::vector<std::pair<const Group*, const Activity*>> rows;
  const auto& name = call.param("AutoScalingGroupName");
  if (!name.empty()) FLEET_TRY(named(call));
  for (const auto& [of, group] : groups_) {
    if (!name.empty() && of != name) continue;
    for (const Activity& activity : group.activities) rows.emplace_back(&group, &activity);
  }
  const auto ids = call.list("ActivityIds.member");
  return aws_page(
      call, kActivityPages, rows, [](const auto& row) { return row.second->id; },
      [&](const auto& row) { return asked(ids, row.second->id); },
      [](AwsXml& xml, const auto& row) {
        write_activity(xml.open("member"), *row.first, *row.second);
        xml.close();
      });
}

AwsReply AwsGroups::describe_tags(const AwsCall& call) {
  std::vector<TagRow> rows;
  for (const auto& [name, group] : groups_) {
    for (const auto& [key, value] : group.tags) rows.push_back({name, key, value, group.instance_tags.contains(key)});
  }
  Filters filters;
  for (const auto& name : call.list("Filters.member", ".Name")) {
    static const std::set<std::string> kNames = {"auto-scaling-group", "key", "value", "propagate-at-launch"};
    if (!kNames.contains(name)) return not_valid("The filter {} is not known", name);
    filters.emplace_back(name, call.list(fmt::format("Filters.member.{}.Values.member", filters.size() + 1)));
  }
  return aws_page(
      call, kTagPages, rows, [](const TagRow& row) { return row.group + "/" + row.key; },
      [&](const TagRow& row) {
        return passes({{"auto-scaling-group", row.group},
                       {"key", row.key},
                       {"value", row.value},
                       {"propagate-at-launch", row.propagates ? "true" : "false"}},
                      filters);
      },
      [](AwsXml& xml, const TagRow& row) {
        xml.open("member").leaf("ResourceId", row.group).leaf("ResourceType", "auto-scaling-group");
        xml.leaf("Key", row.key).leaf("Value", row.value);
        xml.leaf("PropagateAtLaunch", row.propagates ? "true" : "false").close();
      });
}

// Synchronous: what has launched and what has not is in the answer. The desired capacity grows by what has launched, or
// with retry-with-group-configuration by all.
AwsReply AwsGroups::launch_instances(const AwsCall& call) {
  FLEET_ASSIGN(auto* const group, named(call));
  if (call.param("ClientToken").empty()) return not_valid("ClientToken is missing");
  FLEET_ASSIGN(const auto* const known, launches_.known(call, world_.now()));
  if (known != nullptr) return *known;
  FLEET_ASSIGN(const int count, call.number("RequestedCapacity", 0, 1, kMostLaunched));
  const auto zones = call.list("AvailabilityZones.member");
  if (zones.size() > 1) return not_valid("Instances are launched in one Availability Zone, not in {}", zones.size());
  if (zones.empty() && group->zones.size() > 1) return not_valid("AvailabilityZones is missing");
  const auto zone = zones.empty() ? group->zones.front() : zones.front();
  if (!asked(group->zones, zone)) return not_valid("The group has no Availability Zone {}", zone);
  if (group->desired + count > group->max) {
    return not_valid("The desired capacity {} and {} more exceed the MaxSize {}", group->desired, count, group->max);
  }
  const auto* type = find_in(templates_.find(group->launch_template)->data, "InstanceType");
  const auto write_origin = [&](AwsXml& xml) -> AwsXml& {
    if (type != nullptr) xml.leaf("InstanceType", *type);
    return xml.leaf("MarketType", "OnDemand").leaf("AvailabilityZone", zone);
  };
  std::vector<std::string> ids;
  std::optional<Refusal> refusal;
  while (static_cast<int>(ids.size()) < count && !refusal) {
    // The size grows with each launch, so that a reconciliation in between ends nothing.
    ++group->desired;
    auto launched = launch(*group, zone);
    if (launched) {
      ids.push_back(launched->id);
    } else {
      --group->desired;
      refusal = launched.error();
    }
  }
  AwsXml xml;
  xml.leaf("AutoScalingGroupName", group->name).leaf("ClientToken", call.param("ClientToken")).open("Instances");
  if (!ids.empty()) {
    write_origin(xml.open("member")).open("InstanceIds");
    for (const auto& id : ids) xml.leaf("member", id);
    xml.close().close();
  }
  xml.close().open("Errors");
  if (refusal) {
    write_origin(xml.open("member")).leaf("ErrorCode", refusal->reason).leaf("ErrorMessage", refusal->message).close();
  }
  xml.close();
  if (refusal && call.param("RetryStrategy") == "retry-with-group-configuration") {
    group->desired += count - static_cast<int>(ids.size());
    reconcile(group->name);
  }
  launches_.keep(call, xml.str(), world_.now());
  return xml.str();
}

AwsReply AwsGroups::set_protection(const AwsCall& call) {
  FLEET_ASSIGN(auto* const group, named(call));
  const auto ids = call.list("InstanceIds.member");
  for (const auto& id : ids) {
    if (member_of(*group, id) == nullptr) return not_valid("The instance {} is not part of {}.", id, group->name);
  }
  for (const auto& id : ids) member_of(*group, id)->is_protected = call.param("ProtectedFromScaleIn") == "true";
  reconcile(group->name);
  return std::string();
}

AwsReply AwsGroups::detach(const AwsCall& call) {
  FLEET_ASSIGN(auto* const group, named(call));
  const auto ids = call.list("InstanceIds.member");
  for (const auto& id : ids) {
    if (member_of(*group, id) == nullptr) return not_valid("The instance {} is not part of {}.", id, group->name);
  }
  const bool decrements = call.param("ShouldDecrementDesiredCapacity") == "true";
  const int left = group->desired - static_cast<int>(ids.size());
  if (decrements && left < group->min) {
    return not_valid("The desired capacity would be {}, less than the MinSize {}", left, group->min);
  }
  if (decrements) group->desired = left;
  AwsXml xml;
  xml.open("Activities");
  for (const auto& id : ids) {
    auto& activity = begin_activity(*group, "Detaching EC2 instance: " + id, id);
    activity.status = "Successful";
    activity.end = activity.start;
    write_activity(xml.open("member"), *group, activity);
    xml.close();
    if (const auto& wait = member_of(*group, id)->wait) world_.cancel(wait->timer);
    std::erase_if(group->members, [&](const Member& member) { return member.id == id; });
  }
  xml.close();
  reconcile(group->name);
  return xml.str();
}

AwsReply AwsGroups::put_hook(const AwsCall& call) {
  FLEET_ASSIGN(auto* const group, named(call));
  Hook hook;
  hook.name = call.param("LifecycleHookName");
  hook.transition = call.param("LifecycleTransition");
  hook.metadata = call.param("NotificationMetadata");
  if (hook.name.empty()) return not_valid("LifecycleHookName is missing");
  if (hook.transition != "autoscaling:EC2_INSTANCE_LAUNCHING" &&
      hook.transition != "autoscaling:EC2_INSTANCE_TERMINATING") {
    return not_valid("The LifecycleTransition '{}' is invalid", hook.transition);
  }
  FLEET_ASSIGN(hook.heartbeat_s, call.number("HeartbeatTimeout", 3600, 30, 7200));
  const auto& result = call.param("DefaultResult");
  if (!result.empty() && result != "CONTINUE" && result != "ABANDON")
    return not_valid("The DefaultResult '{}' is invalid", result);
  hook.continues = result == "CONTINUE";
  group->hooks[hook.name] = hook;
  return std::string();
}

AwsReply AwsGroups::describe_hooks(const AwsCall& call) {
  FLEET_ASSIGN(const auto* const group, named(call));
  const auto names = call.list("LifecycleHookNames.member");
  AwsXml xml;
  xml.open("LifecycleHooks");
  for (const auto& [name, hook] : group->hooks) {
    if (!asked(names, name)) continue;
    xml.open("member").leaf("LifecycleHookName", name).leaf("AutoScalingGroupName", group->name);
    xml.leaf("LifecycleTransition", hook.transition).leaf("HeartbeatTimeout", hook.heartbeat_s);
    xml.leaf("GlobalTimeout", std::min(172'800, 100 * hook.heartbeat_s));
    if (!hook.metadata.empty()) xml.leaf("NotificationMetadata", hook.metadata);
    xml.leaf("DefaultResult", hook.continues ? "CONTINUE" : "ABANDON").close();
  }
  xml.close();
  return xml.str();
}

Answered<std::pair<AwsGroups::Group*, AwsGroups::Member*>> AwsGroups::waiting(const AwsCall& call) {
  FLEET_ASSIGN(auto* const group, named(call));
  const auto &token = call.param("LifecycleActionToken"), &id = call.param("InstanceId"),
             &hook = call.param("LifecycleHookName");
  for (Member& member : group->members) {
    if (!member.wait || member.wait->hook != hook) continue;
    if (token.empty() ? member.id == id : member.wait->token == token) return std::pair(group, &member);
  }
  return not_valid("No active Lifecycle Action found with {} {}", token.empty() ? "instance ID" : "token",
                   token.empty() ? id : token);
}

AwsReply AwsGroups::complete_action(const AwsCall& call) {
  const auto& result = call.param("LifecycleActionResult");
  if (result != "CONTINUE" && result != "ABANDON") {
    return not_valid("The LifecycleActionResult '{}' is invalid", result);
  }
  FLEET_ASSIGN(const auto found, waiting(call));
  finish_wait(*found.first, *found.second, result == "CONTINUE");
  return std::string();
}

AwsReply AwsGroups::heartbeat(const AwsCall& call) {
  FLEET_ASSIGN(const auto found, waiting(call));
  world_.cancel(found.second->wait->timer);
  start_timer(*found.first, *found.second);
  return std::string();
}

AwsReply AwsGroups::put_warm_pool(const AwsCall& call) {
  FLEET_ASSIGN(auto* const group, named(call));
  if (call.param("PoolState") != "Running") {
    return not_valid("The fleet has no stopped instances: PoolState must be Running");
  }
  WarmPool pool;
  FLEET_ASSIGN(pool.min, call.number("MinSize", 0, 0, kMostWarm));
  if (!call.param("MaxGroupPreparedCapacity").empty()) {
    FLEET_ASSIGN(pool.most_prepared, call.number("MaxGroupPreparedCapacity", 0, 0, kMostWarm));
  }
  group->warm_pool = pool;
  reconcile(group->name);
  return std::string();
}

AwsReply AwsGroups::describe_warm_pool(const AwsCall& call) {
  FLEET_ASSIGN(const auto* const group, named(call));
  AwsXml xml;
  if (group->warm_pool) {
    xml.open("WarmPoolConfiguration").leaf("MinSize", group->warm_pool->min).leaf("PoolState", "Running");
    if (group->warm_pool->most_prepared) xml.leaf("MaxGroupPreparedCapacity", *group->warm_pool->most_prepared);
    xml.close();
  }
  FLEET_ASSIGN(
      const std::string page,
      aws_page(
          call, kWarmPages, group->members, [](const Member& member) { return member.id; },
          [this](const Member& member) { return member.warm && world_.instance(member.id).has_value(); },
          [this](AwsXml& out, const Member& member) { write_member(out, member, *world_.instance(member.id)); }));
  return xml.str() + page;
}

}  // namespace qm::fleet
