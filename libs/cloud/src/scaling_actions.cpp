// Lifecycle hooks, activities and warm pools of Auto Scaling groups.
#include "services.hpp"

namespace qm::cloud {
namespace {

constexpr std::string_view kLaunching = "autoscaling:EC2_INSTANCE_LAUNCHING";

Form hook_form(const char* action, const std::string& group, const std::string& hook, const std::string& instance) {
  Form out(action, kAutoScalingVersion);
  out.add("AutoScalingGroupName", group).add("LifecycleHookName", hook).add("InstanceId", instance);
  return out;
}

}  // namespace

Result<std::vector<LifecycleHook>> Aws::describe_lifecycle_hooks(const std::string& group) {
  Form form("DescribeLifecycleHooks", kAutoScalingVersion);
  form.add("AutoScalingGroupName", group);
  QM_ASSIGN(const auto root, impl_->wire.query(kAutoScaling, form, Effect::kRead));
  std::vector<LifecycleHook> out;
  for (const auto* hook : root["DescribeLifecycleHooksResult"].items("LifecycleHooks")) {
    out.push_back({hook->value("LifecycleHookName"), hook->value("LifecycleTransition") == kLaunching,
                   std::chrono::seconds(hook->integer("HeartbeatTimeout"))});
  }
  return out;
}

Result<std::vector<ScalingActivity>> Aws::describe_scaling_activities(const std::string& group) {
  Form form("DescribeScalingActivities", kAutoScalingVersion);
  form.add("AutoScalingGroupName", group).add("MaxRecords", impl_->page_size(100));
  // One page: older activities confirm nothing about a launch of now.
  QM_ASSIGN(const auto root, impl_->wire.query(kAutoScaling, form, Effect::kRead));
  std::vector<ScalingActivity> out;
  for (const auto* activity : root["DescribeScalingActivitiesResult"].items("Activities")) {
    QM_ASSIGN(const auto start, from_rfc3339(activity->value("StartTime")));
    out.push_back(
        {activity->value("StatusCode"), activity->value("Description"), activity->value("StatusMessage"), start});
  }
  return out;
}

Result<std::vector<std::string>> Aws::describe_warm_pool(const std::string& group) {
  Form form("DescribeWarmPool", kAutoScalingVersion);
  form.add("AutoScalingGroupName", group).add("MaxRecords", impl_->page_size(50));
  std::vector<std::string> out;
  QM_TRY(impl_->pages(kAutoScaling, form, "DescribeWarmPoolResult", [&out](const XmlNode& root) -> Status {
    for (const auto* member : root["DescribeWarmPoolResult"].items("Instances"))
      out.push_back(member->value("InstanceId"));
    return {};
  }));
  return out;
}

Status Aws::complete_lifecycle_action(const std::string& group, const std::string& hook, const std::string& instance) {
  Form form = hook_form("CompleteLifecycleAction", group, hook, instance);
  form.add("LifecycleActionResult", "CONTINUE");
  QM_TRY(impl_->wire.query(kAutoScaling, form, Effect::kRepeatable));
  return {};
}

Status Aws::record_lifecycle_heartbeat(const std::string& group, const std::string& hook, const std::string& instance) {
  const Form form = hook_form("RecordLifecycleActionHeartbeat", group, hook, instance);
  QM_TRY(impl_->wire.query(kAutoScaling, form, Effect::kRepeatable));
  return {};
}

}  // namespace qm::cloud
