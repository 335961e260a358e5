// A real API server with our definitions accepts the manifests of the test data, our own and the reference ones if
// present, and returns them as they were sent. Objects that it refuses are listed here by name, with the reason.
#include "qm/model/quantity.hpp"
#include "qm/testing/manifests.hpp"
#include "support.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <set>
#include <unistd.h>

namespace qm::deploy {
namespace manifests_k8s_test {

struct Refused {
  const char *file, *answer, *why;
};
// Kubernetes' own kinds, or kinds without a definition here; they are not checked.
constexpr Refused kOwnRefused[] = {
    {"cluster-autoscaler-without-selector.yaml", "spec.selector: Required value", "a Deployment needs a selector"},
    {"jobset-ocean.yaml", "not served", "its operator brings the definition"},
    {"kubelet-configuration.yaml", "not served", "a file of the kubelet, no object of the API"},
    {"leaderworkerset-shards.yaml", "not served", "its operator brings the definition"},
    {"node-fabric-labels.yaml", "name or generateName is required", "a fragment of labels, without a name"},
    {"pod-half-a-gpu.yaml", "must be an integer", "a device is given out whole"},
    {"rayjob-replay.yaml", "not served", "its operator brings the definition"},
    {"resourcequota-imaging.yaml", "unsupported scope applied to resource",
     "a PriorityClass scope may not count services"},
    {"resourcequota-speech.yaml", "unsupported scope applied to resource", "nor ConfigMaps"},
};
constexpr Refused kReferenceRefused[] = {
    {"001-cluster-autoscaler-deployment.yaml", "spec.selector: Required value",
     "a Deployment needs a selector and labels"},
    {"001-node-nvlink-labels.yaml", "name or generateName is required", "a fragment of labels, without a name"},
    {"001-resourcequota-team-a.yaml", "unsupported scope applied to resource",
     "a PriorityClass scope may not count persistentvolumeclaims"},
    {"003-resourcequota-ml-team.yaml", "unsupported scope applied to resource", "likewise"},
    {"001-kubelet-configuration.yaml", "not served", "a file of the kubelet, no object of the API"},
};

struct Served {
  std::string plural;
  bool namespaced = false, ours = false;
};

/// Kinds by "group/version Kind": Kubernetes' own that occur, and those that our files define.
std::map<std::string, Served> served_kinds() {
  std::map<std::string, Served> out{
      {"apps/v1 Deployment", {"deployments", true}},
      {"autoscaling/v2 HorizontalPodAutoscaler", {"horizontalpodautoscalers", true}},
      {"batch/v1 CronJob", {"cronjobs", true}},
      {"batch/v1 Job", {"jobs", true}},
      {"networking.k8s.io/v1 NetworkPolicy", {"networkpolicies", true}},
      {"policy/v1 PodDisruptionBudget", {"poddisruptionbudgets", true}},
      {"scheduling.k8s.io/v1 PriorityClass", {"priorityclasses", false}},
      {"v1 ConfigMap", {"configmaps", true}},
      {"v1 Namespace", {"namespaces", false}},
      {"v1 Node", {"nodes", false}},
      {"v1 PersistentVolumeClaim", {"persistentvolumeclaims", true}},
      {"v1 Pod", {"pods", true}},
      {"v1 ResourceQuota", {"resourcequotas", true}},
      {"v1 Service", {"services", true}},
  };
  for (const auto& object : objects_of(source("deploy/helm/quartermaster/files/crds"))) {
    const Json& spec = object.document.content["spec"];
    for (const Json& version : spec["versions"].items()) {
      out[fmt::format("{}/{} {}", spec["group"].string(), version["name"].string(), spec["names"]["kind"].string())] = {
          spec["names"]["plural"].string(), spec["scope"].string() == "Namespaced", true};
    }
  }
  return out;
}

std::string text_of(const Json& value) { return value.is_string() ? value.string() : value.dump(); }

/// The parts of `sent` that are missing in `got`. Kubernetes' own kinds write a quantity in its shortest form, omit
/// false values, and add taints and tolerations; in kinds that are defined here nothing is changed.
void differences(const Json& sent, const Json& got, bool ours, const std::string& path, std::vector<std::string>& out) {
  if (sent == got) return;
  if (sent.is_object() && got.is_object()) {
    for (const auto& [key, value] : sent.members()) differences(value, got[key], ours, path + "." + key, out);
    return;
  }
  if (sent.is_array() && got.is_array()) {
    const bool added = !ours && (path == ".spec.taints" || path == ".spec.tolerations") && got.size() > sent.size();
    if (got.size() == sent.size() || added) {
      for (std::size_t i = 0; i < sent.size(); ++i) {
        differences(sent.at(i), got.at(i), ours, fmt::format("{}[{}]", path, i), out);
      }
      return;
    }
  }
  if (!ours && sent == Json(false) && got.is_null()) return;
  if (!ours && !sent.is_null() && got.is_string()) {
    const auto a = Quantity::parse(text_of(sent)), b = Quantity::parse(got.string());
    if (a && b && *a == *b) return;
  }
  out.push_back(fmt::format("{}: sent {}, got {}", path, sent.dump(), got.dump()));
}

class Manifests : public ::testing::Test {
 protected:
  void SetUp() override {
    if (setting("QM_KUBE_URL").empty()) GTEST_SKIP() << kNoRealKube;
    client_ = std::make_unique<kube::Client>(real_kube());
    own_ = fmt::format("manifests-{}", ::getpid());
    define(*client_, source("deploy/helm/quartermaster/files/crds"));
  }
  void TearDown() override {
    if (client_ == nullptr) return;
    for (const std::string& ns : made_) (void)client_->remove(kNamespaces, "", ns, {});
  }
  kube::Client& client() { return *client_; }

