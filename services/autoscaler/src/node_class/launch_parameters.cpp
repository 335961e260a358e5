// The parameters of one launch: image, subnet, security groups, reservation, volumes and tags.
#include "qm/autoscaler/node_class/launch_parameters.hpp"

#include "qm/autoscaler/requirements/keys.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace qm::autoscaler {
namespace {

using config::NodeClass;

constexpr std::size_t kMostUserData = 16'384;  // bytes before base64, a limit of EC2
constexpr std::size_t kMostTags = 50;

tl::unexpected<Error> refused(Code code, const NodeClass& node_class, std::string_view field, std::string_view what,
                              std::string_view remedy) {
  return fail(Error{code, fmt::format("EC2NodeClass {}: {}; {}", node_class.name, what, remedy),
                    fmt::format("spec.{}", field), std::string(remedy)});
}

Result<std::string> image_for(const ResolvedClass& resolved, const PlannedInstance& planned) {
  for (const ResolvedImage& one : resolved.images) {
    const bool fits =
        one.accelerators.empty() || std::ranges::find(one.accelerators, planned.accelerator) != one.accelerators.end();
    if (fits && one.image.architecture == planned.architecture) return one.image.id;
  }
  return refused(Code::kInvalid, resolved.node_class, "amiSelectorTerms",
                 fmt::format("none of its {} images is for {} ({}, {})", resolved.images.size(), planned.instance_type,
                             planned.architecture, name_of(planned.accelerator)),
                 "add a term that selects one, or restrict the architecture in the requirements of the NodePool");
}

// They are ordered by free addresses, so that the first one that fits is the best.
Result<const cloud::Subnet*> subnet_for(const ResolvedClass& resolved, const PlannedInstance& planned) {
  bool full = false;
  std::set<std::string> zones;
  for (const cloud::Subnet& subnet : resolved.subnets) {
    zones.insert(subnet.zone);
    if (!planned.zone.empty() && subnet.zone != planned.zone) continue;
    if (subnet.free_addresses >= planned.count) return &subnet;
    full = true;
  }
  if (full) {
    auto out =
        refused(Code::kExhausted, resolved.node_class, "subnetSelectorTerms",
                fmt::format("no subnet has {}{}",
                            planned.count == 1 ? "a free address" : fmt::format("{} free addresses", planned.count),
                            planned.zone.empty() ? std::string() : " in zone " + planned.zone),
                "add a subnet, or wait until addresses are released");
    out.value().field = "capacity";  // another zone may have one, as after a refusal of EC2
    return out;
  }
  return refused(Code::kInvalid, resolved.node_class, "subnetSelectorTerms",
                 fmt::format("none of its {} subnets is in zone {}, they are in {}", resolved.subnets.size(),
                             planned.zone, fmt::join(zones, ", ")),
                 "tag a subnet of that zone, or exclude the zone in the requirements of the NodePool");
}

Result<std::vector<std::string>> groups_for(const ResolvedClass& resolved, const cloud::Subnet& subnet) {
  std::vector<std::string> out;
  for (const cloud::SecurityGroup& group : resolved.security_groups) {
    if (group.vpc == subnet.vpc) out.push_back(group.id);
  }
  if (!out.empty()) return out;
  return refused(Code::kInvalid, resolved.node_class, "securityGroupSelectorTerms",
                 fmt::format("none of its {} security groups is in {}, the VPC of subnet {}",
                             resolved.security_groups.size(), subnet.vpc, subnet.id),
                 "tag a security group of that VPC");
}

/// The reservation that was planned; null if none was.
Result<const cloud::CapacityReservation*> reserved_for(const ResolvedClass& resolved, const PlannedInstance& planned) {
  if (planned.reservation.empty()) return nullptr;
  const auto found = std::ranges::find(resolved.reservations, planned.reservation, &cloud::CapacityReservation::id);
  if (found != resolved.reservations.end()) return &*found;
  auto out =
      refused(Code::kExhausted, resolved.node_class, "capacityReservationSelectorTerms",
              fmt::format("it does not select {} any more, or the reservation is not active", planned.reservation),
              "extend the reservation, or allow other capacity in the requirements of the NodePool");
  out.value().field = "capacity";
  return out;
}

std::vector<cloud::BlockDevice> devices_of(const NodeClass& node_class) {
  std::vector<cloud::BlockDevice> out;
  for (const config::NodeClassVolume& v : node_class.volumes) {
    cloud::BlockDevice device;
    device.device = v.device;
    device.type = v.type;
    device.kms_key = v.kms_key;
    device.snapshot = v.snapshot;
    device.size_gib = v.size_gib;
    device.iops = v.iops;
    device.throughput_mib = v.throughput_mib;
    device.initialization_mib = v.initialization_mib;
    device.encrypted = v.encrypted;
    device.delete_on_termination = v.delete_on_termination;
    out.push_back(std::move(device));
  }
  if (!out.empty()) return out;
  const auto standard = [&](const char* device, std::int64_t gib) {
    cloud::BlockDevice volume;
    volume.device = device;
    volume.type = "gp3";
    volume.size_gib = gib;
    volume.encrypted = true;
    out.push_back(std::move(volume));
  };
  if (node_class.ami_family == "AL2" || node_class.ami_family == "AL2023") standard("/dev/xvda", 20);
  if (node_class.ami_family == "Bottlerocket") {
    standard("/dev/xvda", 4);
    standard("/dev/xvdb", 20);
  }
  return out;
}

cloud::Tags tags_of(const NodeClass& node_class, const ClusterIdentity& cluster, const PlannedInstance& planned) {
  cloud::Tags out = node_class.tags;
  out.emplace("Name", fmt::format("{}/{}", planned.pool, planned.claim));
  out["karpenter.sh/nodepool"] = planned.pool;
  out["karpenter.sh/nodeclaim"] = planned.claim;
  out["karpenter.k8s.aws/ec2nodeclass"] = node_class.name;
  if (!cluster.name.empty()) {
    out["eks:eks-cluster-name"] = cluster.name;
    out["kubernetes.io/cluster/" + cluster.name] = "owned";
  }
  return out;
}

}  // namespace

