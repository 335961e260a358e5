// docs/fields.md has every field of the kinds of other projects, and its statements are correct.
#include "qm/admission/engine.hpp"
#include "qm/admission/queries/explanation.hpp"
#include "qm/admission/translate/translate.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <sstream>

namespace qm::admission {
namespace fields_test {

/// The fields of each kind as in its API types; a list represents its items.
const std::map<std::string, std::vector<std::string>>& known_fields() {
  static const std::vector<std::string> quota{"coveredResources",
                                              "flavors[].name",
                                              "flavors[].resources[].name",
                                              "flavors[].resources[].nominalQuota",
                                              "flavors[].resources[].borrowingLimit",
                                              "flavors[].resources[].lendingLimit"};
  static const auto fields = [] {
    std::map<std::string, std::vector<std::string>> out{
        {"ClusterQueue",
         {"spec.cohortName",
          "spec.cohort",
          "spec.queueingStrategy",
          "spec.namespaceSelector",
          "spec.flavorFungibility.whenCanBorrow",
          "spec.flavorFungibility.whenCanPreempt",
          "spec.flavorFungibility.preference",
          "spec.preemption.reclaimWithinCohort",
          "spec.preemption.withinClusterQueue",
          "spec.preemption.borrowWithinCohort.policy",
          "spec.preemption.borrowWithinCohort.maxPriorityThreshold",
          "spec.admissionChecks",
          "spec.admissionChecksStrategy.admissionChecks[].name",
          "spec.admissionChecksStrategy.admissionChecks[].onFlavors",
          "spec.stopPolicy",
          "spec.fairSharing.weight",
          "spec.admissionScope.admissionMode",
          "spec.concurrentAdmissionPolicy.migration.mode",
          "spec.concurrentAdmissionPolicy.migration.constraints.lastAcceptableFlavorName",
          "status"}},
        {"LocalQueue",
         {"spec.clusterQueue", "spec.stopPolicy", "spec.fairSharing.weight", "spec.wallTimePolicy", "status"}},
        {"Cohort", {"spec.parentName", "spec.resourceGroups", "spec.fairSharing.weight", "status"}},
        {"ResourceFlavor", {"spec.nodeLabels", "spec.nodeTaints", "spec.tolerations", "spec.topologyName"}},
        {"Topology", {"spec.levels[].nodeLabel"}},
        {"AdmissionCheck",
         {"spec.controllerName", "spec.retryDelayMinutes", "spec.parameters.apiGroup", "spec.parameters.kind",
          "spec.parameters.name", "status"}},
        {"WorkloadPriorityClass", {"value", "description"}},
        {"Workload",
         {"spec.podSets[].name", "spec.podSets[].count", "spec.podSets[].minCount", "spec.podSets[].template",
          "spec.queueName", "spec.priority", "spec.priorityClassRef", "spec.priorityClassName",
          "spec.priorityClassSource", "spec.active", "spec.maximumExecutionTimeSeconds", "spec.preemptionGates",
          "status", "status.admissionChecks[].podSetUpdates"}},
        {"PriorityClass", {"value", "globalDefault", "description", "preemptionPolicy"}},
        {"ResourceQuota", {"spec.hard", "spec.scopes", "spec.scopeSelector", "status"}},
        {"LimitRange", {}}};
    for (const auto& field : quota) out["ClusterQueue"].push_back("spec.resourceGroups[]." + field);
    for (const char* field : {"required", "preferred", "unconstrained", "podIndexLabel", "subGroupIndexLabel",
                              "subGroupCount", "podSetGroupName", "podSetSliceRequiredTopology", "podSetSliceSize"}) {
      out["Workload"].push_back(std::string("spec.podSets[].topologyRequest.") + field);
    }
    for (const char* field : {"type", "max", "min", "default", "defaultRequest", "maxLimitRequestRatio"}) {
      out["LimitRange"].push_back(std::string("spec.limits[].") + field);
    }
    return out;
  }();
  return fields;
}

struct Row {
  std::string object, field, what, test;
};

/// The rows of the Kueue section.
std::vector<Row> rows() {
  std::istringstream text(qm::testing::read_file(QM_SOURCE_DIR "/docs/fields.md"));
  std::vector<Row> out;
  bool inside = false;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("## ")) inside = line.starts_with("## Kueue");
    if (!inside || !line.starts_with("| ") || line.starts_with("| ---") || line.starts_with("| object")) continue;
    std::vector<std::string> cells;
    std::istringstream cut(line.substr(2));
    for (std::string cell; std::getline(cut, cell, '|');) {
      while (!cell.empty() && cell.back() == ' ') cell.pop_back();
      while (!cell.empty() && cell.front() == ' ') cell.erase(0, 1);
      cells.push_back(cell);
    }
    if (cells.size() < 4) {
      ADD_FAILURE() << line;
      continue;
    }
    std::erase(cells[1], '`');
    out.push_back({cells[0], cells[1], cells[2], cells[3]});
  }
  return out;
}

