#include "qm/admission_policy/policy_file.hpp"

#include "qm/admission_policy/settings.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <fstream>

namespace qm::admission_policy {
namespace policy_file_test {

constexpr const char* kHead =
    "apiVersion: policy.quartermaster.dev/v1alpha1\nkind: WebhookPolicy\nmetadata: {name: p}\n";

/// The errors of a spec; empty where there are none.
std::string wrong(const std::string& spec) {
  Settings settings;
  const auto read = read_policy(kHead + spec, "p.yaml", settings);
  if (read) return {};
  EXPECT_EQ(settings, Settings{}) << "a file with an error is ignored as a whole";
  return read.error().message;
}

TEST(PolicyFile, ParsesAllFields) {
  Settings s;
  const auto read = read_policy(std::string(kHead) + R"(spec:
  mode: warn
  rules: {gpu-node: enforce, quota-scope: off}
  requiredLabels:
  - {key: team}
  - {key: workload-type, values: [training, batch]}
  taint: {key: example.com/gpu, values: ["yes"]}
  pools:
  - name: online
    nodeSelector: {pool: online}
    taint: gpu-online
    node: {gpus: 4, cpu: "48", memory: 192Gi}
    serves: [inference]
    sharing: mps
    replicas: 8
    failRequestsGreaterThanOne: true
    namespaces: [web]
  gangs:
    environment: {NCCL_DEBUG: WARN}
    topologyMap: map
    topology: rack
  priorities:
    classes:
    - {name: high, namespaces: [web], workloadTypes: [inference]}
    defaults: {training: low}
  namespaces: {refused: [default], labels: {tenant: ""}}
  compliance: {label: regulated, noSpot: ["yes"]}
  sloLabels: [p99]
)",
                                "p.yaml", s);
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_EQ(s.mode, Mode::kWarn);
  EXPECT_EQ(s.rules, (std::map<std::string, Mode>{{"gpu-node", Mode::kEnforce}, {"quota-scope", Mode::kOff}}));
  EXPECT_EQ(s.required_labels, (std::vector<RequiredLabel>{{"team", {}}, {"workload-type", {"training", "batch"}}}));
  EXPECT_EQ(s.gpu_taint, "example.com/gpu");
  EXPECT_EQ(s.gpu_taint_values, std::vector<std::string>{"yes"});
  ASSERT_EQ(s.facts.pools.size(), 1U);
  EXPECT_EQ(s.facts.pools[0], (Pool{"online",
                                    {{"pool", "online"}},
                                    "gpu-online",
                                    NodeShape{4, Quantity::of(48), *Quantity::parse("192Gi")},
                                    {"inference"},
                                    Sharing::kMps,
                                    8,
                                    true,
                                    {"web"}}));
  EXPECT_EQ(s.facts.gangs, (GangDefaults{{{"NCCL_DEBUG", "WARN"}}, "map", "rack"}));
  EXPECT_EQ(s.facts.priorities, (std::vector<PriorityUse>{{"high", {"web"}, {"inference"}}}));
  EXPECT_EQ(s.facts.default_priority.at("training"), "low");
  EXPECT_EQ(s.facts.refused_namespaces, std::set<std::string>{"default"});
  EXPECT_EQ(s.facts.namespace_labels, (Labels{{"tenant", ""}}));
  EXPECT_EQ(s.facts.compliance_label, "regulated");
  EXPECT_EQ(s.facts.no_spot, std::set<std::string>{"yes"});
  EXPECT_EQ(s.facts.slo_labels, std::set<std::string>{"p99"});
}

TEST(PolicyFile, ErrorsNameFileLineAndField) {
  const char* const cases[][2] = {
      {"spec: {mode: strict}", R"(p.yaml:4: spec.mode: "strict" is not a mode; use enforce, warn, mutate or off)"},
      {"spec:\n  rules:\n    gpu-nodes: warn", "p.yaml:6: spec.rules.gpu-nodes: is not a rule; rules are gpu-whole"},
      {"spec:\n  requiredLabels:\n  - {values: [a]}", "p.yaml:6: spec.requiredLabels[0].key: is missing; give it"},
      {"spec:\n  pools:\n  - {name: a}",
       "spec.pools[0].nodeSelector: is missing; set the labels by which pods select the pool"},
      {"spec:\n  pools:\n  - name: a\n    nodeSelector: {a: b}\n    sharing: half",
       "p.yaml:8: spec.pools[0].sharing: half is not a sharing method; use none, time-slicing or mps"},
      {"spec:\n  pools:\n  - name: a\n    nodeSelector: {a: b}\n    node: {gpus: 0, cpu: lots}",
       "spec.pools[0].node.gpus: is not a number in the range; write 1 or more"},
      {"spec:\n  pools:\n  - name: a\n    nodeSelector: {a: b}\n    node: {gpus: 1, cpu: lots}",
       "p.yaml:8: spec.pools[0].node.cpu: is not a quantity; write one such as 8 or 64Gi"},
      {"spec:\n  gangs:\n    environment: {A: 0}",
       R"(spec.gangs.environment.A: is not a string; put it in quotes: "0")"},
      {"spec:\n  gangs: [a]", "p.yaml:5: spec.gangs: is not an object; its fields are environment"},
      {"spec:\n  namespaces: {refuse: [a]}",
       "p.yaml:5: spec.namespaces.refuse: is not known here; fields are refused, labels"},
      {"spec:\n  pool: []", "p.yaml:5: spec.pool: is not known here; fields are mode, rules"},
      {"sepc: {}", "p.yaml:4: sepc: is not known here"},
      {"spec: [", "p.yaml:"},
  };
  for (const auto& [spec, reported] : cases)
    EXPECT_NE(wrong(spec).find(reported), std::string::npos) << spec << "\n" << wrong(spec);
  const auto both = wrong("spec:\n  mode: x\n  gangs: 1");
  EXPECT_NE(both.find("spec.mode"), std::string::npos);
  EXPECT_NE(both.find("spec.gangs"), std::string::npos) << "all errors are reported";
  Settings settings;
  EXPECT_NE(read_policy("kind: Pod\napiVersion: v1\nmetadata: {name: x}", "p.yaml", settings)
                .error()
                .message.find("is not a WebhookPolicy"),
            std::string::npos);
  EXPECT_NE(read_policy_file("/nowhere", settings).error().message.find("cannot be read"), std::string::npos);
}

TEST(PolicyFile, SettingsOverrideIt) {
  const testing::TempDir dir;
  const auto path = dir.path() + "/policy.yaml";
  std::ofstream(path)
      << kHead << "spec:\n  mode: warn\n  rules: {gpu-node: off}\n  requiredLabels: [{key: team}]\n  gangs: {}\n";
  const auto read =
      read_policy_settings({{"webhook-policy-file", path}, {"webhook-policy", "enforce"}, {"webhook-labels", "owner"}});
  ASSERT_TRUE(read);
  EXPECT_EQ(read->mode, Mode::kEnforce);
  EXPECT_EQ(read->rules.at("gpu-node"), Mode::kOff);
  EXPECT_EQ(read->required_labels, (std::vector<RequiredLabel>{{"owner", {}}}));
  EXPECT_TRUE(read->facts.gangs);
  EXPECT_EQ(read_policy_settings({{"webhook-policy-file", "/nowhere"}}).error().field, "webhook-policy-file");
}

TEST(PolicyFile, ParsesShippedFile) {
  Settings settings;
  const auto read = read_policy_file(std::string(QM_SOURCE_DIR) + "/deploy/policies/webhook-policy.yaml", settings);
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_EQ(settings.required_labels.size(), 4U);
  EXPECT_EQ(settings.facts.pools.size(), 3U);
  EXPECT_EQ(settings.facts.gangs->environment, gang_environment());
}

}  // namespace policy_file_test
}  // namespace qm::admission_policy
