// CreateFleet with Type=instant, and the launch templates that it launches from.
#include "qm/cloud/fleet.hpp"

#include "launch_form.hpp"
#include "qm/base/digest.hpp"
#include "qm/model/money.hpp"
#include "services.hpp"

namespace qm::cloud {
namespace {

constexpr int kMaxTemplates = 200;  // per page

std::string_view name_of(FleetMarket market) {
  constexpr std::string_view kNames[] = {"on-demand", "spot", "capacity-block", "reserved-capacity"};
  return kNames[static_cast<std::size_t>(market)];
}

/// On-demand calls the order by priority "prioritized"; spot has no such order without capacity.
std::string_view name_of(FleetAllocation allocation) {
  constexpr std::string_view kNames[] = {"lowest-price",
                                         "prioritized",
                                         "diversified",
                                         "capacity-optimized",
                                         "capacity-optimized-prioritized",
                                         "price-capacity-optimized"};
  return kNames[static_cast<std::size_t>(allocation)];
}

void add_overrides(Form& form, const std::vector<FleetOverride>& overrides) {
  int n = 0;
  for (const FleetOverride& one : overrides) {
    const auto prefix = fmt::format("LaunchTemplateConfigs.1.Overrides.{}.", ++n);
    const auto text = [&](const char* name, const std::string& value) {
      if (!value.empty()) form.add(prefix + name, value);
    };
    text("InstanceType", one.instance_type);
    text("AvailabilityZone", one.zone);
    text("SubnetId", one.subnet);
    if (one.priority) form.add(prefix + "Priority", fmt::format("{}", *one.priority));
    if (one.max_nano_usd_hour) {
      form.add(prefix + "MaxPrice",
               fmt::format("{}.{:09}", *one.max_nano_usd_hour / 1'000'000'000, *one.max_nano_usd_hour % 1'000'000'000));
    }
    if (one.weight) form.add(prefix + "WeightedCapacity", *one.weight);
    text("Placement.GroupId", one.placement_group);
  }
}

/// The options of one market: both have the same names.
void add_options(Form& form, const std::string& prefix, const FleetRequest& request) {
  form.add(prefix + "AllocationStrategy", name_of(request.allocation));
  if (request.one_type) form.add(prefix + "SingleInstanceType", "true");
  if (request.one_zone) form.add(prefix + "SingleAvailabilityZone", "true");
  if (request.min_target > 0) form.add(prefix + "MinTargetCapacity", request.min_target);
}

Form form_of(const FleetRequest& request) {
  Form form("CreateFleet", kEc2Version);
  form.add("Type", "instant");
  form.add("ClientToken", request.client_token.empty() ? random_token() : request.client_token);
  const std::string from = "LaunchTemplateConfigs.1.LaunchTemplateSpecification.";
  form.add(from + "LaunchTemplateName", request.launch_template).add(from + "Version", "$Latest");
  add_overrides(form, request.overrides);
  if (request.market == FleetMarket::kSpot) add_options(form, "SpotOptions.", request);
  if (request.market == FleetMarket::kOnDemand) {
    add_options(form, "OnDemandOptions.", request);
    if (request.use_reservations_first) {
      form.add("OnDemandOptions.CapacityReservationOptions.UsageStrategy", "use-capacity-reservations-first");
    }
  }
  form.add("TargetCapacitySpecification.TotalTargetCapacity", request.target);
  form.add("TargetCapacitySpecification.DefaultTargetCapacityType", name_of(request.market));
  std::vector<std::string> tagged = {"fleet", "instance"};
  if (request.tag_volumes) tagged.emplace_back("volume");
  add_tag_specifications(form, {}, tagged, request.tags);
  return form;
}

void add_template(Form& form, const LaunchTemplate& launch_template) {
  const std::string data = "LaunchTemplateData.";
  add_launch(form, data, launch_template.launch);
  if (launch_template.launch.tag_resources) {
    add_tag_specifications(form, data, {"network-interface"}, launch_template.launch.tags);
  }
  add_tag_specifications(form, {}, {"launch-template"}, launch_template.tags);
}

FleetResult read_fleet(const XmlNode& root) {
  FleetResult out;
  out.fleet_id = root.value("fleetId");
  for (const auto* item : root.items("fleetInstanceSet")) {
    const XmlNode& from = (*item)["launchTemplateAndOverrides"]["overrides"];
    for (const auto* id : item->items("instanceIds")) {
      out.instances.push_back({id->text, item->value("instanceType"), from.value("availabilityZone"),
                               from.value("subnetId"), item->value("lifecycle") == "spot"});
    }
  }
  for (const auto* item : root.items("errorSet")) {
    const XmlNode& from = (*item)["launchTemplateAndOverrides"]["overrides"];
    const auto code = item->value("errorCode");
    out.errors.push_back({code, item->value("errorMessage"), classify(code), from.value("instanceType"),
                          from.value("availabilityZone"), from.value("subnetId"), item->value("lifecycle") == "spot"});
  }
  return out;
}

}  // namespace

std::string template_name(const std::string& prefix, const LaunchTemplate& launch_template) {
  constexpr std::size_t kDigits = 16;
  Form form("CreateLaunchTemplate", kEc2Version);
  add_template(form, launch_template);
  return prefix + "-" + sha256_hex(form.body()).substr(0, kDigits);
}

Result<FleetResult> Aws::create_fleet(const FleetRequest& request) {
  QM_ASSIGN(const auto root, impl_->wire.query(kEc2, form_of(request), Effect::kRepeatable));
  return read_fleet(root);
}

Status Aws::create_launch_template(const LaunchTemplate& launch_template) {
  Form form("CreateLaunchTemplate", kEc2Version);
  form.add("LaunchTemplateName", launch_template.name);
  add_template(form, launch_template);
  const auto created = impl_->wire.query(kEc2, form, Effect::kRepeatable);
  if (!created && created.error().code != Code::kAlreadyExists) return fail(created.error());
  return {};
}

Result<std::vector<LaunchTemplateEntry>> Aws::describe_launch_templates(const Filters& filters) {
  Form form("DescribeLaunchTemplates", kEc2Version);
  form.add_filters(filters).add("MaxResults", impl_->page_size(kMaxTemplates));
  return impl_->describe<LaunchTemplateEntry>(form, "launchTemplates", [](const XmlNode& node) {
    return LaunchTemplateEntry{node.value("launchTemplateId"), node.value("launchTemplateName"),
                               from_rfc3339(node.value("createTime")).value_or(Instant{}), tags_of(node)};
  });
}

Status Aws::delete_launch_template(const std::string& name) {
  Form form("DeleteLaunchTemplate", kEc2Version);
  const auto deleted = impl_->wire.query(kEc2, form.add("LaunchTemplateName", name), Effect::kRepeatable);
  if (!deleted && deleted.error().code != Code::kNotFound) return fail(deleted.error());
  return {};
}

}  // namespace qm::cloud
