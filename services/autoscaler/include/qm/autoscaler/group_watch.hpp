#pragma once
#include "qm/autoscaler/commands.hpp"
#include "qm/cloud/aws.hpp"

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// The NodePool of a group that has none: its nodes by the first instance type and the tags of node templates.
///
/// Types    of a mixed instances policy the first one is the template, so all should have the same CPU, memory and GPUs.
///          Without a policy the label node.kubernetes.io/instance-type of the tags names the type.
/// Fails    never: what cannot be read makes the pool not ready, with the tag and the remedy.
[[nodiscard]] Pool pool_of_group(const cloud::AutoScalingGroup& group);

/// Reads Auto Scaling groups: those that NodePools name, and those that tags discover.
///
/// Threads  look by one; discovered any.
class GroupWatch {
 public:
  /// `discovery`: the tags of each --node-group-auto-discovery; a group must have all tags of one.
  GroupWatch(cloud::Aws& aws, std::vector<std::map<std::string, std::string>> discovery)
      : aws_(aws), discovery_(std::move(discovery)) {}
  /// One poll. Fails as the cloud does; the discovered groups then remain.
  Result<std::map<std::string, ScalingGroup>> look(const std::set<std::string>& named);
  /// The NodePools of discovered groups; nullopt until the first poll succeeded. None without discovery.
  [[nodiscard]] std::optional<std::vector<Pool>> discovered() const;
  /// Whether the instance is in a warm pool: it is no member yet, and not one of the NodePool's instances.
  [[nodiscard]] bool is_warm(const std::string& instance) const;

 private:
  [[nodiscard]] bool discovers(const cloud::AutoScalingGroup& group) const;
  void add_details(const cloud::AutoScalingGroup& group, ScalingGroup& out, std::set<std::string>& warm);
  cloud::Aws& aws_;
  const std::vector<std::map<std::string, std::string>> discovery_;
  /// Hooks and warm pools are read at every 30th poll of a group; a warm pool with instances at each one.
  struct Details {
    int age = 0;
    std::vector<ScalingGroup::Hook> hooks;
    bool has_warm_pool = false;
  };
  std::map<std::string, Details> details_;
  mutable std::mutex mutex_;
  std::set<std::string> warm_;
  std::optional<std::vector<Pool>> discovered_;
};

}  // namespace qm::autoscaler
