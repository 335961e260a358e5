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
  const auto read = read_settings(
      {{"webhook", "0.0.0.0:9443"}, {"webhook-service", "gpu/qm-admission:9443"}, {"webhook-policy", "warn"}});
  ASSERT_TRUE(read && read->serves);
  EXPECT_EQ(read->server.address, "0.0.0.0");
  EXPECT_EQ(read->server.port, 9443);
  EXPECT_EQ(read->registration.service_port, 9443);
  EXPECT_EQ(read->keeper.ns, "gpu");
  EXPECT_EQ(read->keeper.names.front(), "qm-admission.gpu.svc");
  EXPECT_EQ(read->policy.mode, admission_policy::Mode::kWarn);
  EXPECT_EQ(read->registration.excluded, read->policy.excluded);
}

TEST(WebhookSettings, ErrorsNameFieldAndValidValue) {
  const char* const cases[][3] = {
      {"webhook", "9443", "use HOST:PORT"},
      {"webhook-url", "http://h:1", "use https://HOST:PORT, without a path"},
      {"webhook-service", "admission", "use NAMESPACE/NAME or NAMESPACE/NAME:PORT"},
      {"webhook-only", "gpu", "use KEY=VALUE"},
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
