// Objects that are valid and still do not do what their author intends.
// S-267 S-274 S-275 S-276 S-391 S-392 S-395
#include "qm/admission_policy/lint.hpp"

#include "qm/config/manifest.hpp"
#include "qm/testing/manifests.hpp"
#include "subjects.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace qm::admission_policy {
namespace lint_test {

std::string codes(const Json& object, const LintContext& context = {}) {
  std::string out;
  for (const auto& finding : lint(object, context)) out += finding.message.substr(0, finding.message.find(':')) + " ";
  return out;
}
/// The last object of a file.
Json object_in(const std::string& path) {
  const auto loaded = config::load_path(path);
  EXPECT_FALSE(loaded.objects.empty()) << path;
  return loaded.objects.empty() ? Json() : loaded.objects.back().document.content;
}

Json mpi(int slots, int workers, const char* ranks, int gpus = 8, int launcher_gpus = 0) {
  return parsed(fmt::format(
      R"({{"kind":"MPIJob","spec":{{"slotsPerWorker":{},"mpiReplicaSpecs":{{"Launcher":{{"replicas":1,"template":{{"spec":
      {{"containers":[{{"command":["mpirun","-np","{}"],"resources":{{"limits":{{"nvidia.com/gpu":{}}}}}}}]}}}}}},
      "Worker":{{"replicas":{},"template":{{"spec":{{"containers":[{{"resources":{{"limits":{{"nvidia.com/gpu":{}}}}}}}]}}}}}}}}}}}})",
      slots, ranks, launcher_gpus, workers, gpus));
}

TEST(Lint, MpiSlotsMatchRanks) {  // S-267
  EXPECT_EQ(codes(mpi(8, 2, "16")), "");
  EXPECT_EQ(codes(mpi(8, 2, "15")), "MPI_SLOTS ");
  EXPECT_EQ(codes(mpi(8, 2, "17")), "MPI_SLOTS ");
  EXPECT_EQ(codes(mpi(8, 3, "16")), "MPI_SLOTS ");
  EXPECT_EQ(codes(mpi(4, 4, "16")), "MPI_SLOTS ") << "four slots on eight GPUs";
  EXPECT_EQ(codes(mpi(8, 2, "16", 8, 1)), "MPI_LAUNCHER_GPU ");
  for (const auto& manifests : testing::manifest_folders()) {
    auto job = object_in(manifests.dir + manifests.pick("mpijob-fabric-check.yaml", "001-mpijob-nccl-test.yaml"));
    EXPECT_EQ(codes(job), "") << manifests.name();
    job.set("spec").set("slotsPerWorker", 1);
    EXPECT_EQ(codes(job), "MPI_SLOTS MPI_SLOTS ") << manifests.name() << ": too few for its ranks and for its GPUs";
  }
}

TEST(Lint, AllGangMembersMountCheckpoints) {  // S-274
  struct Case {
    std::string some, mount, all;
  };
  for (const auto& manifests : testing::manifest_folders()) {
    const auto c =
        manifests.pick(Case{"pytorchjob-speech-tuning.yaml", "/saved/checkpoints", "pytorchjob-variant-caller.yaml"},
                       Case{"003-pytorchjob-llm-finetuning.yaml", "/checkpoints", "001-pytorchjob-llama2.yaml"});
    const auto found = lint(object_in(manifests.dir + c.some));
    ASSERT_EQ(found.size(), 1U) << c.some;
    EXPECT_EQ(found[0].message,
              fmt::format("CHECKPOINT_MOUNTS: Worker does not mount {}, which others of its gang do", c.mount));
    EXPECT_EQ(codes(object_in(manifests.dir + c.all)), "") << "there all do";
  }
}

/// A Job with pods that read their index without having one, and name a master.
Json indexed_job(const testing::Manifests& manifests) {
  return object_in(manifests.dir + manifests.pick("job-reconstruction.yaml", "004-job-distributed-training.yaml"));
}

TEST(Lint, CompletionIndexRequiresIndexedJob) {  // S-275
  for (const auto& manifests : testing::manifest_folders()) {
    auto job = indexed_job(manifests);
    EXPECT_EQ(codes(job), "INDEX_WITHOUT_MODE ") << manifests.name();
    job.set("spec").set("completionMode", "Indexed");
    EXPECT_EQ(codes(job), "") << manifests.name();
  }
}

