// The rules of a Pod, a Node and a PersistentVolume, and the errors for objects that cannot be parsed.
#include "qm/kube_objects/rules.hpp"

#include "qm/config/manifest.hpp"
#include "qm/kube_rules/node_rules.hpp"
#include "qm/kube_rules/text.hpp"

#include <gtest/gtest.h>

namespace qm::kube_objects {
namespace rules_test {

using namespace kube_rules;

Json parse(std::string_view text) {
  auto read = Json::parse(text);
  EXPECT_TRUE(read) << text;
  return read ? *read : Json();
}

PodTemplate pod(std::string_view spec, std::string_view labels = "{}") {
  auto read = template_from_pod(
      parse(fmt::format(R"({{"metadata":{{"namespace":"team","labels":{}}},"spec":{}}})", labels, spec)));
  EXPECT_TRUE(read) << (read ? "" : read.error().to_string());
  return read ? *read : PodTemplate();
}

std::string refusal(std::string_view spec) {
  const auto read = template_from_pod(parse(fmt::format(R"({{"spec":{}}})", spec)));
  return read ? "" : read.error().message;
}

TEST(RulesOfAPod, NodeAffinityAndTolerations) {
  const auto read = pod(R"({"containers":[],"nodeSelector":{"pool":"gpu"},
    "tolerations":[{"operator":"Exists"},{"key":"a","value":"b","effect":"NoExecute","tolerationSeconds":30}],
    "affinity":{"nodeAffinity":{
      "requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
        {"matchExpressions":[{"key":"zone","operator":"In","values":["a","b"]},{"key":"cores","operator":"Gt","values":["8"]}]},
        {"matchFields":[{"key":"metadata.name","operator":"In","values":["n1"]}]}]},
      "preferredDuringSchedulingIgnoredDuringExecution":[
        {"weight":7,"preference":{"matchExpressions":[{"key":"spot","operator":"DoesNotExist"}]}}]}}})");
  EXPECT_EQ(read.ns, Namespace("team"));
  EXPECT_EQ(read.rules.node_selector, (Labels{{"pool", "gpu"}}));
  EXPECT_EQ(read.rules.tolerations,
            (std::vector<Toleration>{{"", "Exists", "", ""}, {"a", "Equal", "b", "NoExecute"}}));
  ASSERT_TRUE(read.rules.required);
  ASSERT_EQ(read.rules.required->size(), 2U);
  EXPECT_EQ(words_of(read.rules.required->at(0).labels.at(0)), "zone in (a, b)");
  EXPECT_EQ(words_of(read.rules.required->at(0).labels.at(1)), "cores > 8");
  EXPECT_EQ(words_of(read.rules.required->at(1).fields.at(0)), "metadata.name in (n1)");
  ASSERT_EQ(read.rules.preferred.size(), 1U);
  EXPECT_EQ(read.rules.preferred[0].weight, 7);
  EXPECT_EQ(words_of(read.rules.preferred[0].term.labels.at(0)), "!spot");
}

TEST(RulesOfAPod, AffinityToPods) {
  const auto read = pod(R"({"containers":[],"affinity":{
    "podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[
      {"topologyKey":"zone","labelSelector":{"matchLabels":{"app":"db"}},"namespaces":["b","a"],"namespaceSelector":{}},
      {"topologyKey":"zone"}]},
    "podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[
      {"weight":100,"podAffinityTerm":{"topologyKey":"host","labelSelector":{},"matchLabelKeys":["version","none"],
        "mismatchLabelKeys":["tenant"]}}]}}})",
                        R"({"version":"3","tenant":"t"})");
  ASSERT_EQ(read.rules.affinity.size(), 2U);
  const PodTerm& first = read.rules.affinity[0];
  EXPECT_EQ(first.topology_key, "zone");
  EXPECT_EQ(first.namespaces, (std::vector<std::string>{"a", "b"}));
  ASSERT_TRUE(first.namespace_selector);
  EXPECT_TRUE(first.namespace_selector->requirements.empty()) << "an empty namespace selector matches all";
  EXPECT_TRUE(first.pods->matches({{"app", "db"}}));
  EXPECT_FALSE(first.pods->matches({}));
  EXPECT_FALSE(read.rules.affinity[1].pods) << "no selector is not the empty one";
  EXPECT_FALSE(read.rules.affinity[1].namespace_selector);
  ASSERT_EQ(read.rules.preferred_anti_affinity.size(), 1U);
  const auto& merged = *read.rules.preferred_anti_affinity[0].term.pods;
  EXPECT_TRUE(merged.matches({{"version", "3"}, {"tenant", "other"}}));
  EXPECT_FALSE(merged.matches({{"version", "2"}, {"tenant", "other"}}));
  EXPECT_FALSE(merged.matches({{"version", "3"}, {"tenant", "t"}}));
}

