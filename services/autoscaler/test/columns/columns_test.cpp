// Columns of NodePools, labels and amounts of nodes of the catalog.
#include "qm/autoscaler/columns/columns.hpp"

#include "qm/autoscaler/columns/type_facts.hpp"
#include "qm/autoscaler/requirements/keys.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace qm::autoscaler {
namespace columns_test {

using Names = std::vector<std::string>;
constexpr std::int64_t kMebi = 1 << 20;
const std::string kAws = "karpenter.k8s.aws/instance-";

Columns columns(const std::vector<Expression>& requirements) {
  auto out = columns_of({requirements, {}});
  EXPECT_TRUE(out) << (out ? "" : out.error().to_string());
  return out ? *out : Columns{};
}
Names types(const std::vector<Expression>& requirements) { return columns(requirements).instance_types; }

NodeAmounts amounts(const char* type) { return node_amounts(*catalog::find(type)); }

std::string label(const char* type, const std::string& key) {
  const auto labels = node_labels(*catalog::find(type));
  const Requirement* found = labels.find(key);
  return found == nullptr ? "?" : found->values.empty() ? "-" : found->values.front();
}

std::string arch_of(const std::string& type) { return label(type.c_str(), "kubernetes.io/arch"); }

TEST(Hardware, LabelsOfNodes) {
  const std::vector<std::array<std::string, 3>> rows{
      {"g5.xlarge", kAws + "gpu-name", "a10g"},
      {"g5.xlarge", kAws + "gpu-memory", "22888"},
      {"g5.xlarge", kAws + "gpu-count", "1"},
      {"g5.xlarge", kAws + "gpu-manufacturer", "nvidia"},
      {"g5.xlarge", kAws + "local-nvme", "250"},
      {"g5.xlarge", kAws + "network-bandwidth", "2500"},
      {"g5.xlarge", kAws + "cpu-manufacturer", "amd"},
      {"g5.xlarge", kAws + "cpu", "4"},
      {"g5.xlarge", kAws + "memory", "16384"},
      {"g5.xlarge", kAws + "hypervisor", "nitro"},
      {"g5.xlarge", kAws + "accelerator-count", "-"},
      {"g4ad.8xlarge", kAws + "gpu-name", "radeon-pro-v520"},
      {"g4ad.8xlarge", kAws + "gpu-manufacturer", "amd"},
      {"g4ad.8xlarge", kAws + "gpu-count", "2"},
      {"g4ad.8xlarge", "nvidia.com/gpu.product", "-"},
      {"inf2.48xlarge", kAws + "accelerator-name", "inferentia2"},
      {"inf2.48xlarge", kAws + "accelerator-manufacturer", "aws"},
      {"inf2.48xlarge", kAws + "accelerator-count", "12"},
      {"inf2.48xlarge", kAws + "gpu-count", "-"},
      {"g5g.metal", "kubernetes.io/arch", "arm64"},
      {"g5g.metal", kAws + "hypervisor", "-"},
      {"c7g.4xlarge", kAws + "cpu-manufacturer", "aws"},
      {"c7g.4xlarge", kAws + "local-nvme", "-"},
      {"p6-b200.48xlarge", kAws + "family", "p6-b200"},
      {"p6-b200.48xlarge", kAws + "generation", "6"},
      {"p6-b200.48xlarge", kAws + "category", "p"},
      {"p6-b200.48xlarge", kAws + "gpu-memory", "183359"},
      {"p3.2xlarge", kAws + "hypervisor", "xen"},
      {"p5.48xlarge", "nvidia.com/gpu.count", "8"},
      {"p5.48xlarge", "kubernetes.io/os", "linux"},
      {"g6f.large", kAws + "gpu-count", "-"},
  };
  for (const auto& [type, key, value] : rows) EXPECT_EQ(label(type.c_str(), key), value) << type << " " << key;
}

// 70 m of two cores, 80 m of four: the figures of an EKS node.
TEST(Hardware, AllocatableFollowsTheOverheadFormulas) {
  EXPECT_EQ(amounts("m5.large").allocatable.at("cpu"), 1930);
  EXPECT_EQ(amounts("m5.xlarge").allocatable.at("cpu"), 3920);
  EXPECT_EQ(amounts("m5.2xlarge").allocatable.at("cpu"), 7910);
  EXPECT_EQ(amounts("m5.large").capacity.at("pods"), 29);  // 3 interfaces of 10 addresses
  // 8192 MiB without 615 for the machine; 255 + 11 x 29 reserved, and 100.
  EXPECT_EQ(amounts("m5.large").capacity.at("memory"), (8192 - 615) * kMebi);
  EXPECT_EQ(amounts("m5.large").allocatable.at("memory"), (8192 - 615 - 255 - 319 - 100) * kMebi);
  // arm64 has 64 MiB less before that.
  EXPECT_EQ(amounts("g5g.xlarge").capacity.at("memory"), (8192 - 64 - 610) * kMebi);
  EXPECT_EQ(amounts("p5.48xlarge").capacity.at("nvidia.com/gpu"), 8);
  EXPECT_EQ(amounts("p5.48xlarge").capacity.at("vpc.amazonaws.com/efa"), 32);
  EXPECT_EQ(amounts("g4ad.16xlarge").capacity.at("amd.com/gpu"), 4);
  EXPECT_EQ(amounts("dl1.24xlarge").capacity.at("habana.ai/gaudi"), 8);
  EXPECT_EQ(amounts("trn1.32xlarge").capacity.at("aws.amazon.com/neuron"), 16);
  EXPECT_EQ(amounts("trn1.32xlarge").capacity.at("aws.amazon.com/neuroncore"), 32);
  EXPECT_EQ(amounts("g7.2xlarge").capacity.at("pods"), 110);  // no figure
  EXPECT_FALSE(amounts("m5.large").capacity.contains("nvidia.com/gpu"));
}

TEST(Columns, EveryWellKnownLabelOfATypeSelects) {
  EXPECT_EQ(types({{kAws + "accelerator-name", Operator::kIn, {"inferentia2"}, {}},
                   {kAws + "accelerator-count", Operator::kGt, {"1"}, {}}}),
            (Names{"inf2.24xlarge", "inf2.48xlarge"}));
  EXPECT_EQ(types({{kAws + "gpu-memory", Operator::kGte, {"183359"}, {}}}),
            (Names{"p6-b200.48xlarge", "p6-b300.48xlarge"}));
  EXPECT_EQ(types({{kAws + "network-bandwidth", Operator::kGt, {"3200000"}, {}}}), (Names{"p6-b300.48xlarge"}));
  EXPECT_EQ(
      types({{kAws + "local-nvme", Operator::kGte, {"7000"}, {}}, {kAws + "family", Operator::kIn, {"g5", "g6"}, {}}}),
      (Names{"g5.48xlarge", "g6.48xlarge"}));
  EXPECT_EQ(types({{kAws + "cpu-manufacturer", Operator::kIn, {"aws"}, {}},
                   {kAws + "gpu-count", Operator::kDoesNotExist, {}, {}}}),
            (Names{"c7g.4xlarge", "m7g.4xlarge"}));
  EXPECT_EQ(types({{"beta.kubernetes.io/instance-type", Operator::kIn, {"m5.large"}, {}}}), (Names{"m5.large"}));
}

TEST(Columns, ZonesRegionsAndMarkets) {
  const auto both = columns({{"topology.kubernetes.io/zone", Operator::kIn, {"us-east-1a", "us-west-2b"}, {}},
                             {"topology.kubernetes.io/region", Operator::kIn, {"us-west-2"}, {}},
                             {"karpenter.sh/capacity-type", Operator::kNotIn, {"on-demand"}, {}}});
  EXPECT_EQ(both.zones, (Names{"us-west-2b"}));
  EXPECT_TRUE(both.spot && !both.on_demand);
  EXPECT_EQ(columns({{"failure-domain.beta.kubernetes.io/zone", Operator::kNotIn, {"b", "a"}, {}}}).not_zones,
            (Names{"a", "b"}));
  EXPECT_EQ(region_of("us-gov-west-1b"), "us-gov-west-1");
  EXPECT_EQ(region_of("test-zone"), "");
}

TEST(Columns, UsersLabelsStayOpenUnlessTheTemplateHasThem) {
  const std::vector<Expression> team{{"example.com/team", Operator::kIn, {"b", "a"}, {}}};
  const auto open = columns(team).open;
  ASSERT_EQ(open.size(), 1U);
  EXPECT_EQ(lowest(open[0]), "a");
  const auto chosen = columns_of({team, {{"example.com/team", "b"}}});
  ASSERT_TRUE(chosen);
  EXPECT_TRUE(chosen->open.empty());
}

struct Refusal {
  std::vector<Expression> requirements;
  std::string field, words;
};

TEST(Columns, ReservedIsACapacityTypeOfItsOwn) {
  const std::string key = "karpenter.sh/capacity-type";
  const auto paid = columns_of({{{key, Operator::kIn, {"reserved"}, {}}}, {}});
  ASSERT_TRUE(paid) << paid.error().to_string();
  EXPECT_TRUE(paid->reserved && !paid->on_demand && !paid->spot);
  const auto both = columns_of({{{key, Operator::kIn, {"on-demand", "reserved"}, {}}}, {}});
  EXPECT_TRUE(both->reserved && both->on_demand && !both->spot);
  EXPECT_FALSE(columns_of({{{key, Operator::kIn, {"on-demand"}, {}}}, {}})->reserved);
  EXPECT_TRUE(columns_of({{}, {}})->reserved) << "without a requirement any capacity is allowed";
}

TEST(Columns, WhatCannotActMakesThePoolNotReady) {
  const std::string field = "spec.template.spec.requirements";
  for (const auto& row : std::vector<Refusal>{
           {{{"team", Operator::kExists, {}, {}}, {kAws + "ebs-bandwidth", Operator::kGt, {"1"}, {}}},
            field + "[1]",
            "karpenter.k8s.aws/instance-ebs-bandwidth are not supported"},
           {{{"karpenter.k8s.aws/capacity-reservation-id", Operator::kExists, {}, {}}}, field + "[0]", "not supported"},
           {{{"node.kubernetes.io/windows-build", Operator::kIn, {"x"}, {}}}, field + "[0]", "not supported"},
           {{{"topology.k8s.aws/zone-id", Operator::kIn, {"use1-az1"}, {}}}, field + "[0]", "not supported"},
           {{{"kubernetes.io/hostname", Operator::kIn, {"x"}, {}}},
            field + "[0]",
            "kubernetes.io/hostname is restricted"},
           {{{"karpenter.sh/nodepool", Operator::kIn, {"x"}, {}}}, field + "[0]", "restricted"},
           {{{"team", Operator::kGt, {"x"}, {}}}, field + "[0].values", "needs one whole number"},
           {{{"team", Operator::kExists, {}, 51}}, field + "[0].minValues", "minValues 51 on team"},
           {{{"team", Operator::kIn, {"a"}, {}}, {"team", Operator::kNotIn, {"a"}, {}}},
            field + "[1]",
            "team NotIn a has no value in common with team In a"},
           {{{"topology.kubernetes.io/region", Operator::kIn, {"r"}, {}}},
            field,
            "topology.kubernetes.io/region alone"},
           {{{"karpenter.sh/capacity-type", Operator::kIn, {"leased"}, {}}},
            field,
            "karpenter.sh/capacity-type In leased"},
           {{{"topology.kubernetes.io/zone", Operator::kGt, {"1"}, {}}}, field, "no zone satisfies"},
           {{{kAws + "family", Operator::kIn, {"g5", "g6"}, 2}, {kAws + "cpu", Operator::kIn, {"192"}, 2}}, {}, {}},
           {{{kAws + "gpu-name", Operator::kIn, {"h100"}, {}}, {kAws + "family", Operator::kExists, {}, 2}},
            field,
            "minValues 2 of karpenter.k8s.aws/instance-family: the allowed instance types have 1"}}) {
    const auto out = columns_of({row.requirements, {}});
    ASSERT_FALSE(out) << row.words;
    if (row.field.empty()) continue;
    EXPECT_EQ(out.error().field, row.field) << row.words;
    EXPECT_NE(out.error().message.find(row.words), std::string::npos) << out.error().message;
    EXPECT_FALSE(out.error().remedy.empty()) << row.words;
  }
  EXPECT_TRUE(columns_of({std::vector<Expression>(100, {"team", Operator::kExists, {}, {}}), {}}));
  EXPECT_FALSE(columns_of({std::vector<Expression>(101, {"team", Operator::kExists, {}, {}}), {}}));
  const auto label = columns_of({{{"team", Operator::kIn, {"a"}, {}}}, {{"team", "b"}}});
  ASSERT_FALSE(label);
  EXPECT_EQ(label.error().field, "spec.template.metadata.labels[team]");
  for (const char* key : {"karpenter.sh/nodepool", "kubernetes.io/hostname", "topology.k8s.aws/zone-id"}) {
    const auto refused = columns_of({{}, {{key, "x"}}});
    ASSERT_FALSE(refused) << key;
    EXPECT_EQ(refused.error().field, fmt::format("spec.template.metadata.labels[{}]", key));
  }
  // A well-known label of the template is a requirement.
  const auto zone = columns_of({{}, {{"topology.kubernetes.io/zone", "z1"}, {"kubernetes.io/arch", "arm64"}}});
  ASSERT_TRUE(zone) << zone.error().to_string();
  EXPECT_EQ(zone->zones, (Names{"z1"}));
  for (const auto& name : zone->instance_types) EXPECT_EQ(arch_of(name), "arm64") << name;
}

TEST(Columns, MinValuesCountsDifferentValues) {
  const auto out = columns({{kAws + "family", Operator::kIn, {"g5", "g6", "g6e"}, 3},
                            {"topology.kubernetes.io/zone", Operator::kIn, {"a", "b"}, 2}});
  EXPECT_EQ(out.min_values.at(kAws + "family"), 3);
  EXPECT_EQ(out.min_values.at("topology.kubernetes.io/zone"), 2);
}

}  // namespace columns_test
}  // namespace qm::autoscaler
