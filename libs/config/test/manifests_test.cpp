// Everything that people already have must load: the reference manifests as they lie there, and our own examples.
#include "qm/config/manifest.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>
#include <map>

namespace qm::config {
namespace {

std::string joined(const std::vector<Diagnostic>& diagnostics, Diagnostic::Severity severity) {
  std::string out;
  for (const Diagnostic& diagnostic : diagnostics) {
    if (diagnostic.severity == severity) out += diagnostic.to_string() + "\n";
  }
  return out;
}

template <class T>
const T* find_typed(const Loaded& loaded, std::string_view name) {
  for (const Object& object : loaded.objects) {
    if (object.document.name != name) continue;
    if (const T* typed = std::get_if<T>(&object.typed)) return typed;
  }
  return nullptr;
}

TEST(ReferenceManifests, EveryDocumentLoadsAndNothingVanishes) {
  const auto shared = testing::shared_dir();
  if (!shared || !std::filesystem::is_directory(*shared + "/manifests")) GTEST_SKIP() << testing::no_shared();
  const Loaded loaded = load_path(*shared + "/manifests");
  EXPECT_TRUE(loaded.ok()) << joined(loaded.diagnostics, Diagnostic::Severity::kError);
  // 103 YAML documents and one JSON dashboard; the rest of the folder is text and command lines.
  EXPECT_EQ(loaded.objects.size(), 104u);

  std::map<std::string, int> typed, carried;
  for (const Object& object : loaded.objects) {
    const std::string kind = object.document.kind.empty() ? "(fragment)" : object.document.kind;
    const bool is_typed = !std::holds_alternative<std::monostate>(object.typed);
    ++(is_typed ? typed : carried)[kind];
    if (is_typed) continue;
    EXPECT_EQ(object.document.carried.size(), object.document.content.size()) << object.document.file;
    EXPECT_GT(object.document.content.size(), 0u) << object.document.file;
  }
  for (const auto& [kind, n] : typed) std::cout << "typed   " << n << "  " << kind << "\n";
  for (const auto& [kind, n] : carried) std::cout << "carried " << n << "  " << kind << "\n";
  const std::map<std::string, int> expected{
      {"ClusterQueue", 1}, {"LocalQueue", 1}, {"ResourceFlavor", 1}, {"WorkloadPriorityClass", 4}, {"PriorityClass", 4},
      {"NodePool", 12},    {"Job", 1}};
  EXPECT_EQ(typed, expected);
}

TEST(ReferenceManifests, SayWhatTheySay) {
  const auto shared = testing::shared_dir();
  if (!shared || !std::filesystem::is_directory(*shared + "/manifests")) GTEST_SKIP() << testing::no_shared();
  const std::string dir = *shared + "/manifests/";

  const Loaded queues = load_path(dir + "001-clusterqueue-research.yaml");
  const auto* queue = find_typed<ClusterQueue>(queues, "research-queue");
  ASSERT_NE(queue, nullptr);
  EXPECT_EQ(queue->cohort, "shared-gpus");
  ASSERT_EQ(queue->groups.size(), 1u);
  const FlavorQuota& flavor = queue->groups[0].flavors[0];
  EXPECT_EQ(flavor.nominal.at("nvidia.com/gpu").units(), 16);
  EXPECT_EQ(flavor.borrowing_limit.at("nvidia.com/gpu").units(), 32);
  EXPECT_EQ(flavor.nominal.at("memory").to_string(), "512Gi");
  EXPECT_FALSE(flavor.borrowing_limit.contains("cpu"));
  EXPECT_EQ(queue->reclaim_within_cohort, "Any");
  EXPECT_TRUE(queues.diagnostics.empty());
  EXPECT_TRUE(queues.objects[0].document.carried.empty());

  const Loaded pools = load_path(dir + "001-nodepool-gpu-training.yaml");
  const auto* pool = find_typed<NodePool>(pools, "gpu-training");
  ASSERT_NE(pool, nullptr);
  EXPECT_EQ(pool->consolidation_policy, "WhenEmptyOrUnderutilized");
  EXPECT_EQ(pool->expire_after, std::chrono::hours(720));
  EXPECT_EQ(pool->limits.at("nvidia.com/gpu").units(), 128);
  ASSERT_EQ(pool->taints.size(), 1u);
  EXPECT_EQ(pool->taints[0], (Taint{"nvidia.com/gpu", "present", "NoSchedule"}));

  const Loaded protected_pools = load_path(dir + "004-nodepool-gpu-training-protected.yaml");
  const auto* guarded = find_typed<NodePool>(protected_pools, "gpu-training-protected");
  ASSERT_NE(guarded, nullptr);
  ASSERT_EQ(guarded->budgets.size(), 3u);
  EXPECT_EQ(guarded->budgets[0].duration, std::chrono::hours(23));
  EXPECT_EQ(guarded->budgets[2].reasons, std::vector<std::string>{"Drifted"});
  EXPECT_EQ(guarded->consolidate_after, std::chrono::minutes(30));

  // S-275: four pods, one gang.
  const Loaded jobs = load_path(dir + "004-job-distributed-training.yaml");
  const auto* job = find_typed<WorkloadSpec>(jobs, "distributed-training");
  ASSERT_NE(job, nullptr);
  EXPECT_EQ(job->total_pods(), 4);
  EXPECT_EQ(job->total_gpu_milli(), 4000);
  EXPECT_EQ(job->pod_sets[0].shape.cpu_milli, 8000);

  const Loaded classes = load_path(dir + "001-workloadpriorityclass-cost.yaml");
  const auto* priority = find_typed<PriorityClass>(classes, "production-inference");
  ASSERT_NE(priority, nullptr);
  EXPECT_EQ(priority->value, 1000);
  EXPECT_EQ(classes.diagnostics.size(), 2u) << "one warning for each spec.value";
  EXPECT_TRUE(classes.ok());
}

TEST(Examples, LoadWithoutAWord) {
  const Loaded loaded = load_path(QM_SOURCE_DIR "/examples");
  for (const Diagnostic& diagnostic : loaded.diagnostics) ADD_FAILURE() << diagnostic.to_string();
  std::map<std::string, int> kinds;
  for (const Object& object : loaded.objects) ++kinds[object.document.kind];
  for (const char* kind :
       {"ClusterQueue", "LocalQueue", "Cohort", "ResourceFlavor", "WorkloadPriorityClass", "PriorityClass", "Queue",
        "NodePool", "PricePlan", "CheckpointPolicy", "Budget", "Job", "PyTorchJob"}) {
    EXPECT_GT(kinds[kind], 0) << kind;
  }
}

TEST(Examples, ReferToEachOther) {
  const Loaded loaded = load_path(QM_SOURCE_DIR "/examples");
  for (const Object& object : loaded.objects) {
    if (const auto* local = std::get_if<LocalQueue>(&object.typed)) {
      EXPECT_NE(find_typed<ClusterQueue>(loaded, local->cluster_queue.value()), nullptr) << local->cluster_queue;
    }
    if (const auto* queue = std::get_if<ClusterQueue>(&object.typed)) {
      EXPECT_NE(find_typed<Cohort>(loaded, queue->cohort), nullptr) << queue->cohort;
      for (const ResourceGroup& group : queue->groups) {
        for (const FlavorQuota& flavor : group.flavors) {
          EXPECT_NE(find_typed<ResourceFlavor>(loaded, flavor.flavor.value()), nullptr) << flavor.flavor;
        }
      }
    }
    if (const auto* job = std::get_if<WorkloadSpec>(&object.typed)) {
      EXPECT_NE(find_typed<LocalQueue>(loaded, job->queue), nullptr) << job->queue;
      EXPECT_NE(find_typed<PriorityClass>(loaded, job->priority_class), nullptr) << job->priority_class;
    }
  }
}

}  // namespace
}  // namespace qm::config
