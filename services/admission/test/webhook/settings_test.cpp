#include "qm/admission/webhook/settings.hpp"

#include <gtest/gtest.h>

namespace qm::admission::webhook {
namespace settings_test {

Result<WebhookSettings> read_settings(const settings::Values& given) {
  auto out = settings_table().read(given);
  if (out) complete(*out);
  return out;
}

TEST(WebhookSettings, WithoutAnAddressThereIsNoWebhook) {
  EXPECT_FALSE(read_settings({})->serves);
  EXPECT_FALSE(read_settings({{"webhook-policy", "warn"}})->serves);
}

TEST(WebhookSettings, ParsesAllFields) {
  const auto read = read_settings({{"webhook", "0.0.0.0:9443"},
                                   {"webhook-service", "gpu/qm-admission:9443"},
                                   {"webhook-policy", "warn"},
                                   {"webhook-rules", "gpu-node:off,required-labels:enforce"},
                                   {"webhook-labels", "team,workload-type=training|batch"},
                                   {"webhook-exclude", "monitoring"},
                                   {"webhook-own", "carol"},
                                   {"webhook-controllers", "system:serviceaccount:kubeflow:training-operator"},
                                   {"webhook-gate-pods", "false"},
                                   {"webhook-scheduler", "none"}});
  ASSERT_TRUE(read && read->serves);
  EXPECT_EQ(read->server.address, "0.0.0.0");
  EXPECT_EQ(read->server.port, 9443);
  EXPECT_EQ(read->registration.service_port, 9443);
  EXPECT_EQ(read->keeper.ns, "gpu");
  EXPECT_EQ(read->keeper.names.front(), "qm-admission.gpu.svc");
  const auto& policy = read->policy;
  EXPECT_EQ(policy.mode, Mode::kWarn);
  EXPECT_EQ(policy.rules, (std::map<std::string, Mode>{{"gpu-node", Mode::kOff}, {"required-labels", Mode::kEnforce}}));
  EXPECT_EQ(policy.required_labels,
            (std::vector<RequiredLabel>{{"team", {}}, {"workload-type", {"training", "batch"}}}));
  EXPECT_TRUE(policy.excluded.contains("monitoring") && policy.excluded.contains("gpu") &&
              policy.excluded.contains("kube-system"));
  EXPECT_EQ(read->registration.excluded, policy.excluded);
  EXPECT_EQ(policy.own_users, (std::set<std::string>{"carol", "system:serviceaccount:gpu:*"}));
  EXPECT_EQ(policy.controllers, (std::set<std::string>{"system:serviceaccount:kubeflow:training-operator"}));
  EXPECT_FALSE(policy.gate_pods);
  EXPECT_EQ(policy.scheduler, "");
}

TEST(WebhookSettings, ErrorsNameFieldAndValidValue) {
  const char* const cases[][3] = {
      {"webhook", "9443", "use HOST:PORT"},
      {"webhook-url", "http://h:1", "use https://HOST:PORT, without a path"},
      {"webhook-service", "admission", "use NAMESPACE/NAME or NAMESPACE/NAME:PORT"},
      {"webhook-policy", "strict", "use enforce, warn, mutate or off"},
      {"webhook-rules", "gpu-node",
       "use RULE:MODE with one of the rules gpu-whole, gpu-requests, gpu-share, gpu-toleration, gpu-node, required-labels, toleration-key, "
       "gpu-proportion, gpu-sharing, compliance, pool-purpose, gpu-namespace, gpu-priority, gang-topology, "
       "gang-environment, pod-security, quota-scope, lint and one of the modes enforce, warn, mutate or off"},
      {"webhook-rules", "gpus:off",
       "use RULE:MODE with one of the rules gpu-whole, gpu-requests, gpu-share, gpu-toleration, gpu-node, required-labels, toleration-key, "
       "gpu-proportion, gpu-sharing, compliance, pool-purpose, gpu-namespace, gpu-priority, gang-topology, "
       "gang-environment, pod-security, quota-scope, lint and one of the modes enforce, warn, mutate or off"},
      {"webhook-only", "gpu", "use KEY=VALUE"},
      {"webhook-labels", "a team", "use KEY or KEY=A|B, with a valid label key"},
      {"webhook-gate-pods", "yes", "use true or false"},
      {"webhook-controllers", "system:serviceaccount:kubeflow:*",
       "use whole names of service accounts: system:serviceaccount:NAMESPACE:NAME"},
      {"webhook-controllers", "training-operator",
       "use whole names of service accounts: system:serviceaccount:NAMESPACE:NAME"},
  };
  for (const auto& [name, value, remedy] : cases) {
    const auto read = read_settings({{name, value}});
    ASSERT_FALSE(read) << name;
    EXPECT_EQ(read.error().field, name);
    EXPECT_EQ(read.error().remedy, remedy);
  }
  EXPECT_NE(read_settings({{"webhook-lables", "team"}}).error().message.find("webhook-labels"), std::string::npos);
}

}  // namespace settings_test
}  // namespace qm::admission::webhook
