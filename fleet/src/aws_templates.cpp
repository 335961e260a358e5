#include "aws_templates.hpp"

#include <algorithm>

namespace qm::fleet {
namespace {

constexpr std::size_t kMaxTags = 50;
constexpr std::string_view kTemplateData = "LaunchTemplateData.";
constexpr AwsPaging kTemplatePages{"launchTemplates", "MaxResults", 200, 1, 200, "nextToken"};

tl::unexpected<Refusal> no_template(std::string_view name) {
  return refuse(400, "InvalidLaunchTemplateName.NotFoundException",
                "The specified launch template, with template name {}, does not exist.", name);
}

void write_template(AwsXml& xml, const LaunchTemplate& one) {
  xml.leaf("launchTemplateId", one.id).leaf("launchTemplateName", one.name);
  xml.leaf("createTime", aws_instant(one.created)).leaf("createdBy", "arn:aws:iam::000000000000:root");
  xml.leaf("defaultVersionNumber", 1).leaf("latestVersionNumber", 1);
  write_tags(xml, one.tags);
}

/// The tags of one kind of resource in TagSpecification.N.
std::map<std::string, std::string> tags_for(const AwsCall& call, std::string_view type) {
  std::map<std::string, std::string> out;
  int n = 0;
  for (const auto& of : call.list("TagSpecification", ".ResourceType")) {
    ++n;
    if (of == type) out.merge(call.tags(fmt::format("TagSpecification.{}.Tag", n)));
  }
  return out;
}

}  // namespace

Answered<void> check_tags(const std::map<std::string, std::string>& tags) {
  if (tags.size() > kMaxTags) return refuse(400, "TagLimitExceeded", "More than 50 tags.");
  const bool reserved = std::ranges::any_of(tags, [](const auto& tag) { return tag.first.starts_with("aws:"); });
  if (reserved) return invalid_value("Tag keys starting with 'aws:' are reserved for internal use");
  return {};
}

AwsReply AwsTemplates::handle(const AwsCall& call) {
  if (call.action == "CreateLaunchTemplate") return create(call);
  if (call.action == "DescribeLaunchTemplates") return describe(call);
  if (call.action == "DeleteLaunchTemplate") return remove(call);
  return refuse(400, "InvalidAction", "The action {} is not valid for this web service.", call.action);
}

AwsReply AwsTemplates::create(const AwsCall& call) {
  LaunchTemplate made;
  made.name = call.param("LaunchTemplateName");
  if (made.name.empty()) return missing_parameter("LaunchTemplateName");
  if (made.name.size() < 3 || made.name.size() > 128) {
    return refuse(400, "InvalidLaunchTemplateName.MalformedException", "A name has 3 to 128 characters, not {}.",
                  made.name.size());
  }
  if (templates_.contains(made.name)) {
    return refuse(400, "InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.");
  }
  for (const auto& [key, value] : call.params) {
    if (key.starts_with(kTemplateData)) made.data[key.substr(kTemplateData.size())] = value;
  }
  if (made.data.empty()) return missing_parameter("LaunchTemplateData");
  if (const auto* type = find_in(made.data, "InstanceType"); type != nullptr && !world_.prices().find(*type)) {
    return invalid_value(fmt::format("Invalid value '{}' for InstanceType.", *type));
  }
  made.tags = tags_for(call, "launch-template");
  FLEET_TRY(check_tags(made.tags));
  made.id = "lt-" + world_.random_hex(17);
  made.created = world_.now_floor();
  AwsXml xml;
  write_template(xml.open("launchTemplate"), made);
  xml.close();
  const auto name = made.name;
  templates_.emplace(name, std::move(made));
  return xml.str();
}

AwsReply AwsTemplates::describe(const AwsCall& call) const {
  static const std::set<std::string> kNames = {"launch-template-name"};
  FLEET_ASSIGN(const auto filters, read_filters(call, kNames));
  const auto names = call.list("LaunchTemplateName"), ids = call.list("LaunchTemplateId");
  for (const auto& name : names) {
    if (find(name) == nullptr) return no_template(name);
  }
  const auto wanted = [&](const auto& entry) {
    const LaunchTemplate& one = entry.second;
    Facts facts = {{"launch-template-name", one.name}};
    add_tag_facts(facts, one.tags);
    const bool named = names.empty() || std::ranges::find(names, one.name) != names.end();
    return named && (ids.empty() || std::ranges::find(ids, one.id) != ids.end()) && passes(facts, filters);
  };
  return aws_page(
      call, kTemplatePages, templates_, [](const auto& entry) { return entry.first; }, wanted,
      [](AwsXml& xml, const auto& entry) {
        write_template(xml.open("item"), entry.second);
        xml.close();
      });
}

AwsReply AwsTemplates::remove(const AwsCall& call) {
  FLEET_ASSIGN(const auto* const found, named(call, {}));
  AwsXml xml;
  write_template(xml.open("launchTemplate"), *found);
  xml.close();
  templates_.erase(std::string(found->name));
  return xml.str();
}

Answered<const LaunchTemplate*> AwsTemplates::named(const AwsCall& call, const std::string& prefix) const {
  const auto& name = call.param(prefix + "LaunchTemplateName");
  const auto& id = call.param(prefix + "LaunchTemplateId");
  if (name.empty() == id.empty()) return missing_parameter("LaunchTemplateName or LaunchTemplateId");
  if (!name.empty()) {
    if (const auto* found = find(name)) return found;
    return no_template(name);
  }
  for (const auto& [key, one] : templates_) {
    if (one.id == id) return &one;
  }
  return refuse(400, "InvalidLaunchTemplateId.NotFound", "The launch template ID '{}' does not exist", id);
}

Answered<LaunchSpec> AwsTemplates::spec(std::map<std::string, std::string> parameters) const {
  AwsCall launch;
  launch.service = "ec2";
  launch.params = std::move(parameters);
  const std::string from = "LaunchTemplate.";
  if (!launch.param(from + "LaunchTemplateName").empty() || !launch.param(from + "LaunchTemplateId").empty()) {
    FLEET_ASSIGN(const auto* const found, named(launch, from));
    auto data = found->data;
    launch.params.merge(data);  // keeps what the call has
  }
  LaunchSpec spec;
  spec.type = launch.param("InstanceType");
  spec.image_id = launch.param("ImageId");
  spec.zone = launch.param("Placement.AvailabilityZone");
  spec.market = launch.param("InstanceMarketOptions.MarketType") == "spot" ? Market::kSpot : Market::kOnDemand;
  if (spec.type.empty()) return missing_parameter("InstanceType");
  if (spec.image_id.empty()) return missing_parameter("ImageId");
  if (world_.prices().find(spec.type) == nullptr) {
    return invalid_value(
        fmt::format("Invalid value '{}' for InstanceType: the instance type does not exist.", spec.type));
  }
  spec.tags = tags_for(launch, "instance");
  FLEET_TRY(check_tags(spec.tags));
  const auto& zones = world_.options().zones;
  if (!spec.zone.empty() && std::ranges::find(zones, spec.zone) == zones.end()) {
    return invalid_value(fmt::format("Invalid availability zone: [{}]", spec.zone));
  }
  FLEET_TRY(account_.check_launch(launch, spec));
  return spec;
}

}  // namespace qm::fleet
