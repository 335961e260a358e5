// Defaults of the API, and faults that name their field.
#include "fixtures.hpp"

namespace qm::autoscaler::replicas {
namespace manifests_test {

using namespace fixtures;

std::string hpa_fault(const std::string& spec) {
  const auto read = read_hpa(
      *Json::parse(R"({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": {)" + spec + "}}"));
  return read ? "" : read.error().field + " | " + read.error().to_string();
}

std::string object_fault(const std::string& spec) {
  const auto read = read_scaled_object(
      *Json::parse(R"({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "spec": {)" + spec + "}}"));
  return read ? "" : read.error().field + " | " + read.error().to_string();
}

TEST(HpaManifests, HaveTheDefaultsOfTheApi) {
  const auto spec = hpa(R"("maxReplicas": 10)");
  EXPECT_EQ(spec.min, 1);
  ASSERT_EQ(spec.metrics.size(), 1U);
  EXPECT_EQ(spec.metrics[0].name, "cpu");
  EXPECT_EQ(spec.metrics[0].utilization, 80);
  EXPECT_FALSE(spec.behavior);
  const auto with = hpa(R"("maxReplicas": 10, "behavior": {"scaleDown": {"tolerance": "50m"}})");
  EXPECT_EQ(with.behavior->up.policies.size(), 2U);
  EXPECT_EQ(with.behavior->up.stabilization, Duration::zero());
  EXPECT_FALSE(with.behavior->down.stabilization);
  EXPECT_EQ(with.behavior->down.tolerance, 0.05);
}

TEST(HpaManifests, FaultsNameTheField) {
  const std::string metric = R"("metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": )";
  for (const auto& [spec, part] : std::initializer_list<std::pair<std::string, const char*>>{
           {"", "spec.maxReplicas | "},
           {R"("maxReplicas": 0)", "spec.maxReplicas | "},
           {R"("maxReplicas": 2, "minReplicas": 3)", "is less than minReplicas, 3"},
           {R"("maxReplicas": 2, "maxReplica": 3)", "spec.maxReplica | "},
           {R"("maxReplicas": 2, "metrics": {})", "spec.metrics | "},
           {R"("maxReplicas": 2, )" + metric + R"({"type": "Value", "value": "1"}}}])",
            "spec.metrics[0].resource.target.type | "},
           {R"("maxReplicas": 2, )" + metric + R"({"type": "Utilization"}}}])",
            "spec.metrics[0].resource.target.averageUtilization | "},
           {R"("maxReplicas": 2, )" + metric + R"({"type": "AverageValue", "averageValue": "much"}}}])",
            "write it as 500m, 10 or 2Gi"},
           {R"("maxReplicas": 2, "behavior": {"scaleUp": {"stabilizationWindowSeconds": 3601}})",
            "use a whole number from 0 to 3600"},
           {R"("maxReplicas": 2, "behavior": {"scaleUp": {"policies": []}})", "spec.behavior.scaleUp.policies | "},
           {R"("maxReplicas": 2, "behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 1}]}})",
            "spec.behavior.scaleUp.policies[0].periodSeconds | "},
           {R"("maxReplicas": 2, "behavior": {"scaleUp": {"selectPolicy": "Most"}})",
            "use one of Max, Min, Disabled"}}) {
    EXPECT_NE(hpa_fault(spec).find(part), std::string::npos) << spec << ": " << hpa_fault(spec);
  }
  EXPECT_EQ(hpa_fault(R"("maxReplicas": 2, "metrics": [{"type": "Cheese"}])"), "");  // invalid when it is read
}

TEST(ScaledObjectManifests, FaultsNameTheField) {
  const auto trigger = [](const std::string& type, const std::string& metadata) {
    return R"("triggers": [{"type": ")" + type + R"(", "metadata": {)" + metadata + "}}]";
  };
  const std::string sqs = trigger("aws-sqs-queue", R"("queueURL": "q")");
  for (const auto& [spec, part] : std::initializer_list<std::pair<std::string, const char*>>{
           {R"("triggers": [])", "spec.triggers | "},
           {trigger("rabbitmq", ""), "spec.triggers[0].type | "},
           {trigger("aws-sqs-queue", R"("queueLenght": "5")"), "spec.triggers[0].metadata.queueLenght | "},
           {trigger("aws-sqs-queue", R"("queueLength": "five")"), "use a whole number from 1"},
           {trigger("aws-sqs-queue", R"("queueLength": 5)"), "must be a text"},
           {trigger("aws-sqs-queue", R"("scaleOnInFlight": "maybe")"), "must be true or false"},
           {trigger("cron", R"("timezone": "Mars", "start": "0 8 * * *", "end": "0 9 * * *", "desiredReplicas": "1")"),
            "spec.triggers[0].metadata.timezone | "},
           {trigger("cron", R"("timezone": "UTC", "start": "0 25 * * *", "end": "0 9 * * *", "desiredReplicas": "1")"),
            "is not a valid hour"},
           {trigger("cron", R"("timezone": "UTC", "start": "0 9 * * *", "end": "0 9 * * *", "desiredReplicas": "1")"),
            "is equal to start"},
           {trigger("kafka", R"("topic": "t", "partitionLimitation": "5-2")"), "is not a list of partitions"},
           {trigger("kafka", R"("topic": "t", "allowIdleConsumers": "true", "limitToPartitionsWithLag": "true")"),
            "excludes allowIdleConsumers"},
           {trigger("prometheus", R"("query": "q")"), "spec.triggers[0].metadata.threshold | "},
           {trigger("memory", R"("value": "50")"), "spec.minReplicaCount | "},
           {trigger("cpu", R"("value": "0")"), "spec.triggers[0].metadata.value | "},
           {R"("triggers": [{"type": "cpu", "useCachedMetrics": true, "metadata": {"value": "50"}}])",
            "useCachedMetrics"},
           {R"("maxReplicaCount": 2, "minReplicaCount": 3, )" + sqs, "is less than minReplicaCount, 3"},
           {R"("idleReplicaCount": 1, "minReplicaCount": 1, )" + sqs, "spec.idleReplicaCount | "},
           {R"("fallback": {"replicas": 1}, )" + sqs, "spec.fallback.failureThreshold | "},
           {R"("fallback": {"failureThreshold": 1, "replicas": 1, "behavior": "scalingModifiers"}, )" + sqs,
            "without a formula"},
           {R"("advanced": {"scalingModifiers": {"formula": "a +", "target": "1"}}, )" + sqs,
            "spec.advanced.scalingModifiers.formula | "},
           {R"("advanced": {"scalingModifiers": {"formula": "1"}}, )" + sqs,
            "spec.advanced.scalingModifiers.target | "}}) {
    EXPECT_NE(object_fault(spec).find(part), std::string::npos) << spec << ": " << object_fault(spec);
  }
}

TEST(Annotations, PausedReplicasMustBeANumber) {
  const auto read = read_annotations(*Json::parse(R"({"autoscaling.keda.sh/paused-replicas": "some"})"));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().field, "autoscaling.keda.sh/paused-replicas");
}

}  // namespace manifests_test
}  // namespace qm::autoscaler::replicas