TEST(RulesOfAPod, Spread) {
  const auto read = pod(R"({"containers":[],"topologySpreadConstraints":[
    {"topologyKey":"zone","maxSkew":2,"whenUnsatisfiable":"DoNotSchedule","minDomains":3,
     "labelSelector":{"matchExpressions":[{"key":"app","operator":"In","values":["web"]}]},"matchLabelKeys":["hash"],
     "nodeAffinityPolicy":"Ignore","nodeTaintsPolicy":"Honor"},
    {"topologyKey":"host","maxSkew":1,"whenUnsatisfiable":"ScheduleAnyway"}]})",
                        R"({"hash":"1"})");
  ASSERT_EQ(read.rules.spread.size(), 2U);
  const Spread& first = read.rules.spread[0];
  EXPECT_EQ(first.max_skew, 2);
  EXPECT_EQ(first.min_domains, 3);
  EXPECT_TRUE(first.required);
  EXPECT_FALSE(first.honor_affinity);
  EXPECT_TRUE(first.honor_taints);
  EXPECT_TRUE(first.pods->matches({{"app", "web"}, {"hash", "1"}}));
  EXPECT_FALSE(first.pods->matches({{"app", "web"}, {"hash", "2"}}));
  const Spread& second = read.rules.spread[1];
  EXPECT_FALSE(second.required);
  EXPECT_EQ(second.min_domains, 1);
  EXPECT_TRUE(second.honor_affinity);
  EXPECT_FALSE(second.honor_taints);
  EXPECT_FALSE(second.pods);
}

TEST(RulesOfAPod, PortsOfContainersAndSidecars) {
  const auto read = pod(R"({"containers":[{"ports":[{"containerPort":80},{"containerPort":81,"hostPort":8081},
      {"containerPort":53,"hostPort":53,"protocol":"UDP","hostIP":"127.0.0.1"}]}],
    "initContainers":[{"ports":[{"containerPort":1,"hostPort":1}]},
      {"restartPolicy":"Always","ports":[{"containerPort":2,"hostPort":2}]}]})");
  EXPECT_EQ(read.rules.ports,
            (std::vector<HostPort>{{2, "TCP", "0.0.0.0"}, {53, "UDP", "127.0.0.1"}, {8081, "TCP", "0.0.0.0"}}));
  const auto host = pod(R"({"hostNetwork":true,"containers":[{"ports":[{"containerPort":80}]}]})");
  EXPECT_EQ(host.rules.ports, (std::vector<HostPort>{{80, "TCP", "0.0.0.0"}})) << "the node's network is the pod's";
}

struct RequestsCase {
  const char* what;
  const char* spec;
  Amounts asked;
};

// As TestPodRequests of component-helpers counts pods that are resized in place.
TEST(RulesOfAPod, ResizedPodsCountWithWhatTheirNodeHoldsForThem) {
  const auto cpu = [](const char* wanted, const char* actual, const char* allocated, const char* conditions = "[]") {
    const auto pod = Json::parse(fmt::format(R"({{"metadata":{{"name":"p","namespace":"a"}},
        "spec":{{"containers":[{{"name":"c","resources":{{"requests":{{"cpu":"{}","memory":"1Gi"}}}}}}]}},
        "status":{{"conditions":{},"containerStatuses":[{{"name":"c","allocatedResources":{{"cpu":"{}","memory":"2Gi"}},
          "resources":{{"requests":{{"cpu":"{}","memory":"1Gi"}}}}}}]}}}})",
                                             wanted, conditions, allocated, actual));
    const auto like = template_from_pod(*pod);
    EXPECT_TRUE(like);
    EXPECT_EQ(like->rules.requests.at("memory"), 2LL << 30) << "2Gi are allocated";
    return like->rules.requests.at("cpu");
  };
  EXPECT_EQ(cpu("1", "1", "1"), 1000);
  EXPECT_EQ(cpu("3", "1", "1"), 3000) << "a pending resize: the new amount has to fit";
  EXPECT_EQ(cpu("500m", "2", "2"), 2000) << "it is smaller once the kubelet has applied it";
  EXPECT_EQ(cpu("500m", "2", "500m"), 2000) << "allocated, and not applied yet";
  EXPECT_EQ(cpu("500m", "500m", "2"), 2000);
  EXPECT_EQ(cpu("64", "1", "1", R"([{"type":"PodResizePending","status":"True","reason":"Infeasible"}])"), 1000)
      << "it never fits this node";
  EXPECT_EQ(cpu("64", "1", "1", R"([{"type":"PodResizePending","status":"True","reason":"Deferred"}])"), 64'000);
}

