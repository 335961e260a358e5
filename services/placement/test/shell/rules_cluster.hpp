#pragma once
#include "qm/kube/client.hpp"
#include "qm/kube_objects/rules.hpp"
#include "qm/kube_rules/rule_book.hpp"
#include "qm/testing/testing.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

namespace qm::placement::testing {

using kube::resources::kNodes;
using kube::resources::kPods;

inline const kube::Resource kNamespaces{"", "v1", "namespaces", false};
inline const kube::Resource kAccounts{"", "v1", "serviceaccounts", true};
inline const kube::Resource kVolumes{"", "v1", "persistentvolumes", false};
inline const kube::Resource kClaims{"", "v1", "persistentvolumeclaims", true};

inline constexpr const char* kZone = "topology.kubernetes.io/zone";
inline constexpr const char* kHost = "kubernetes.io/hostname";
inline constexpr const char* kCluster = "rules-cluster";
inline const std::vector<std::string> kSpaces{"rules-x", "rules-y", "rules-z"};
inline const std::vector<std::string> kVolumeNames{"rules-by-rack", "rules-by-zone", "rules-anywhere"};

inline std::string env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

inline Json list(std::initializer_list<Json> items) { return Json::array(items); }
inline Json just(const std::string& key, Json value) { return Json::object({{key, std::move(value)}}); }

/// Random objects that the API server accepts.
class Random {
 public:
  explicit Random(std::uint64_t seed) : random_(seed) {}
  int roll(int sides) { return std::uniform_int_distribution(0, sides - 1)(random_); }
  bool one_in(int n) { return roll(n) == 0; }
  std::string any(const std::vector<std::string>& words) {
    return words[static_cast<std::size_t>(roll(static_cast<int>(words.size())))];
  }
  std::string key() { return any({kZone, kHost, "rack"}); }

  Json requirement(const std::vector<std::string>& keys, bool numbers) {
    const auto op = any(numbers ? std::vector<std::string>{"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"}
                                : std::vector<std::string>{"In", "NotIn", "Exists", "DoesNotExist"});
    Json out = Json::object({{"key", any(keys)}, {"operator", op}});
    if (op == "In" || op == "NotIn")
      out.set("values", list({numbers ? any({"1", "2"}) : "a", numbers ? any({"2", "3"}) : any({"a", "b"})}));
    if (op == "Gt" || op == "Lt") out.set("values", list({any({"1", "2", "3"})}));
    return out;
  }
  Json selector(const std::vector<std::string>& keys) {
    Json out = Json::object();
    Json expressions = Json::array();
    for (int i = roll(3); i > 0; --i) expressions.push_back(requirement(keys, false));
    if (expressions.size() > 0) out.set("matchExpressions", std::move(expressions));
    if (one_in(3)) out.set("matchLabels", just(keys.front(), any({"a", "b"})));
    return out;
  }
  /// Selects namespaces with the label team: see the deviation below.
  Json spaces() {
    Json out = selector({"team"});
    Json expressions = out["matchExpressions"];
    if (expressions.is_null()) expressions = Json::array();
    expressions.push_back(Json::object({{"key", "team"}, {"operator", "Exists"}}));
    out.set("matchExpressions", std::move(expressions));
    return out;
  }
  Json node_term() {
    Json expressions = Json::array();
    for (int i = 1 + roll(2); i > 0; --i) expressions.push_back(requirement({kZone, "rack", "size"}, true));
    return just("matchExpressions", std::move(expressions));
  }
  Json pod_term() {
    Json out = just("topologyKey", key());
    if (!one_in(8)) {
      out.set("labelSelector", selector({"app", "tier"}));
      if (one_in(6))
        out.set("matchLabelKeys", list({"rev"}));
      else if (one_in(6))
        out.set("mismatchLabelKeys", list({"rev"}));
    }
    if (one_in(4)) out.set("namespaces", list({any(kSpaces)}));
    if (one_in(4)) out.set("namespaceSelector", one_in(2) ? Json::object() : spaces());
    return out;
  }
  Json pod_terms() {
    Json out = Json::array();
    for (int i = 1 + roll(2); i > 0; --i) out.push_back(pod_term());
    return just("requiredDuringSchedulingIgnoredDuringExecution", std::move(out));
  }
  Json spread() {
    Json out = Json::array();
    std::vector<std::string> used;
    for (int i = 1 + roll(2); i > 0; --i) {
      const auto topology = key();
      if (std::ranges::find(used, topology) != used.end()) continue;
      used.push_back(topology);
      Json one =
          Json::object({{"topologyKey", topology}, {"maxSkew", 1 + roll(2)}, {"whenUnsatisfiable", "DoNotSchedule"}});
      if (one_in(10))
        one.set("whenUnsatisfiable", "ScheduleAnyway");
      else if (one_in(3))
        one.set("minDomains", 1 + roll(3));
      if (!one_in(10)) {
        one.set("labelSelector", selector({"app", "tier"}));
        if (one_in(5)) one.set("matchLabelKeys", list({"rev"}));
      }
      if (one_in(3)) one.set("nodeAffinityPolicy", any({"Honor", "Ignore"}));
      if (one_in(3)) one.set("nodeTaintsPolicy", any({"Honor", "Ignore"}));
      out.push_back(std::move(one));
    }
    return out;
  }
  Json requests() {
    Json out = Json::object();
    if (one_in(3)) out.set("cpu", any({"100m", "500m", "1", "2"}));
    if (one_in(5)) out.set("memory", any({"64Mi", "500M", "1Gi"}));
    if (one_in(6)) out.set("example.com/fpga", any({"1", "2"}));
    return Json::object({{"requests", out}, {"limits", out}});
  }
  Json container(const std::string& name) {
    Json out = Json::object({{"name", name}, {"image", "none"}, {"resources", requests()}});
    if (one_in(3)) {
      Json port =
          Json::object({{"containerPort", 80}, {"hostPort", 8000 + roll(2)}, {"protocol", any({"TCP", "UDP"})}});
      if (one_in(2)) port.set("hostIP", any({"10.0.0.1", "10.0.0.2", "0.0.0.0"}));
      out.set("ports", list({std::move(port)}));
    }
    return out;
  }

