#include "qm/admission_policy/settings.hpp"

#include <gtest/gtest.h>

namespace qm::admission_policy {
namespace settings_test {

TEST(PolicySettings, ParsesAllFields) {
  const auto read = read_policy_settings({{"webhook", "0.0.0.0:9443"},
                                          {"webhook-service", "gpu/qm-admission:9443"},
                                          {"webhook-policy", "warn"},
                                          {"webhook-rules", "gpu-node:off,required-labels:enforce"},
                                          {"webhook-labels", "team,workload-type=training|batch"},
                                          {"webhook-exclude", "monitoring"},
                                          {"webhook-own", "carol"},
                                          {"webhook-controllers", "system:serviceaccount:kubeflow:training-operator"},
                                          {"webhook-gate-pods", "false"},
                                          {"webhook-scheduler", "none"}});
  ASSERT_TRUE(read);
  EXPECT_EQ(read->mode, Mode::kWarn);
  EXPECT_EQ(read->rules, (std::map<std::string, Mode>{{"gpu-node", Mode::kOff}, {"required-labels", Mode::kEnforce}}));
  EXPECT_EQ(read->required_labels,
            (std::vector<RequiredLabel>{{"team", {}}, {"workload-type", {"training", "batch"}}}));
  EXPECT_TRUE(read->excluded.contains("monitoring") && read->excluded.contains("gpu") &&
              read->excluded.contains("kube-system"));
  EXPECT_EQ(read->own_users, (std::set<std::string>{"carol", "system:serviceaccount:gpu:*"}));
  EXPECT_EQ(read->controllers, (std::set<std::string>{"system:serviceaccount:kubeflow:training-operator"}));
  EXPECT_FALSE(read->gate_pods);
  EXPECT_EQ(read->scheduler, "");
}

TEST(PolicySettings, LeaveNamespaceOfAdmissionAlone) {
  const auto read = read_policy_settings({});
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->excluded.contains("quartermaster-system"));
  EXPECT_EQ(read->own_users, (std::set<std::string>{"system:serviceaccount:quartermaster-system:*"}));
}

TEST(PolicySettings, ErrorsNameFieldAndValidValue) {
  const char* const cases[][3] = {
      {"webhook-policy", "strict", "use enforce, warn, mutate or off"},
      {"webhook-rules", "gpu-node",
       "use RULE:MODE with one of the rules gpu-whole, gpu-requests, gpu-share, gpu-toleration, gpu-node, required-labels, toleration-key, "
       "gpu-proportion, gpu-sharing, compliance, pool-purpose, gpu-namespace, gpu-priority, gang-topology, "
       "gang-environment, pod-security, quota-scope, spot-checkpoint, lint and one of the modes enforce, warn, mutate or off"},
      {"webhook-rules", "gpus:off",
       "use RULE:MODE with one of the rules gpu-whole, gpu-requests, gpu-share, gpu-toleration, gpu-node, required-labels, toleration-key, "
       "gpu-proportion, gpu-sharing, compliance, pool-purpose, gpu-namespace, gpu-priority, gang-topology, "
       "gang-environment, pod-security, quota-scope, spot-checkpoint, lint and one of the modes enforce, warn, mutate or off"},
      {"webhook-labels", "a team", "use KEY or KEY=A|B, with a valid label key"},
      {"webhook-gate-pods", "yes", "use true or false"},
      {"webhook-controllers", "system:serviceaccount:kubeflow:*",
       "use whole names of service accounts: system:serviceaccount:NAMESPACE:NAME"},
      {"webhook-controllers", "training-operator",
       "use whole names of service accounts: system:serviceaccount:NAMESPACE:NAME"},
  };
  for (const auto& [name, value, remedy] : cases) {
    const auto read = read_policy_settings({{name, value}});
    ASSERT_FALSE(read) << name;
    EXPECT_EQ(read.error().field, name);
    EXPECT_EQ(read.error().remedy, remedy);
  }
  EXPECT_NE(read_policy_settings({{"webhook-lables", "team"}}).error().message.find("webhook-labels"),
            std::string::npos);
}

}  // namespace settings_test
}  // namespace qm::admission_policy
