// Existing manifests must load: the manifests of the test data unchanged, and the examples of this repository.
#include "qm/testing/manifests.hpp"

#include "qm/config/manifest.hpp"

#include <gtest/gtest.h>

#include <iostream>
#include <map>

namespace qm::config {
namespace manifests_test {

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
  using Kinds = std::map<std::string, int>;
  for (const auto& manifests : testing::manifest_folders()) {
    SCOPED_TRACE(manifests.name());
    const Loaded loaded = load_path(manifests.dir);
    // One example has a version that Kueue no longer has.
    const auto errors = joined(loaded.diagnostics, Diagnostic::Severity::kError);
    EXPECT_EQ(std::ranges::count(errors, '\n'), manifests.pick(1, 0)) << errors;
    EXPECT_NE(errors.find("localqueue-old-version.yaml:1: apiVersion: "),
              manifests.pick(errors.npos, std::string::size_type{}))
        << errors;
    // YAML documents, including the items of lists, and one JSON dashboard each; the other files are text and tables.
    EXPECT_EQ(loaded.objects.size(), manifests.pick(94u + 1u, 103u + 1u));

    Kinds typed, carried;
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
    EXPECT_EQ(typed, manifests.pick(Kinds{{"ClusterQueue", 1},
                                          {"Cohort", 1},
                                          {"LocalQueue", 1},
                                          {"ResourceFlavor", 1},
                                          {"WorkloadPriorityClass", 5},
                                          {"PriorityClass", 4},
                                          {"NodePool", 12},
                                          {"EC2NodeClass", 1},
                                          {"Job", 1}},
                                    Kinds{{"ClusterQueue", 1},
                                          {"LocalQueue", 1},
                                          {"ResourceFlavor", 1},
                                          {"WorkloadPriorityClass", 4},
                                          {"PriorityClass", 4},
                                          {"NodePool", 12},
                                          {"EC2NodeClass", 2},
                                          {"Job", 1}}));
  }
}

// Each deviation of the examples from the APIs is reported once, at its position.
TEST(OwnManifests, EachOddityIsAWarningAtItsPlace) {
  std::vector<std::string> found;
  for (const Diagnostic& diagnostic : load_path(testing::data_dir() + "/manifests").diagnostics) {
    if (diagnostic.message.find("has neither apiVersion nor kind") != std::string::npos) continue;
    const auto file = diagnostic.file.substr(diagnostic.file.rfind('/') + 1);
    found.push_back(fmt::format("{}:{}: {}", file, diagnostic.line, diagnostic.field));
  }
  EXPECT_EQ(found, (std::vector<std::string>{
                       "localqueue-old-version.yaml:1: apiVersion",
                       "nodepool-steady-training.yaml:12: spec.template.spec.expireAfter",
                       "nodepool-zonal-serving-v1beta1.yaml:8: spec.template.spec.nodeClassRef",
                       "workloadpriorityclass-hours.yaml:4: spec",
                       "workloadpriorityclass-products.yaml:4: spec",
                       "workloadpriorityclass-products.yaml:9: spec",
                       "workloadpriorityclass-products.yaml:14: spec",
                   }));
}

TEST(ReferenceManifests, AreReadAsWritten) {
  struct QueueCase {
    std::string file, name, cohort, memory;
    std::int64_t nominal, borrowing;
    std::string reclaim;
    bool lends;
  };
  struct PoolCase {
    std::string file, name, guarded_file, guarded;
    std::chrono::hours expires;
    std::int64_t gpus;
    Taint taint;
    std::size_t budgets, timed;  ///< and the index of the one with a schedule
    std::chrono::hours duration;
    std::size_t of_reason;  ///< the index of the one for a reason
    std::vector<std::string> reasons;
    std::chrono::minutes after;
  };
  struct JobCase {
    std::string file, name;
    std::int64_t pods, gpus, cpu_milli;
    std::string classes, priority;
    std::int64_t value;
    std::size_t warnings;
  };
  using std::chrono::hours;
  using std::chrono::minutes;
  for (const auto& manifests : testing::manifest_folders()) {
    SCOPED_TRACE(manifests.name());
    const std::string dir = manifests.dir;

    const auto q = manifests.pick(
        QueueCase{"clusterqueue-genomics.yaml", "genomics", "institute", "768Gi", 12, 20, "LowerPriority", true},
        QueueCase{"001-clusterqueue-research.yaml", "research-queue", "shared-gpus", "512Gi", 16, 32, "Any", false});
    const Loaded queues = load_path(dir + q.file);
    const auto* queue = find_typed<ClusterQueue>(queues, q.name);
    ASSERT_NE(queue, nullptr);
    EXPECT_EQ(queue->cohort, q.cohort);
    ASSERT_EQ(queue->groups.size(), 1u);
    const FlavorQuota& flavor = queue->groups[0].flavors[0];
    EXPECT_EQ(flavor.nominal.at("nvidia.com/gpu").units(), q.nominal);
    EXPECT_EQ(flavor.borrowing_limit.at("nvidia.com/gpu").units(), q.borrowing);
    EXPECT_EQ(flavor.nominal.at("memory").to_string(), q.memory);
    EXPECT_FALSE(flavor.borrowing_limit.contains("cpu"));
    EXPECT_EQ(flavor.lending_limit.contains("memory"), q.lends);
    EXPECT_EQ(queue->reclaim_within_cohort, q.reclaim);
    EXPECT_TRUE(queues.diagnostics.empty());
    EXPECT_TRUE(queues.objects[0].document.carried.empty() != q.lends)
        << "maxPriorityThreshold is kept, and has no effect";

    const auto p = manifests.pick(PoolCase{"nodepool-deep-training-v1beta1.yaml",
                                           "deep-training",
                                           "nodepool-windows.yaml",
                                           "maintenance-windows",
                                           hours(240),
                                           96,
                                           {"nvidia.com/gpu", "training", "NoExecute"},
                                           2,
                                           1,
                                           hours(14),
                                           0,
                                           {"Underutilized", "Empty"},
                                           minutes(90)},
                                  PoolCase{"001-nodepool-gpu-training.yaml",
                                           "gpu-training",
                                           "004-nodepool-gpu-training-protected.yaml",
                                           "gpu-training-protected",
                                           hours(720),
                                           128,
                                           {"nvidia.com/gpu", "present", "NoSchedule"},
                                           3,
                                           0,
                                           hours(23),
                                           2,
                                           {"Drifted"},
                                           minutes(30)});
    const Loaded pools = load_path(dir + p.file);
    const auto* pool = find_typed<NodePool>(pools, p.name);
    ASSERT_NE(pool, nullptr);
    EXPECT_EQ(pool->consolidation_policy, "WhenEmptyOrUnderutilized");
    EXPECT_EQ(pool->expire_after, p.expires);
    EXPECT_EQ(pool->limits.at("nvidia.com/gpu").units(), p.gpus);
    ASSERT_EQ(pool->taints.size(), 1u);
    EXPECT_EQ(pool->taints[0], p.taint);

    const Loaded protected_pools = load_path(dir + p.guarded_file);
    const auto* guarded = find_typed<NodePool>(protected_pools, p.guarded);
    ASSERT_NE(guarded, nullptr);
    ASSERT_EQ(guarded->budgets.size(), p.budgets);
    EXPECT_EQ(guarded->budgets[p.timed].duration, p.duration);
    EXPECT_EQ(guarded->budgets[p.of_reason].reasons, p.reasons);
    EXPECT_EQ(guarded->consolidate_after, p.after);

    // S-275: several pods, one gang.
    const auto j = manifests.pick(JobCase{"job-reconstruction.yaml", "reconstruction", 6, 12, 6500,
                                          "workloadpriorityclass-hours.yaml", "interactive", 5000, 1},
                                  JobCase{"004-job-distributed-training.yaml", "distributed-training", 4, 4, 8000,
                                          "001-workloadpriorityclass-cost.yaml", "production-inference", 1000, 2});
    const Loaded jobs = load_path(dir + j.file);
    const auto* job = find_typed<WorkloadSpec>(jobs, j.name);
    ASSERT_NE(job, nullptr);
    EXPECT_EQ(job->total_pods(), j.pods);
    EXPECT_EQ(job->total_gpu_milli(), j.gpus * 1000);
    EXPECT_EQ(job->pod_sets[0].shape.cpu_milli, j.cpu_milli);

    const Loaded classes = load_path(dir + j.classes);
    const auto* priority = find_typed<PriorityClass>(classes, j.priority);
    ASSERT_NE(priority, nullptr);
    EXPECT_EQ(priority->value, j.value);
    EXPECT_EQ(classes.diagnostics.size(), j.warnings) << "one warning for each spec.value";
    EXPECT_TRUE(classes.ok());
  }
}

TEST(Examples, LoadWithoutDiagnostics) {
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

}  // namespace manifests_test
}  // namespace qm::config
