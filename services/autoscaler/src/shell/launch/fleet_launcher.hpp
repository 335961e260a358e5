#pragma once
#include "qm/autoscaler/tables.hpp"
#include "qm/cloud/aws.hpp"

#include <deque>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// What came of a launch, and the offerings that the cloud tried in vain. No instances: none of them had capacity.
struct Launched {
  std::vector<cloud::Instance> instances;
  std::vector<cloud::FleetError> errors = {};
};

/// The launches that a refusal concerns, by the code of an error in the one table of the cloud library.
[[nodiscard]] Refusal refusal_by(const cloud::ErrorKind& kind);

/// Launches of which the cloud chooses the offering: CreateFleet with Type=instant. Several instances are of one type in
/// one zone, all or none, by MinTargetCapacity.
///
/// Order     on demand the best offering that has capacity; spot by price and capacity.
/// Tokens    the client token of the first alternative. A repeated launch finds the instances of the first one, also if
///           its parameters have changed since.
/// Templates one for each content, named by its digest and created when it is first used. When a new one is created,
///           those of this owner that were not used lately are deleted; one that is missing is created again.
/// Fails     kUnavailable: repeat the launch; else as Aws::create_fleet.
/// Threads   any.
class FleetLauncher {
 public:
  /// `owner`: the value of the tag `owner_tag` on everything that it creates.
  FleetLauncher(cloud::Aws& aws, std::string owner_tag, std::string owner)
      : aws_(aws), owner_tag_(std::move(owner_tag)), owner_(std::move(owner)) {}

  /// `alternatives`: the parameters of one launch at each offering, the best first. Those that need another launch
  /// template than the first are not used. `tag`: the tag that only instances of this launch have.
  [[nodiscard]] Result<Launched> launch(std::span<const cloud::InstanceRequest> alternatives, const std::string& tag);

  /// The instances of this owner with the tag, as the cloud lists them.
  [[nodiscard]] Result<std::vector<cloud::Instance>> instances_with(const std::string& tag, const std::string& value);

 private:
  Result<std::string> template_for(const cloud::InstanceRequest& launch);
  void delete_unused();
  void forget(const std::string& name);
  /// Whether the lists of the cloud were read often enough for the token that a missing instance does not exist.
  [[nodiscard]] bool is_listed(const std::string& token);

  cloud::Aws& aws_;
  const std::string owner_tag_, owner_;
  std::mutex mutex_;
  std::deque<std::string> used_;       ///< names of templates, the last used one at the end
  std::map<std::string, int> looked_;  ///< by token: lists in which instances were missing
};

}  // namespace qm::autoscaler