  /// A pod with rules of every kind, each rare enough that some pods can be placed.
  Json pod(const std::string& name) {
    Json labels = Json::object();
    for (const char* label : {"app", "tier"}) {
      if (!one_in(3)) labels.set(label, any({"a", "b"}));
    }
    if (one_in(2)) labels.set("rev", any({"a", "b"}));
    const auto ns = any(kSpaces);
    Json spec = Json::object({{"terminationGracePeriodSeconds", 3600}, {"containers", list({container("main")})}});
    if (one_in(4)) {
      auto init = container("before");
      if (one_in(2)) init.set("restartPolicy", "Always");
      auto last = container("last");
      last.erase("ports");
      spec.set("initContainers", list({std::move(init), std::move(last)}));
    }
    if (one_in(16)) spec.set("nodeSelector", just("rack", any({"1", "2"})));
    Json tolerations = Json::array();
    if (one_in(3)) tolerations.push_back(Json::object({{"key", any({"t", "u"})}, {"operator", "Exists"}}));
    if (one_in(3)) {
      tolerations.push_back(Json::object(
          {{"key", any({"t", "u"})}, {"value", any({"a", "b"})}, {"effect", any({"NoSchedule", "NoExecute"})}}));
    }
    if (one_in(6))
      tolerations.push_back(Json::object({{"key", "node.kubernetes.io/unschedulable"}, {"operator", "Exists"}}));
    if (tolerations.size() > 0) spec.set("tolerations", std::move(tolerations));
    Json affinity = Json::object();
    if (one_in(10)) {
      affinity.set("nodeAffinity", just("requiredDuringSchedulingIgnoredDuringExecution",
                                        just("nodeSelectorTerms", list({node_term(), node_term()}))));
    }
    if (one_in(4)) affinity.set("podAffinity", pod_terms());
    if (one_in(2)) affinity.set("podAntiAffinity", pod_terms());
    if (affinity.size() > 0) spec.set("affinity", std::move(affinity));
    if (one_in(2)) spec.set("topologySpreadConstraints", spread());
    if (ns == kSpaces[0] && one_in(4)) {
      const auto volume = any(kVolumeNames);
      spec.set("volumes",
               list({Json::object({{"name", "data"}, {"persistentVolumeClaim", just("claimName", volume)}})}));
    }
    return Json::object({{"apiVersion", "v1"},
                         {"kind", "Pod"},
                         {"metadata", Json::object({{"name", name}, {"namespace", ns}, {"labels", std::move(labels)}})},
                         {"spec", std::move(spec)}});
  }