void count_launch(ResolvedClass& resolved, const cloud::InstanceRequest& request) {
  for (cloud::Subnet& subnet : resolved.subnets) {
    if (subnet.id == request.subnet) subnet.free_addresses -= request.count;
  }
  for (cloud::CapacityReservation& reservation : resolved.reservations) {
    if (reservation.id == request.capacity_reservation) reservation.available -= request.count;
  }
  sort_subnets(resolved.subnets);
}

Result<cloud::InstanceRequest> launch_parameters(const ResolvedClass& resolved, const ClusterIdentity& cluster,
                                                 const PlannedInstance& planned) {
  const NodeClass& node_class = resolved.node_class;
  PlannedInstance placed = planned;
  QM_ASSIGN(const cloud::CapacityReservation* reservation, reserved_for(resolved, planned));
  cloud::InstanceRequest out;
  QM_ASSIGN(out.image_id, image_for(resolved, placed));
  QM_ASSIGN(const cloud::Subnet* subnet, subnet_for(resolved, placed));
  QM_ASSIGN(out.security_groups, groups_for(resolved, *subnet));
  out.subnet = subnet->id;
  out.zone = subnet->zone;
  out.instance_type = planned.instance_type;
  out.count = static_cast<int>(planned.count);
  out.spot = planned.spot;
  out.instance_profile = node_class.instance_profile;
  out.block_devices = devices_of(node_class);
  out.metadata = cloud::MetadataAccess{node_class.metadata.endpoint, node_class.metadata.ipv6,
                                       node_class.metadata.tokens, node_class.metadata.hop_limit};
  out.detailed_monitoring = node_class.detailed_monitoring;
  out.public_ip = node_class.public_ip;
  out.enclave = node_class.enclave;
  if (resolved.placement_group) out.placement_group = resolved.placement_group->id;
  // With one of these its kubelet would not start, or the API server would refuse the node.
  std::erase_if(placed.labels, [](const auto& label) { return is_kubernetes_label(label.first); });
  placed.labels["karpenter.sh/nodepool"] = planned.pool;
  placed.labels["karpenter.sh/capacity-type"] = planned.spot ? "spot" : "on-demand";
  placed.labels["karpenter.k8s.aws/ec2nodeclass"] = node_class.name;
  if (reservation != nullptr) {
    out.capacity_reservation = reservation->id;
    out.capacity_block = reservation->kind == "capacity-block";
    placed.labels["karpenter.sh/capacity-type"] = "reserved";
    placed.labels["karpenter.k8s.aws/capacity-reservation-id"] = reservation->id;
  }
  out.tags = tags_of(node_class, cluster, planned);
  out.tag_resources = true;
  if (out.tags.size() > kMostTags) {
    return refused(Code::kInvalid, node_class, "tags",
                   fmt::format("an instance would have {} tags, EC2 accepts {}", out.tags.size(), kMostTags),
                   fmt::format("remove {} of them", out.tags.size() - kMostTags));
  }
  auto data = user_data(node_class, cluster, placed);
  if (!data) return fail(data.error().with_context("EC2NodeClass " + node_class.name));
  if (data->size() > kMostUserData) {
    return refused(Code::kInvalid, node_class, "userData",
                   fmt::format("the user data has {} bytes, EC2 accepts {}", data->size(), kMostUserData),
                   "shorten userData, or load the rest from the network");
  }
  out.user_data = std::move(*data);
  return out;
}

}  // namespace qm::autoscaler
