// The annotation of a checkpoint contract, and intervals by annotation and argument.
#include "qm/config/checkpoint_contract.hpp"

#include "qm/config/manifest.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qm::config {
namespace checkpoint_contract_test {

using ::testing::HasSubstr;

TEST(CheckpointContract, IsAUrlOrAnObjectWithModesAndTerms) {
  EXPECT_EQ(checkpoint_contract("http://{podIP}:8480/save")->http, "http://{podIP}:8480/save");
  const auto all = checkpoint_contract(
      R"({"http":"http://{podIP}:1/","file":"exchange","signal":"SIGUSR1","quorum":2,"interval":"5m","expected":"40s",
          "uri":"s3://bucket/run","copy":"gs://checkpoints/spot-recovery/"})");
  ASSERT_TRUE(all) << all.error().to_string();
  EXPECT_EQ(all->file, "exchange");
  EXPECT_EQ(all->signal, "SIGUSR1");
  EXPECT_EQ(all->copy, "gs://checkpoints/spot-recovery/");
  EXPECT_EQ(all->terms, (CheckpointTerms{std::chrono::minutes(5), 0, 2, std::chrono::seconds(40), "s3://bucket/run"}));
}

TEST(CheckpointContract, NamesTheMemberThatIsWrong) {
  const auto wrong = [](const char* text) {
    const auto read = checkpoint_contract(text);
    EXPECT_FALSE(read) << text;
    return read ? std::string() : read.error().to_string();
  };
  EXPECT_THAT(wrong("{"), HasSubstr("not JSON"));
  EXPECT_THAT(wrong("{}"), HasSubstr("it offers no mode"));
  EXPECT_THAT(wrong(R"({"mode":"http"})"), HasSubstr("unknown member \"mode\""));
  EXPECT_THAT(wrong(R"({"signal":"SIGKILL"})"), HasSubstr("SIGUSR1"));
  EXPECT_THAT(wrong(R"({"file":"../../etc"})"), HasSubstr("emptyDir"));
  EXPECT_THAT(wrong(R"({"http":"x","quorum":0})"), HasSubstr("quorum"));
  EXPECT_THAT(wrong(R"({"http":"x","interval":"soon"})"), HasSubstr("10m"));
  EXPECT_THAT(wrong(R"({"http":"x","uri":"s3://a b"})"), HasSubstr("0x20"));
  EXPECT_THAT(wrong(R"({"http":"x","copy":"gs://a b"})"), HasSubstr("0x20"));
}

Json job(const char* annotations, const char* container) {
  Json out = *Json::parse(R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"tune","namespace":"nlp"},
    "spec":{"template":{"metadata":{"annotations":{}},"spec":{"restartPolicy":"Never","containers":[]}}}})");
  auto& pods = out.set("spec").set("template");
  pods.set("metadata").set("annotations", *Json::parse(annotations));
  pods.set("spec").set("containers", Json::array({*Json::parse(container)}));
  return out;
}

// S-247: the interval is read from an annotation or from an argument.
TEST(CheckpointInterval, IsThatOfTheAnnotationOrOfTheArgument) {
  const auto terms = [](const char* annotations, const char* container) {
    const auto spec = workload_from_job(job(annotations, container));
    EXPECT_TRUE(spec) << spec.error().to_string();
    return spec ? spec->checkpoint : CheckpointTerms{};
  };
  const char* tuned =
      R"({"name":"main","command":["python","tune.py"],"args":["--epochs=3","--checkpoint-freq=1000"]})";
  EXPECT_EQ(terms("{}", tuned).steps, 1000);
  EXPECT_EQ(terms("{}", R"({"name":"main","args":["--checkpoint-freq","500"]})").steps, 500);
  EXPECT_EQ(terms("{}", R"({"name":"main","args":["--checkpoint-freq=often"]})").steps, 0);
  EXPECT_EQ(terms(R"({"quartermaster.dev/checkpoint-interval":"250"})", tuned).steps, 250);
  EXPECT_EQ(terms(R"({"quartermaster.dev/checkpoint-interval":"10m"})", tuned).interval,
            Duration(std::chrono::minutes(10)));
  const auto both = terms(R"({"quartermaster.dev/checkpoint-interval":"10m",
                              "quartermaster.dev/checkpoint":"{\"http\":\"http://{podIP}:1/\",\"quorum\":1}"})",
                          tuned);
  EXPECT_EQ(both, (CheckpointTerms{std::chrono::minutes(10), 1000, 1, Duration{0}, ""}));
  const auto wrong = workload_from_job(job(R"({"quartermaster.dev/checkpoint-interval":"often"})", tuned));
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().to_string(), HasSubstr("\"often\" is not a valid interval"));
}

}  // namespace checkpoint_contract_test
}  // namespace qm::config
