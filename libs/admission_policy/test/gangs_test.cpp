// What the webhook adds to pods of a gang on several nodes, and what it must not add.
// S-258 S-259 S-260 S-261 S-262 S-263 S-264 S-265 S-266 S-271
#include "qm/admission_policy/policy_file.hpp"
#include "qm/config/manifest.hpp"
#include "qm/testing/testing.hpp"
#include "subjects.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace qm::admission_policy {
namespace gangs_test {

Settings with_gangs(const std::string& gangs = "{}") {
  Settings out;
  const auto read = read_policy(
      fmt::format("apiVersion: policy.quartermaster.dev/v1alpha1\nkind: WebhookPolicy\nspec:\n  gangs: {}\n", gangs),
      "policy.yaml", out);
  EXPECT_TRUE(read) << read.error().to_string();
  return out;
}

Json job(int parallelism, const std::string& container = R"("name":"m")", const char* gpu = "nvidia.com/gpu") {
  return parsed(
      fmt::format(R"({{"kind":"Job","metadata":{{"name":"train"}},"spec":{{"parallelism":{},"template":{{"spec":
      {{"containers":[{{{},"resources":{{"limits":{{"{}":1}}}}}},{{"name":"side"}}]}}}}}}}})",
                  parallelism, container, gpu));
}

/// The variables of the first container after the webhook, "NAME=VALUE" each.
std::vector<std::string> variables_of(const Json& object, const char* kind, const Settings& settings) {
  const auto out = mutate(created(object, kind), settings, {});
  const auto& spec = std::string_view(kind) == "Job" ? out["spec"]["template"]["spec"] : out["spec"];
  EXPECT_EQ(spec["containers"].at(1)["env"].size(), 0U) << "pods without GPUs get no finding";
  std::vector<std::string> all;
  for (const auto& variable : spec["containers"].at(0)["env"].items()) {
    all.push_back(variable["name"].string() + "=" + variable["value"].string());
  }
  return all;
}

/// The value of each of the seven in the reference.
const std::vector<std::pair<std::string, std::string>> kSeven{
    {"NCCL_DEBUG", "INFO"},                                      // S-259
    {"NCCL_DEBUG_SUBSYS", "INIT,NET"},                           // S-260
    {"NCCL_SOCKET_IFNAME", "eth0"},                              // S-261
    {"NCCL_IB_HCA", "mlx5"},                                     // S-262
    {"UCX_NET_DEVICES", "mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1"},  // S-263
    {"NCCL_IB_DISABLE", "0"},                                    // S-264
    {"NCCL_TOPO_FILE", "/etc/nccl-topo.xml"}};                   // S-265

class EachVariable : public ::testing::TestWithParam<std::size_t> {};

TEST_P(EachVariable, IsSetForGangsAndNeverOverwritten) {  // S-258 S-259 S-260 S-261 S-262 S-263 S-264 S-265
  const auto& [name, value] = kSeven[GetParam()];
  const auto settings = with_gangs("{topologyMap: nccl-topology}");
  const auto has = [&](const std::vector<std::string>& all, const std::string& one) {
    return std::ranges::count(all, one) == 1;
  };
  EXPECT_TRUE(has(variables_of(job(2), "Job", settings), name + "=" + value));
  const auto own =
      variables_of(job(2, fmt::format(R"("env":[{{"name":"{}","value":"mine"}}])", name)), "Job", settings);
  EXPECT_TRUE(has(own, name + "=mine"));
  EXPECT_FALSE(has(own, name + "=" + value));
  EXPECT_EQ(own.size(), kSeven.size());
  EXPECT_TRUE(variables_of(job(1), "Job", settings).empty()) << "a single pod needs none";
  const auto alone =
      variables_of(job(1, R"("volumeMounts":[{"name":"t","mountPath":"/etc/nccl-topo.xml"}])"), "Job", settings);
  EXPECT_EQ(alone, std::vector<std::string>{"NCCL_TOPO_FILE=/etc/nccl-topo.xml"})
      << "except the file, where it has one";
}
INSTANTIATE_TEST_SUITE_P(Gangs, EachVariable, ::testing::Range<std::size_t>(0, 7),
                         [](const auto& param) { return kSeven[param.param].first; });

TEST(Gangs, GetReferenceVariables) {  // S-258
  EXPECT_EQ(gang_environment(), kSeven);
  const auto shared = testing::shared_dir();
  if (!shared) return;
  const auto loaded = config::load_path(*shared + "/manifests/001-nccl-env.yaml");
  ASSERT_EQ(loaded.objects.size(), 1U);
  std::vector<std::pair<std::string, std::string>> wanted;
  for (const auto& variable : loaded.objects[0].document.content["env"].items()) {
    wanted.emplace_back(variable["name"].string(), variable["value"].string());
  }
  EXPECT_EQ(gang_environment(), wanted);
}

TEST(Gangs, TopologyFileIsMountedWhereMissing) {  // S-266
  const auto settings = with_gangs("{topologyMap: nccl-topology}");
  const auto spec = mutate(created(job(2), "Job"), settings, {})["spec"]["template"]["spec"];
  EXPECT_EQ(spec["volumes"].dump(), R"([{"name":"nccl-topology","configMap":{"name":"nccl-topology"}}])");
  EXPECT_EQ(spec["containers"].at(0)["volumeMounts"].dump(),
            R"([{"name":"nccl-topology","mountPath":"/etc/nccl-topo.xml","subPath":"nccl-topo.xml","readOnly":true}])");
  const auto own = job(2, R"("volumeMounts":[{"name":"mine","mountPath":"/etc/nccl-topo.xml"}])");
  const auto kept = mutate(created(own, "Job"), settings, {})["spec"]["template"]["spec"];
  EXPECT_EQ(kept["containers"].at(0)["volumeMounts"].size(), 1U);
  EXPECT_FALSE(kept.contains("volumes"));
  EXPECT_TRUE(variables_of(job(2), "Job", with_gangs()).size() == 6U) << "no file, no name of one";
}

