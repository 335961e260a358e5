// The signals that scale services on GPUs: utilization, the queue, latency and concurrency; and InferenceServices, whose
// fields name one of them.
#include "qm/autoscaler/replicas/assumed.hpp"
#include "qm/autoscaler/replicas/inference_service.hpp"
#include "qm/autoscaler/replicas/manifests.hpp"
#include "qm/config/manifest.hpp"
#include "qm/testing/manifests.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace qm::autoscaler::replicas {
namespace signals_test {

HpaSpec scaled_on(const std::string& metrics, std::int32_t most = 20) {
  const auto read = read_hpa(*Json::parse(fmt::format(
      R"({{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","spec":{{"maxReplicas":{},"metrics":[{}],)"
      R"("behavior":{{"scaleUp":{{"policies":[{{"type":"Pods","value":100,"periodSeconds":15}}]}}}}}}}})",
      most, metrics)));
  EXPECT_TRUE(read) << read.error().to_string();
  return read->spec;
}

std::int32_t wanted(const HpaSpec& spec, std::int32_t replicas, std::map<std::string, double> values) {
  return decide_for(spec, {replicas, std::move(values)}).desired;
}

// S-232: one signal each; cpu is flat in all of them. The list of the reference is lost in its text.
TEST(Signals, UtilizationOfGpusScales) {
  const auto spec = scaled_on(
      R"({"type":"Pods","pods":{"metric":{"name":"gpu_utilization"},"target":{"type":"AverageValue","averageValue":"70"}}})");
  EXPECT_EQ(wanted(spec, 4, {{"gpu_utilization", 91}}), 6) << "4 x 91 / 70 = 5.2";
  EXPECT_EQ(wanted(spec, 4, {{"gpu_utilization", 75}}), 4) << "within the tolerance";
  EXPECT_EQ(wanted(spec, 4, {{"gpu_utilization", 30}}), 2);
}

TEST(Signals, TheLengthOfTheQueueScales) {
  const auto spec = scaled_on(
      R"({"type":"External","external":{"metric":{"name":"queue_depth"},"target":{"type":"AverageValue","averageValue":"30"}}})");
  EXPECT_EQ(wanted(spec, 2, {{"queue_depth", 270}}), 9) << "270 / 30, whatever the pods do";
  EXPECT_EQ(wanted(spec, 9, {{"queue_depth", 0}}), 1);
}

TEST(Signals, LatencyScales) {
  const auto spec = scaled_on(
      R"({"type":"Object","object":{"describedObject":{"apiVersion":"v1","kind":"Service","name":"llm"},"metric":{"name":"p99_seconds"},"target":{"type":"Value","value":"500m"}}})");
  EXPECT_EQ(wanted(spec, 4, {{"p99_seconds", 1.25}}), 10) << "4 x 1.25 / 0.5";
  EXPECT_EQ(wanted(spec, 4, {{"p99_seconds", 0.52}}), 4);
}

TEST(Signals, ConcurrentRequestsScale) {
  const auto spec = scaled_on(
      R"({"type":"Pods","pods":{"metric":{"name":"vllm:num_requests_running"},"target":{"type":"AverageValue","averageValue":"16"}}})");
  EXPECT_EQ(wanted(spec, 3, {{"vllm:num_requests_running", 40}}), 8) << "3 x 40 / 16 = 7.5";
}

TEST(Signals, TheLargestOfSeveralCountsAndAMissingOneHoldsTheSize) {
  const std::string gpu =
      R"({"type":"Pods","pods":{"metric":{"name":"gpu_utilization"},"target":{"type":"AverageValue","averageValue":"70"}}},)";
  const auto spec = scaled_on(
      gpu + R"({"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}})");
  EXPECT_EQ(wanted(spec, 4, {{"gpu_utilization", 140}, {"cpu", 80}}), 8);
  EXPECT_EQ(wanted(spec, 4, {{"gpu_utilization", 35}, {"cpu", 160}}), 8);
  EXPECT_EQ(wanted(spec, 4, {{"gpu_utilization", 35}}), 4) << "cpu is not known";
}

Json service(const std::string& fields) {
  return *Json::parse(R"({"apiVersion":"serving.kserve.io/v1beta1","kind":"InferenceService","metadata":{"name":"m"},)"
                      R"("spec":{"predictor":{"minReplicas":2,"maxReplicas":10,"containers":[])" +
                      (fields.empty() ? "" : "," + fields) + "}}}");
}

