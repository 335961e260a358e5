// ProvisioningRequests as objects of the API server, and as rows.
#include "qm/autoscaler/provisioning_watch.hpp"
#include "qm/autoscaler/shell.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qm::autoscaler {
namespace provisioning_test {

using ::testing::HasSubstr;

Json json(const std::string& text) {
  auto read = Json::parse(text);
  EXPECT_TRUE(read) << text;
  return read ? *read : Json();
}

// As Kueue creates it for an AdmissionCheck with a ProvisioningRequestConfig.
const char* const kOfKueue = R"({
  "apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest",
  "metadata": {"name": "job-train-capacity-1", "namespace": "ml", "uid": "u-1", "creationTimestamp": "2026-11-28T02:00:00Z"},
  "spec": {"provisioningClassName": "best-effort-atomic-scale-up.autoscaling.x-k8s.io",
           "parameters": {"ValidUntilSeconds": "600"},
           "podSets": [{"podTemplateRef": {"name": "ppt-job-train-capacity-1-main"}, "count": 4}]}})";

std::map<std::string, Json> templates() {
  return {{"ppt-job-train-capacity-1-main", json(R"({"metadata":{"labels":{"app":"train"}},"spec":{
      "nodeSelector":{"karpenter.sh/capacity-type":"on-demand"},
      "containers":[{"name":"c","resources":{"requests":{"nvidia.com/gpu":"8","cpu":"90"},"limits":{"nvidia.com/gpu":"8"}}}]}})")}};
}

TEST(ProvisioningRequests, AreReadWithTheirPodTemplates) {
  const auto read = provisioning_request_from(json(kOfKueue), templates());
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_EQ(read->uid, WorkloadUid("u-1"));
  EXPECT_EQ(read->provisioning_class, ProvisioningClass::kBestEffortAtomic);
  EXPECT_EQ(read->valid_for, Duration(std::chrono::minutes(10)));
  ASSERT_EQ(read->pod_sets.size(), 1U);
  EXPECT_EQ(read->pod_sets[0].count, 4);
  EXPECT_EQ(read->pod_sets[0].shape.gpu.whole, 8);
  EXPECT_EQ(read->pod_sets[0].shape.cpu_milli, 90'000);
}

TEST(ProvisioningRequests, WhatCannotBeServedIsRefusedWithItsField) {
  const auto refused = [](const std::string& spec) {
    const auto read =
        provisioning_request_from(json(R"({"metadata":{"namespace":"ml"},"spec":)" + spec + "}"), templates());
    return read ? std::string("accepted") : read.error().to_string();
  };
  EXPECT_THAT(refused("{}"), HasSubstr("spec.podSets"));
  EXPECT_THAT(refused(R"({"podSets":[{"podTemplateRef":{"name":"x"},"count":1}]})"),
              HasSubstr("PodTemplate ml/x does not exist"));
  EXPECT_THAT(refused(R"({"podSets":[{"podTemplateRef":{"name":"ppt-job-train-capacity-1-main"},"count":0}]})"),
              HasSubstr("spec.podSets[0].count"));
  EXPECT_THAT(refused(R"({"parameters":{"ValidUntilSeconds":"soon"}})"), HasSubstr("ValidUntilSeconds"));
}

TEST(ProvisioningRequests, OnlyOpenOnesOfServedClassesAreRead) {
  Json object = json(kOfKueue);
  EXPECT_TRUE(is_open_request(object));
  const auto with = [&](const char* type, const char* status) {
    Json copy = object;
    copy.set("status", json(fmt::format(R"({{"conditions":[{{"type":"{}","status":"{}"}}]}})", type, status)));
    return copy;
  };
  EXPECT_TRUE(is_open_request(with("Provisioned", "True"))) << "its nodes are booked";
  EXPECT_TRUE(is_open_request(with("Failed", "False")));
  for (const char* final : {"Failed", "BookingExpired", "CapacityRevoked"})
    EXPECT_FALSE(is_open_request(with(final, "True")));
  object.set("spec", Json(object["spec"]).set("provisioningClassName", "queued-provisioning.gke.io"));
  EXPECT_FALSE(is_open_request(object));
}

TEST(ProvisioningRequests, AreAnInputAndARow) {
  auto request = *provisioning_request_from(json(kOfKueue), templates());
  request.room = {3};
  Codec codec;
  const auto commands = codec.decode(provisioning_input({request}));
  ASSERT_TRUE(commands && commands->size() == 1U);
  EXPECT_EQ(std::get<ProvisioningApplied>(commands->front()).requests.front(), request);
  // A capacity block next to it, which the request's nodes do not use.
  const ReservationsListed::Item block{
      {"cb-1", "p5.48xlarge", "us-east-1a", true, from_micros(5), from_micros(9), 4}, 3, {"default"}};
  const auto listed = codec.decode(reservations_input({block}));
  ASSERT_TRUE(listed && listed->size() == 1U);
  Engine engine(catalog_types());
  const Output out = engine.step(std::vector<Command>{commands->front(), listed->front()}, from_micros(1'000'000));
  service::Effects effects;
  codec.encode(engine, out, {}, effects);
  engine.commit();
  std::vector<store::StateRow> rows;
  for (const auto& row : effects.state) rows.push_back({row.kind, row.key, row.value.value()});
  Engine restarted(catalog_types());
  ASSERT_TRUE(codec.load(restarted, rows));
  EXPECT_EQ(restarted.digest(), engine.digest());
  EXPECT_EQ(restarted.tables().provisioning.find(request.uid)->request, request);
  EXPECT_EQ(restarted.tables().reservations.find("cb-1")->others, 1);
}

}  // namespace provisioning_test
}  // namespace qm::autoscaler
