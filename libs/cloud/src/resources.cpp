// What an account has: images, subnets, security groups, reservations, placement groups.
#include "services.hpp"

namespace qm::cloud {
namespace {

constexpr int kMostItems = 1000;

/// An image is deprecated from its deprecation time on; a text that is not an instant is none.
bool is_past(const std::string& text, std::int64_t utc_seconds) {
  const auto at = from_rfc3339(text);
  return at && micros(*at) <= utc_seconds * 1'000'000;
}

Image read_image(const XmlNode& node, std::int64_t utc_seconds) {
  Image out;
  out.id = node.value("imageId");
  out.name = node.value("name");
  out.architecture = node.value("architecture");
  out.owner = node.value("imageOwnerId");
  out.owner_alias = node.value("imageOwnerAlias");
  out.state = node.value("imageState");
  out.created = from_rfc3339(node.value("creationDate")).value_or(Instant{});
  out.deprecated = is_past(node.value("deprecationTime"), utc_seconds);
  out.tags = tags_of(node);
  return out;
}

Subnet read_subnet(const XmlNode& node) {
  return {node.value("subnetId"), node.value("availabilityZone"), node.value("vpcId"),
          node.integer("availableIpAddressCount"), tags_of(node)};
}

SecurityGroup read_security_group(const XmlNode& node) {
  return {node.value("groupId"), node.value("groupName"), node.value("vpcId"), tags_of(node)};
}

CapacityReservation read_reservation(const XmlNode& node) {
  CapacityReservation out;
  out.id = node.value("capacityReservationId");
  out.owner = node.value("ownerId");
  out.instance_type = node.value("instanceType");
  out.zone = node.value("availabilityZone");
  out.match_criteria = node.value("instanceMatchCriteria");
  out.kind = node.value("reservationType") == "capacity-block" ? "capacity-block" : "default";
  out.state = node.value("state");
  out.available = node.integer("availableInstanceCount");
  out.total = node.integer("totalInstanceCount");
  out.start = from_rfc3339(node.value("startDate")).value_or(Instant{});
  if (const auto end = from_rfc3339(node.value("endDate"))) out.end = *end;
  out.tags = tags_of(node);
  return out;
}

PlacementGroup read_placement_group(const XmlNode& node) {
  return {node.value("groupId"), node.value("groupName"), node.value("strategy"), node.value("state")};
}

}  // namespace

Result<std::vector<Image>> Aws::describe_images(const Filters& filters, const std::vector<std::string>& owners) {
  Form form("DescribeImages", kEc2Version);
  form.add_filters(filters).add_list("Owner", owners).add("MaxResults", impl_->page_size(kMostItems));
  const bool own = owners.size() == 1 && owners.front() == "self";
  const auto now = impl_->wire.options().outside.utc_seconds();
  return impl_->describe<Image>(form, "imagesSet", [&](const XmlNode& node) {
    Image out = read_image(node, now);
    out.own = own;
    return out;
  });
}

Result<std::vector<Subnet>> Aws::describe_subnets(const Filters& filters) {
  Form form("DescribeSubnets", kEc2Version);
  form.add_filters(filters).add("MaxResults", impl_->page_size(kMostItems));
  return impl_->describe<Subnet>(form, "subnetSet", read_subnet);
}

Result<std::vector<SecurityGroup>> Aws::describe_security_groups(const Filters& filters) {
  Form form("DescribeSecurityGroups", kEc2Version);
  form.add_filters(filters).add("MaxResults", impl_->page_size(kMostItems));
  return impl_->describe<SecurityGroup>(form, "securityGroupInfo", read_security_group);
}

Result<std::vector<CapacityReservation>> Aws::describe_capacity_reservations(const Filters& filters) {
  Form form("DescribeCapacityReservations", kEc2Version);
  form.add_filters(filters).add("MaxResults", impl_->page_size(kMostItems));
  return impl_->describe<CapacityReservation>(form, "capacityReservationSet", read_reservation);
}

Result<std::vector<PlacementGroup>> Aws::describe_placement_groups(const Filters& filters) {
  Form form("DescribePlacementGroups", kEc2Version);  // the call has no pages
  return impl_->describe<PlacementGroup>(form.add_filters(filters), "placementGroupSet", read_placement_group);
}

Result<std::optional<std::string>> Aws::get_parameter(const std::string& name) {
  Call c;
  c.service = "ssm";
  c.content_type = "application/x-amz-json-1.1";
  c.target = "AmazonSSM.GetParameter";
  c.body = Json::object({{"Name", name}}).dump();
  const auto body = impl_->wire.call(c);
  if (!body && body.error().code == Code::kNotFound) return std::optional<std::string>();
  if (!body) return fail(body.error().with_context("parameter " + name));
  QM_ASSIGN(const auto json, Json::parse(*body));
  return std::optional(json["Parameter"]["Value"].string());
}

Status Aws::ensure_instance_profile(const std::string& name, const std::string& role) {
  Form get("GetInstanceProfile", kIamVersion);
  const auto found = impl_->wire.query(kIam, get.add("InstanceProfileName", name), Effect::kRead);
  if (!found && found.error().code != Code::kNotFound) return fail(found.error());
  if (!found) {
    Form create("CreateInstanceProfile", kIamVersion);
    const auto created = impl_->wire.query(kIam, create.add("InstanceProfileName", name), Effect::kRepeatable);
    if (!created && created.error().code != Code::kAlreadyExists) return fail(created.error());
  } else {
    const auto roles = (*found)["GetInstanceProfileResult"]["InstanceProfile"].items("Roles");
    const std::string has = roles.empty() ? std::string() : roles.front()->value("RoleName");
    if (has == role) return {};
    if (!has.empty()) {
      return fail(Error{Code::kInvalid, fmt::format("instance profile {} has the role {}, not {}", name, has, role),
                        "spec.role", "delete the instance profile, or give the EC2NodeClass another name"});
    }
  }
  Form add("AddRoleToInstanceProfile", kIamVersion);
  add.add("InstanceProfileName", name).add("RoleName", role);
  QM_TRY(impl_->wire.query(kIam, add, Effect::kRepeatable));
  return {};
}

}  // namespace qm::cloud