// Sidecars are resized as containers are; other init containers count with their spec.
TEST(RulesOfAPod, ResizedSidecarsCountLikewise) {
  const auto cpu = [](const char* policy) {
    const auto pod = Json::parse(fmt::format(R"({{"metadata":{{"name":"p","namespace":"a"}},
        "spec":{{"containers":[{{"name":"c","resources":{{"requests":{{"cpu":"1"}}}}}}],
          "initContainers":[{{"name":"i"{},"resources":{{"requests":{{"cpu":"100m"}}}}}}]}},
        "status":{{"containerStatuses":[{{"name":"c"}}],
          "initContainerStatuses":[{{"name":"i","resources":{{"requests":{{"cpu":"3"}}}}}}]}}}})",
                                             policy));
    return template_from_pod(*pod)->rules.requests.at("cpu");
  };
  EXPECT_EQ(cpu(R"(,"restartPolicy":"Always")"), 4000);
  EXPECT_EQ(cpu(""), 1000);
}

TEST(RulesOfAPod, RequestsAsKubeSchedulerCountsThem) {
  const std::vector<RequestsCase> cases = {
      {"containers add up",
       R"({"containers":[{"resources":{"requests":{"cpu":"1500m","memory":"1Gi"}}},{"resources":{"requests":{"cpu":"1"}}}]})",
       {{"cpu", 2500}, {"memory", 1 << 30}}},
      {"an init container counts where it asks for more",
       R"({"containers":[{"resources":{"requests":{"cpu":"1","memory":"2"}}}],
           "initContainers":[{"resources":{"requests":{"cpu":"3","memory":"1"}}},{"resources":{"requests":{"cpu":"2"}}}]})",
       {{"cpu", 3000}, {"memory", 2}}},
      {"a sidecar runs with the containers and the init containers after it",
       R"({"containers":[{"resources":{"requests":{"cpu":"1"}}}],
           "initContainers":[{"resources":{"requests":{"cpu":"4"}}},
             {"restartPolicy":"Always","resources":{"requests":{"cpu":"2"}}},{"resources":{"requests":{"cpu":"3"}}}]})",
       {{"cpu", 5000}}},
      {"overhead comes on top",
       R"({"overhead":{"cpu":"250m"},"containers":[{"resources":{"requests":{"cpu":"1"}}}]})",
       {{"cpu", 1250}}},
      {"a limit is the default of a request",
       R"({"containers":[{"resources":{"limits":{"nvidia.com/gpu":"2","example.com/fpga":"1"}}}]})",
       {{"nvidia.com/gpu", 2}, {"example.com/fpga", 1}}},
      {"a request of zero is not a request", R"({"containers":[{"resources":{"requests":{"cpu":"0"}}}]})", {}},
      {"parts of a byte count as one",
       R"({"containers":[{"resources":{"requests":{"memory":"1500m"}}}]})",
       {{"memory", 2}}},
      {"two MIG profiles in one pod",
       R"({"containers":[{"resources":{"limits":{"nvidia.com/mig-1g.10gb":"1"}}},
           {"resources":{"limits":{"nvidia.com/mig-2g.20gb":"1"}}}]})",
       {{"nvidia.com/mig-1g.10gb", 1}, {"nvidia.com/mig-2g.20gb", 1}}},
  };
  for (const auto& c : cases) EXPECT_EQ(pod(c.spec).rules.requests, c.asked) << c.what;
}