  Json node(const std::string& name, const std::string& cluster) {
    Json labels = Json::object({{kCluster, cluster}});
    for (const char* label : {kZone, "rack", "size"}) {
      if (!one_in(6)) labels.set(label, any({"1", "2", "3"}));
    }
    if (!one_in(10)) labels.set(kHost, name);
    const auto capacity = Json::object({{"cpu", any({"2", "4", "7500m"})},
                                        {"memory", any({"1Gi", "4Gi"})},
                                        {"pods", any({"3", "6", "110"})},
                                        {"example.com/fpga", any({"0", "2", "4"})}});
    const auto ready = Json::object({{"type", "Ready"}, {"status", "True"}, {"reason", "Test"}});
    return Json::object(
        {{"apiVersion", "v1"},
         {"kind", "Node"},
         {"metadata", Json::object({{"name", name}, {"labels", std::move(labels)}})},
         {"status", Json::object({{"capacity", capacity}, {"allocatable", capacity}, {"conditions", list({ready})}})}});
  }
  Json taints(bool cordoned) {
    Json out = Json::array();
    // The node lifecycle controller adds this taint to nodes with spec.unschedulable, sooner or later.
    if (cordoned) out.push_back(Json::object({{"key", "node.kubernetes.io/unschedulable"}, {"effect", "NoSchedule"}}));
    if (one_in(5)) {
      out.push_back(Json::object({{"key", any({"t", "u"})},
                                  {"value", any({"", "a", "b"})},
                                  {"effect", any({"NoSchedule", "NoExecute", "PreferNoSchedule"})}}));
    }
    return out;
  }

 private:
  std::mt19937_64 random_;
};

/// Adds a node to the pod's node affinity, whatever the pod requires already.
inline void pin(Json& pod, const std::string& node) {
  Json field = Json::object({{"key", "metadata.name"}, {"operator", "In"}, {"values", list({node})}});
  Json& affinity =
      pod.set("spec").set("affinity").set("nodeAffinity").set("requiredDuringSchedulingIgnoredDuringExecution");
  Json& terms = affinity.set("nodeSelectorTerms");
  if (terms.size() == 0) terms.push_back(Json::object());
  for (Json& term : terms.items_mut()) term.set("matchFields", list({field}));
}

class RealScheduler : public ::testing::Test {
 protected:
  void SetUp() override {
    if (env("QM_KUBE_URL").empty()) GTEST_SKIP() << "QM_KUBE_URL is not set; run ./qm peers kubernetes";
    if (env("QM_KUBE_CONTROLLERS") != "1") GTEST_SKIP() << "the controllers do not run, which bind volumes to claims";
    kube::ClientOptions options;
    options.server = env("QM_KUBE_URL");
    options.token = env("QM_KUBE_TOKEN");
    options.ca_file = env("QM_KUBE_CA");
    api_ = std::make_unique<kube::Client>(options);
    if (!api_->get(kube::resources::kLeases, "kube-system", "kube-scheduler")) GTEST_SKIP() << "no scheduler runs";
    for (std::size_t i = 0; i < kSpaces.size(); ++i) {
      Json labels = Json::object();
      if (i < 2) labels.set("team", i == 0 ? "a" : "b");
      make(kNamespaces, "",
           Json::object({{"apiVersion", "v1"},
                         {"kind", "Namespace"},
                         {"metadata", Json::object({{"name", kSpaces[i]}, {"labels", labels}})}}));
      make(kAccounts, kSpaces[i],
           Json::object({{"apiVersion", "v1"}, {"kind", "ServiceAccount"}, {"metadata", just("name", "default")}}));
    }
    for (const auto& name : kVolumeNames) make_volume(name);
    clear();
  }

  /// An object of an earlier run is accepted.
  Json make(const kube::Resource& kind, const std::string& ns, const Json& object) {
    auto made = api_->create(kind, ns, object);
    if (made) return *made;
    EXPECT_EQ(made.error().code, Code::kAlreadyExists) << made.error().to_string() << "\n" << object.dump();
    return object;
  }