TEST(Gangs, OperatorSetsRanksAndMasters) {  // S-271
  const auto pod =
      parsed(R"({"metadata":{"name":"w","labels":{"training.kubeflow.org/job-name":"j"}},"spec":{"containers":[
      {"name":"pytorch","resources":{"limits":{"nvidia.com/gpu":8}},"env":[{"name":"RANK","value":"1"},
      {"name":"WORLD_SIZE","value":"8"},{"name":"MASTER_ADDR","value":"j-master-0"},{"name":"MASTER_PORT","value":"29500"}]},
      {"name":"side"}]}})");
  const auto all = variables_of(pod, "Pod", with_gangs());
  ASSERT_EQ(all.size(), 10U) << "its four, and six of ours";
  EXPECT_EQ((std::vector<std::string>(all.begin(), all.begin() + 4)),
            (std::vector<std::string>{"RANK=1", "WORLD_SIZE=8", "MASTER_ADDR=j-master-0", "MASTER_PORT=29500"}));
  for (const auto name : kOperatorsOwn) {
    Settings out;
    const auto read = read_policy(
        fmt::format(
            "apiVersion: policy.quartermaster.dev/v1alpha1\nkind: WebhookPolicy\nspec:\n  gangs:\n    environment: {{{}: \"1\"}}\n",
            name),
        "p.yaml", out);
    ASSERT_FALSE(read) << name;
    EXPECT_NE(read.error().message.find("is set by the training operator"), std::string::npos);
  }
}

TEST(Gangs, AreDetectedFromTheirPods) {
  const auto size = [](const char* metadata, const char* env = "[]") {
    const auto pod = parsed(fmt::format(R"({{"metadata":{{{}}},"spec":{{"containers":[{{"env":{},"resources":{{"limits":
        {{"nvidia.com/gpu":1}}}}}},{{"name":"side"}}]}}}})",
                                        metadata, env));
    return variables_of(pod, "Pod", with_gangs()).size() > 1;
  };
  EXPECT_FALSE(size(""));
  EXPECT_TRUE(size(R"("annotations":{"kueue.x-k8s.io/pod-group-total-count":"4"})"));
  EXPECT_FALSE(size(R"("annotations":{"kueue.x-k8s.io/pod-group-total-count":"1"})"));
  EXPECT_TRUE(size(R"("annotations":{"leaderworkerset.sigs.k8s.io/size":"2"})"));
  EXPECT_TRUE(size(R"("labels":{"training.kubeflow.org/operator-name":"mpi-operator"})"));
  EXPECT_TRUE(size(R"("annotations":{"scheduling.k8s.io/group-name":"g"})"));
  EXPECT_TRUE(size("", R"([{"name":"PET_NNODES","value":"2"}])"));
  EXPECT_TRUE(size("", R"([{"name":"PET_NNODES","value":"2:4"}])"));
  EXPECT_FALSE(size("", R"([{"name":"PET_NNODES","value":"some"}])"));
  EXPECT_FALSE(size("", R"([{"name":"WORLD_SIZE","value":"1"}])"));
}

TEST(Gangs, VariableOfConfigMapIsNotOverwritten) {
  const auto settings = with_gangs();
  EXPECT_TRUE(variables_of(job(2, R"("envFrom":[{"configMapRef":{"name":"nccl"}}])"), "Job", settings).empty())
      << "a variable of the container would override it";
}

TEST(Gangs, RuleHasModes) {
  auto settings = with_gangs("{topology: rack}");
  View view;
  const auto modes = [&](const char* mode) {
    view.namespaces["team"].labels = {{"policy.quartermaster.dev/gang-environment", mode},
                                      {"policy.quartermaster.dev/gang-topology", mode}};
    const auto made = mutate(created(job(2), "Job"), settings, view);
    const auto verdict = validate(created(made, "Job"), settings, view);
    const auto count = [](const std::vector<Finding>& all) {
      return std::ranges::count_if(all, [](const Finding& f) { return f.rule.starts_with("gang"); });
    };
    const auto& pods = made["spec"]["template"];
    return fmt::format("{} {} {} {}", pods["spec"]["containers"].at(0)["env"].size(), count(verdict.warnings),
                       count(verdict.refusals),
                       pods["metadata"]["annotations"]["kueue.x-k8s.io/podset-preferred-topology"].string());
  };
  EXPECT_EQ(modes("off"), "0 0 0 ");
  EXPECT_EQ(modes("warn"), "0 2 0 ");
  EXPECT_EQ(modes("enforce"), "0 0 2 ");
  EXPECT_EQ(modes("mutate"), "6 0 0 rack");
  view.namespaces.clear();
  const auto unset = mutate(created(job(2), "Job"), settings, view);
  EXPECT_EQ(unset["spec"]["template"]["spec"]["containers"].at(0)["env"].size(), 6U) << "mutate is its own";
  settings.facts.gangs.reset();
  EXPECT_EQ(
      mutate(created(job(2), "Job"), settings, view)["spec"]["template"]["spec"]["containers"].at(0)["env"].size(), 0U);
}

TEST(Gangs, MutationIsIdempotent) {
  const auto settings = with_gangs("{topologyMap: nccl-topology, topology: rack}");
  const auto once = mutate(created(job(4), "Job"), settings, {});
  EXPECT_EQ(mutate(created(once, "Job"), settings, {}).dump(), once.dump());
}

}  // namespace gangs_test
}  // namespace qm::admission_policy