TEST(RulesOfAPod, ErrorsNameTheField) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {R"({"nodeSelector":{"a":1}})", "spec.nodeSelector[a] is not a string"},
      {R"({"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[]}}}})",
       "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms is empty"},
      {R"({"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
          {"matchExpressions":[{"key":"a","operator":"Among"}]}]}}}})",
       "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
       ".matchExpressions[0].operator is \"Among\""},
      {R"({"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[
          {"weight":5,"preference":{"matchExpressions":[{"key":"a","operator":"Gt","values":["x"]}]}}]}}})",
       "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0]"
       ".values is not one whole number"},
      {R"({"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":101}]}}})",
       "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight is not a whole number of 1 to 100"},
      {R"({"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"labelSelector":{}}]}}})",
       "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey is missing"},
      {R"({"affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"z",
          "labelSelector":{"matchExpressions":[{"key":"a","operator":"Lt","values":["1"]}]}}]}}})",
       "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchExpressions[0]"
       ".operator compares numbers"},
      {R"({"tolerations":[{"value":"x"}]})", "spec.tolerations[0].key is missing"},
      {R"({"tolerations":[{"key":"x","effect":"Never"}]})", "spec.tolerations[0].effect is \"Never\""},
      {R"({"topologySpreadConstraints":[{"topologyKey":"z","maxSkew":0,"whenUnsatisfiable":"DoNotSchedule"}]})",
       "spec.topologySpreadConstraints[0].maxSkew is not a whole number of 1 to 2147483647"},
      {R"({"topologySpreadConstraints":[{"topologyKey":"z","maxSkew":1,"whenUnsatisfiable":"Wait"}]})",
       "spec.topologySpreadConstraints[0].whenUnsatisfiable is \"Wait\""},
      {R"({"topologySpreadConstraints":[{"topologyKey":"z","maxSkew":1,"whenUnsatisfiable":"ScheduleAnyway","minDomains":2}]})",
       "spec.topologySpreadConstraints[0].minDomains is set with ScheduleAnyway"},
      {R"({"containers":[{"ports":[{"hostPort":70000}]}]})",
       "spec.containers[0].ports[0].hostPort is not a whole number of 1 to 65535"},
      {R"({"containers":[{"ports":[{"hostPort":1,"protocol":"ICMP"}]}]})",
       "spec.containers[0].ports[0].protocol is \"ICMP\""},
  };
  for (const auto& [spec, message] : cases) EXPECT_EQ(refusal(spec), message) << spec;
  EXPECT_NE(refusal(R"({"containers":[{"resources":{"requests":{"cpu":"many"}}}]})").find("spec.containers"),
            std::string::npos);
}

TEST(RulesOfANode, AmountsAndMarks) {
  const auto read = view_of_node(parse(R"({"metadata":{"name":"n1","labels":{"a":"b"}},
    "spec":{"unschedulable":true,"taints":[{"key":"k","effect":"NoExecute"}]},
    "status":{"allocatable":{"cpu":"7500m","memory":"1Ki","pods":"110","nvidia.com/gpu":8}}})"));
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, (NodeView{NodeName("n1"),
                             {{"a", "b"}},
                             {{"k", "", "NoExecute"}},
                             true,
                             {{"cpu", 7500}, {"memory", 1024}, {"pods", 110}, {"nvidia.com/gpu", 8}}}));
  const auto bad = view_of_node(parse(R"({"metadata":{"name":"n1"},"status":{"capacity":{"memory":"lots"}}})"));
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().message, "status.capacity.memory is not a quantity");
}

