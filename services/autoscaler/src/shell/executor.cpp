// Launch and terminate, each harmless when done twice: the claim's name is the NodeClaim's name and the client token.
#include "qm/autoscaler/shell.hpp"
#include "qm/base/crash_point.hpp"
#include "qm/base/digest.hpp"

namespace qm::autoscaler {
namespace {

Json node_claim(const Json& want) {
  const auto requirement = [](std::string_view key, const std::string& value) {
    return Json::object({{"key", key}, {"operator", "In"}, {"values", Json::array({value})}});
  };
  Json requirements = Json::array({requirement(words::kInstanceType, want["type"].string()),
                                   requirement(words::kCapacityType, want["spot"].boolean() ? "spot" : "on-demand")});
  if (!want["zone"].string().empty()) requirements.push_back(requirement(words::kZone, want["zone"].string()));
  Json labels = want["labels"];
  labels.set(words::kNodePool, want["pool"].string());
  return Json::object(
      {{"apiVersion", "karpenter.sh/v1"},
       {"kind", "NodeClaim"},
       {"metadata", Json::object({{"name", want["claim"].string()},
                                  {"labels", std::move(labels)},
                                  {"annotations", Json::object({{"quartermaster.dev/reason", want["reason"].string()}})}})},
       {"spec", Json::object({{"requirements", std::move(requirements)},
                              {"taints", want["taints"]},
                              {"nodeClassRef", Json::object({{"group", "karpenter.k8s.aws"}, {"kind", "EC2NodeClass"}, {"name", "gpu"}})}})}});
}

// Tokens are of the whole account, claim names only of this cluster. EC2 takes 64 characters.
std::string client_token(const std::string& shard, const std::string& claim) {
  std::string token = shard + "/" + claim;
  return token.size() <= 64 ? token : sha256_hex(token);
}

}  // namespace

Result<service::Outcome> Executor::execute(const store::IntentRow& intent) {
  if (intent.kind == "instance.launch") return launch(intent);
  if (intent.kind == "instance.terminate") return terminate(intent);
  return fail(Code::kInternal, "no intent of ours: {}", intent.kind);
}

Result<service::Outcome> Executor::launch(const store::IntentRow& intent) {
  QM_ASSIGN(const Json want, Json::parse(intent.payload));
  const std::string claim = want["claim"].string();
  QM_CRASH_POINT("autoscaler.before_nodeclaim");
  auto created = kube_.create(kube::resources::kNodeClaims, "", node_claim(want));
  if (!created && created.error().code != Code::kAlreadyExists) return fail(created.error().with_context("NodeClaim " + claim));
  Json answer = Json::object({{"claim", claim}, {"instance", ""}, {"error", ""}});
  // Its machine is found by its tag.
  if (driver_ == Driver::kKarpenter) return service::Outcome{answer.set("pending", true).dump()};

  cloud::InstanceRequest request;
  request.client_token = client_token(shard_, claim);
  request.instance_type = want["type"].string();
  request.zone = want["zone"].string();
  request.spot = want["spot"].boolean();
  request.tags = {{std::string(words::kNodeClaimTag), claim},
                  {std::string(words::kNodePool), want["pool"].string()},
                  {std::string(kOwnerTag), shard_}};
  QM_CRASH_POINT("autoscaler.before_launch");
  auto launched = aws_.run_instances(request);
  QM_CRASH_POINT("autoscaler.after_launch");
  if (!launched) {
    const Error& error = launched.error();
    // A lost answer is asked for again under the same token; only a refusal, or the lack of capacity, is final.
    if (error.code == Code::kUnknown) return fail(Error{Code::kUnavailable, error.message, {}, {}});
    if (error.retryable() && error.field != "capacity") return fail(error);
    (void)kube_.remove(kube::resources::kNodeClaims, "", claim, {});
    return service::Outcome{answer.set("error", error.message).dump()};
  }
  if (launched->empty()) return fail(Code::kUnavailable, "the launch of {} was answered without an instance", claim);
  const auto& instance = launched->front();
  const Json condition = Json::object({{"type", "Launched"}, {"status", "True"}, {"reason", "Launched"}});
  (void)kube_.merge_patch(kube::resources::kNodeClaims, "", claim,
                          Json::object({{"status", Json::object({{"providerID", fmt::format("aws:///{}/{}", instance.zone, instance.id)},
                                                                 {"nodeName", instance.private_dns},
                                                                 {"conditions", Json::array({condition})}})}}),
                          "status");
  return service::Outcome{answer.set("instance", instance.id).dump()};
}

Result<service::Outcome> Executor::terminate(const store::IntentRow& intent) {
  QM_ASSIGN(const Json want, Json::parse(intent.payload));
  const std::string instance = want["instance"].string();
  if (!instance.empty()) {
    QM_CRASH_POINT("autoscaler.before_terminate");
    auto done = aws_.terminate_instances({instance});
    if (!done && done.error().code != Code::kNotFound) return fail(done.error().with_context("terminate " + instance));
  }
  auto removed = kube_.remove(kube::resources::kNodeClaims, "", want["claim"].string(), {});
  if (!removed && removed.error().code != Code::kNotFound) return fail(removed.error());
  return service::Outcome{Json::object({{"claim", want["claim"].string()}, {"error", ""}}).dump()};
}

service::Outcome Executor::failed(const store::IntentRow& intent, const Error& error) {
  if (intent.kind == "instance.launch") (void)kube_.remove(kube::resources::kNodeClaims, "", intent.key, {});
  return {Json::object({{"claim", intent.key}, {"instance", ""}, {"error", error.to_string()}}).dump()};
}

}  // namespace qm::autoscaler
