#pragma once
#include "qm/base/time.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

/// Plain values of EC2: what an account has, and the parameters of a launch.
namespace qm::cloud {

using Tags = std::map<std::string, std::string>;

struct Image {
  std::string id, name, architecture;  ///< "x86_64" or "arm64"
  std::string owner, owner_alias;      ///< account number; "amazon", "aws-marketplace" or empty
  bool own = false;                    ///< of the caller's account
  std::string state;                   ///< "available", "pending", ...
  Instant created{};
  bool deprecated = false;
  Tags tags;
};

struct Subnet {
  std::string id, zone, vpc;
  std::int64_t free_addresses = 0;
  Tags tags;
};

struct SecurityGroup {
  std::string id, name, vpc;
  Tags tags;
};

struct CapacityReservation {
  std::string id, owner, instance_type, zone, match_criteria;  ///< "open" or "targeted"
  std::string kind, state;                                     ///< "default" or "capacity-block"; "active", ...
  std::int64_t available = 0;                                  ///< instances
  Tags tags;
  Instant start{};
  std::optional<Instant> end = {};  ///< none = until it is canceled
  std::int64_t total = 0;           ///< instances, with those in use
};

struct PlacementGroup {
  std::string id, name, strategy, state;  ///< "cluster", "partition" or "spread"; "available", ...
};

/// A volume of a launch. Zero and empty fields are not sent: EC2 has defaults.
struct BlockDevice {
  std::string device, type, kms_key, snapshot;
  std::int64_t size_gib = 0, iops = 0, throughput_mib = 0, initialization_mib = 0;
  std::optional<bool> encrypted, delete_on_termination;
  friend auto operator<=>(const BlockDevice&, const BlockDevice&) = default;
};

/// Access of an instance to its metadata service.
struct MetadataAccess {
  std::string endpoint, ipv6, tokens;
  std::int64_t hop_limit = 1;
  friend auto operator<=>(const MetadataAccess&, const MetadataAccess&) = default;
};

/// The parameters of RunInstances. Empty and absent ones are not sent.
struct InstanceRequest {
  std::string client_token;  ///< a request with the same token and parameters launches no second instance
  std::string instance_type, zone, image_id;
  bool spot = false;
  int count = 1;  ///< MinCount = MaxCount: all or nothing
  Tags tags;      ///< of the instance
  std::string user_data;
  bool tag_resources = false;  ///< its volumes and network interfaces have the tags too
  std::string subnet;
  std::vector<std::string> security_groups;  ///< ids
  std::string instance_profile;              ///< its name
  std::vector<BlockDevice> block_devices;
  std::optional<MetadataAccess> metadata;
  std::optional<bool> detailed_monitoring, public_ip;
  std::string placement_group;       ///< its id
  std::string capacity_reservation;  ///< its id
  bool capacity_block = false;       ///< the reservation is a capacity block
  bool enclave = false;
  friend auto operator<=>(const InstanceRequest&, const InstanceRequest&) = default;
};

}  // namespace qm::cloud
