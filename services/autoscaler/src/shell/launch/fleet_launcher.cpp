// CreateFleet for launches that several offerings serve.
//
//   template by digest -> CreateFleet -> list by tag -> the instances, and an error for each offering without capacity
//   The template was deleted in between    -> it is created again by the repeated launch
//   The token was used with other values   -> the instances of the first request, by their tag
#include "launch/fleet_launcher.hpp"

#include "qm/base/crash_point.hpp"
#include "qm/base/log.hpp"

#include <algorithm>

namespace qm::autoscaler {
namespace {

constexpr std::size_t kMostTemplates = 50;  // that are kept
constexpr int kMostLooks = 5;               // with the back-off of intents about half a minute
constexpr std::size_t kMostTokens = 1000;

/// What the launches of one template have in common. Tags of one launch are those of the fleet.
cloud::InstanceRequest common_of(cloud::InstanceRequest launch, const std::string& tag) {
  launch.client_token.clear();
  launch.instance_type.clear();
  launch.zone.clear();
  launch.subnet.clear();
  launch.count = 1;
  launch.spot = false;
  launch.tags.erase("Name");
  launch.tags.erase(tag);
  return launch;
}

cloud::FleetRequest request_of(std::span<const cloud::InstanceRequest> alternatives) {
  const cloud::InstanceRequest& best = alternatives.front();
  cloud::FleetRequest out;
  out.client_token = best.client_token;
  out.market = best.spot ? cloud::FleetMarket::kSpot : cloud::FleetMarket::kOnDemand;
  out.allocation = best.spot ? cloud::FleetAllocation::kPriceCapacityOptimized : cloud::FleetAllocation::kPrioritized;
  out.target = best.count;
  out.one_type = out.one_zone = best.count > 1;
  if (best.count > 1) out.min_target = best.count;
  out.tags = best.tags;
  out.tag_volumes = best.tag_resources;
  for (const cloud::InstanceRequest& one : alternatives) {
    cloud::FleetOverride offering{one.instance_type, one.zone, one.subnet, {}};
    if (!best.spot) offering.priority = static_cast<double>(out.overrides.size());
    out.overrides.push_back(std::move(offering));
  }
  return out;
}

tl::unexpected<Error> later(std::string why) { return fail(Error{Code::kUnavailable, std::move(why), {}, {}}); }

}  // namespace

Refusal refusal_by(const cloud::ErrorKind& kind) {
  if (kind.error_class != cloud::ErrorClass::kCapacity) return Refusal::kLaunch;
  switch (kind.scope) {
    case cloud::ErrorScope::kType:
      return Refusal::kType;
    case cloud::ErrorScope::kZone:
      return Refusal::kZone;
    case cloud::ErrorScope::kMarket:
      return Refusal::kMarket;
    case cloud::ErrorScope::kAccount:
      return Refusal::kAccount;
    case cloud::ErrorScope::kCall:
    case cloud::ErrorScope::kOffering:
      break;
  }
  return Refusal::kCapacity;
}

Result<Launched> FleetLauncher::launch(std::span<const cloud::InstanceRequest> alternatives, const std::string& tag) {
  const cloud::InstanceRequest common = common_of(alternatives.front(), tag);
  std::vector<cloud::InstanceRequest> usable;
  std::ranges::copy_if(alternatives, std::back_inserter(usable),
                       [&](const cloud::InstanceRequest& one) { return common_of(one, tag) == common; });
  cloud::FleetRequest request = request_of(usable);
  QM_ASSIGN(request.launch_template, template_for(common));
  QM_CRASH_POINT("autoscaler.after_gang_template");
  auto answer = aws_.create_fleet(request);
  const auto code = answer ? std::string_view() : cloud::service_code(answer.error());
  if (code == "InvalidLaunchTemplateName.NotFoundException") {
    forget(request.launch_template);
    return later(answer.error().message);
  }
  const bool other_values = code == "IdempotentParameterMismatch";
  if (!answer && !other_values) return fail(answer.error());
  if (answer && answer->instances.empty()) return Launched{{}, std::move(answer->errors)};
  Launched out;
  if (answer) out.errors = std::move(answer->errors);
  QM_ASSIGN(out.instances, instances_with(tag, usable.front().tags.at(tag)));
  const auto came = answer ? answer->instances.size() : static_cast<std::size_t>(request.target);
  if (out.instances.size() >= came || is_listed(request.client_token)) {
    if (out.instances.empty() && other_values) return fail(answer.error());
    return out;
  }
  return later(fmt::format("{} of {} instances of the launch are listed", out.instances.size(), came));
}

Result<std::string> FleetLauncher::template_for(const cloud::InstanceRequest& launch) {
  cloud::LaunchTemplate wanted;
  wanted.launch = launch;
  wanted.tags = {{owner_tag_, owner_}};
  wanted.name = cloud::template_name("quartermaster-" + owner_, wanted);
  {
    const std::scoped_lock lock(mutex_);
    const auto known = std::ranges::find(used_, wanted.name);
    const bool exists = known != used_.end();
    if (exists) used_.erase(known);
    used_.push_back(wanted.name);
    if (used_.size() > kMostTemplates) used_.pop_front();
    if (exists) return wanted.name;
  }
  if (const auto created = aws_.create_launch_template(wanted); !created) {
    forget(wanted.name);
    return fail(created.error().with_context("the launch template " + wanted.name));
  }
  delete_unused();
  return wanted.name;
}

// Also those of an earlier process: its launches create theirs again.
void FleetLauncher::delete_unused() {
  const auto listed = aws_.describe_launch_templates({{"tag:" + owner_tag_, {owner_}}});
  if (!listed) return log::warn("launch templates cannot be listed", {{"error", listed.error().to_string()}});
  for (const auto& one : *listed) {
    {
      const std::scoped_lock lock(mutex_);
      if (std::ranges::find(used_, one.name) != used_.end()) continue;
    }
    if (const auto done = aws_.delete_launch_template(one.name); !done)
      log::warn("an unused launch template is not deleted", {{"name", one.name}, {"error", done.error().to_string()}});
  }
}

void FleetLauncher::forget(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  std::erase(used_, name);
}

Result<std::vector<cloud::Instance>> FleetLauncher::instances_with(const std::string& tag, const std::string& value) {
  return aws_.describe_instances({}, {{"tag:" + tag, {value}}, {"tag:" + owner_tag_, {owner_}}});
}

bool FleetLauncher::is_listed(const std::string& token) {
  const std::scoped_lock lock(mutex_);
  if (looked_.size() >= kMostTokens) looked_.clear();
  if (++looked_[token] < kMostLooks) return false;
  looked_.erase(token);
  return true;
}

}  // namespace qm::autoscaler
