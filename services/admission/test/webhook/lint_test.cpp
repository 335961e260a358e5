// What is allowed and still will not do what its author means.
// S-267 S-274 S-275 S-276 S-391 S-392 S-395
#include "qm/admission/webhook/lint.hpp"

#include "qm/config/manifest.hpp"
#include "qm/testing/testing.hpp"
#include "reviews.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace qm::admission::webhook {
namespace {

std::string codes(const Json& object, const LintContext& context = {}) {
  std::string out;
  for (const auto& finding : lint(object, context)) out += finding.message.substr(0, finding.message.find(':')) + " ";
  return out;
}
Json reference(const char* file) {
  const auto loaded = config::load_path(*testing::shared_dir() + "/manifests/" + file);
  EXPECT_FALSE(loaded.objects.empty()) << file;
  return loaded.objects.empty() ? Json() : loaded.objects.back().document.content;
}

Json mpi(int slots, int workers, const char* ranks, int gpus = 8, int launcher_gpus = 0) {
  return parsed(fmt::format(
      R"({{"kind":"MPIJob","spec":{{"slotsPerWorker":{},"mpiReplicaSpecs":{{"Launcher":{{"replicas":1,"template":{{"spec":
      {{"containers":[{{"command":["mpirun","-np","{}"],"resources":{{"limits":{{"nvidia.com/gpu":{}}}}}}}]}}}}}},
      "Worker":{{"replicas":{},"template":{{"spec":{{"containers":[{{"resources":{{"limits":{{"nvidia.com/gpu":{}}}}}}}]}}}}}}}}}}}})",
      slots, ranks, launcher_gpus, workers, gpus));
}

TEST(Lint, SlotsOfAnMpiJobAddUp) {  // S-267
  EXPECT_EQ(codes(mpi(8, 2, "16")), "");
  EXPECT_EQ(codes(mpi(8, 2, "15")), "MPI_SLOTS ");
  EXPECT_EQ(codes(mpi(8, 2, "17")), "MPI_SLOTS ");
  EXPECT_EQ(codes(mpi(8, 3, "16")), "MPI_SLOTS ");
  EXPECT_EQ(codes(mpi(4, 4, "16")), "MPI_SLOTS ") << "four slots on eight GPUs";
  EXPECT_EQ(codes(mpi(8, 2, "16", 8, 1)), "MPI_LAUNCHER_GPU ");
  if (!testing::shared_dir()) GTEST_SKIP() << testing::no_shared();
  EXPECT_EQ(codes(reference("001-mpijob-nccl-test.yaml")), "");
}

TEST(Lint, AllOfAGangReachItsCheckpoints) {  // S-274
  if (!testing::shared_dir()) GTEST_SKIP() << testing::no_shared();
  const auto found = lint(reference("003-pytorchjob-llm-finetuning.yaml"));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].message, "CHECKPOINT_MOUNTS: Worker does not mount /checkpoints, which others of its gang do");
  EXPECT_EQ(codes(reference("001-pytorchjob-llama2.yaml")), "") << "there all do";
}

TEST(Lint, AnIndexNeedsAnIndexedJob) {  // S-275
  if (!testing::shared_dir()) GTEST_SKIP() << testing::no_shared();
  auto job = reference("004-job-distributed-training.yaml");
  EXPECT_EQ(codes(job), "INDEX_WITHOUT_MODE ");
  job.set("spec").set("completionMode", "Indexed");
  EXPECT_EQ(codes(job), "");
}

TEST(Lint, SomethingAnswersToTheMastersName) {  // S-276
  if (!testing::shared_dir()) GTEST_SKIP() << testing::no_shared();
  auto job = reference("004-job-distributed-training.yaml");
  job.set("spec").set("completionMode", "Indexed");
  EXPECT_EQ(codes(job, {std::set<std::string>{"other"}}), "UNRESOLVED_MASTER ");
  EXPECT_EQ(codes(job, {std::set<std::string>{"training-master"}}), "");
  EXPECT_EQ(codes(job), "") << "where Services are not known nothing is said";
  EXPECT_EQ(codes(reference("001-pytorchjob-llama2.yaml"), {std::set<std::string>{}}), "")
      << "its operator makes that one";
}

TEST(Lint, TheDocumentedJobFindsItsMaster) {  // S-276
  const auto page = testing::read_file(std::string(QM_SOURCE_DIR) + "/docs/policies.md");
  const auto from = page.find("```yaml\n") + 8;
  ASSERT_GT(from, 8U);
  std::set<std::string> services;
  Json job;
  for (const auto& object :
       config::load_text(page.substr(from, page.find("```", from) - from), "policies.md").objects) {
    if (object.document.kind == "Service") services.insert(object.document.name);
    if (object.document.kind == "Job") job = object.document.content;
  }
  EXPECT_EQ(services.size(), 1U);
  ASSERT_TRUE(job.is_object());
  EXPECT_EQ(codes(job, {services}), "");
  EXPECT_EQ(codes(job, {std::set<std::string>{}}), "UNRESOLVED_MASTER ") << "without the Service nothing answers";
}

TEST(Lint, TemplatesOfAnotherLanguage) {  // S-391
  if (!testing::shared_dir()) GTEST_SKIP() << testing::no_shared();
  EXPECT_EQ(codes(reference("001-argo-workflow-hyperparameter-sweep.yaml")), "ARGO_TEMPLATE ");
}

TEST(Lint, TolerationsWhereNoneAreRead) {  // S-392
  if (!testing::shared_dir()) GTEST_SKIP() << testing::no_shared();
  EXPECT_EQ(codes(reference("001-tekton-pipeline-model-cicd.yaml")), "TEKTON_TOLERATIONS ");
}

TEST(Lint, TensorsAreSplitOverTheGpusThatAreThere) {  // S-395
  const auto server = [](const char* flag, int gpus) {
    return parsed(fmt::format(R"({{"kind":"Deployment","spec":{{"template":{{"spec":{{"containers":[{{"args":[{}],
        "resources":{{"limits":{{"nvidia.com/gpu":{}}}}}}}]}}}}}}}})",
                              flag, gpus));
  };
  EXPECT_EQ(codes(server(R"("--tensor-parallel-size","4")", 4)), "");
  EXPECT_EQ(codes(server(R"("--tensor-parallel-size=4")", 2)), "TENSOR_PARALLEL ");
  EXPECT_EQ(codes(server(R"("--tensor_parallel_size=2")", 4)), "TENSOR_PARALLEL ");
  EXPECT_EQ(codes(server(R"("--model=m")", 4)), "");
  if (!testing::shared_dir()) GTEST_SKIP() << testing::no_shared();
  for (const auto& object :
       config::load_path(*testing::shared_dir() + "/manifests/004-deployment-hpa-llm-inference.yaml").objects) {
    EXPECT_EQ(codes(object.document.content), "");
  }
}

TEST(Lint, TheDoorWarnsOfJobs) {
  const auto job =
      parsed(R"({"kind":"Job","metadata":{"name":"j"},"spec":{"parallelism":2,"template":{"spec":{"containers":[
      {"name":"m","args":["--rank","$(JOB_COMPLETION_INDEX) "]}]}}}})");
  const auto verdict = judge(created(job, "Job"), {}, {});
  ASSERT_EQ(verdict.warnings.size(), 1U);
  EXPECT_TRUE(verdict.allowed());
  EXPECT_EQ(verdict.warnings[0].field, "spec.completionMode");
  Settings off;
  off.rules["lint"] = Mode::kOff;
  EXPECT_TRUE(judge(created(job, "Job"), off, {}).warnings.empty());
}

}  // namespace
}  // namespace qm::admission::webhook
