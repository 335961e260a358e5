// The conditions on a node alone, case by case, as documented by Kubernetes.
#include "qm/kube_rules/node_rules.hpp"

#include <gtest/gtest.h>

namespace qm::kube_rules {
namespace node_rules_test {

using Op = Requirement::Op;

NodeView node(Labels labels = {}, std::vector<Taint> taints = {}) {
  NodeView out;
  out.name = NodeName("n1");
  out.labels = std::move(labels);
  out.taints = std::move(taints);
  return out;
}

/// The first rule that rejects the node and its words: "taints: with taint ..."; empty if the pod fits.
std::string verdict(const PodRules& pod, const NodeView& on) {
  for (const NodeRule* rule : node_rules()) {
    if (!rule->admits(pod, on)) return fmt::format("{}: {}", rule->name(), rule->words(pod, on));
  }
  return "";
}

struct OperatorCase {
  const char* what;
  Requirement requirement;
  Labels labels;
  bool holds;
};

TEST(NodeAffinity, EveryOperatorAndItsEdgeCases) {
  const std::vector<OperatorCase> cases = {
      {"In: the value is listed", {"zone", Op::kIn, {"a", "b"}}, {{"zone", "b"}}, true},
      {"In: another value", {"zone", Op::kIn, {"a", "b"}}, {{"zone", "c"}}, false},
      {"In: no such label", {"zone", Op::kIn, {"a"}}, {}, false},
      {"In: no such label is not the empty value", {"zone", Op::kIn, {""}}, {}, false},
      {"In: the empty value", {"zone", Op::kIn, {""}}, {{"zone", ""}}, true},
      {"NotIn: the value is listed", {"zone", Op::kNotIn, {"a"}}, {{"zone", "a"}}, false},
      {"NotIn: another value", {"zone", Op::kNotIn, {"a"}}, {{"zone", "b"}}, true},
      {"NotIn matches a node without the label", {"zone", Op::kNotIn, {"a"}}, {}, true},
      {"Exists: with any value", {"spot", Op::kExists, {}}, {{"spot", ""}}, true},
      {"Exists: without", {"spot", Op::kExists, {}}, {}, false},
      {"DoesNotExist: with", {"spot", Op::kDoesNotExist, {}}, {{"spot", "no"}}, false},
      {"DoesNotExist: without", {"spot", Op::kDoesNotExist, {}}, {}, true},
      {"Gt: more", {"cores", Op::kGt, {"8"}}, {{"cores", "9"}}, true},
      {"Gt: as much is not more", {"cores", Op::kGt, {"8"}}, {{"cores", "8"}}, false},
      {"Gt compares numbers, not texts", {"cores", Op::kGt, {"9"}}, {{"cores", "10"}}, true},
      {"Gt: no number on the node", {"cores", Op::kGt, {"8"}}, {{"cores", "many"}}, false},
      {"Gt: a fraction is no whole number", {"cores", Op::kGt, {"8"}}, {{"cores", "9.5"}}, false},
      {"Gt: a number with a tail is none", {"cores", Op::kGt, {"8"}}, {{"cores", "16x"}}, false},
      {"Gt: without the label", {"cores", Op::kGt, {"8"}}, {}, false},
      {"Gt: no number to compare with", {"cores", Op::kGt, {"x"}}, {{"cores", "9"}}, false},
      {"Lt: less", {"cores", Op::kLt, {"8"}}, {{"cores", "7"}}, true},
      {"Lt: as much is not less", {"cores", Op::kLt, {"8"}}, {{"cores", "8"}}, false},
      {"Lt: without the label", {"cores", Op::kLt, {"8"}}, {}, false},
      {"Lt: beyond what a number holds", {"cores", Op::kLt, {"8"}}, {{"cores", "99999999999999999999"}}, false},
  };
  for (const auto& c : cases) {
    const auto found = c.labels.find(c.requirement.key);
    EXPECT_EQ(holds(c.requirement, found == c.labels.end() ? nullptr : &found->second), c.holds) << c.what;
    PodRules pod;
    pod.required = NodeSelector{{{c.requirement}, {}}};
    EXPECT_EQ(verdict(pod, node(c.labels)).empty(), c.holds) << c.what;
  }
}

TEST(NodeAffinity, TermsAreOredAndExpressionsAnded) {
  const Requirement a{"a", Op::kExists, {}}, b{"b", Op::kExists, {}}, c{"c", Op::kExists, {}};
  PodRules pod;
  pod.required = NodeSelector{{{a, b}, {}}, {{c}, {}}};
  EXPECT_EQ(verdict(pod, node({{"a", ""}, {"b", ""}})), "");
  EXPECT_EQ(verdict(pod, node({{"c", ""}})), "");
  EXPECT_EQ(verdict(pod, node({{"a", ""}})), "affinity: outside the node affinity (any of 2 terms)");
  EXPECT_NE(verdict(pod, node({{"b", ""}})), "");

  pod.required = NodeSelector{{{a, b}, {}}};
  EXPECT_EQ(verdict(pod, node()), "affinity: outside the node affinity (a and b)");
}

TEST(NodeAffinity, EmptyTermMatchesNothing) {
  PodRules pod;
  pod.required = NodeSelector{{}};
  EXPECT_NE(verdict(pod, node({{"a", ""}})), "");
  pod.required = NodeSelector{};
  EXPECT_NE(verdict(pod, node({{"a", ""}})), "") << "no term at all";
  pod.required = NodeSelector{{}, {{{"a", Op::kExists, {}}}, {}}};
  EXPECT_EQ(verdict(pod, node({{"a", ""}})), "") << "another term may still match";
  pod.required.reset();
  pod.preferred = {{10, {}}};
  EXPECT_EQ(preferred_affinity().of(pod, node()), 0) << "nor does it earn a preference";
}

TEST(NodeAffinity, MatchFieldsUseTheNodeName) {
  PodRules pod;
  pod.required = NodeSelector{{{}, {{"metadata.name", Op::kIn, {"n1"}}}}};
  EXPECT_EQ(verdict(pod, node()), "");
  pod.required = NodeSelector{{{}, {{"metadata.name", Op::kNotIn, {"n1"}}}}};
  EXPECT_NE(verdict(pod, node()), "");
  pod.required = NodeSelector{{{{"a", Op::kExists, {}}}, {{"metadata.name", Op::kIn, {"n1"}}}}};
  EXPECT_NE(verdict(pod, node()), "") << "labels and fields of one term go together";
}

TEST(NodeAffinity, SelectorAndAffinityMustBothMatch) {
  PodRules pod;
  pod.node_selector = {{"pool", "gpu"}};
  pod.required = NodeSelector{{{{"zone", Op::kIn, {"a"}}}, {}}};
  EXPECT_EQ(verdict(pod, node({{"pool", "gpu"}, {"zone", "a"}})), "");
  EXPECT_EQ(verdict(pod, node({{"pool", "cpu"}, {"zone", "a"}})), "selector: without label pool=gpu");
  EXPECT_EQ(verdict(pod, node({{"pool", "gpu"}, {"zone", "b"}})), "affinity: outside the node affinity (zone in (a))");
}

TEST(NodeAffinity, PreferencesAddUp) {
  PodRules pod;
  pod.preferred = {{10, {{{"a", Op::kExists, {}}}, {}}}, {5, {{{"b", Op::kExists, {}}}, {}}}};
  EXPECT_EQ(preferred_affinity().of(pod, node({{"a", ""}, {"b", ""}})), 15);
  EXPECT_EQ(preferred_affinity().of(pod, node({{"b", ""}})), 5);
  EXPECT_EQ(preferred_affinity().of(pod, node()), 0);
}

// A pod that requires NVLink nodes by affinity is never placed on a node without the label.
TEST(NodeAffinity, KeepsBandwidthHungryPodsOnNvlinkNodes) {
  PodRules pod;
  pod.required = NodeSelector{{{{"gpu.nvidia.com/nvlink-enabled", Op::kIn, {"true"}}}, {}}};
  EXPECT_EQ(verdict(pod, node({{"gpu.nvidia.com/nvlink-enabled", "true"}})), "");
  EXPECT_NE(verdict(pod, node({{"gpu.nvidia.com/nvlink-enabled", "false"}})), "");
  EXPECT_EQ(verdict(pod, node()), "affinity: outside the node affinity (gpu.nvidia.com/nvlink-enabled in (true))");
}

struct TaintCase {
  const char* what;
  Taint taint;
  std::vector<Toleration> tolerations;
  bool admitted;
  std::int64_t soft;
};

TEST(Taints, AreToleratedByKeyValueAndEffect) {
  const std::vector<TaintCase> cases = {
      {"nothing tolerates it", {"gpu", "a", "NoSchedule"}, {}, false, 0},
      {"NoExecute keeps pods out too", {"gpu", "a", "NoExecute"}, {}, false, 0},
      {"PreferNoSchedule excludes no pod", {"gpu", "a", "PreferNoSchedule"}, {}, true, 1},
      {"Equal with the value", {"gpu", "a", "NoSchedule"}, {{"gpu", "Equal", "a", "NoSchedule"}}, true, 0},
      {"no operator is Equal", {"gpu", "a", "NoSchedule"}, {{"gpu", "", "a", ""}}, true, 0},
      {"Equal with another value", {"gpu", "a", "NoSchedule"}, {{"gpu", "Equal", "b", "NoSchedule"}}, false, 0},
      {"Equal without a value, taint without", {"gpu", "", "NoSchedule"}, {{"gpu", "Equal", "", ""}}, true, 0},
      {"Exists takes any value", {"gpu", "a", "NoSchedule"}, {{"gpu", "Exists", "", "NoSchedule"}}, true, 0},
      {"Exists of another key", {"gpu", "a", "NoSchedule"}, {{"other", "Exists", "", ""}}, false, 0},
      {"Exists without a key takes all", {"gpu", "a", "NoExecute"}, {{"", "Exists", "", ""}}, true, 0},
      {"Exists without a key, of one effect", {"gpu", "a", "NoExecute"}, {{"", "Exists", "", "NoSchedule"}}, false, 0},
      {"another effect", {"gpu", "a", "NoSchedule"}, {{"gpu", "Exists", "", "NoExecute"}}, false, 0},
      {"a soft taint tolerated", {"gpu", "a", "PreferNoSchedule"}, {{"gpu", "Exists", "", ""}}, true, 0},
      {"a soft taint, hard toleration",
       {"gpu", "a", "PreferNoSchedule"},
       {{"gpu", "Exists", "", "NoSchedule"}},
       true,
       1},
  };
  for (const auto& c : cases) {
    PodRules pod;
    pod.tolerations = c.tolerations;
    EXPECT_EQ(verdict(pod, node({}, {c.taint})).empty(), c.admitted) << c.what;
    EXPECT_EQ(soft_taints().of(pod, node({}, {c.taint})), c.soft) << c.what;
  }
}

TEST(Taints, EachMustBeTolerated) {
  const auto tainted = node({}, {{"a", "", "NoSchedule"}, {"b", "x", "NoSchedule"}});
  PodRules pod;
  pod.tolerations = {{"a", "Exists", "", ""}};
  EXPECT_EQ(verdict(pod, tainted), "taints: with taint b=x:NoSchedule not tolerated");
  pod.tolerations.push_back({"b", "Equal", "x", "NoSchedule"});
  EXPECT_EQ(verdict(pod, tainted), "");
}

// A pool of MIG slices for tenants accepts only pods that tolerate its taint.
TEST(Taints, ProtectTheMigPoolOfATenant) {
  const auto tenant = node({{"mig-enabled", "true"}}, {{"mig-enabled", "true", "NoSchedule"}});
  PodRules pod;
  pod.node_selector = {{"mig-enabled", "true"}};
  EXPECT_EQ(verdict(pod, tenant), "taints: with taint mig-enabled=true:NoSchedule not tolerated");
  pod.tolerations = {{"mig-enabled", "Equal", "false", "NoSchedule"}};
  EXPECT_NE(verdict(pod, tenant), "");
  pod.tolerations = {{"mig-enabled", "Equal", "true", "NoSchedule"}};
  EXPECT_EQ(verdict(pod, tenant), "");
}

TEST(Cordons, ApplyUnlessTolerated) {
  auto cordoned = node();
  cordoned.unschedulable = true;
  PodRules pod;
  EXPECT_EQ(verdict(pod, cordoned), "unschedulable: cordoned");
  pod.tolerations = {{"node.kubernetes.io/unschedulable", "Exists", "", "NoSchedule"}};
  EXPECT_EQ(verdict(pod, cordoned), "");
}

TEST(Volumes, AllMustBeReachable) {
  const NodeSelector in_a{{{{"zone", Op::kIn, {"a"}}}, {}}}, in_ab{{{{"zone", Op::kIn, {"a", "b"}}}, {}}};
  PodRules pod;
  pod.volumes = {{"data", in_ab}, {"logs", in_a}};
  EXPECT_EQ(verdict(pod, node({{"zone", "a"}})), "");
  EXPECT_EQ(verdict(pod, node({{"zone", "b"}})), "volumes: out of reach of volume logs (zone in (a))");
  EXPECT_EQ(verdict(pod, node()), "volumes: out of reach of volume data (zone in (a, b))");
}

TEST(NodeRules, ReportTheirInputs) {
  PodRules a, b;
  a.tolerations = {{"x", "Exists", "", ""}};
  b.tolerations = {{"", "Exists", "x", ""}};
  const auto differ = [&] {
    std::string out;
    for (const NodeRule* rule : node_rules()) {
      if (rule->concerns(a) != rule->concerns(b)) out += fmt::format("{} ", rule->name());
    }
    return out;
  };
  EXPECT_EQ(differ(), "unschedulable taints ");
  b = a;
  b.required = NodeSelector{};
  EXPECT_EQ(differ(), "affinity ") << "no term is not the same as no affinity";
  b = a;
  b.node_selector = {{"k", "v"}};
  b.volumes = {{"data", {}}};
  EXPECT_EQ(differ(), "selector volumes ");
}

}  // namespace node_rules_test
}  // namespace qm::kube_rules
