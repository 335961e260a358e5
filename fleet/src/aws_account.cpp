// The resources of the simulated account, and the checks of a launch against them.
#include "aws_account.hpp"

#include "qm/base/base64.hpp"
#include "qm/base/digest.hpp"
#include "text.hpp"

#include <fnmatch.h>

#include <algorithm>

namespace qm::fleet {
namespace {

constexpr std::int64_t kAddresses = 8187;  // of a /19, without the five that AWS keeps
constexpr AwsPaging kImagePages{"imagesSet", "MaxResults", 1000, 1, 1000, "nextToken"};
constexpr AwsPaging kSubnetPages{"subnetSet", "MaxResults", 1000, 5, 1000, "nextToken"};
constexpr AwsPaging kGroupPages{"securityGroupInfo", "MaxResults", 1000, 5, 1000, "nextToken"};

/// A stable id: the prefix and 17 hexadecimal digits.
std::string id_of(std::string_view prefix, std::string_view name) {
  return std::string(prefix) + sha256_hex(name).substr(0, 17);
}

/// The name of a public parameter without the version of Kubernetes, which the account does not distinguish.
std::string without_version(const std::string& name) {
  constexpr std::string_view kEks = "/aws/service/eks/optimized-ami/", kRocket = "/aws/service/bottlerocket/aws-k8s-";
  if (name.starts_with(kEks)) {
    const auto slash = name.find('/', kEks.size());
    return slash == std::string::npos ? name : std::string(kEks) + name.substr(slash + 1);
  }
  if (!name.starts_with(kRocket)) return name;
  const auto end = name.find_first_not_of("0123456789.", kRocket.size());
  return end == std::string::npos ? name : std::string(kRocket) + name.substr(end);
}

}  // namespace

Answered<Filters> read_filters(const AwsCall& call, const std::set<std::string>& names) {
  Filters out;
  for (const auto& name : call.list("Filter", ".Name")) {
    if (!names.contains(name) && !name.starts_with("tag:") && name != "tag-key")
      return invalid_value(fmt::format("The filter '{}' is invalid", name));
    out.emplace_back(name, call.list(fmt::format("Filter.{}.Value", out.size() + 1)));
  }
  return out;
}

bool passes(const Facts& facts, const Filters& filters) {
  return std::ranges::all_of(filters, [&](const auto& filter) {
    const auto [from, to] = facts.equal_range(filter.first);
    return std::any_of(from, to, [&](const auto& fact) {
      return std::ranges::any_of(filter.second, [&](const std::string& wanted) {
        return fnmatch(wanted.c_str(), fact.second.c_str(), FNM_NOESCAPE) == 0;
      });
    });
  });
}

void add_tag_facts(Facts& facts, const std::map<std::string, std::string>& tags) {
  for (const auto& [key, value] : tags) {
    facts.emplace("tag-key", key);
    facts.emplace("tag:" + key, value);
  }
}

void write_tags(AwsXml& xml, const std::map<std::string, std::string>& tags) {
  if (tags.empty()) return;
  xml.open("tagSet");
  for (const auto& [key, value] : tags) xml.open("item").leaf("key", key).leaf("value", value).close();
  xml.close();
}

AwsAccount::AwsAccount(World& world) : world_(world), vpc_(id_of("vpc-", "fleet")) {
  cloud::Image plain;
  plain.id = kPlainImage;
  plain.name = "fleet-plain";
  plain.architecture = "x86_64";
  plain.owner = kOwner;
  plain.own = true;
  plain.created = from_micros(1'750'000'000'000'000);
  images_.push_back(plain);
  add_images("v20250601", from_micros(1'748'736'000'000'000));
  add_images("v20260501", from_micros(1'777'593'600'000'000));  // the later one has the parameters "recommended"
  const cloud::Tags found{{"karpenter.sh/discovery", "quartermaster"}};
  for (const auto& zone : world.options().zones) {
    cloud::Tags tags = found;
    tags["Name"] = "fleet-private-" + zone;
    tags["network-type"] = "private";
    subnets_.push_back({id_of("subnet-", zone), zone, vpc_, kAddresses, tags});
  }
  groups_ = {{id_of("sg-", "default"), "default", vpc_, {}}, {id_of("sg-", "fleet-nodes"), "fleet-nodes", vpc_, found}};
  placement_groups_ = {{id_of("pg-", "fleet-cluster"), "fleet-cluster", "cluster", "available"}};
  profiles_["fleet-nodes"] = "fleet-nodes";
}

void AwsAccount::add_images(std::string_view release, Instant created) {
  struct Variant {
    const char *name, *architecture, *recommended, *pinned;  ///< {} in `pinned` is the release
  };
  static constexpr Variant kVariants[] = {
      {"amazon-eks-node-al2023-x86_64-standard", "x86_64", "amazon-linux-2023/x86_64/standard/recommended", nullptr},
      {"amazon-eks-node-al2023-arm64-standard", "arm64", "amazon-linux-2023/arm64/standard/recommended", nullptr},
      {"amazon-eks-node-al2023-x86_64-nvidia", "x86_64", "amazon-linux-2023/x86_64/nvidia/recommended", nullptr},
      {"amazon-eks-node-al2023-arm64-nvidia", "arm64", "amazon-linux-2023/arm64/nvidia/recommended", nullptr},
      {"amazon-eks-node-al2023-x86_64-neuron", "x86_64", "amazon-linux-2023/x86_64/neuron/recommended", nullptr},
      {"amazon-eks-node", "x86_64", "amazon-linux-2/recommended", nullptr},
      {"amazon-eks-arm64-node", "arm64", "amazon-linux-2-arm64/recommended", nullptr},
      {"amazon-eks-gpu-node", "x86_64", "amazon-linux-2-gpu/recommended", nullptr},
      {"bottlerocket-aws-k8s-x86_64", "x86_64", nullptr, "/x86_64"},
      {"bottlerocket-aws-k8s-aarch64", "arm64", nullptr, "/arm64"},
      {"bottlerocket-aws-k8s-nvidia-x86_64", "x86_64", nullptr, "-nvidia/x86_64"},
      {"bottlerocket-aws-k8s-nvidia-aarch64", "arm64", nullptr, "-nvidia/arm64"}};
  for (const Variant& variant : kVariants) {
    cloud::Image image;
    image.name = fmt::format("{}-{}", variant.name, release);
    image.id = id_of("ami-", image.name);
    image.architecture = variant.architecture;
    image.owner = "602401143452";
    image.owner_alias = "amazon";
    image.created = created;
    if (variant.recommended != nullptr) {
      parameters_[fmt::format("/aws/service/eks/optimized-ami/{}/image_id", variant.recommended)] = image.id;
    } else {
      for (const auto version : {std::string_view("latest"), release.substr(1)})
        parameters_[fmt::format("/aws/service/bottlerocket/aws-k8s-{}/{}/image_id", variant.pinned, version)] =
            image.id;
    }
    images_.push_back(std::move(image));
  }
}

AwsReply AwsAccount::describe(const AwsCall& call) {
  if (call.action == "DescribeImages") return describe_images(call);
  if (call.action == "DescribeSubnets") return describe_subnets(call);
  if (call.action == "DescribeSecurityGroups") return describe_groups(call);
  if (call.action == "DescribePlacementGroups") return describe_placement_groups(call);
  if (call.action == "DescribeCapacityReservations") return std::string("<capacityReservationSet/>");
  return refuse(400, "InvalidAction", "The action {} is not valid for this web service.", call.action);
}

AwsReply AwsAccount::describe_images(const AwsCall& call) const {
  static const std::set<std::string> kNames = {"image-id", "name", "architecture", "state", "owner-id", "owner-alias"};
  FLEET_ASSIGN(const auto filters, read_filters(call, kNames));
  const auto owners = call.list("Owner"), ids = call.list("ImageId");
  for (const auto& id : ids) {
    if (!has(id)) return refuse(400, "InvalidAMIID.NotFound", "The image id '[{}]' does not exist", id);
  }
  const auto wanted = [&](const cloud::Image& image) {
    const bool owned = owners.empty() || std::ranges::any_of(owners, [&](const std::string& owner) {
                         return owner == image.owner || owner == image.owner_alias || (owner == "self" && image.own);
                       });
    Facts facts = {{"image-id", image.id}, {"name", image.name},      {"architecture", image.architecture},
                   {"state", "available"}, {"owner-id", image.owner}, {"owner-alias", image.owner_alias}};
    add_tag_facts(facts, image.tags);
    return owned && (ids.empty() || std::ranges::find(ids, image.id) != ids.end()) && passes(facts, filters);
  };
  return aws_page(
      call, kImagePages, images_, [](const auto& i) { return i.id; }, wanted,
      [](AwsXml& xml, const cloud::Image& image) {
        xml.open("item").leaf("imageId", image.id).leaf("name", image.name).leaf("imageState", "available");
        xml.leaf("imageOwnerId", image.owner).leaf("architecture", image.architecture);
        if (!image.owner_alias.empty()) xml.leaf("imageOwnerAlias", image.owner_alias);
        xml.leaf("creationDate", aws_instant(image.created)).leaf("rootDeviceName", "/dev/xvda");
        write_tags(xml, image.tags);
        xml.close();
      });
}

AwsReply AwsAccount::describe_subnets(const AwsCall& call) const {
  static const std::set<std::string> kNames = {"subnet-id", "vpc-id", "availability-zone", "state"};
  FLEET_ASSIGN(const auto filters, read_filters(call, kNames));
  std::map<std::string, std::int64_t> used;
  for (const auto& instance : world_.instances()) used[instance.subnet] += instance.alive() ? 1 : 0;
  const auto wanted = [&](const cloud::Subnet& subnet) {
    Facts facts = {
        {"subnet-id", subnet.id}, {"vpc-id", subnet.vpc}, {"availability-zone", subnet.zone}, {"state", "available"}};
    add_tag_facts(facts, subnet.tags);
    return passes(facts, filters);
  };
  return aws_page(
      call, kSubnetPages, subnets_, [](const auto& s) { return s.id; }, wanted,
      [&](AwsXml& xml, const cloud::Subnet& subnet) {
        xml.open("item").leaf("subnetId", subnet.id).leaf("state", "available").leaf("vpcId", subnet.vpc);
        xml.leaf("availabilityZone", subnet.zone);
        xml.leaf("availableIpAddressCount", subnet.free_addresses - used[subnet.id]);
        write_tags(xml, subnet.tags);
        xml.close();
      });
}

AwsReply AwsAccount::describe_groups(const AwsCall& call) const {
  static const std::set<std::string> kNames = {"group-id", "group-name", "vpc-id"};
  FLEET_ASSIGN(const auto filters, read_filters(call, kNames));
  const auto wanted = [&](const cloud::SecurityGroup& group) {
    Facts facts = {{"group-id", group.id}, {"group-name", group.name}, {"vpc-id", group.vpc}};
    add_tag_facts(facts, group.tags);
    return passes(facts, filters);
  };
  return aws_page(
      call, kGroupPages, groups_, [](const auto& g) { return g.id; }, wanted,
      [](AwsXml& xml, const cloud::SecurityGroup& group) {
        xml.open("item").leaf("groupId", group.id).leaf("groupName", group.name).leaf("vpcId", group.vpc);
        write_tags(xml, group.tags);
        xml.close();
      });
}

AwsReply AwsAccount::describe_placement_groups(const AwsCall& call) const {
  static const std::set<std::string> kNames = {"group-id", "group-name", "strategy", "state"};
  FLEET_ASSIGN(const auto filters, read_filters(call, kNames));
  AwsXml xml;
  xml.open("placementGroupSet");
  for (const auto& group : placement_groups_) {
    const Facts facts = {
        {"group-id", group.id}, {"group-name", group.name}, {"strategy", group.strategy}, {"state", group.state}};
    if (!passes(facts, filters)) continue;
    xml.open("item").leaf("groupId", group.id).leaf("groupName", group.name).leaf("strategy", group.strategy);
    xml.leaf("state", group.state).close();
  }
  xml.close();
  return xml.str();
}

AwsReply AwsAccount::iam(const AwsCall& call) {
  const auto& name = call.param("InstanceProfileName");
  if (name.empty()) return refuse(400, "ValidationError", "InstanceProfileName is missing");
  auto* role = find_in(profiles_, name);
  if (call.action == "CreateInstanceProfile") {
    if (role != nullptr) return refuse(409, "EntityAlreadyExists", "Instance Profile {} already exists.", name);
    profiles_[name];
    return std::string("<InstanceProfile/>");
  }
  if (call.action != "GetInstanceProfile" && call.action != "AddRoleToInstanceProfile")
    return refuse(400, "InvalidAction", "Could not find operation {}", call.action);
  if (role == nullptr) return refuse(404, "NoSuchEntity", "Instance Profile {} cannot be found.", name);
  if (call.action == "AddRoleToInstanceProfile") {
    if (!role->empty()) {
      return refuse(409, "LimitExceeded", "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1");
    }
    *role = call.param("RoleName");
    return std::string();
  }
  AwsXml xml;
  xml.open("InstanceProfile").leaf("InstanceProfileName", name).open("Roles");
  if (!role->empty()) xml.open("member").leaf("RoleName", *role).close();
  xml.close().close();
  return xml.str();
}

Answered<http::Answer> AwsAccount::ssm(const AwsCall& call) const {
  if (call.action != "GetParameter") return refuse(400, "UnknownOperationException", "{}", call.action);
  const std::string& name = call.body["Name"].string();
  const auto* value = find_in(parameters_, without_version(name));
  if (value == nullptr) return refuse(400, "ParameterNotFound", "Parameter {} not found.", name);
  const Json parameter = Json::object({{"Name", name}, {"Type", "String"}, {"Value", *value}, {"Version", 1}});
  auto out = http::json(200, Json::object({{"Parameter", parameter}}).dump());
  out.headers.set("Content-Type", "application/x-amz-json-1.1");
  return http::Answer(std::move(out));
}

Answered<void> AwsAccount::check_network(const AwsCall& call, LaunchSpec& spec) const {
  const bool interface = !call.param("NetworkInterface.1.DeviceIndex").empty();
  const std::string prefix = interface ? "NetworkInterface.1." : "";
  if (interface && (!call.param("SubnetId").empty() || !call.param("SecurityGroupId.1").empty())) {
    return refuse(400, "InvalidParameterCombination",
                  "Network interfaces and an instance-level subnet ID or security groups may not be specified on the "
                  "same request");
  }
  spec.subnet = call.param(prefix + "SubnetId");
  spec.security_groups = call.list(prefix + "SecurityGroupId");
  const cloud::Subnet* subnet = nullptr;
  for (const auto& one : subnets_) {
    if (spec.subnet.empty() ? one.zone == spec.zone : one.id == spec.subnet) subnet = &one;
  }
  if (subnet == nullptr && !spec.subnet.empty())
    return refuse(400, "InvalidSubnetID.NotFound", "The subnet ID '{}' does not exist", spec.subnet);
  if (subnet != nullptr && !spec.zone.empty() && subnet->zone != spec.zone) {
    return invalid_value(fmt::format("Value ({}) for parameter availabilityZone is invalid. The subnet '{}' is in {}.",
                                     spec.zone, subnet->id, subnet->zone));
  }
  if (subnet != nullptr) {
    spec.subnet = subnet->id;
    spec.zone = subnet->zone;
  }
  for (const auto& id : spec.security_groups) {
    if (std::ranges::find(groups_, id, &cloud::SecurityGroup::id) == groups_.end())
      return refuse(400, "InvalidGroup.NotFound", "The security group '{}' does not exist", id);
  }
  if (spec.security_groups.empty()) spec.security_groups = {groups_.front().id};
  return {};
}

Answered<void> AwsAccount::check_launch(const AwsCall& call, LaunchSpec& spec) const {
  if (!spec.image_id.starts_with("ami-"))
    return refuse(400, "InvalidAMIID.Malformed", "Invalid id: \"{}\" (expecting \"ami-...\")", spec.image_id);
  if (std::ranges::find(images_, spec.image_id, &cloud::Image::id) == images_.end())
    return refuse(400, "InvalidAMIID.NotFound", "The image id '[{}]' does not exist", spec.image_id);
  FLEET_TRY(check_network(call, spec));
  spec.profile = call.param("IamInstanceProfile.Name");
  if (!spec.profile.empty() && !profiles_.contains(spec.profile)) {
    return invalid_value(
        fmt::format("Value ({}) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile "
                    "name",
                    spec.profile));
  }
  const auto& group = call.param("Placement.GroupId");
  if (!group.empty() &&
      std::ranges::find(placement_groups_, group, &cloud::PlacementGroup::id) == placement_groups_.end())
    return refuse(400, "InvalidPlacementGroup.Unknown", "The placement group '{}' is unknown.", group);
  const auto& reservation =
      call.param("CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId");
  if (!reservation.empty()) {
    return refuse(400, "InvalidCapacityReservationId.NotFound", "The capacity reservation ID '{}' does not exist.",
                  reservation);
  }
  const auto& tokens = call.param("MetadataOptions.HttpTokens");
  if (!tokens.empty() && tokens != "optional" && tokens != "required")
    return invalid_value(fmt::format("Value ({}) for parameter HttpTokens is invalid.", tokens));
  for (std::size_t n = 1; !call.param(fmt::format("BlockDeviceMapping.{}.Ebs.VolumeSize", n)).empty(); ++n) {
    if (call.param(fmt::format("BlockDeviceMapping.{}.DeviceName", n)).empty())
      return refuse(400, "MissingParameter", "The request must contain the parameter deviceName");
  }
  auto data = from_base64(call.param("UserData"));
  if (!data) return refuse(400, "InvalidUserData.Malformed", "Invalid BASE64 encoding of user data");
  spec.user_data = std::move(*data);
  return {};
}

cloud::Tags* AwsAccount::tags_of(const std::string& id) {
  cloud::Tags* out = nullptr;
  const auto look = [&](auto& all) {
    for (auto& one : all) {
      if (one.id == id) out = &one.tags;
    }
  };
  look(images_);
  look(subnets_);
  look(groups_);
  return out;
}

bool AwsAccount::has(const std::string& id) const { return const_cast<AwsAccount*>(this)->tags_of(id) != nullptr; }

bool AwsAccount::set_tags(const std::string& id, const std::map<std::string, std::string>& tags) {
  auto* known = tags_of(id);
  if (known == nullptr) return false;
  for (const auto& [key, value] : tags) (*known)[key] = value;
  return true;
}

}  // namespace qm::fleet
