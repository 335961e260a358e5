#pragma once
#include "aws_templates.hpp"
#include "aws_wire.hpp"
#include "client_tokens.hpp"
#include "world.hpp"

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace qm::fleet {

/// Auto Scaling groups on the world: each keeps as many members as desired. Every call runs under the world's lock.
///
/// Scaling   a new member is launched in the zone with the fewest members, or taken from the warm pool. The oldest
///           unprotected member of the zone with the most members is terminated first (ties: the smaller zone name).
///           Without capacity the group retries every half minute, as the real one.
/// Hooks     a member waits in Pending:Wait or Terminating:Wait for each hook of the transition, in the order of their
///           names, until CompleteLifecycleAction, or until the heartbeat timeout with the hook's default result. Each
///           wait is announced by an event.
/// Warm pool its members run (PoolState=Running): the world has no stopped instances.
/// Actions   Create, Describe, SetDesiredCapacity, TerminateInstanceInAutoScalingGroup; those of instances, hooks and
///           warm pools in aws_group_actions.cpp.
class AwsGroups {
 public:
  /// Publishes an event of Auto Scaling: its type, the name of the group and the detail.
  using Publish = std::function<void(const char* type, const std::string& group, Json detail)>;
  AwsGroups(World& world, const AwsTemplates& templates, Publish publish)
      : world_(world), templates_(templates), publish_(std::move(publish)) {}
  [[nodiscard]] AwsReply handle(const AwsCall& call);
  /// Handles instance events: terminated members are replaced.
  void on_instance(const Instance& instance, InstanceEvent event);

 private:
  struct Hook {
    std::string name, transition, metadata;
    int heartbeat_s = 3600;
    bool continues = false;  ///< the default result
  };
  struct Wait {
    std::string hook, token;
    Instant last{};  ///< heartbeats cannot extend it further
    World::TimerId timer;
  };
  struct Member {
    std::string id;
    bool is_protected = false, leaving = false, warm = false;
    std::optional<Wait> wait;
  };
  struct Activity {
    std::string id, instance, description, status = "InProgress", message;
    Instant start{};
    std::optional<Instant> end;
  };
  struct WarmPool {
    int min = 0;
    std::optional<int> most_prepared;
  };
  struct Group {
    std::string name, launch_template;
    int min = 0, max = 0, desired = 0;
    bool protects = false;  ///< new members
    std::vector<std::string> zones;
    std::map<std::string, std::string> tags, instance_tags;
    std::vector<Member> members;  ///< by launch order, including leaving and warm ones
    std::map<std::string, Hook> hooks;
    std::deque<Activity> activities;  ///< newest first
    std::optional<WarmPool> warm_pool;
    bool retrying = false;
  };

  AwsReply create(const AwsCall& call);
  AwsReply describe(const AwsCall& call);
  AwsReply set_desired(const AwsCall& call);
  AwsReply terminate(const AwsCall& call);
  // aws_group_actions.cpp
  AwsReply describe_instances(const AwsCall& call);
  AwsReply describe_activities(const AwsCall& call);
  AwsReply describe_tags(const AwsCall& call);
  AwsReply launch_instances(const AwsCall& call);
  AwsReply set_protection(const AwsCall& call);
  AwsReply detach(const AwsCall& call);
  AwsReply put_hook(const AwsCall& call);
  AwsReply describe_hooks(const AwsCall& call);
  AwsReply complete_action(const AwsCall& call);
  AwsReply heartbeat(const AwsCall& call);
  AwsReply put_warm_pool(const AwsCall& call);
  AwsReply describe_warm_pool(const AwsCall& call);

  void reconcile(const std::string& name);
  void fill_warm_pool(Group& group);
  /// Launches one instance in the zone, or in that with the fewest members.
  Answered<Instance> launch(Group& group, std::string zone, bool warm = false);
  bool add_one(Group& group);
  bool end_one(Group& group);
  /// Ends the member after its hooks.
  void leave(Group& group, Member& member);
  /// Waits for the next hook of the transition, or ends the transition.
  void next_hook(Group& group, Member& member, const std::string& after);
  void finish_wait(Group& group, Member& member, bool continues);
  void start_timer(Group& group, Member& member);
  [[nodiscard]] std::vector<Instance> live_members(const Group& group) const;
  [[nodiscard]] std::string lifecycle(const Member& member, const Instance& instance) const;
  void write_member(AwsXml& xml, const Member& member, const Instance& instance) const;
  static void write_activity(AwsXml& xml, const Group& group, const Activity& activity);
  Activity& begin_activity(Group& group, std::string description, std::string instance);
  void end_activity(Group& group, const std::string& instance, std::string_view status);
  Group* group_of(const std::string& instance_id);
  static Member* member_of(Group& group, const std::string& instance_id);
  [[nodiscard]] Answered<Group*> named(const AwsCall& call);
  /// The waiting member that LifecycleActionToken or InstanceId names, with the group and the hook.
  [[nodiscard]] Answered<std::pair<Group*, Member*>> waiting(const AwsCall& call);

  World& world_;
  const AwsTemplates& templates_;
  Publish publish_;
  std::map<std::string, Group> groups_;
  ClientTokens<std::string> launches_;
};

}  // namespace qm::fleet