TEST(Lint, MinimumIsBelowParallelism) {
  const auto codes_of = [](const char* least, const char* parallelism) {
    return codes(*Json::parse(fmt::format(
        R"({{"kind":"Job","metadata":{{"name":"a","annotations":{{"kueue.x-k8s.io/job-min-parallelism":"{}"}}}},"spec":{{{}}}}})",
        least, parallelism)));
  };
  EXPECT_EQ(codes_of("5", R"("parallelism":2)"), "JOB_MIN_PARALLELISM ");
  EXPECT_EQ(codes_of("2", R"("parallelism":2)"), "JOB_MIN_PARALLELISM ");
  EXPECT_EQ(codes_of("1", ""), "JOB_MIN_PARALLELISM ") << "parallelism is 1 by default";
  EXPECT_EQ(codes_of("1", R"("parallelism":2)"), "");
  EXPECT_EQ(codes_of("many", R"("parallelism":2)"), "") << "that is refused where it is read";
}

TEST(Lint, MasterNameResolves) {  // S-276
  for (const auto& manifests : testing::manifest_folders()) {
    SCOPED_TRACE(manifests.name());
    auto job = indexed_job(manifests);
    job.set("spec").set("completionMode", "Indexed");
    EXPECT_EQ(codes(job, {std::set<std::string>{"other"}}), "UNRESOLVED_MASTER ");
    EXPECT_EQ(codes(job, {std::set<std::string>{manifests.pick("recon-head", "training-master")}}), "");
    EXPECT_EQ(codes(job), "") << "without known Services there is no finding";
    const auto run =
        object_in(manifests.dir + manifests.pick("pytorchjob-variant-caller.yaml", "001-pytorchjob-llama2.yaml"));
    EXPECT_EQ(codes(run, {std::set<std::string>{}}), "") << "its operator creates that Service";
  }
}

TEST(Lint, DocumentedJobFindsItsMaster) {  // S-276
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
  EXPECT_EQ(codes(job, {std::set<std::string>{}}), "UNRESOLVED_MASTER ") << "without the Service there is a finding";
}

TEST(Lint, ReportsTemplatesOfAnotherLanguage) {  // S-391
  for (const auto& manifests : testing::manifest_folders()) {
    const auto file = manifests.pick("argo-dose-sweep.yaml", "001-argo-workflow-hyperparameter-sweep.yaml");
    EXPECT_EQ(codes(object_in(manifests.dir + file)), "ARGO_TEMPLATE ") << file;
  }
}

TEST(Lint, ReportsIgnoredTolerations) {  // S-392
  for (const auto& manifests : testing::manifest_folders()) {
    const auto file = manifests.pick("tekton-speech-release.yaml", "001-tekton-pipeline-model-cicd.yaml");
    EXPECT_EQ(codes(object_in(manifests.dir + file)), "TEKTON_TOLERATIONS ") << file;
  }
}

TEST(Lint, TensorParallelismMatchesGpus) {  // S-395
  const auto server = [](const char* flag, int gpus) {
    return parsed(fmt::format(R"({{"kind":"Deployment","spec":{{"template":{{"spec":{{"containers":[{{"args":[{}],
        "resources":{{"limits":{{"nvidia.com/gpu":{}}}}}}}]}}}}}}}})",
                              flag, gpus));
  };
  EXPECT_EQ(codes(server(R"("--tensor-parallel-size","4")", 4)), "");
  EXPECT_EQ(codes(server(R"("--tensor-parallel-size=4")", 2)), "TENSOR_PARALLEL ");
  EXPECT_EQ(codes(server(R"("--tensor_parallel_size=2")", 4)), "TENSOR_PARALLEL ");
  EXPECT_EQ(codes(server(R"("--model=m")", 4)), "");
  for (const auto& manifests : testing::manifest_folders()) {
    const auto file = manifests.pick("deployment-assistant.yaml", "004-deployment-hpa-llm-inference.yaml");
    const auto loaded = config::load_path(manifests.dir + file);
    EXPECT_EQ(loaded.objects.size(), 2U);
    for (const auto& object : loaded.objects) EXPECT_EQ(codes(object.document.content), "") << file;
  }
}

TEST(Lint, WebhookWarnsAboutJobs) {
  const auto job =
      parsed(R"({"kind":"Job","metadata":{"name":"j"},"spec":{"parallelism":2,"template":{"spec":{"containers":[
      {"name":"m","args":["--rank","$(JOB_COMPLETION_INDEX) "]}]}}}})");
  const auto verdict = validate(created(job, "Job"), {}, {});
  ASSERT_EQ(verdict.warnings.size(), 1U);
  EXPECT_TRUE(verdict.allowed());
  EXPECT_EQ(verdict.warnings[0].field, "spec.completionMode");
  Settings off;
  off.rules["lint"] = Mode::kOff;
  EXPECT_TRUE(validate(created(job, "Job"), off, {}).warnings.empty());
}

}  // namespace lint_test
}  // namespace qm::admission_policy
