// Names, labels, pods and Jobs that the API server refuses, and the resulting Status.
#include "qm/apiserver/answers.hpp"
#include "qm/apiserver/names.hpp"

#include <gtest/gtest.h>

namespace qm::apiserver {
namespace validation_test {

Json json(std::string_view text) {
  auto read = Json::parse(text);
  EXPECT_TRUE(read) << text;
  return read ? *read : Json();
}

TEST(Names, AreJudgedByTheirUse) {
  const std::string long_label(64, 'a'), long_name(254, 'a');
  EXPECT_TRUE(subdomain_faults("a.b-c.0").empty());
  for (const char* name : {"", "Bad", "a_b", "größe", "-a", "a-", "a..b", ".a", "a b"})
    EXPECT_EQ(subdomain_faults(name).size(), 1U) << name;
  EXPECT_EQ(subdomain_faults(long_name), (Faults{"must be no more than 253 characters"}));
  EXPECT_TRUE(label_faults("a-0").empty());
  EXPECT_EQ(label_faults("a.b"), (Faults{"must not contain dots"}));
  EXPECT_EQ(label_faults(long_label), (Faults{"must be no more than 63 characters"}));
  for (const char* key : {"a", "A_b.c-D", "example.com/a"}) EXPECT_TRUE(key_faults(key).empty()) << key;
  for (const char* key : {"bad key", "a/b/c", "/b", "Ex.com/a"}) EXPECT_EQ(key_faults(key).size(), 1U) << key;
  EXPECT_EQ(key_faults("a/").size(), 2U);
  EXPECT_TRUE(value_faults("").empty());
  EXPECT_EQ(value_faults("größe").size(), 1U);
  EXPECT_EQ(value_faults(long_label), (Faults{"must be no more than 63 bytes"}));
}

std::string fields_of(const Causes& causes) {
  std::string out;
  for (const auto& cause : causes) out += cause.field + " " + std::string(reason_of(cause)) + "\n";
  return out;
}

TEST(Validation, NamesEachFaultOfAJob) {
  Causes causes;
  check_job(json(R"({"metadata":{"name":"j"},"spec":{"parallelism":-1,"completionMode":"Index","template":{"spec":{
      "restartPolicy":"Sometimes","nodeSelector":{"zone":"-"},"containers":[
        {"name":"Bad Name"},
        {"name":"m","image":"x","resources":{"limits":{"nvidia.com/gpu":"500m"}}},
        {"name":"m","image":"x","resources":{"requests":{"cpu":2,"nvidia.com/gpu":1},"limits":{"cpu":"1"}}}]}}}})"),
            causes);
  EXPECT_EQ(fields_of(causes),
            "spec.parallelism FieldValueInvalid\n"
            "spec.completionMode FieldValueNotSupported\n"
            "spec.template.spec.containers[0].name FieldValueInvalid\n"
            "spec.template.spec.containers[0].image FieldValueRequired\n"
            "spec.template.spec.containers[1].resources.limits[nvidia.com/gpu] FieldValueInvalid\n"
            "spec.template.spec.containers[2].name FieldValueDuplicate\n"
            "spec.template.spec.containers[2].resources.requests FieldValueInvalid\n"
            "spec.template.spec.containers[2].resources.limits FieldValueRequired\n"
            "spec.template.spec.restartPolicy FieldValueNotSupported\n"
            "spec.template.spec.nodeSelector FieldValueInvalid\n"
            "spec.template.spec.restartPolicy FieldValueNotSupported\n");
}

TEST(Validation, ANameIsTooLongForThePodsOfAnIndexedJob) {
  const auto causes_of = [](std::size_t length, const char* mode) {
    auto job = json(R"({"spec":{"completions":12,"template":{"spec":{"restartPolicy":"Never","containers":[
        {"name":"m","image":"x"}]}}}})");
    job.set("metadata").set("name", std::string(length, 'a'));
    job.set("spec").set("completionMode", mode);
    Causes out;
    check_job(job, out);
    return fields_of(out);
  };
  EXPECT_EQ(causes_of(60, "Indexed"), "");
  EXPECT_EQ(causes_of(61, "Indexed"), "metadata.name FieldValueInvalid\n") << "-11 is added";
  EXPECT_EQ(causes_of(63, "NonIndexed"), "");
  EXPECT_EQ(causes_of(64, "NonIndexed"), "spec.template.labels FieldValueInvalid\n");
}

TEST(Validation, AStatusHasAllCausesAndTheObject) {
  const Type jobs{"batch", "v1", "jobs", "Job"};
  const auto status = status_of(invalid(jobs, "j", {{"spec.a", "Required value"}, {"spec.b", "Invalid value: 1: no"}}));
  EXPECT_EQ(status["message"].string(),
            R"(Job.batch "j" is invalid: [spec.a: Required value, spec.b: Invalid value: 1: no])");
  EXPECT_EQ(status["code"].integer(), 422);
  EXPECT_EQ(status["details"]["group"].string(), "batch");
  EXPECT_EQ(status["details"]["causes"].at(0)["reason"].string(), "FieldValueRequired");
  EXPECT_EQ(status["details"]["causes"].at(1)["message"].string(), "Invalid value: 1: no");
  EXPECT_EQ(not_found(jobs, "j").message, R"(jobs.batch "j" not found)");
  EXPECT_EQ(not_found({"", "v1", "pods", "Pod"}, "p").message, R"(pods "p" not found)");
}

}  // namespace validation_test
}  // namespace qm::apiserver