  /// Creates the object, returns the server's copy, and deletes it.
  Result<Json> there_and_back(const config::Document& document, const Served& kind) {
    const auto slash = document.api_version.find('/');
    const bool core = slash == std::string::npos;
    const kube::Resource resource{core ? "" : document.api_version.substr(0, slash),
                                  core ? document.api_version : document.api_version.substr(slash + 1), kind.plural,
                                  kind.namespaced};
    const std::string ns = !kind.namespaced ? "" : document.ns.empty() ? own_ : document.ns;
    if (!ns.empty() && made_.insert(ns).second) make_namespace(client(), ns);
    auto created = client().create(resource, ns, document.content);
    if (!created && document.kind == "Namespace" && created.error().code == Code::kAlreadyExists) {
      created = client().merge_patch(resource, "", document.name, document.content);
    }
    if (!created) return created;
    auto got = client().get(resource, ns, document.name);
    if (document.kind == "Namespace") {
      made_.insert(document.name);
    } else {
      (void)client().remove(resource, ns, document.name, {"", 0, "Background"});
    }
    return got;
  }

 private:
  std::unique_ptr<kube::Client> client_;
  std::string own_;
  std::set<std::string> made_;
};

TEST_F(Manifests, EachIsTakenAndComesBackAsItWasOrIsNamedHere) {
  struct Case {
    std::vector<Refused> refused;
    std::size_t documents, fragments, stored;
  };
  const auto kinds = served_kinds();
  for (const auto& manifests : testing::manifest_folders()) {
    const auto c = manifests.pick(Case{{std::begin(kOwnRefused), std::end(kOwnRefused)}, 94, 15, 70},
                                  Case{{std::begin(kReferenceRefused), std::end(kReferenceRefused)}, 103, 25, 73});
    std::set<std::string> refused;
    std::size_t stored = 0, fragments = 0, documents = 0, defined = 0;
    for (const auto& object : objects_of(manifests.dir)) {
      const config::Document& document = object.document;
      const std::string file = std::filesystem::path(document.file).filename();
      if (!file.ends_with(".yaml")) continue;
      SCOPED_TRACE(file + " " + document.kind + " " + document.name);
      ++documents;
      if (document.kind.empty()) {  // chart values, parts of a pod: not sent to an API server
        ++fragments;
        std::cout << "no object: " << file << "\n";
        continue;
      }
      const auto known = kinds.find(document.api_version + " " + document.kind);
      const auto expected = std::ranges::find(c.refused, file, [](const Refused& r) { return std::string(r.file); });
      if (expected != c.refused.end()) {
        refused.insert(file);
        std::cout << "refused:   " << file << ": " << expected->why << "\n";
        if (known == kinds.end()) {
          EXPECT_STREQ(expected->answer, "not served");
          continue;
        }
        EXPECT_FALSE(known->second.ours) << "the definitions must accept existing objects";
        const auto answer = there_and_back(document, known->second);
        ASSERT_FALSE(answer) << "it is taken now; strike it off the list";
        EXPECT_NE(answer.error().message.find(expected->answer), std::string::npos) << answer.error().message;
        continue;
      }
      ASSERT_NE(known, kinds.end()) << document.api_version << " " << document.kind << " is not served";
      const auto got = there_and_back(document, known->second);
      ASSERT_TRUE(got) << got.error().to_string();
      std::vector<std::string> lost;
      differences(document.content, *got, known->second.ours, "", lost);
      EXPECT_TRUE(lost.empty()) << fmt::format("{}", fmt::join(lost, "\n"));
      ++stored;
      defined += known->second.ours ? 1 : 0;
    }
    EXPECT_EQ(documents, c.documents);
    EXPECT_EQ(fragments, c.fragments);
    EXPECT_EQ(refused.size(), c.refused.size());
    EXPECT_EQ(stored, c.stored);
    std::cout << manifests.name() << ": " << stored << " stored and equal (" << defined << " of kinds defined here), "
              << refused.size() << " refused by name, " << fragments << " no objects\n";
  }
}

TEST_F(Manifests, BothVersionsOfAKindAreServedWithTheSameFields) {
  const std::string name = fmt::format("both-{}", ::getpid());
  const kube::Resource beta1{"kueue.x-k8s.io", "v1beta1", "clusterqueues", false};
  const kube::Resource beta2{"kueue.x-k8s.io", "v1beta2", "clusterqueues", false};
  const Json queue = Json::object(
      {{"apiVersion", "kueue.x-k8s.io/v1beta1"},
       {"kind", "ClusterQueue"},
       {"metadata", Json::object({{"name", name}})},
       {"spec", Json::object({{"cohort", "all"}, {"unheardOf", Json::object({{"a", Json::array({1, 2.5, "x"})}})}})}});
  ASSERT_TRUE(client().create(beta1, "", queue));
  const auto status = client().merge_patch(
      beta2, "", name, Json::object({{"status", Json::object({{"pendingWorkloads", 3}})}}), "status");
  EXPECT_TRUE(status);
  const auto got = client().get(beta2, "", name);
  (void)client().remove(beta1, "", name, {});
  ASSERT_TRUE(got);
  EXPECT_EQ((*got)["spec"], queue["spec"]);
  EXPECT_EQ((*got)["status"]["pendingWorkloads"].integer(), 3);
  EXPECT_EQ((*got)["metadata"]["generation"].integer(), 1) << "a status is not a new generation";
}

// S-388: the description of a suite is declarative. After a second apply a three-way diff (last applied, current,
// wanted) is empty.
TEST_F(Manifests, OurExamplesAppliedTwiceShowNoDrift) {
  const std::string folder = source("examples/queues"), capacity = source("examples/capacity");
  for (const std::string& path : {folder, capacity}) {
    for (const auto& object : objects_of(path)) {
      if (!object.document.ns.empty()) make_namespace(client(), object.document.ns);
    }
  }
  const std::string kubectl = setting("QM_KUBECTL");
  for (int round = 0; round < 2; ++round) {
    const Ran applied = run({kubectl, "apply", "-R", "-f", folder, "-f", capacity});
    ASSERT_EQ(applied.code, 0) << applied.output;
  }
  const Ran same = run({kubectl, "diff", "-R", "-f", folder, "-f", capacity});
  EXPECT_EQ(same.code, 0) << same.output;
  // A real drift is detected, so that an empty diff is meaningful.
  const kube::Resource queues{"kueue.x-k8s.io", "v1beta1", "clusterqueues", false};
  const auto all = client().list_all(queues, "");
  ASSERT_TRUE(all);
  ASSERT_FALSE(all->empty());
  std::string name;
  for (const auto& object : objects_of(folder)) {
    if (object.document.kind == "ClusterQueue") name = object.document.name;
  }
  EXPECT_TRUE(client().merge_patch(queues, "", name, *Json::parse(R"({"spec":{"queueingStrategy":"StrictFIFO"}})")));
  const Ran drift = run({kubectl, "diff", "-R", "-f", folder, "-f", capacity});
  EXPECT_EQ(drift.code, 1) << drift.output;
  EXPECT_NE(drift.output.find("StrictFIFO"), std::string::npos) << drift.output;
  (void)run({kubectl, "delete", "-R", "--ignore-not-found", "--wait=false", "-f", folder, "-f", capacity});
}

struct Wrong {
  const char *name, *yaml, *answer;
};

TEST_F(Manifests, OurOwnKindsAreHeldToTheirRules) {
  const kube::Resource plans{"quartermaster.dev", "v1alpha1", "priceplans", false};
  const kube::Resource policies{"quartermaster.dev", "v1alpha1", "checkpointpolicies", false};
  const kube::Resource budgets{"quartermaster.dev", "v1alpha1", "budgets", false};
  const auto resource_of = [&](const std::string& kind) -> const kube::Resource& {
    return kind == "PricePlan" ? plans : kind == "Budget" ? budgets : policies;
  };
  constexpr Wrong kWrong[] = {
      {"no owner's", "kind: Budget\nspec: {unit: USD, amount: 1, period: Day}",
       "set one of clusterQueue, team and namespace"},
      {"two owners", "kind: Budget\nspec: {team: a, namespace: b, unit: USD, amount: 1, period: Day}",
       "set one of clusterQueue, team and namespace"},
      {"unit", "kind: Budget\nspec: {team: a, unit: EUR, amount: 1, period: Day}", "Unsupported value"},
      {"offset", "kind: Budget\nspec: {team: a, unit: USD, amount: 1, period: Day, utcOffset: CET}", "should match"},
      {"no price", "kind: PricePlan\nspec: {prices: [{zone: a}]}", "spec.prices[0].usdPerHour: Required value"},
      {"twice", "kind: PricePlan\nspec: {prices: [{zone: a, usdPerHour: 1}, {zone: a, usdPerHour: 2}]}",
       "two entries price the same nodes"},
      {"market", "kind: PricePlan\nspec: {prices: [{capacityType: stolen, usdPerHour: 1}]}", "Unsupported value"},
      {"below zero", "kind: PricePlan\nspec: {prices: [{usdPerHour: \"-1\"}]}", "should match"},
      {"no port", "kind: CheckpointPolicy\nspec: {mode: http}", "spec.port: Required value"},
      {"port", "kind: CheckpointPolicy\nspec: {port: 70000}", "less than or equal to 65535"},
      {"duration", "kind: CheckpointPolicy\nspec: {port: 1, expected: soon}", "should match"},
      {"no spec", "kind: CheckpointPolicy", "spec: Required value"},
  };
  for (const Wrong& wrong : kWrong) {
    SCOPED_TRACE(wrong.name);
    const auto loaded = config::load_text(
        std::string("apiVersion: quartermaster.dev/v1alpha1\nmetadata: {name: wrong}\n") + wrong.yaml, "wrong.yaml");
    EXPECT_FALSE(loaded.ok()) << "our own reader takes it";
    // A document with an error is not kept, so the server's copy is parsed by the general reader.
    const auto general = config::load_text(
        std::string("apiVersion: example.com/v1\nmetadata: {name: wrong}\n") + wrong.yaml, "wrong.yaml");
    ASSERT_EQ(general.objects.size(), 1u);
    Json object = general.objects[0].document.content;
    object.set("apiVersion", "quartermaster.dev/v1alpha1");
    const auto made = client().create(resource_of(object["kind"].string()), "", object);
    ASSERT_FALSE(made);
    EXPECT_NE(made.error().message.find(wrong.answer), std::string::npos) << made.error().message;
  }
  for (const char* example :
       {"examples/capacity/prices.yaml", "examples/queues/checkpoints.yaml", "examples/queues/budgets.yaml"}) {
    for (const auto& object : objects_of(source(example))) {
      const auto& resource = resource_of(object.document.kind);
      const auto applied = client().apply(resource, "", object.document.name, object.document.content, {"deploy-test"});
      EXPECT_TRUE(applied) << example << ": " << applied.error().to_string();
      (void)client().remove(resource, "", object.document.name, {});
    }
  }
}

}  // namespace manifests_k8s_test
}  // namespace qm::deploy
