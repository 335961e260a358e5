// Rule spot-checkpoint, and the address of a checkpoint in resumed pods.
#include "qm/admission_policy/policy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qm::admission_policy {
namespace checkpoints_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kContract = R"({"http":"http://{podIP}:8480/save","uri":"URI"})";

/// A training pod on spot capacity.
Json trainer(const std::string& checkpoint, const char* more = "{}") {
  Json pod = *Json::parse(R"({"metadata":{"name":"train","namespace":"team"},"spec":{"restartPolicy":"Never",
    "nodeSelector":{"karpenter.sh/capacity-type":"spot","nvidia.com/gpu.product":"H100"},
    "tolerations":[{"key":"nvidia.com/gpu","operator":"Exists"},{"key":"spot","operator":"Exists"}],
    "containers":[{"name":"main","resources":{"limits":{"nvidia.com/gpu":1},
                   "requests":{"nvidia.com/gpu":1,"cpu":"8","memory":"64Gi"}},
                   "volumeMounts":[{"name":"scratch","mountPath":"/scratch"},{"name":"shared","mountPath":"/shared"}]}],
    "volumes":[{"name":"scratch","emptyDir":{}},
               {"name":"shared","persistentVolumeClaim":{"claimName":"checkpoints"}}]}})");
  pod.set("spec").merge_patch(*Json::parse(more));
  if (!checkpoint.empty()) pod.set("metadata").set("annotations").set(words::kCheckpoint, checkpoint);
  return pod;
}

std::string contract_to(const std::string& uri) {
  std::string text = kContract;
  return text.replace(text.find("URI"), 3, uri);
}

Settings settings_with(Mode mode) {
  Settings out;
  out.mode = Mode::kOff;
  out.rules["spot-checkpoint"] = mode;
  return out;
}

Subject creation_of(const Json& pod) {
  Subject out;
  out.operation = Operation::kCreate;
  out.kind = "Pod", out.ns = "team", out.name = "train", out.user = "alice";
  out.object = &pod;
  return out;
}

std::vector<std::string> refusals(const Json& pod, Mode mode = Mode::kEnforce) {
  std::vector<std::string> out;
  for (const auto& finding : validate(creation_of(pod), settings_with(mode), {}).refusals)
    out.push_back(finding.to_string());
  return out;
}

// S-248: refused by one setting.
TEST(SpotCheckpoint, SpotTrainingWithoutACheckpointIsRefused) {
  EXPECT_THAT(refusals(trainer("")), ElementsAre(HasSubstr("requests spot capacity and declares no checkpoint")));
  EXPECT_THAT(refusals(trainer("http://{podIP}:8480/save")), IsEmpty());
  EXPECT_THAT(refusals(trainer("", R"({"nodeSelector":{"karpenter.sh/capacity-type":"on-demand"},"tolerations":[]})")),
              IsEmpty());
  EXPECT_THAT(refusals(trainer("", R"({"restartPolicy":"Always"})")), IsEmpty()) << "a replica has nothing to save";
  EXPECT_THAT(refusals(trainer(""), Mode::kWarn), IsEmpty());
}

// S-245: node-local addresses are refused.
TEST(SpotCheckpoint, CheckpointsThatEndWithTheNodeAreRefused) {
  for (const char* uri : {"file:///data/run", "emptyDir://scratch/run", "hostPath:/data", "local:/x"})
    EXPECT_THAT(refusals(trainer(contract_to(uri))), ElementsAre(HasSubstr("which ends with the node"))) << uri;
  EXPECT_THAT(refusals(trainer(contract_to("/scratch/run"))),
              ElementsAre(HasSubstr("/scratch/run on a volume of kind emptyDir")));
  EXPECT_THAT(refusals(trainer(contract_to("/opt/run"))), ElementsAre(HasSubstr("/opt/run in the container")));
  for (const char* uri : {"s3://bucket/run", "gs://bucket/run", "https://store/run", "/shared/run"})
    EXPECT_THAT(refusals(trainer(contract_to(uri))), IsEmpty()) << uri;
  EXPECT_THAT(refusals(trainer(R"({"quorum":1})")), ElementsAre(HasSubstr("it offers no mode")));
}

// S-248: moved to on-demand capacity by the other setting.
TEST(SpotCheckpoint, ModeMutateMovesThePodToOnDemandCapacity) {
  const auto moved = [](const Json& pod) { return mutate(creation_of(pod), settings_with(Mode::kMutate), {}); };
  const Json pod = moved(trainer(""));
  EXPECT_EQ(pod["spec"]["nodeSelector"]["karpenter.sh/capacity-type"].string(), "on-demand");
  EXPECT_EQ(pod["spec"]["tolerations"].size(), 1U);
  EXPECT_THAT(refusals(pod, Mode::kMutate), IsEmpty());
  const char* affinity = R"({"nodeSelector":null,"affinity":{"nodeAffinity":{
    "requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[
      {"key":"karpenter.sh/capacity-type","operator":"In","values":["spot"]}]}]}}}})";
  const Json other = moved(trainer(contract_to("file:///x"), affinity));
  EXPECT_THAT(refusals(other, Mode::kMutate), IsEmpty());
  const auto& terms =
      other["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
  EXPECT_EQ(terms.at(0)["matchExpressions"].at(0)["values"].at(0).string(), "on-demand");
  EXPECT_EQ(moved(trainer(contract_to("s3://b")))["spec"]["nodeSelector"]["karpenter.sh/capacity-type"].string(),
            "spot");
}

// S-245: a resumed pod gets the address.
TEST(SpotCheckpoint, PodsThatSaveGetTheAddressOfTheirCheckpoint) {
  const Json pod = mutate(creation_of(trainer(contract_to("s3://b"))), settings_with(Mode::kOff), {});
  const auto& env = pod["spec"]["containers"].at(0)["env"];
  ASSERT_EQ(env.size(), 1U);
  EXPECT_EQ(env.at(0)["name"].string(), "CHECKPOINT_URI");
  EXPECT_EQ(env.at(0)["valueFrom"]["fieldRef"]["fieldPath"].string(),
            "metadata.annotations['quartermaster.dev/resume-uri']");
  EXPECT_EQ(mutate(creation_of(pod), settings_with(Mode::kOff), {}), pod) << "it is added once";
  const Json own = mutate(creation_of(trainer(contract_to("s3://b"), R"({"containers":[
    {"name":"main","env":[{"name":"CHECKPOINT_URI","value":"s3://mine"}]}]})")),
                          settings_with(Mode::kOff), {});
  EXPECT_EQ(own["spec"]["containers"].at(0)["env"].size(), 1U);
  EXPECT_EQ(mutate(creation_of(trainer("")), settings_with(Mode::kOff), {})["spec"]["containers"].at(0)["env"].size(),
            0U);
}

}  // namespace checkpoints_test
}  // namespace qm::admission_policy
