#include "services.hpp"

namespace qm::cloud {
namespace {

constexpr std::size_t kMaxNames = 50;

AutoScalingGroup read_group(const XmlNode& node) {
  AutoScalingGroup out;
  out.name = node.value("AutoScalingGroupName");
  out.min = static_cast<int>(node.integer("MinSize"));
  out.max = static_cast<int>(node.integer("MaxSize"));
  out.desired = static_cast<int>(node.integer("DesiredCapacity"));
  for (const auto* m : node.items("Instances")) {
    out.instances.push_back({m->value("InstanceId"), m->value("LifecycleState"), m->value("AvailabilityZone"),
                             m->flag("ProtectedFromScaleIn")});
  }
  for (const auto* zone : node.items("AvailabilityZones")) out.zones.push_back(zone->text);
  const XmlNode& policy = node["MixedInstancesPolicy"];
  for (const auto* type : policy["LaunchTemplate"].items("Overrides")) {
    if (!type->value("InstanceType").empty()) out.instance_types.push_back(type->value("InstanceType"));
  }
  const XmlNode& distribution = policy["InstancesDistribution"];
  if (!distribution.value("OnDemandPercentageAboveBaseCapacity").empty()) {
    out.on_demand_percent = static_cast<int>(distribution.integer("OnDemandPercentageAboveBaseCapacity"));
    out.on_demand_base = static_cast<int>(distribution.integer("OnDemandBaseCapacity"));
  }
  for (const auto* tag : node.items("Tags")) out.tags[tag->value("Key")] = tag->value("Value");
  return out;
}

}  // namespace

Result<std::vector<AutoScalingGroup>> Aws::describe_groups(const std::vector<std::string>& names) {
  std::vector<AutoScalingGroup> out;
  auto asked = pieces(names, kMaxNames);
  if (asked.empty()) asked.emplace_back();
  for (const auto& piece : asked) {
    Form form("DescribeAutoScalingGroups", kAutoScalingVersion);
    form.add_list("AutoScalingGroupNames.member", piece).add("MaxRecords", impl_->page_size(100));
    QM_TRY(impl_->pages(kAutoScaling, form, "DescribeAutoScalingGroupsResult", [&out](const XmlNode& root) -> Status {
      for (const auto* group : root["DescribeAutoScalingGroupsResult"].items("AutoScalingGroups")) {
        out.push_back(read_group(*group));
      }
      return {};
    }));
  }
  return out;
}

Status Aws::create_group(const NewGroup& group) {
  Form launch("CreateLaunchTemplate", kEc2Version);
  launch.add("LaunchTemplateName", group.name).add("LaunchTemplateData.ImageId", group.image_id);
  launch.add("LaunchTemplateData.InstanceType", group.instance_type);
  QM_TRY(impl_->wire.query(kEc2, launch, Effect::kOnce));

  Form form("CreateAutoScalingGroup", kAutoScalingVersion);
  form.add("AutoScalingGroupName", group.name);
  form.add("LaunchTemplate.LaunchTemplateName", group.name).add("LaunchTemplate.Version", "$Latest");
  form.add("MinSize", group.min).add("MaxSize", group.max).add("DesiredCapacity", group.desired);
  form.add_list("AvailabilityZones.member", group.zones);
  int n = 0;
  for (const auto& [key, value] : group.tags) {
    const auto prefix = fmt::format("Tags.member.{}.", ++n);
    form.add(prefix + "Key", key).add(prefix + "Value", value).add(prefix + "PropagateAtLaunch", "true");
  }
  QM_TRY(impl_->wire.query(kAutoScaling, form, Effect::kOnce));
  return {};
}

Status Aws::set_desired_capacity(const std::string& group, int desired) {
  Form form("SetDesiredCapacity", kAutoScalingVersion);
  form.add("AutoScalingGroupName", group).add("DesiredCapacity", desired).add("HonorCooldown", "false");
  QM_TRY(impl_->wire.query(kAutoScaling, form, Effect::kRepeatable));
  return {};
}

Status Aws::terminate_in_group(const std::string& instance_id, bool decrement_desired) {
  Form form("TerminateInstanceInAutoScalingGroup", kAutoScalingVersion);
  form.add("InstanceId", instance_id);
  form.add("ShouldDecrementDesiredCapacity", decrement_desired ? "true" : "false");
  // A repeated decrement would remove a second instance.
  QM_TRY(impl_->wire.query(kAutoScaling, form, decrement_desired ? Effect::kOnce : Effect::kRepeatable));
  return {};
}

Status Aws::set_instance_protection(const std::string& group, const std::vector<std::string>& instance_ids,
                                    bool protect) {
  Form form("SetInstanceProtection", kAutoScalingVersion);
  form.add("AutoScalingGroupName", group).add("ProtectedFromScaleIn", protect ? "true" : "false");
  form.add_list("InstanceIds.member", instance_ids);
  QM_TRY(impl_->wire.query(kAutoScaling, form, Effect::kRepeatable));
  return {};
}

}  // namespace qm::cloud
