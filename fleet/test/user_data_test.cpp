#include "user_data.hpp"

#include <gtest/gtest.h>

namespace qm::fleet {
namespace user_data_test {

const Labels kLabels{{"a", "b"}, {"karpenter.sh/nodepool", "pool"}};
const std::vector<Taint> kTaints{{"nvidia.com/gpu", "true", "NoSchedule"}, {"x", "", "NoExecute"}};

TEST(Registration, IsReadFromTheArgumentsOfAScript) {
  const auto got = registration_of(
      "/etc/eks/bootstrap.sh 'ml' --kubelet-extra-args '--node-labels=\"a=b,karpenter.sh/nodepool=pool\" "
      "--register-with-taints=\"nvidia.com/gpu=true:NoSchedule,x:NoExecute\" --max-pods=5'\n");
  EXPECT_EQ(got.labels, kLabels);
  EXPECT_EQ(got.taints, kTaints);
}

TEST(Registration, IsReadFromANodeConfig) {
  const auto got = registration_of(R"(MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: application/node.eks.aws

kind: NodeConfig
spec:
  kubelet:
    config:
      registerWithTaints:
      - effect: NoSchedule
        key: nvidia.com/gpu
        value: "true"
      - {effect: NoExecute, key: x}
    flags:
    - "--node-labels=a=b,karpenter.sh/nodepool=pool"
--//--
)");
  EXPECT_EQ(got.labels, kLabels);
  EXPECT_EQ(got.taints, kTaints);
}

TEST(Registration, IsReadFromTheTablesOfBottlerocket) {
  const auto got = registration_of(R"([settings.kubernetes]
cluster-name = "ml"
[settings.kubernetes.node-labels]
a = "b"
"karpenter.sh/nodepool" = "pool"
[settings.kubernetes.node-taints]
"nvidia.com/gpu" = ["true:NoSchedule"]
x = [":NoExecute"]
)");
  EXPECT_EQ(got.labels, kLabels);
  EXPECT_EQ(got.taints, kTaints);
}

TEST(Registration, OfOtherTextIsEmpty) {
  const auto got = registration_of("#!/bin/bash\necho a = b\n");
  EXPECT_TRUE(got.labels.empty());
  EXPECT_TRUE(got.taints.empty());
}

}  // namespace user_data_test
}  // namespace qm::fleet
