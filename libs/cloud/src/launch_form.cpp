#include "launch_form.hpp"

#include "qm/base/base64.hpp"

#include <fmt/format.h>

#include <random>

namespace qm::cloud {
namespace {

std::string_view flag(bool value) { return value ? "true" : "false"; }

void add_devices(Form& form, const std::string& all, const std::vector<BlockDevice>& devices) {
  int n = 0;
  for (const BlockDevice& device : devices) {
    const auto prefix = fmt::format("{}BlockDeviceMapping.{}.", all, ++n);
    const auto ebs = prefix + "Ebs.";
    const auto text = [&](const char* name, const std::string& value) {
      if (!value.empty()) form.add(ebs + name, value);
    };
    const auto number = [&](const char* name, std::int64_t value) {
      if (value > 0) form.add(ebs + name, value);
    };
    form.add(prefix + "DeviceName", device.device);
    number("VolumeSize", device.size_gib);
    text("VolumeType", device.type);
    number("Iops", device.iops);
    number("Throughput", device.throughput_mib);
    number("VolumeInitializationRate", device.initialization_mib);
    if (device.encrypted) form.add(ebs + "Encrypted", flag(*device.encrypted));
    if (device.delete_on_termination) form.add(ebs + "DeleteOnTermination", flag(*device.delete_on_termination));
    text("KmsKeyId", device.kms_key);
    text("SnapshotId", device.snapshot);
  }
}

/// A public address is a property of a network interface, which then has the subnet and the groups.
void add_network(Form& form, const std::string& all, const InstanceRequest& request) {
  const std::string prefix = request.public_ip ? all + "NetworkInterface.1." : all;
  if (request.public_ip) {
    form.add(prefix + "DeviceIndex", 0).add(prefix + "AssociatePublicIpAddress", flag(*request.public_ip));
    form.add(prefix + "DeleteOnTermination", "true");
  }
  if (!request.subnet.empty()) form.add(prefix + "SubnetId", request.subnet);
  form.add_list(prefix + "SecurityGroupId", request.security_groups);
}

void add_reservation(Form& form, const std::string& prefix, const InstanceRequest& request) {
  if (request.capacity_reservation.empty()) return;
  if (request.capacity_block) form.add(prefix + "InstanceMarketOptions.MarketType", "capacity-block");
  form.add(prefix + "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId",
           request.capacity_reservation);
}

}  // namespace

void add_launch(Form& form, const std::string& prefix, const InstanceRequest& request) {
  if (!request.image_id.empty()) form.add(prefix + "ImageId", request.image_id);
  if (!request.placement_group.empty()) form.add(prefix + "Placement.GroupId", request.placement_group);
  add_reservation(form, prefix, request);
  if (!request.user_data.empty()) form.add(prefix + "UserData", base64(request.user_data));
  add_network(form, prefix, request);
  if (!request.instance_profile.empty()) form.add(prefix + "IamInstanceProfile.Name", request.instance_profile);
  add_devices(form, prefix, request.block_devices);
  if (const auto& metadata = request.metadata) {
    const auto options = prefix + "MetadataOptions.";
    form.add(options + "HttpEndpoint", metadata->endpoint).add(options + "HttpTokens", metadata->tokens);
    form.add(options + "HttpPutResponseHopLimit", metadata->hop_limit);
    form.add(options + "HttpProtocolIpv6", metadata->ipv6);
  }
  if (request.detailed_monitoring) form.add(prefix + "Monitoring.Enabled", flag(*request.detailed_monitoring));
  if (request.enclave) form.add(prefix + "EnclaveOptions.Enabled", "true");
}

void add_tag_specifications(Form& form, const std::string& prefix, const std::vector<std::string>& types,
                            const Tags& tags) {
  if (tags.empty()) return;
  int n = 0;
  for (const auto& type : types) {
    const auto specification = fmt::format("{}TagSpecification.{}.", prefix, ++n);
    form.add(specification + "ResourceType", type).add_tags(specification + "Tag", tags);
  }
}

std::string random_token() {
  std::random_device device;
  std::string out = "qm";
  for (int i = 0; i < 4; ++i) fmt::format_to(std::back_inserter(out), "-{:08x}", device());
  return out;
}

}  // namespace qm::cloud