// S-233: the metric gpu is gpu_utilization, and its target applies.
TEST(InferenceServices, AGpuTargetIsTheUtilizationOfGpus) {
  const auto read = read_inference_service(service(R"("scaleMetric":"gpu","scaleTarget":80)"));
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_TRUE(read->warnings.empty());
  EXPECT_EQ(read->spec.metrics.at(0).name, "gpu_utilization");
  EXPECT_EQ(wanted(read->spec, 4, {{"gpu_utilization", 80}}), 4);
  EXPECT_EQ(wanted(read->spec, 4, {{"gpu_utilization", 86}}), 4) << "within the tolerance of 80";
  EXPECT_EQ(wanted(read->spec, 4, {{"gpu_utilization", 100}}), 5) << "4 x 100 / 80";
  EXPECT_EQ(wanted(read->spec, 4, {{"gpu_utilization", 20}}), 2) << "minReplicas";
  for (const auto& manifests : qm::testing::manifest_folders()) {
    const auto loaded =
        config::load_path(manifests.dir + manifests.pick("kserve-scoring.yaml", "003-kserve-fraud-detection.yaml"));
    ASSERT_EQ(loaded.objects.size(), 1U);
    const auto scaling = read_inference_service(loaded.objects[0].document.content);
    if (manifests.own) {
      ASSERT_FALSE(scaling) << "gpu-memory is no metric";
      EXPECT_EQ(scaling.error().field, "spec.predictor.scaleMetric");
      continue;
    }
    ASSERT_TRUE(scaling) << scaling.error().to_string();
    EXPECT_EQ(scaling->spec.metrics.at(0).milli, 80'000);
    EXPECT_EQ(wanted(scaling->spec, 8, {{"gpu_utilization", 95}}), 10);
  }
}

// S-234: without a metric it is concurrency, and a warning says so.
TEST(InferenceServices, WithoutAMetricConcurrencyAppliesWithAWarning) {
  const auto read = read_inference_service(service(R"("scaleTarget":70)"));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->warnings, std::vector<std::string>{
                                "spec.predictor.scaleMetric is not set, so that concurrency applies to scaleTarget 70; "
                                "set gpu if it is the utilization of GPUs"});
  EXPECT_EQ(wanted(read->spec, 2, {{"queue_average_concurrent_requests", 105}}), 3);
  for (const auto& manifests : qm::testing::manifest_folders()) {
    if (manifests.own) continue;
    const auto loaded = config::load_path(manifests.dir + "003-kserve-fraud-ensemble.yaml");
    const auto scaling = read_inference_service(loaded.objects.at(1).document.content);
    ASSERT_TRUE(scaling) << scaling.error().to_string();
    EXPECT_EQ(scaling->warnings.size(), 1U);
    EXPECT_EQ(scaling->spec.metrics.at(0).milli, 70'000);
    EXPECT_EQ(scaling->spec.min, 3);
    EXPECT_EQ(wanted(scaling->spec, 4, {{"queue_average_concurrent_requests", 140}}), 8);
  }
}

TEST(InferenceServices, HaveTheDefaultsOfTheirMetricAndRefuseOthers) {
  EXPECT_EQ(read_inference_service(service(R"("scaleMetric":"rps")"))->spec.metrics.at(0).milli, 200'000);
  EXPECT_EQ(read_inference_service(service(R"("scaleMetric":"memory")"))->spec.metrics.at(0).utilization, 80);
  EXPECT_EQ(read_inference_service(service(""))->spec.metrics.at(0).milli, 100'000);
  for (const auto& [fields, part] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"("scaleMetric":"gpu")", "spec.predictor.scaleTarget"},
           {R"("scaleMetric":"gpu","scaleTarget":180)", "is 180 percent"},
           {R"("scaleMetric":"tokens","scaleTarget":5)", "\"tokens\" is not a metric"}}) {
    const auto read = read_inference_service(service(fields));
    ASSERT_FALSE(read) << fields;
    EXPECT_NE((read.error().field + " " + read.error().to_string()).find(part), std::string::npos)
        << read.error().to_string();
  }
}

}  // namespace signals_test
}  // namespace qm::autoscaler::replicas