TEST(KueueFields, EachFieldIsInPageOnce) {
  std::set<std::pair<std::string, std::string>> listed, known;
  for (const auto& row : rows()) {
    EXPECT_TRUE(listed.emplace(row.object, row.field).second) << row.object << " " << row.field << " is listed twice";
    EXPECT_TRUE(row.what == "obeyed" || row.what == "kept" || row.what == "refused") << row.field << ": " << row.what;
  }
  for (const auto& [object, fields] : known_fields()) {
    for (const auto& field : fields) known.emplace(object, field);
  }
  for (const auto& [object, field] : known) EXPECT_TRUE(listed.contains({object, field})) << object << " " << field;
  for (const auto& [object, field] : listed) EXPECT_TRUE(known.contains({object, field})) << object << " " << field;
}

TEST(KueueFields, EachTestOfPageExists) {
  std::string sources;
  for (const char* folder : {"/services/admission/test", "/libs/admission_policy/test", "/libs/config/test"}) {
    for (const auto& file : std::filesystem::recursive_directory_iterator(std::string(QM_SOURCE_DIR) + folder)) {
      if (file.path().extension() == ".cpp") sources += qm::testing::read_file(file.path().string());
    }
  }
  for (const auto& row : rows()) {
    const auto dot = row.test.find('.');
    ASSERT_NE(dot, std::string::npos) << row.field;
    EXPECT_NE(sources.find("(" + row.test.substr(0, dot) + ", " + row.test.substr(dot + 1) + ")"), std::string::npos)
        << row.field << ": " << row.test;
  }
}

// ---- statements about the service ----

ClusterQueue queue_with(const std::string& spec) {
  const auto objects = objects_from_manifest(
      "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: a}, spec: {" + spec + "}}", "a.yaml");
  EXPECT_TRUE(objects) << objects.error().to_string();
  return objects ? objects->cluster_queues.at(0) : ClusterQueue{};
}

std::vector<std::string> warnings_of(const std::string& text) {
  const auto objects = objects_from_manifest(text, "a.yaml");
  EXPECT_TRUE(objects) << objects.error().to_string();
  return objects ? objects->warnings : std::vector<std::string>{};
}

TEST(KueueFields, FungibilityIsParsed) {
  const auto standard = queue_with("namespaceSelector: {}");
  EXPECT_TRUE(standard.stops_at_borrowing);
  EXPECT_FALSE(standard.stops_at_preemption);
  EXPECT_TRUE(standard.prefers_borrowing);
  EXPECT_FALSE(standard.borrow_max_threshold);
  EXPECT_FALSE(queue_with("flavorFungibility: {whenCanBorrow: TryNextFlavor}").stops_at_borrowing);
  EXPECT_TRUE(queue_with("flavorFungibility: {whenCanPreempt: MayStopSearch}").stops_at_preemption);
  EXPECT_FALSE(queue_with("flavorFungibility: {preference: PreemptionOverBorrowing}").prefers_borrowing);
  const auto both = queue_with(
      "cohortName: c, preemption: {reclaimWithinCohort: Any, borrowWithinCohort: {policy: LowerPriority, "
      "maxPriorityThreshold: 7}}");
  EXPECT_TRUE(both.preempts_while_borrowing);
  EXPECT_EQ(both.borrow_max_threshold, 7);
}

