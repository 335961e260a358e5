// Launch, terminate, size and cordon, each idempotent: the claim's name is the NodeClaim's name and the
// client token, and the size of a group is a number, not an increment.
#include "observed.hpp"
#include "qm/autoscaler/shell.hpp"
#include "qm/base/crash_point.hpp"
#include "qm/base/digest.hpp"
#include "qm/kube/errors.hpp"

#include <algorithm>

namespace qm::autoscaler {
namespace {

std::string class_of(const Json& want) {
  const std::string& name = want["class"].string();
  return name.empty() ? "default" : name;
}

Json node_claim(const Json& want, const std::string& shard) {
  const auto requirement = [](std::string_view key, const std::string& value) {
    return Json::object({{"key", key}, {"operator", "In"}, {"values", Json::array({value})}});
  };
  Json requirements = Json::array({requirement(words::kInstanceType, want["type"].string()),
                                   requirement(words::kCapacityType, want["spot"].boolean() ? "spot" : "on-demand")});
  if (!want["zone"].string().empty()) requirements.push_back(requirement(words::kZone, want["zone"].string()));
  Json labels = want["labels"];
  labels.set(words::kNodePool, want["pool"].string());
  labels.set(kOwnerTag, shard);
  return Json::object(
      {{"apiVersion", "karpenter.sh/v1"},
       {"kind", "NodeClaim"},
       {"metadata",
        Json::object({{"name", want["claim"].string()},
                      {"labels", std::move(labels)},
                      {"annotations", Json::object({{"quartermaster.dev/reason", want["reason"].string()}})}})},
       {"spec", Json::object({{"requirements", std::move(requirements)},
                              {"taints", want["taints"]},
                              {"nodeClassRef", Json::object({{"group", "karpenter.k8s.aws"},
                                                             {"kind", "EC2NodeClass"},
                                                             {"name", class_of(want)}})}})}});
}

// Tokens are unique per account, claim names only per cluster. EC2 accepts 64 characters.
std::string client_token(const std::string& shard, const std::string& claim) {
  std::string token = shard + "/" + claim;
  return token.size() <= 64 ? token : sha256_hex(token);
}

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

Result<service::Outcome> Executor::execute(const store::IntentRow& intent) {
  if (intent.kind == "instance.launch") return launch(intent);
  if (intent.kind == "instance.terminate") return terminate(intent);
  if (intent.kind == "group.size") return size_group(intent);
  if (intent.kind == "group.hook") return answer_hook(intent);
  if (intent.kind == "node.cordon") return cordon(intent);
  return fail(Code::kInternal, "no intent of ours: {}", intent.kind);
}

Result<service::Outcome> Executor::launch(const store::IntentRow& intent) {
  QM_ASSIGN(const Json want, Json::parse(intent.payload));
  const std::string claim = want["claim"].string();
  QM_CRASH_POINT("autoscaler.before_nodeclaim");
  auto created = kube_.create(kube::resources::kNodeClaims, "", node_claim(want, shard_));
  if (!created && created.error().code != Code::kAlreadyExists) {
    // Missing permissions are final for the claim: its reason shows them, and the demand is planned again after a
    // back-off.
    const Error error = created.error().with_context("NodeClaim " + claim);
    return fail(error.code == Code::kPermissionDenied ? error : kube::for_start(error));
  }
  Json answer = Json::object({{"claim", claim}, {"instance", ""}, {"error", ""}});
  // Its instance is found by its tag.
  if (driver_ == Driver::kKarpenter) return service::Outcome{answer.set("pending", true).dump()};

  QM_CRASH_POINT("autoscaler.before_launch");
  auto launched = launch_instance(want);
  QM_CRASH_POINT("autoscaler.after_launch");
  if (!launched) {
    const Error& error = launched.error();
    // After a lost response the call is retried with the same token; only a refusal, or the lack of capacity, is
    // final.
    if (error.code == Code::kUnknown) return fail(Error{Code::kUnavailable, error.message, {}, {}});
    if (error.retryable() && error.field != "capacity") return fail(error);
    (void)kube_.remove(kube::resources::kNodeClaims, "", claim, {});
    return service::Outcome{answer.set("error", error.message).dump()};
  }
  const auto& instance = *launched;
  const Json condition = Json::object({{"type", "Launched"}, {"status", "True"}, {"reason", "Launched"}});
  (void)kube_.merge_patch(
      kube::resources::kNodeClaims, "", claim,
      Json::object({{"status", Json::object({{"providerID", fmt::format("aws:///{}/{}", instance.zone, instance.id)},
                                             {"nodeName", instance.private_dns},
                                             {"conditions", Json::array({condition})}})}}),
      "status");
  return service::Outcome{answer.set("instance", instance.id).dump()};
}

Result<cloud::InstanceRequest> Executor::request_for(const Json& want) const {
  if (!parameters_) return fail(Code::kInvalid, "no EC2NodeClasses are read, so that nothing can be launched");
  PlannedInstance planned;
  planned.claim = want["claim"].string();
  planned.pool = want["pool"].string();
  planned.instance_type = want["type"].string();
  planned.zone = want["zone"].string();
  planned.spot = want["spot"].boolean();
  planned.architecture = architecture_of(planned.instance_type);
  planned.accelerator = accelerator_of(planned.instance_type);
  for (const auto& [key, value] : want["labels"].members()) planned.labels[key] = value.string();
  for (const Json& taint : want["taints"].items())
    planned.taints.push_back({taint["key"].string(), taint["value"].string(), taint["effect"].string()});
  QM_ASSIGN(auto request, parameters_(class_of(want), planned));
  request.tags[std::string(kOwnerTag)] = shard_;
  request.client_token = client_token(shard_, planned.claim);
  return request;
}

// As EC2 answers a repeated token: the instance, even if it was terminated since. Lists of the cloud are delayed: an
// instance that was launched a moment ago may be missing.
Result<std::optional<cloud::Instance>> Executor::launched_before(const std::string& client_token) {
  QM_ASSIGN(const auto instances, aws_.describe_instances({}, {{"client-token", {client_token}}}));
  if (instances.empty()) return std::nullopt;
  const auto alive = std::ranges::find_if(
      instances, [](const auto& i) { return i.state != "shutting-down" && i.state != "terminated"; });
  return alive == instances.end() ? instances.front() : *alive;
}

// The parameters of a repeated launch may differ: the class was resolved again in between. Then EC2 refuses the token,
// and the instance of the first launch is looked up.
Result<cloud::Instance> Executor::launch_instance(const Json& want) {
  const auto request = request_for(want);
  auto launched =
      request ? aws_.run_instances(*request) : Result<std::vector<cloud::Instance>>(tl::unexpected(request.error()));
  if (launched) return launched->front();
  const bool mismatch = launched.error().message.starts_with("IdempotentParameterMismatch");
  if (request && !mismatch) return fail(launched.error());
  QM_ASSIGN(const auto before, launched_before(client_token(shard_, want["claim"].string())));
  if (before) return *before;
  if (mismatch) return fail(Error{Code::kUnavailable, launched.error().message, {}, {}});
  return fail(launched.error());
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
  const auto want = Json::parse(intent.payload).value_or(Json());
  if (intent.kind == "node.cordon" || intent.kind == "group.hook") return {"{}"};
  if (intent.kind == "group.size") {
    return {Json::object({{"group", want["group"].string()}, {"error", error.to_string()}}).dump()};
  }
  const std::string claim = want["claim"].string();
  if (intent.kind == "instance.launch") (void)kube_.remove(kube::resources::kNodeClaims, "", claim, {});
  return {Json::object({{"claim", claim}, {"instance", ""}, {"error", error.to_string()}}).dump()};
}

}  // namespace qm::autoscaler
