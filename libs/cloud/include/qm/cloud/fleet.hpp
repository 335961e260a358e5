#pragma once
#include "qm/base/time.hpp"
#include "qm/cloud/errors.hpp"
#include "qm/cloud/resources.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// The values of CreateFleet with Type=instant: one synchronous call that launches instances of several types in
/// several zones, or none of them.
namespace qm::cloud {

/// The parameters of a launch under a name. CreateFleet launches from it and overrides type, zone and subnet.
struct LaunchTemplate {
  std::string name;  ///< 3 to 128 characters; the same name is always the same content: put a digest into it
  /// Without client token, type, zone, subnet, count and market; with `tag_resources` its tags are those of the
  /// network interfaces, which a fleet cannot tag.
  InstanceRequest launch;
  Tags tags;  ///< of the template itself
};

/// `prefix`, a dash and a digest of the parameters and tags: equal templates have equal names.
[[nodiscard]] std::string template_name(const std::string& prefix, const LaunchTemplate& launch_template);

struct LaunchTemplateEntry {
  std::string id, name;
  Instant created{};
  Tags tags;
};

/// One alternative of a fleet. Empty and absent members are not sent.
struct FleetOverride {
  std::string instance_type;
  std::string zone, subnet;                            ///< both may be given: errors name the zone then
  std::optional<double> priority;                      ///< for the prioritized strategies; lower is tried first
  std::optional<std::int64_t> max_nano_usd_hour = {};  ///< spot only; absent = the on-demand price
  std::optional<int> weight = {};                      ///< units of the target that one instance fulfills; absent = 1
  std::string placement_group = {};                    ///< its id
};

enum class FleetMarket : std::uint8_t { kOnDemand, kSpot, kCapacityBlock, kReservedCapacity };

/// The order in which EC2 tries the overrides. On-demand knows only the first two, spot all but kPrioritized.
enum class FleetAllocation : std::uint8_t {
  kLowestPrice,
  kPrioritized,
  kDiversified,
  kCapacityOptimized,
  kCapacityOptimizedPrioritized,
  kPriceCapacityOptimized,
};

struct FleetRequest {
  std::string client_token;     ///< a request with the same token and parameters launches nothing again
  std::string launch_template;  ///< its name; the latest version
  std::vector<FleetOverride> overrides;
  FleetMarket market = FleetMarket::kOnDemand;
  FleetAllocation allocation = FleetAllocation::kLowestPrice;
  int target = 1;  ///< TotalTargetCapacity, in units of the weights
  /// MinTargetCapacity: below it nothing is launched. At most 1000; needs one_type or one_zone. 0 = a part of the
  /// target is acceptable.
  int min_target = 0;
  bool one_type = false;                ///< SingleInstanceType
  bool one_zone = false;                ///< SingleAvailabilityZone
  bool use_reservations_first = false;  ///< on-demand capacity reservations before other capacity
  Tags tags;                            ///< of the fleet and its instances
  bool tag_volumes = false;             ///< its volumes have the tags too
};

struct FleetInstance {
  std::string id, instance_type, zone, subnet;  ///< zone and subnet as in the override that launched it
  bool spot = false;
  friend bool operator==(const FleetInstance&, const FleetInstance&) = default;
};

/// Why an override launched fewer instances than requested. Not a failure of the call, even if nothing was launched.
struct FleetError {
  std::string code, message;
  ErrorKind kind;  ///< classify(code)
  std::string instance_type, zone, subnet;
  bool spot = false;
};

struct FleetResult {
  std::string fleet_id;
  std::vector<FleetInstance> instances;
  std::vector<FleetError> errors;
};

}  // namespace qm::cloud