TEST(ReachOfAVolume, ByItsAffinityAndItsZones) {
  const auto reach = [](std::string_view volume) {
    auto read = reach_of_volume(parse(volume));
    EXPECT_TRUE(read);
    PodRules out;
    out.volumes = *read;
    return out;
  };
  const auto reaches = [](const PodRules& rules, Labels labels) {
    NodeView node;
    node.labels = std::move(labels);
    return std::ranges::all_of(rules.volumes, [&](const VolumeReach& v) { return matches(v.nodes, node); });
  };
  constexpr const char* kZone = "topology.kubernetes.io/zone";
  constexpr const char* kOld = "failure-domain.beta.kubernetes.io/zone";

  const auto local = reach(R"({"metadata":{"name":"pv"},"spec":{"nodeAffinity":{"required":{"nodeSelectorTerms":[
    {"matchExpressions":[{"key":"host","operator":"In","values":["n1"]}]},
    {"matchExpressions":[{"key":"host","operator":"In","values":["n2"]}]}]}}}})");
  EXPECT_TRUE(reaches(local, {{"host", "n2"}}));
  EXPECT_FALSE(reaches(local, {{"host", "n3"}}));

  const auto zoned = reach(R"({"metadata":{"name":"pv","labels":{"topology.kubernetes.io/zone":"a__b"}}})");
  EXPECT_TRUE(reaches(zoned, {{kZone, "b"}}));
  EXPECT_FALSE(reaches(zoned, {{kZone, "c"}}));
  EXPECT_FALSE(reaches(zoned, {{"topology.kubernetes.io/region", "r"}})) << "a node of a region, without the zone";
  EXPECT_TRUE(reaches(zoned, {{"host", "n1"}})) << "a node of no zone and no region";

  const auto old = reach(R"({"metadata":{"name":"pv","labels":{"failure-domain.beta.kubernetes.io/zone":"a"}}})");
  EXPECT_TRUE(reaches(old, {{kOld, "a"}}));
  EXPECT_TRUE(reaches(old, {{kZone, "a"}})) << "the newer name of the label";
  EXPECT_FALSE(reaches(old, {{kZone, "b"}}));
  EXPECT_FALSE(reaches(old, {{kOld, "b"}, {kZone, "a"}})) << "its own name first";

  EXPECT_TRUE(reaches(reach(R"({"metadata":{"name":"pv"}})"), {}));
}

// The rules that another service reads of a template equal those of the Pod itself, without its requests.
TEST(RulesOfATemplate, MatchThePod) {
  const auto check = [](const std::string& spec, bool any, const std::string& labels = R"({"app":"a"})") {
    SCOPED_TRACE(spec + labels);
    const auto job = parse(fmt::format(
        R"({{"apiVersion":"batch/v1","kind":"Job","metadata":{{"name":"w","namespace":"team"}},
            "spec":{{"template":{{"metadata":{{"labels":{}}},"spec":{}}}}}}})",
        labels, spec));
    const auto read = config::workload_from_job(job);
    ASSERT_TRUE(read) << read.error().to_string();
    const auto& rules = read->pod_sets[0].rules;
    EXPECT_EQ(!rules.empty(), any) << rules;
    auto whole = pod(spec, labels);
    whole.rules.requests.clear();
    EXPECT_EQ(rules_text(Namespace("team"), rules), any ? text_of(whole) : std::string());
  };
  const std::string ask = R"("containers":[{"resources":{"requests":{"cpu":"2"}}}])";
  check("{" + ask + "}", false, "{}");
  check("{" + ask + R"(,"nodeSelector":{"pool":"gpu"}})", false, "{}");
  // The rules of other pods may select labels.
  check("{" + ask + "}", true);
  check("{" + ask + R"(,"nodeSelector":{"pool":"gpu"},"tolerations":[{"operator":"Exists"}]})", true);
  check("{" + ask + R"(,"volumes":[{"name":"a","emptyDir":{}},{"name":"b","persistentVolumeClaim":{"claimName":"data"}},
      {"name":"c","persistentVolumeClaim":{"claimName":"data"}}]})",
        true, "{}");
  check("{" + ask + R"(,"volumes":[{"name":"a","ephemeral":{"volumeClaimTemplate":{"metadata":{"labels":{"x":"y"}},
      "spec":{"storageClassName":"fast","accessModes":["ReadWriteOnce"]}}}},
      {"name":"b","ephemeral":{"volumeClaimTemplate":{"spec":{}}}}]})",
        true, "{}");
  check("{" + ask + R"(,"nodeSelector":{"pool":"gpu"},"tolerations":[{"operator":"Exists"}],
      "affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[
        {"topologyKey":"host","labelSelector":{"matchLabels":{"app":"a"}}}]}}})",
        true);
  check("{" + ask +
            R"(,"topologySpreadConstraints":[{"topologyKey":"zone","maxSkew":1,"whenUnsatisfiable":"DoNotSchedule",
      "labelSelector":{"matchLabels":{"app":"a"}}}]})",
        true);
  check(R"({"containers":[{"ports":[{"containerPort":80,"hostPort":80},{"containerPort":81}]}]})", true);
  check(R"({"hostNetwork":true,"containers":[{"ports":[{"containerPort":80}]}],
      "initContainers":[{"restartPolicy":"Always","ports":[{"containerPort":82}]},{"ports":[{"containerPort":83}]}]})",
        true);
  // Affinity that is converted to the shape, and affinity that a shape cannot express.
  const auto affinity = [&](const std::string& op) {
    return "{" + ask + R"(,"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{
        "nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":")" +
           op + R"(","values":["a"]}]}]}}}})";
  };
  check(affinity("In"), false, "{}");
  check(affinity("NotIn"), true);
}