  /// A volume and its claim, bound to each other.
  void make_volume(const std::string& name) {
    const auto size = just("storage", "1Gi");
    Json volume = Json::object(
        {{"apiVersion", "v1"},
         {"kind", "PersistentVolume"},
         {"metadata", Json::object({{"name", name}})},
         {"spec", Json::object({{"capacity", size},
                                {"accessModes", list({"ReadWriteMany"})},
                                {"hostPath", just("path", "/none")},
                                {"claimRef", Json::object({{"namespace", kSpaces[0]}, {"name", name}})}})}});
    if (name == "rules-by-rack") {
      const auto rack = Json::object({{"key", "rack"}, {"operator", "In"}, {"values", list({"1", "2"})}});
      volume.set("spec").set(
          "nodeAffinity", just("required", just("nodeSelectorTerms", list({just("matchExpressions", list({rack}))}))));
    }
    if (name == "rules-by-zone") volume.set("metadata").set("labels", just(kZone, "1__3"));
    make(kVolumes, "", volume);
    make(kClaims, kSpaces[0],
         Json::object({{"apiVersion", "v1"},
                       {"kind", "PersistentVolumeClaim"},
                       {"metadata", just("name", name)},
                       {"spec", Json::object({{"accessModes", list({"ReadWriteMany"})},
                                              {"storageClassName", ""},
                                              {"volumeName", name},
                                              {"resources", just("requests", size)}})}}));
    ASSERT_TRUE(qm::testing::wait_until([&] {
      const auto claim = api_->get(kClaims, kSpaces[0], name);
      return claim && claim->path("status.phase").string() == "Bound";
    })) << name;
  }

  void make_node(Random& dice, const std::string& name, const std::string& cluster) {
    const bool cordoned = dice.one_in(16);
    make(kNodes, "", dice.node(name, cluster));
    // The API server taints new nodes as not ready.
    const auto spec = Json::object({{"taints", dice.taints(cordoned)}, {"unschedulable", cordoned}});
    const auto patched = api_->merge_patch(kNodes, "", name, just("spec", spec));
    ASSERT_TRUE(patched) << patched.error().to_string();
  }

  /// Creates a running pod, whatever the rules say; some of them are terminating.
  void make_running(Random& dice, const std::string& name, const std::string& node) {
    Json pod = dice.pod(name);
    pod.set("spec").set("nodeName", node);
    pod.set("spec").set("tolerations", list({Json::object({{"operator", "Exists"}, {"effect", "NoExecute"}})}));
    pod.set("spec").erase("volumes");
    const auto made = make(kPods, kube::namespace_of(pod), pod);
    if (!dice.one_in(5)) return;
    const auto removed = api_->remove(kPods, kube::namespace_of(made), name, {});
    EXPECT_TRUE(removed) << removed.error().to_string();
  }

  struct Outcome {
    std::string node;  ///< empty if the scheduler reports that no node fits
    std::string words;
  };
  /// The scheduler's decision about a new pod.
  Outcome outcome(const Json& made) {
    Outcome out;
    const bool decided = qm::testing::wait_until([&] {
      const auto pod = api_->get(kPods, kube::namespace_of(made), kube::name_of(made));
      if (!pod) return false;
      out.node = pod->path("spec.nodeName").string();
      for (const Json& condition : pod->path("status.conditions").items()) {
        if (condition["reason"].string() == "Unschedulable") out.words = condition["message"].string();
      }
      return !out.node.empty() || !out.words.empty();
    });
    EXPECT_TRUE(decided) << made.dump();
    return out;
  }

