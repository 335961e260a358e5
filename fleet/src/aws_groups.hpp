#pragma once
#include "aws_templates.hpp"
#include "aws_wire.hpp"
#include "world.hpp"

#include <map>
#include <string>
#include <vector>

namespace qm::fleet {

/// Auto Scaling groups on the world: each keeps as many members as desired. Every call runs under the world's lock.
///
/// A new member is launched in the zone with the fewest members. The oldest member of the zone with the most members is
/// terminated first (ties: the smaller zone name). Without capacity the group retries every half minute, as the real
/// one.
class AwsGroups {
 public:
  AwsGroups(World& world, const AwsTemplates& templates) : world_(world), templates_(templates) {}
  [[nodiscard]] AwsReply handle(const AwsCall& call);
  /// Handles instance events: terminated members are replaced.
  void on_instance(const Instance& instance, InstanceEvent event);

 private:
  struct Group {
    std::string name, launch_template;
    int min = 0, max = 0, desired = 0;
    std::vector<std::string> zones;
    std::map<std::string, std::string> tags, instance_tags;
    std::vector<std::string> members;  ///< ids by launch order, including terminating ones
    bool retrying = false;
  };
  AwsReply create(const AwsCall& call);
  AwsReply describe(const AwsCall& call);
  AwsReply set_desired(const AwsCall& call);
  AwsReply terminate(const AwsCall& call);
  void reconcile(const std::string& name);
  bool launch_one(Group& group);
  void end_one(Group& group);
  [[nodiscard]] std::vector<Instance> live_members(const Group& group) const;
  Group* group_of(const std::string& instance_id);

  World& world_;
  const AwsTemplates& templates_;
  std::map<std::string, Group> groups_;
};

}  // namespace qm::fleet