class KueueFieldsOfQueues : public ::testing::Test {
 protected:
  void apply(const std::string& text) {
    const auto objects = objects_from_manifest(text, "a.yaml");
    ASSERT_TRUE(objects) << objects.error().to_string();
    step(*objects);
  }
  void step(Engine::Command command) {
    const std::vector<Command> batch{std::move(command)};
    (void)engine_.step(batch, now_);
    engine_.commit();
  }
  /// A queue with unlimited quota and this in its spec, and a workload of namespace `team` that is pending in it.
  void queue(const std::string& more) {
    apply("{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: any}}");
    apply(
        "{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: q, namespace: team}, spec: {clusterQueue: a}}");
    apply("{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: a}, spec: {" + more +
          "resourceGroups: [{coveredResources: [nvidia.com/gpu], flavors: [{name: any, resources: "
          "[{name: nvidia.com/gpu, nominalQuota: 8}]}]}]}}");
    if (engine_.find(WorkloadUid("w")) != nullptr) return;
    JobUpdated seen;
    seen.spec.uid = WorkloadUid("w");
    seen.spec.ns = Namespace("team");
    seen.spec.name = "w";
    PodSet pods;
    pods.shape.gpu.whole = 1;
    seen.spec.pod_sets.push_back(pods);
    seen.external_scheduler = true;
    step(seen);
  }
  bool admitted() { return engine_.find(WorkloadUid("w"))->phase == Phase::kAdmitted; }
  std::string why() { return explain(engine_.state(), *engine_.find(WorkloadUid("w")), now_).causes.at(0).code; }

  Engine engine_;
  Instant now_ = from_micros(1'000'000);
};

TEST_F(KueueFieldsOfQueues, NamespaceIsSelectedByLabels) {
  queue("");
  EXPECT_FALSE(admitted());
  EXPECT_EQ(why(), "NamespaceNotSelected");
  queue("namespaceSelector: {matchLabels: {tier: gpu}}, ");
  EXPECT_FALSE(admitted()) << "its labels are unknown";
  apply("{apiVersion: v1, kind: Namespace, metadata: {name: team, labels: {tier: cpu}}}");
  EXPECT_FALSE(admitted());
  apply("{apiVersion: v1, kind: Namespace, metadata: {name: team, labels: {tier: gpu}}}");
  EXPECT_TRUE(admitted());
  apply("{apiVersion: v1, kind: Namespace, metadata: {name: team, labels: {tier: cpu}}}");
  EXPECT_TRUE(admitted()) << "running workloads continue";
}

TEST_F(KueueFieldsOfQueues, NameIsLabelOfNamespace) {
  queue(
      "namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [team]}]}, ");
  EXPECT_FALSE(admitted());
  queue(
      "namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [a, team]}]}, ");
  EXPECT_TRUE(admitted());
}

TEST_F(KueueFieldsOfQueues, EmptySelectorSelectsAllNamespaces) {
  queue("namespaceSelector: {}, ");
  EXPECT_TRUE(admitted());
}

constexpr const char* kCheck =
    "{{apiVersion: kueue.x-k8s.io/{}, kind: AdmissionCheck, metadata: {{name: budget{}}}, "
    "spec: {{controllerName: {}, retryDelayMinutes: {}}}{}}}";

TEST_F(KueueFieldsOfQueues, AdmissionCheckIsRequestedWhileQuotaIsReserved) {
  queue("namespaceSelector: {}, admissionChecks: [budget], ");
  EXPECT_EQ(why(), "AdmissionCheckNotFound");
  apply(fmt::format(kCheck, "v1beta1", ", uid: u", "example.com/a", 2, ""));
  EXPECT_EQ(why(), "AdmissionCheckInactive") << "its controller is not reported as active";
  apply(fmt::format(kCheck, "v1beta1", ", uid: u", "example.com/a", 2,
                    ", status: {conditions: [{type: Active, status: 'True'}]}"));
  EXPECT_EQ(why(), "UnsatisfiedAdmissionCheck");
  step(AnswerCheck{WorkloadUid("w"), {}, {}, "budget", Verdict::kRetry, "later"});
  now_ += std::chrono::minutes(2) - Duration(1);
  step(Tick{});
  EXPECT_EQ(why(), "BackOff");
  now_ += Duration(1);
  step(Tick{});
  EXPECT_EQ(why(), "UnsatisfiedAdmissionCheck");
  step(AnswerCheck{WorkloadUid("w"), {}, {}, "budget", Verdict::kReady, ""});
  EXPECT_TRUE(admitted());
}

TEST_F(KueueFieldsOfQueues, AdmissionCheckOnFlavorsAppliesToThose) {
  apply(fmt::format(kCheck, "v1beta2", "", "example.com/a", 0, ""));
  queue("namespaceSelector: {}, admissionChecksStrategy: {admissionChecks: [{name: budget, onFlavors: [other]}]}, ");
  EXPECT_TRUE(admitted());
}

TEST_F(KueueFieldsOfQueues, AdmissionCheckAnsweredHereIsActive) {
  apply(fmt::format(kCheck, "v1beta2", ", uid: u", std::string(kCheckController), 0, ""));
  queue("namespaceSelector: {}, admissionChecksStrategy: {admissionChecks: [{name: budget, onFlavors: [any]}]}, ");
  EXPECT_EQ(why(), "UnsatisfiedAdmissionCheck");
}

