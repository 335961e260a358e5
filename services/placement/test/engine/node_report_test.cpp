// Node reports of agents, and the part of them that is written to the Node object.
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

namespace qm::placement::testing {
namespace node_report_test {

const NodeName kNode("a");

NodeReport report(const Labels& labels, const Labels& annotations = {}) { return {labels, annotations, {}}; }

TEST(NodeReport, IsWrittenOnceWithAllowedKeysOnly) {
  Script script;
  script.step({NodeUpdated{kNode, node_facts(8)}, NodesSynced{{kNode}}, PodsSynced{}});
  auto update = report({{"gpu.nvidia.com/nvlink-enabled", "true"},
                        {"gpu.nvidia.com/nvlink-gpus-per-island", "4"},
                        {"cache.quartermaster.dev/bert", "true"},
                        {"quartermaster.dev/fabric-seen", "roce"},
                        {"quartermaster.dev/fabric", "infiniband"},  // set by administrators only
                        {"topology.kubernetes.io/zone", "elsewhere"},
                        {"node-role.kubernetes.io/control-plane", ""}},
                       {{"quartermaster.dev/numa", "{}"}, {"quartermaster.dev/cordoned-by", "drain"}});
  update.owned_prefixes = {"cache.quartermaster.dev/", "topology.kubernetes.io/"};
  const auto output = script.step({NodeReportUpdated{kNode, update}});
  EXPECT_EQ(render(output, false),
            std::vector<std::string>{"mark a cache.quartermaster.dev/bert=true gpu.nvidia.com/nvlink-enabled=true "
                                     "gpu.nvidia.com/nvlink-gpus-per-island=4 quartermaster.dev/fabric-seen=roce "
                                     "quartermaster.dev/numa={}"});
  EXPECT_EQ(std::get<MarkNode>(output.intents.at(0).what).report.owned_prefixes,
            std::vector<std::string>{"cache.quartermaster.dev/"});
  EXPECT_TRUE(script.step({NodeReportUpdated{kNode, update}}).intents.empty()) << "again";
  // A report with one label less is a new report.
  update.labels.erase("cache.quartermaster.dev/bert");
  EXPECT_EQ(script.step({NodeReportUpdated{kNode, update}}).intents.size(), 1U);
  EXPECT_TRUE(script.step({NodeReportUpdated{kNode, std::nullopt}}).intents.empty());
  EXPECT_EQ(script.engine().tables().report.find(kNode), nullptr);
}

TEST(NodeReport, IsKeptUntilTheNodeIsKnown) {
  Script script;
  const auto update = report({{"gpu.nvidia.com/nvlink-enabled", "false"}});
  EXPECT_TRUE(script.step({NodeReportUpdated{kNode, update}}).intents.empty());
  EXPECT_EQ(render(script.step({NodeUpdated{kNode, node_facts(8)}}), false),
            std::vector<std::string>{"mark a gpu.nvidia.com/nvlink-enabled=false"});
  // The report has no label that an agent may set: nothing is stored.
  EXPECT_TRUE(script.step({NodeReportUpdated{NodeName("b"), report({{"pool", "mine"}})}}).intents.empty());
  EXPECT_EQ(script.engine().tables().report.find(NodeName("b")), nullptr);
}

}  // namespace node_report_test
}  // namespace qm::placement::testing
