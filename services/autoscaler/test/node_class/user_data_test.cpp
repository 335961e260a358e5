// The user data of each family of images, whole.
#include "account.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qm::autoscaler {
namespace user_data_test {

using namespace autoscaler::testing;
using ::testing::HasSubstr;
using ::testing::Not;

PlannedInstance labeled() {
  PlannedInstance out = machine_of("p5.48xlarge");
  out.labels = {{"a", "b"}, {"workload", "training"}};
  out.taints = {{"nvidia.com/gpu", "true", "NoSchedule"}, {"karpenter.sh/unregistered", "", "NoExecute"}};
  return out;
}
config::NodeClass with_kubelet(config::NodeClass out) {
  out.kubelet.cluster_dns = {"10.0.0.10"};
  out.kubelet.max_pods = 60;
  out.kubelet.kube_reserved = {{"cpu", "100m"}, {"memory", "1Gi"}};
  out.kubelet.eviction_hard = {{"memory.available", "5%"}};
  out.raid0 = true;
  return out;
}

TEST(UserData, OfAl2023IsAMimeArchiveWithANodeConfig) {
  auto node_class = with_kubelet(class_of());
  node_class.user_data = "#!/bin/bash\necho hello\n";
  EXPECT_EQ(*user_data(node_class, cluster_of_tests(), labeled()), R"(MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash
echo hello
--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: ml
    apiServerEndpoint: "https://api.ml"
    certificateAuthority: "Q0E="
    cidr: "10.100.0.0/16"
  instance:
    localStorage:
      strategy: RAID0
  kubelet:
    config:
      clusterDNS:
      - "10.0.0.10"
      maxPods: 60
      kubeReserved:
        cpu: "100m"
        memory: "1Gi"
      evictionHard:
        memory.available: "5%"
      registerWithTaints:
      - effect: NoSchedule
        key: nvidia.com/gpu
        value: "true"
      - effect: NoExecute
        key: karpenter.sh/unregistered
    flags:
    - "--node-labels=a=b,workload=training"
--//--
)");
}

TEST(UserData, AnArchiveAndANodeConfigOfTheClassAreKept) {
  auto node_class = class_of();
  node_class.user_data =
      "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"BOUND\"\n\n--BOUND\nContent-Type: text/x-shellscript; "
      "charset=\"us-ascii\"\n\n#!/bin/bash\necho \"--//\"\n--BOUND--\n";
  const auto archive = user_data(node_class, cluster_of_tests(), labeled());
  ASSERT_TRUE(archive) << archive.error().to_string();
  EXPECT_THAT(*archive, HasSubstr("boundary=\"///\"")) << "no text of a part may be a boundary";
  EXPECT_THAT(*archive, HasSubstr("--///\nContent-Type: text/x-shellscript; charset=\"us-ascii\"\n\n#!/bin/bash\n"
                                  "echo \"--//\"\n--///\nContent-Type: application/node.eks.aws"));
  node_class.user_data =
      "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  featureGates: {FastImagePull: true}\n";
  EXPECT_THAT(*user_data(node_class, cluster_of_tests(), labeled()),
              HasSubstr("Content-Type: application/node.eks.aws\n\napiVersion: node.eks.aws/v1alpha1\nkind: "
                        "NodeConfig\nspec:\n  featureGates"));
  node_class.user_data =
      "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"B\"\n\n--B\nContent-Type: a\n\nx\n";
  EXPECT_THAT(user_data(node_class, cluster_of_tests(), labeled()).error().message, HasSubstr("has no end"));
}

TEST(UserData, OfAl2RunsItsBootstrapScript) {
  const auto node_class = with_kubelet(class_of("al2@latest", "AL2"));
  EXPECT_THAT(
      *user_data(node_class, cluster_of_tests(), labeled()),
      HasSubstr(
          "/etc/eks/bootstrap.sh 'ml' --apiserver-endpoint 'https://api.ml' --b64-cluster-ca 'Q0E=' \\\n"
          "--dns-cluster-ip '10.0.0.10' \\\n--use-max-pods false \\\n--local-disks raid0 \\\n--kubelet-extra-args "
          "'--node-labels=\"a=b,workload=training\" "
          "--register-with-taints=\"nvidia.com/gpu=true:NoSchedule,karpenter.sh/unregistered=:NoExecute\" --max-pods=60 "
          "--kube-reserved=\"cpu=100m,memory=1Gi\" --eviction-hard=\"memory.available<5%\"'\n"));
}

TEST(UserData, OfBottlerocketIsTomlThatKeepsTheClassesTables) {
  auto node_class = with_kubelet(class_of("bottlerocket@latest", "Bottlerocket"));
  node_class.user_data =
      "# ours\n[settings.kubernetes]\nmax-pods = 5\nallowed-unsafe-sysctls = [\n  \"net.core.somaxconn\",\n]\n\n"
      "[settings.kubernetes.node-labels]\n'a' = \"x\"\nteam = 'ml'\n[settings.ntp]\ntime-servers = ['t']\n";
  EXPECT_EQ(*user_data(node_class, cluster_of_tests(), labeled()), R"(# ours
[settings.kubernetes]
max-pods = 60
allowed-unsafe-sysctls = [
  "net.core.somaxconn",
]
api-server = "https://api.ml"
cluster-certificate = "Q0E="
cluster-name = "ml"
cluster-dns-ip = "10.0.0.10"
[settings.kubernetes.node-labels]
a = "b"
team = 'ml'
workload = "training"
[settings.ntp]
time-servers = ['t']
[settings.kubernetes.kube-reserved]
cpu = "100m"
memory = "1Gi"
[settings.kubernetes.eviction-hard]
"memory.available" = "5%"
[settings.kubernetes.node-taints]
"karpenter.sh/unregistered" = [":NoExecute"]
"nvidia.com/gpu" = ["true:NoSchedule"]
[settings.bootstrap-commands.000-mount-instance-storage]
commands = [["apiclient", "ephemeral-storage", "init"], ["apiclient", "ephemeral-storage", "bind", "--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"]]
mode = "always"
essential = true
)");
}

TEST(UserData, TomlThatCouldNotBeMergedIsRefusedWithItsLine) {
  auto node_class = class_of("bottlerocket@latest", "Bottlerocket");
  const std::pair<const char*, const char*> cases[] = {
      {"settings.kubernetes.max-pods = 5\n", "line 1 of userData: settings.kubernetes.max-pods is not in a table"},
      {"[settings]\nkubernetes = {max-pods = 5}\n", "line 2 of userData: kubernetes is not in a table"},
      {"[settings.kubernetes]\nnode-labels = {a = 'b'}\n", "line 2 of userData: node-labels is not in a table"},
      {"[settings.kubernetes]\nnode-labels.a = 'b'\n", "line 2 of userData: node-labels.a is not in a table"},
      {"[settings.kubernetes]\n[ settings . \"kubernetes\" ]\n",
       "line 2 of userData: the table settings.kubernetes is defined twice"},
      {"[settings.ntp]\na = 1\n'a' = 2\n", "line 3 of userData: the key a is set twice"},
      {"hello\n", "line 1 of userData: neither a table nor a key"},
      {"[settings\n", "line 1 of userData: a table has no closing bracket"},
      {"[settings.a]\nb = [\n1,\n", "the value of b has no end"}};
  for (const auto& [text, message] : cases) {
    node_class.user_data = text;
    const auto refused = user_data(node_class, cluster_of_tests(), labeled());
    ASSERT_FALSE(refused) << *refused;
    EXPECT_THAT(refused.error().message, HasSubstr(message));
    EXPECT_EQ(refused.error().field, "spec.userData");
  }
}

TEST(UserData, OfCustomIsTheClasssOwnAndNeedsNoCluster) {
  auto node_class = class_of("al2023@latest", "Custom");
  node_class.user_data = "anything";
  EXPECT_EQ(*user_data(node_class, {}, labeled()), "anything");
  const auto refused = user_data(class_of(), {}, labeled());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("the setting cluster-name is empty"));
}

TEST(UserData, TheNameOfTheProfileIsOfTheClusterRegionAndClass) {
  const auto name = instance_profile_of(class_of(), "ml", "us-east-1");
  EXPECT_THAT(name, ::testing::StartsWith("ml_"));
  EXPECT_EQ(name, instance_profile_of(class_of(), "ml", "us-east-1"));
  EXPECT_NE(name, instance_profile_of(class_of(), "ml", "us-east-2"));
}

}  // namespace user_data_test
}  // namespace qm::autoscaler