  /// Creates one more node that accepts all pods, with a pod on it, and lets the scheduler place another
  /// pod on the same node: then the scheduler knows all earlier nodes, running pods and deletions.
  void wait_for(const std::string& node) {
    constexpr const char* kLast = "rules-last";
    const auto capacity = just("pods", "2");
    make(kNodes, "",
         Json::object({{"apiVersion", "v1"},
                       {"kind", "Node"},
                       {"metadata", Json::object({{"name", node}, {"labels", just(kLast, node)}})},
                       {"status", Json::object({{"capacity", capacity}, {"allocatable", capacity}})}}));
    const auto pod = [&](const std::string& name) {
      const auto container = Json::object({{"name", "main"}, {"image", "none"}});
      return Json::object(
          {{"apiVersion", "v1"},
           {"kind", "Pod"},
           {"metadata", Json::object({{"name", name}, {"namespace", kSpaces[0]}, {"labels", just(kLast, name)}})},
           {"spec",
            Json::object({{"containers", list({container})}, {"tolerations", list({just("operator", "Exists")})}})}});
    };
    Json there = pod(node + "-a"), colocated = pod(node + "-b");
    there.set("spec").set("nodeName", node);
    const auto term =
        Json::object({{"topologyKey", kLast}, {"labelSelector", just("matchLabels", just(kLast, node + "-a"))}});
    colocated.set("spec").set(
        "affinity", just("podAffinity", just("requiredDuringSchedulingIgnoredDuringExecution", list({term}))));
    for (const auto& one : {there, colocated}) {
      ASSERT_TRUE(qm::testing::wait_until([&] { return api_->create(kPods, kSpaces[0], one).has_value(); }));
    }
    ASSERT_TRUE(qm::testing::wait_until([&] {
      const auto seen = api_->get(kPods, kSpaces[0], node + "-b");
      return seen && seen->path("spec.nodeName").string() == node;
    }));
  }

  /// Removes the nodes of the test and the pods in its namespaces.
  void clear() {
    for (const auto& ns : kSpaces) {
      const auto pods = api_->list_all(kPods, ns);
      ASSERT_TRUE(pods) << pods.error().to_string();
      for (const Json& pod : *pods) end(pod);
    }
    const auto nodes = api_->list_all(kNodes, "");
    ASSERT_TRUE(nodes) << nodes.error().to_string();
    for (const Json& node : *nodes) {
      if (!kube::name_of(node).starts_with("rules-")) continue;
      EXPECT_TRUE(api_->remove(kNodes, "", kube::name_of(node), {}));
    }
  }

  void end(const Json& pod) {
    kube::Client::DeleteOptions now;
    now.grace_seconds = 0;
    const auto removed = api_->remove(kPods, kube::namespace_of(pod), kube::name_of(pod), now);
    EXPECT_TRUE(removed) << removed.error().to_string();
  }

  /// Adds the reach of the volumes of the pod's claims.
  void add_volumes(const Json& pod, kube_rules::PodRules& rules) {
    for (const Json& volume : pod.path("spec.volumes").items()) {
      const auto& claim = volume["persistentVolumeClaim"]["claimName"].string();
      if (claim.empty()) continue;
      const auto object = api_->get(kVolumes, "", claim);
      ASSERT_TRUE(object) << object.error().to_string();
      const auto reach = kube_objects::reach_of_volume(*object);
      ASSERT_TRUE(reach) << reach.error().to_string();
      rules.volumes.insert(rules.volumes.end(), reach->begin(), reach->end());
    }
  }

  /// Reads the whole cluster from the API server.
  void read(kube_rules::RuleBook& book) {
    const auto nodes = api_->list_all(kNodes, ""), pods = api_->list_all(kPods, ""),
               spaces = api_->list_all(kNamespaces, "");
    ASSERT_TRUE(nodes && pods && spaces);
    for (const Json& space : *spaces) {
      Labels labels;
      for (const auto& [key, value] : space.path("metadata.labels").members()) labels[key] = value.string();
      book.put_namespace(Namespace(kube::name_of(space)), labels);
    }
    for (const Json& node : *nodes) {
      const auto view = kube_objects::view_of_node(node);
      ASSERT_TRUE(view) << view.error().to_string();
      book.put_node(*view);
    }
    for (const Json& pod : *pods) {
      const auto& phase = pod.path("status.phase").string();
      const auto& node = pod.path("spec.nodeName").string();
      if (node.empty() || phase == "Succeeded" || phase == "Failed") continue;
      const auto like = kube_objects::template_from_pod(pod);
      ASSERT_TRUE(like) << like.error().to_string();
      const auto id = book.hold(*like);
      book.put_pod({kube::uid_of(pod), NodeName(node), id, !pod.path("metadata.deletionTimestamp").is_null()});
      book.release(id);
    }
  }

  std::unique_ptr<kube::Client> api_;
};

}  // namespace qm::placement::testing
