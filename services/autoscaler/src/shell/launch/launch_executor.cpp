// Launches of single claims and of gangs, each idempotent: a claim's name is the name of its NodeClaim and a client token,
// and so is the id of a launch.
//
//   one offering -> RunInstances; several -> CreateFleet, of which the cloud chooses one
//   gang: NodeClaims -> one request for n instances -> a tag with its claim for each -> statuses -> the outcome
//         fewer than n came -> they are terminated, the NodeClaims deleted -> the outcome is a refusal
//   A crash at any step repeats the intent from the start: every step finds what it has done.
#include "instances/node_claim.hpp"
#include "launch/fleet_launcher.hpp"
#include "qm/autoscaler/gang_launch/launch.hpp"
#include "qm/autoscaler/shell.hpp"
#include "qm/base/crash_point.hpp"
#include "qm/base/log.hpp"
#include "qm/cloud/errors.hpp"
#include "qm/kube/errors.hpp"

#include <algorithm>
#include <set>

namespace qm::autoscaler {
namespace {

std::string class_of(const Json& want) {
  const std::string& name = want["class"].string();
  return name.empty() ? "default" : name;
}

std::string capacity_type_of(const Json& want) {
  if (!want["reservation"].string().empty()) return "reserved";
  return want["spot"].boolean() ? "spot" : "on-demand";
}

Json node_claim(const Json& want, const std::string& claim, const std::string& shard) {
  const auto requirement = [](std::string_view key, const std::set<std::string>& values) {
    Json list = Json::array();
    for (const auto& value : values) list.push_back(value);
    return Json::object({{"key", key}, {"operator", "In"}, {"values", std::move(list)}});
  };
  std::set<std::string> types{want["type"].string()}, zones{want["zone"].string()};
  for (const Json& other : want["others"].items()) {
    types.insert(other["type"].string());
    zones.insert(other["zone"].string());
  }
  Json requirements = Json::array(
      {requirement(words::kInstanceType, types), requirement(words::kCapacityType, {capacity_type_of(want)})});
  if (!want["zone"].string().empty()) requirements.push_back(requirement(words::kZone, zones));
  Json labels = want["labels"];
  labels.set(words::kNodePool, want["pool"].string());
  labels.set(kOwnerTag, shard);
  return Json::object(
      {{"apiVersion", "karpenter.sh/v1"},
       {"kind", "NodeClaim"},
       {"metadata",
        Json::object({{"name", claim},
                      {"labels", std::move(labels)},
                      {"annotations", Json::object({{"quartermaster.dev/reason", want["reason"].string()}})}})},
       {"spec", Json::object({{"requirements", std::move(requirements)},
                              {"taints", want["taints"]},
                              {"nodeClassRef", Json::object({{"group", "karpenter.k8s.aws"},
                                                             {"kind", "EC2NodeClass"},
                                                             {"name", class_of(want)}})}})}});
}

bool is_alive(const cloud::Instance& instance) {
  return instance.state != "shutting-down" && instance.state != "terminated";
}

std::vector<std::string> claims_of(const Json& want) {
  std::vector<std::string> out;
  for (const Json& claim : want["claims"].items()) out.push_back(claim.string());
  if (out.empty()) out.push_back(want["claim"].string());
  return out;
}

/// The launches that a refusal concerns. What the class of a NodePool does not allow cannot be launched from it; a code
/// that is not in the table of errors says nothing about other launches.
Refusal refusal_of(const Error& error) {
  const auto code = cloud::service_code(error);
  if (code.empty() || error.field.starts_with("spec.")) {
    if (error.field == "capacity") return Refusal::kCapacity;
    return error.field.starts_with("spec.") ? Refusal::kOffering : Refusal::kLaunch;
  }
  return refusal_by(cloud::classify(code));
}

/// The offerings that the cloud tried in vain, for the memory of capacity. Other errors say nothing about capacity.
Json refused_of(const std::vector<cloud::FleetError>& errors) {
  Json out = Json::array();
  for (const auto& error : errors) {
    const Refusal refusal = refusal_by(error.kind);
    if (refusal == Refusal::kLaunch || error.instance_type.empty()) continue;
    out.push_back(Json::object(
        {{"type", error.instance_type}, {"zone", error.zone}, {"spot", error.spot}, {"refusal", name_of(refusal)}}));
  }
  return out;
}

/// After a lost response, or when nothing was processed, the same request is sent again.
bool is_repeated(const Error& error) {
  return error.code == Code::kUnknown || (error.retryable() && error.field != "capacity");
}

tl::unexpected<Error> again(const Error& error) {
  return fail(error.retryable() ? error : Error{Code::kUnavailable, error.message, {}, {}});
}

}  // namespace

Status Executor::create_node_claim(const Json& want, const std::string& claim) {
  auto created =
      kube_.create(kube::resources::kNodeClaims, "", with_lifecycle(node_claim(want, claim, shard_), want, driver_));
  if (created || created.error().code == Code::kAlreadyExists) return {};
  // Missing permissions are final for the claim: its reason shows them, and the demand is planned again after a
  // back-off.
  const Error error = created.error().with_context("NodeClaim " + claim);
  return fail(error.code == Code::kPermissionDenied ? error : kube::for_start(error));
}

void Executor::show_launched(const std::string& claim, const cloud::Instance& instance) {
  const Json condition = Json::object({{"type", "Launched"}, {"status", "True"}, {"reason", "Launched"}});
  (void)kube_.merge_patch(
      kube::resources::kNodeClaims, "", claim,
      Json::object({{"status", Json::object({{"providerID", fmt::format("aws:///{}/{}", instance.zone, instance.id)},
                                             {"nodeName", instance.private_dns},
                                             {"conditions", Json::array({condition})}})}}),
      "status");
}

service::Outcome Executor::launch_failed(const Json& want, const std::string& error, Refusal refusal, Json refused) {
  for (const auto& claim : claims_of(want)) (void)kube_.remove(kube::resources::kNodeClaims, "", claim, {});
  Json members = Json::array();
  for (const auto& claim : claims_of(want)) members.push_back(Json::object({{"claim", claim}, {"instance", ""}}));
  return {Json::object({{"claim", want["claim"].string()},
                        {"instance", ""},
                        {"error", error},
                        {"refusal", name_of(refusal)},
                        {"refused", std::move(refused)},
                        {"members", std::move(members)}})
              .dump()};
}

// None of several offerings has capacity: what each of them lacks is remembered, and the best one is refused.
service::Outcome Executor::none_launched(const Json& want, const Launched& launched) {
  Json refused = refused_of(launched.errors);
  const Refusal refusal = refused.size() == 0 ? Refusal::kLaunch : Refusal::kCapacity;
  const auto why = launched.errors.empty() ? std::string("the fleet has no instances and no reason")
                                           : fmt::format("{}: {} ({} offerings refused)", launched.errors.front().code,
                                                         launched.errors.front().message, launched.errors.size());
  return launch_failed(want, why, refusal, std::move(refused));
}

Result<service::Outcome> Executor::launch(const store::IntentRow& intent) {
  QM_ASSIGN(const Json want, Json::parse(intent.payload));
  const std::string claim = want["claim"].string();
  QM_CRASH_POINT("autoscaler.before_nodeclaim");
  QM_TRY(create_node_claim(want, claim));
  Json answer = Json::object({{"claim", claim}, {"instance", ""}, {"error", ""}});
  // Its instance is found by its tag.
  if (driver_ == Driver::kKarpenter) return service::Outcome{answer.set("pending", true).dump()};

  QM_CRASH_POINT("autoscaler.before_launch");
  auto launched = launch_instances(want);
  QM_CRASH_POINT("autoscaler.after_launch");
  if (!launched) {
    if (is_repeated(launched.error())) return again(launched.error());
    return launch_failed(want, launched.error().message, refusal_of(launched.error()));
  }
  if (launched->instances.empty()) return none_launched(want, *launched);
  const auto alive = std::ranges::find_if(launched->instances, is_alive);
  const auto& instance = alive == launched->instances.end() ? launched->instances.front() : *alive;
  show_launched(claim, instance);
  answer.set("instance", instance.id).set("type", instance.type).set("zone", instance.zone);
  return service::Outcome{answer.set("refused", refused_of(launched->errors)).dump()};
}

Result<cloud::InstanceRequest> Executor::request_for(const Json& want, const Json& offering) const {
  if (!parameters_)
    return fail(
        Error{Code::kInvalid, "no EC2NodeClasses are read, so that nothing can be launched", "spec.nodeClassRef", {}});
  const std::string& launch = want["launch"].string();
  PlannedInstance planned;
  planned.claim = launch.empty() ? want["claim"].string() : launch;
  planned.count = static_cast<std::int64_t>(claims_of(want).size());
  planned.pool = want["pool"].string();
  planned.counted = want["others"].size() == 0;
  planned.instance_type = offering["type"].string();
  planned.zone = offering["zone"].string();
  planned.spot = want["spot"].boolean();
  planned.reservation = want["reservation"].string();
  planned.architecture = architecture_of(planned.instance_type);
  planned.accelerator = accelerator_of(planned.instance_type);
  for (const auto& [key, value] : want["labels"].members()) planned.labels[key] = value.string();
  for (const Json& taint : want["taints"].items())
    planned.taints.push_back({taint["key"].string(), taint["value"].string(), taint["effect"].string()});
  for (Taint& taint : starting_taints(want)) planned.taints.push_back(std::move(taint));
  QM_ASSIGN(auto request, parameters_(class_of(want), planned));
  request.count = static_cast<int>(planned.count);
  request.tags[std::string(kOwnerTag)] = shard_;
  if (!launch.empty()) {
    request.tags[std::string(kLaunchTag)] = launch;
    request.tags.erase(std::string(words::kNodeClaimTag));
  }
  request.client_token = client_token(shard_, planned.claim);
  return request;
}

// As EC2 answers a repeated token: the instances, even if they were terminated since. Lists of the cloud are delayed: an
// instance that was launched a moment ago may be missing.
Result<std::vector<cloud::Instance>> Executor::launched_before(const std::string& token) {
  return aws_.describe_instances({}, {{"client-token", {token}}});
}

// The class may lack a subnet or an image for some of them: those are not requested.
Result<std::vector<cloud::InstanceRequest>> Executor::alternatives_of(const Json& want) const {
  std::vector<cloud::InstanceRequest> out;
  auto best = request_for(want, want);
  if (best) out.push_back(*best);
  for (const Json& other : want["others"].items()) {
    if (auto request = request_for(want, other)) out.push_back(std::move(*request));
  }
  if (out.empty()) return fail(best.error());
  return out;
}

Result<Launched> Executor::launch_instances(const Json& want) {
  if (want["others"].size() == 0) return launch_one_offering(want);
  const bool gang = !want["launch"].string().empty();
  const std::string tag(gang ? kLaunchTag : words::kNodeClaimTag);
  const auto alternatives = alternatives_of(want);
  if (alternatives) {
    auto launched = fleets_->launch(*alternatives, tag);
    if (launched || launched.error().code != Code::kPermissionDenied) return launched;
    // A role of earlier releases may only run instances. Nothing is launched twice if the permission was taken away.
    const std::string& value = alternatives->front().tags.at(tag);
    QM_ASSIGN(auto before, fleets_->instances_with(tag, value));
    if (!before.empty()) return Launched{std::move(before)};
    log::warn("a launch names one offering only: CreateFleet is not permitted",
              {{"launch", value}, {"error", launched.error().to_string()}});
    return launch_one_offering(want);
  }
  // A class that cannot be used any more says nothing about a launch that was already made.
  QM_ASSIGN(auto before, fleets_->instances_with(tag, gang ? want["launch"].string() : want["claim"].string()));
  if (before.empty()) return fail(alternatives.error());
  return Launched{std::move(before)};
}

// The parameters of a repeated launch may differ: the class was resolved again in between. Then EC2 refuses the token,
// and the instances of the first launch are looked up.
Result<Launched> Executor::launch_one_offering(const Json& want) {
  const auto request = request_for(want, want);
  auto launched =
      request ? aws_.run_instances(*request) : Result<std::vector<cloud::Instance>>(tl::unexpected(request.error()));
  if (launched) return Launched{std::move(*launched)};
  const auto code = cloud::service_code(launched.error());
  const bool mismatch = code == "IdempotentParameterMismatch";
  if (request && !mismatch && code != "IdempotentInstanceTerminated") return fail(launched.error());
  const std::string& launch = want["launch"].string();
  QM_ASSIGN(auto before, launched_before(client_token(shard_, launch.empty() ? want["claim"].string() : launch)));
  // One request launched all of them: a shorter list is not complete yet.
  if (before.size() >= claims_of(want).size()) return Launched{std::move(before)};
  if (mismatch || !before.empty()) return fail(Error{Code::kUnavailable, launched.error().message, {}, {}});
  return fail(launched.error());
}

Status Executor::terminate_all(const std::vector<std::string>& instances) {
  if (instances.empty()) return {};
  QM_CRASH_POINT("autoscaler.before_gang_rollback");
  auto done = aws_.terminate_instances(instances);
  QM_CRASH_POINT("autoscaler.after_gang_rollback");
  if (!done && done.error().code != Code::kNotFound) return again(done.error().with_context("roll back a launch"));
  return {};
}

Result<service::Outcome> Executor::launch_gang(const store::IntentRow& intent) {
  QM_ASSIGN(const Json want, Json::parse(intent.payload));
  const auto claims = claims_of(want);
  QM_CRASH_POINT("autoscaler.before_gang_nodeclaims");
  for (const auto& claim : claims) {
    QM_TRY(create_node_claim(want, claim));
    QM_CRASH_POINT("autoscaler.after_gang_nodeclaim");
  }
  QM_CRASH_POINT("autoscaler.before_gang_launch");
  const auto launched = launch_instances(want);
  QM_CRASH_POINT("autoscaler.after_gang_launch");
  if (!launched) {
    if (is_repeated(launched.error())) return again(launched.error());
    return launch_failed(want, launched.error().message, refusal_of(launched.error()));
  }
  if (launched->instances.empty()) return none_launched(want, *launched);
  std::vector<LaunchedInstance> came;
  for (const auto& instance : launched->instances) came.push_back({instance.id, is_alive(instance)});
  const LaunchAnswer answer = match(came, claims.size());
  if (answer.partial) {
    QM_TRY(terminate_all(answer.alive));
    const auto why = fmt::format("{} of {} instances came, and were terminated", answer.alive.size(), claims.size());
    return launch_failed(want, why, Refusal::kCapacity);
  }
  return name_members(want, claims, answer, *launched);
}

// The claim of an instance is its tag, as of one that was launched alone.
Result<service::Outcome> Executor::name_members(const Json& want, const std::vector<std::string>& claims,
                                                const LaunchAnswer& answer, const Launched& launched) {
  Json members = Json::array();
  for (std::size_t i = 0; i < claims.size(); ++i) {
    const std::string& id = answer.instances[i];
    const auto instance = std::ranges::find_if(launched.instances, [&](const auto& one) { return one.id == id; });
    auto tagged = aws_.create_tags({id}, {{std::string(words::kNodeClaimTag), claims[i]},
                                          {"Name", fmt::format("{}/{}", want["pool"].string(), claims[i])}});
    QM_CRASH_POINT("autoscaler.after_gang_tag");
    if (!tagged) {
      const Error& error = tagged.error();
      // An instance that was launched a moment ago may not be known yet.
      if (error.code == Code::kNotFound || is_repeated(error)) return again(error);
      QM_TRY(terminate_all(answer.alive));
      return launch_failed(want, error.message, Refusal::kLaunch);
    }
    show_launched(claims[i], *instance);
    members.push_back(
        Json::object({{"claim", claims[i]}, {"instance", id}, {"type", instance->type}, {"zone", instance->zone}}));
  }
  return service::Outcome{Json::object({{"launch", want["launch"].string()},
                                        {"error", ""},
                                        {"refused", refused_of(launched.errors)},
                                        {"members", std::move(members)}})
                              .dump()};
}

}  // namespace qm::autoscaler
