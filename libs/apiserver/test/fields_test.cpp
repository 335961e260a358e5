// Unknown fields and wrong types, with the texts of the API server's decoder. tests/contract checks the same with a
// real one.
#include "qm/apiserver/fields.hpp"

#include <gtest/gtest.h>

namespace qm::apiserver {
namespace fields_test {

Json json(std::string_view text) {
  auto read = Json::parse(text);
  EXPECT_TRUE(read) << text;
  return read ? *read : Json();
}

TEST(Fields, UnknownOnesAreNamedAndRemoved) {
  auto job = json(R"({"metadata":{"name":"j","lables":{}},"spec":{"parallelism":3,"template":{"spec":{
      "nodeselector":{"a":"b"},"containers":[{"name":"m"},{"name":"n","imagePolicy":"x"}]}},"paralelism":2}})");
  const auto decoded = decode("Job", job);
  EXPECT_EQ(decoded.mistake, "");
  EXPECT_EQ(decoded.strict, (std::vector<std::string>{R"(unknown field "metadata.lables")",
                                                      R"(unknown field "spec.template.spec.nodeselector")",
                                                      R"(unknown field "spec.template.spec.containers[1].imagePolicy")",
                                                      R"(unknown field "spec.paralelism")"}));
  EXPECT_EQ(job, json(R"({"metadata":{"name":"j"},"spec":{"parallelism":3,"template":{"spec":{
      "containers":[{"name":"m"},{"name":"n"}]}}}})"));
}

TEST(Fields, OfEqualOnesTheLastIsTakenAndNullIsNotGiven) {
  auto job = json(R"({"spec":{"parallelism":2,"suspend":null,"parallelism":3}})");
  EXPECT_EQ(decode("Job", job).strict, (std::vector<std::string>{R"(duplicate field "spec.parallelism")"}));
  EXPECT_EQ(job.dump(), R"({"spec":{"parallelism":3}})");
}

TEST(Fields, ValuesOfAnotherTypeAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"parallelism":"2"})", "string into Go struct field JobSpec.spec.parallelism of type int32"},
      {R"({"parallelism":2.5})", "number 2.5 into Go struct field JobSpec.spec.parallelism of type int32"},
      {R"({"parallelism":99999999999})",
       "number 99999999999 into Go struct field JobSpec.spec.parallelism of type int32"},
      {R"({"suspend":"yes"})", "string into Go struct field JobSpec.spec.suspend of type bool"},
      {R"({"template":[]})", "array into Go struct field JobSpec.spec.template of type v1.PodTemplateSpec"},
      {R"({"template":{"spec":{"containers":{}}}})",
       "object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container"},
      {R"({"template":{"spec":{"containers":[{"image":true}]}}})",
       "bool into Go struct field Container.spec.template.spec.containers.image of type string"},
      {R"({"template":{"metadata":{"labels":{"n":1}}}})",
       "number 1 into Go struct field ObjectMeta.spec.template.metadata.labels of type string"}};
  for (const auto& [spec, reported] : cases) {
    auto job = Json::object({{"spec", json(spec)}});
    EXPECT_EQ(decode("Job", job).mistake, std::string("json: cannot unmarshal ") + reported) << spec;
  }
}

TEST(Fields, QuantitiesAndPortsTakeTextAndNumbers) {
  auto pod = json(R"({"spec":{"containers":[{"resources":{"limits":{"cpu":2,"memory":"1Gi","x/y":"1e3"}},
      "livenessProbe":{"httpGet":{"port":"web"}},"readinessProbe":{"httpGet":{"port":80}}}]}})");
  EXPECT_EQ(decode("Pod", pod).mistake, "");
  pod = json(R"({"spec":{"containers":[{"resources":{"limits":{"cpu":"two"}}}]}})");
  EXPECT_TRUE(decode("Pod", pod).mistake.starts_with("quantities must match the regular expression"));
}

TEST(Fields, OtherKindsAndOpenPartsAreLeftAlone) {
  auto queue = json(R"({"spec":{"cohrt":"x","cohort":null}})");
  const auto before = queue;
  EXPECT_TRUE(decode("ClusterQueue", queue).strict.empty());
  EXPECT_EQ(queue, before);
  auto managed = json(R"({"metadata":{"managedFields":[{"fieldsV1":{"f:spec":{"f:x":{}}}}]}})");
  EXPECT_TRUE(decode("Pod", managed).strict.empty());
}

}  // namespace fields_test
}  // namespace qm::apiserver
