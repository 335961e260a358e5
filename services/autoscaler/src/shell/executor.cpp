// Terminate, size and cordon, each idempotent: the size of a group is a number, not an increment. Launches are in
// launch/launch_executor.cpp.
#include "launch/fleet_launcher.hpp"
#include "observed.hpp"
#include "qm/autoscaler/replica_watch.hpp"
#include "qm/autoscaler/shell.hpp"
#include "qm/base/crash_point.hpp"
#include "qm/kube/errors.hpp"

#include <algorithm>

namespace qm::autoscaler {
namespace {

/// The prefix of a drain annotation on a node that another client had cordoned.
constexpr std::string_view kNotOurs = "cordoned by another, ";

const cloud::AutoScalingGroup::Member* member_of(const cloud::AutoScalingGroup& group, const std::string& instance) {
  const auto it = std::find_if(group.instances.begin(), group.instances.end(),
                               [&](const auto& m) { return m.instance_id == instance; });
  return it == group.instances.end() ? nullptr : &*it;
}
/// Pending, InService, Standby: not being terminated.
bool stays(const cloud::AutoScalingGroup::Member& m) {
  return !m.lifecycle.starts_with("Terminat") && !m.lifecycle.starts_with("Detach");
}

}  // namespace

Executor::Executor(kube::Client& kube, cloud::Aws& aws, Driver driver, std::string shard, LaunchParameters parameters,
                   SystemPods system_pods)
    : kube_(kube),
      aws_(aws),
      driver_(driver),
      shard_(std::move(shard)),
      parameters_(std::move(parameters)),
      system_pods_(system_pods),
      replicas_(std::make_shared<ReplicaExecutor>(kube)),
      fleets_(std::make_shared<FleetLauncher>(aws, std::string(kOwnerTag), shard_)) {}

Result<service::Outcome> Executor::execute(const store::IntentRow& intent) {
  if (intent.kind == "instance.launch") return launch(intent);
  if (intent.kind == "gang.launch") return launch_gang(intent);
  if (intent.kind == "instance.terminate") return terminate(intent);
  if (intent.kind == "group.size") return size_group(intent);
  if (intent.kind == "group.hook") return answer_hook(intent);
  if (intent.kind == "group.protect") return protect(intent);
  if (intent.kind == "node.cordon") return cordon(intent);
  if (intent.kind.starts_with("replicas.")) return replicas_->execute(intent);
  return fail(Code::kInternal, "no intent of ours: {}", intent.kind);
}

Result<service::Outcome> Executor::terminate(const store::IntentRow& intent) {
  QM_ASSIGN(const Json want, Json::parse(intent.payload));
  const std::string instance = want["instance"].string();
  const std::string group = want["group"].string();
  const std::string node = want["node"].string();
  if (!node.empty()) {
    const auto pods = working_pods(kube_, node, system_pods_);
    if (!pods) return fail(kube::for_release(pods.error()));
    if (*pods > 0) {
      return service::Outcome{
          Json::object(
              {{"claim", want["claim"].string()}, {"error", "work landed before it was terminated"}, {"busy", true}})
              .dump()};
    }
  }
  if (!node.empty() && system_pods_ == SystemPods::kEvicted) QM_TRY(evict_system_pods(kube_, node));
  if (!instance.empty()) QM_CRASH_POINT("autoscaler.before_terminate");
  if (!instance.empty() && !group.empty()) {
    QM_TRY(terminate_in_group(group, instance));
  } else if (!instance.empty() && driver_ == Driver::kEc2) {
    QM_TRY(terminate_by_id(instance));
  }
  auto removed = kube_.remove(kube::resources::kNodeClaims, "", want["claim"].string(), {});
  if (!removed && removed.error().code != Code::kNotFound) return fail(kube::for_release(removed.error()));
  return service::Outcome{Json::object({{"claim", want["claim"].string()}, {"error", ""}}).dump()};
}

// Without placement the autoscaler cordons nodes. A manual cordon is not removed.
Result<service::Outcome> Executor::cordon(const store::IntentRow& intent) {
  QM_ASSIGN(const Json want, Json::parse(intent.payload));
  const std::string node = want["node"].string();
  const bool on = want["on"].boolean();
  const auto found = kube_.get(kube::resources::kNodes, "", node);
  if (!found && found.error().code == Code::kNotFound) return service::Outcome{"{}"};
  if (!found) return fail(kube::for_release(found.error()));
  const std::string mark = kube::annotation(*found, kDrainAnnotation);
  if (!on && mark.empty()) return service::Outcome{"{}"};
  const bool cordoned = (*found)["spec"]["unschedulable"].boolean();
  // The owner of the cordon is stored on the node, because it outlives this process.
  const bool others = on ? cordoned && (mark.empty() || mark.starts_with(kNotOurs)) : mark.starts_with(kNotOurs);
  const Json why = on ? Json((others ? std::string(kNotOurs) : std::string()) + want["reason"].string()) : Json();
  const Json annotations = Json::object({{std::string(kDrainAnnotation), why}});
  Json patch = Json::object({{"metadata", Json::object({{"annotations", annotations}})}});
  if (!others) patch.set("spec", Json::object({{"unschedulable", on ? Json(true) : Json()}}));
  if (auto done = kube_.merge_patch(kube::resources::kNodes, "", node, patch);
      !done && done.error().code != Code::kNotFound)
    return fail(kube::for_release(done.error()).with_context("cordon " + node));
  return service::Outcome{"{}"};
}

// Harmless if repeated: after a lost response it is called again.
Status Executor::terminate_by_id(const std::string& instance) {
  const auto done = aws_.terminate_instances({instance});
  if (done || done.error().code == Code::kNotFound) return {};
  Error error = done.error().with_context("terminate " + instance);
  if (error.code == Code::kUnknown) error.code = Code::kUnavailable;
  return fail(std::move(error));
}

// An instance that is terminated elsewhere is replaced by its group. Whether it is already terminating is checked
// first: a second call would reduce the group by one more.
Status Executor::terminate_in_group(const std::string& group, const std::string& instance) {
  QM_ASSIGN(const auto groups, aws_.describe_groups({group}));
  const auto* member = groups.empty() ? nullptr : member_of(groups.front(), instance);
  if (member == nullptr || !stays(*member)) {
    // It has left the group, or the group is gone: then it is not replaced.
    return terminate_by_id(instance);
  }
  auto done = aws_.terminate_in_group(instance, true);
  if (done) return {};
  // Unknown or in progress: the next attempt checks again.
  const bool again = done.error().code == Code::kUnknown || done.error().code == Code::kAborted;
  return fail(Error{again ? Code::kUnavailable : done.error().code,
                    fmt::format("terminate {} in group {}: {}", instance, group, done.error().message),
                    {},
                    {}});
}

Result<service::Outcome> Executor::size_group(const store::IntentRow& intent) {
  QM_ASSIGN(const Json want, Json::parse(intent.payload));
  const std::string name = want["group"].string();
  Json answer = Json::object({{"group", name}, {"error", ""}, {"granted", 0}});
  const auto refused = [&](std::string why) { return service::Outcome{answer.set("error", std::move(why)).dump()}; };
  QM_ASSIGN(const auto groups, aws_.describe_groups({name}));
  if (groups.empty())
    return refused(fmt::format(
        "Auto Scaling group {} does not exist; create it, or correct the annotation of the NodePool", name));
  const auto& group = groups.front();
  const std::int64_t size = want["size"].integer();
  if (size > group.max) {  // the size is not set: some claims fail, the others request again
    answer.set("granted", group.max);
    return refused(fmt::format("Auto Scaling group {} has MaxSize {} and {} instances are needed; raise its MaxSize",
                               name, group.max, size));
  }
  // The group must never select the instance to terminate: its size is not set below its number of instances.
  const auto members = std::count_if(group.instances.begin(), group.instances.end(), stays);
  const auto least = std::max<std::int64_t>(members, group.min);
  const auto target = std::max(size, least);
  if (target == group.desired) return service::Outcome{answer.dump()};
  QM_CRASH_POINT("autoscaler.before_group_size");
  if (auto done = aws_.set_desired_capacity(name, static_cast<int>(target)); !done) {
    const Error& error = done.error();
    if (error.retryable() || error.code == Code::kUnknown || error.code == Code::kAborted)
      return fail(Error{Code::kUnavailable, error.message, {}, {}});
    return refused(error.message);
  }
  return service::Outcome{answer.dump()};
}

service::Outcome Executor::failed(const store::IntentRow& intent, const Error& error) {
  if (intent.kind.starts_with("replicas.")) return ReplicaExecutor::failed(intent, error);
  const auto want = Json::parse(intent.payload).value_or(Json());
  if (intent.kind == "node.cordon" || intent.kind == "group.hook" || intent.kind == "group.protect") return {"{}"};
  if (intent.kind == "group.size") {
    return {Json::object({{"group", want["group"].string()}, {"error", error.to_string()}}).dump()};
  }
  const bool launches = intent.kind == "gang.launch" || intent.kind == "instance.launch";
  if (launches) return launch_failed(want, error.to_string(), Refusal::kLaunch);
  return {Json::object({{"claim", want["claim"].string()}, {"instance", ""}, {"error", error.to_string()}}).dump()};
}

}  // namespace qm::autoscaler