// Controllers give each Job and pod labels of its own. Pods that are otherwise alike must not differ by them.
TEST(RulesOfATemplate, ControllerLabelsAreIgnored) {
  const auto rules = [](const std::string& labels, const std::string& more = {}) {
    const auto job = parse(fmt::format(
        R"({{"apiVersion":"batch/v1","kind":"Job","metadata":{{"name":"w","namespace":"team"}},"spec":{{"template":{{
          "metadata":{{"labels":{{"batch.kubernetes.io/controller-uid":"1","batch.kubernetes.io/job-name":"w",
            "controller-uid":"1","job-name":"w","batch.kubernetes.io/job-completion-index":"0"{}}}}},"spec":{{"containers":[{{}}]{}}}}}}}}})",
        labels, more));
    return config::workload_from_job(job)->pod_sets[0].rules;
  };
  EXPECT_EQ(rules(""), "");
  const auto like = template_of(rules_text(Namespace("team"), rules(R"(,"app":"a")")));
  ASSERT_TRUE(like);
  EXPECT_EQ(like->labels, (Labels{{"app", "a"}}));
  EXPECT_TRUE(is_plain(like->rules));
  const auto all = template_of(
      rules_text(Namespace("team"), rules("", R"(,"volumes":[{"persistentVolumeClaim":{"claimName":"d"}}])")));
  ASSERT_TRUE(all);
  EXPECT_EQ(all->labels.size(), 5U);
  EXPECT_EQ(all->rules.claims, std::vector<std::string>{"d"});
  EXPECT_FALSE(is_plain(all->rules));
}

TEST(ReachOfAClass, ByItsAllowedTopologies) {
  const auto reach = reach_of_class(parse(R"({"metadata":{"name":"fast"},"allowedTopologies":[
    {"matchLabelExpressions":[{"key":"zone","values":["a","b"]},{"key":"rack","values":["1"]}]},
    {"matchLabelExpressions":[{"key":"zone","values":["c"]}]}]})"));
  ASSERT_TRUE(reach) << reach.error().to_string();
  ASSERT_EQ(reach->size(), 1U);
  const auto reaches = [&](const Labels& labels) {
    NodeView node;
    node.labels = labels;
    return matches(reach->front().nodes, node);
  };
  EXPECT_TRUE(reaches({{"zone", "b"}, {"rack", "1"}}));
  EXPECT_FALSE(reaches({{"zone", "b"}}));
  EXPECT_TRUE(reaches({{"zone", "c"}}));
  EXPECT_TRUE(reach_of_class(parse(R"({"metadata":{"name":"anywhere"}})"))->empty());
  EXPECT_EQ(
      reach_of_class(parse(R"({"allowedTopologies":[{"matchLabelExpressions":[{"values":["a"]}]}]})")).error().field,
      "allowedTopologies[0].matchLabelExpressions[0].key");
}

TEST(RulesOfATemplate, InvalidRulesAreIgnored) {
  EXPECT_EQ(rules_text(Namespace("team"), "{"), "");
  EXPECT_EQ(rules_text(Namespace("team"), "[]"), "");
  EXPECT_EQ(rules_text(Namespace("team"), R"({"spec":{"topologySpreadConstraints":[{"maxSkew":0}]}})"), "");
}

}  // namespace rules_test
}  // namespace qm::kube_objects