TEST(KueueFields, AdmissionCheckNamesItsController) {
  const auto objects = objects_from_manifest(
      "{apiVersion: kueue.x-k8s.io/v1beta2, kind: AdmissionCheck, metadata: {name: a}, spec: {}}", "a.yaml");
  ASSERT_FALSE(objects);
  EXPECT_EQ(objects.error().field, "spec.controllerName");
}

TEST(KueueFields, IgnoredFieldsAreWarned) {
  const auto queue = [](const std::string& more) {
    const auto reported = warnings_of(
        "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: a}, spec: "
        "{namespaceSelector: {}, " +
        more + "}}");
    return reported.empty() ? std::string() : reported.at(0);
  };
  EXPECT_NE(queue("concurrentAdmissionPolicy: {migration: {mode: RetainFirstAdmission}}")
                .find("spec.concurrentAdmissionPolicy is without effect"),
            std::string::npos);
  EXPECT_TRUE(warnings_of("{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: a}, value: 1, "
                          "preemptionPolicy: Never}")
                  .empty());
}

TEST(KueueFields, LocalQueuesAreOrderedByUsageWhereConfigured) {
  const auto read = [](const std::string& scope, const std::string& weight) {
    const auto objects = objects_from_manifest(
        "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: a}, spec: {namespaceSelector: {}, "
        "admissionScope: {admissionMode: " +
            scope +
            "}}}\n---\n{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: q, namespace: team}, "
            "spec: {clusterQueue: a, fairSharing: {weight: " +
            weight + "}}}",
        "a.yaml");
    EXPECT_TRUE(objects);
    EXPECT_TRUE(objects->warnings.empty());
    return std::pair(objects->cluster_queues.at(0).by_usage, objects->local_queues.at(0).weight_milli);
  };
  EXPECT_EQ(read("NoAdmissionFairSharing", "1"), std::pair(false, std::int64_t{1000}));
  EXPECT_EQ(read("UsageBasedAdmissionFairSharing", "\"2.5\""), std::pair(true, std::int64_t{2500}));
}

TEST(KueueFields, WallTimeBudgetIsRefused) {
  const auto objects = objects_from_manifest(
      "{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: q, namespace: team}, "
      "spec: {clusterQueue: a, wallTimePolicy: {wallTimeAllocatedHours: 8}}}",
      "a.yaml");
  ASSERT_FALSE(objects);
  EXPECT_EQ(objects.error().field, "spec.wallTimePolicy");
}

TEST(KueueFields, LevelsOfTopologyAreParsed) {
  const auto parsed = [](const std::string& spec) {
    return objects_from_manifest(
        "{apiVersion: kueue.x-k8s.io/v1beta2, kind: Topology, metadata: {name: hall}, spec: " + spec + "}", "a.yaml");
  };
  const auto good = parsed("{levels: [{nodeLabel: rack}, {nodeLabel: kubernetes.io/hostname}]}");
  ASSERT_TRUE(good) << good.error().to_string();
  EXPECT_EQ(good->topologies.at(0).name, "hall");
  EXPECT_EQ(good->topologies.at(0).levels, (std::vector<std::string>{"rack", "kubernetes.io/hostname"}));
  for (const char* bad : {"{levels: []}", "{levels: [{nodeLabel: rack}, {}]}"}) {
    const auto refused = parsed(bad);
    ASSERT_FALSE(refused) << bad;
    EXPECT_NE(refused.error().to_string().find("spec.levels"), std::string::npos) << refused.error().to_string();
  }
}

TEST(KueueFields, UnsupportedKindsAreReported) {
  for (const char* kind :
       {"kueue.x-k8s.io/v1beta2 ProvisioningRequestConfig", "kueue.x-k8s.io/v1beta2 Workload", "v1 LimitRange"}) {
    const std::string text(kind);
    const auto space = text.find(' ');
    const auto reported = warnings_of(fmt::format("{{apiVersion: {}, kind: {}, metadata: {{name: a}}}}",
                                                  text.substr(0, space), text.substr(space + 1)));
    ASSERT_EQ(reported.size(), 1U) << kind;
    EXPECT_NE(reported[0].find("is not applied: admission reads "), std::string::npos) << reported[0];
  }
}

}  // namespace fields_test
}  // namespace qm::admission
