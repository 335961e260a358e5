// Node reports of agents, and the part of them that is written to the Node object.
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

namespace qm::placement::testing {
namespace signs_test {

const NodeName kNode("a");

NodeSigns signs(const Labels& labels, const Labels& annotations = {}) { return {labels, annotations, {}}; }

TEST(Signs, AreWrittenOnceAndOnlyWhatAnAgentMaySay) {
  Script script;
  script.step({NodeSeen{kNode, node_facts(8)}, NodesSynced{{kNode}}, PodsSynced{}});
  auto said = signs({{"gpu.nvidia.com/nvlink-enabled", "true"},
                     {"gpu.nvidia.com/nvlink-gpus-per-island", "4"},
                     {"cache.quartermaster.dev/bert", "true"},
                     {"quartermaster.dev/fabric-seen", "roce"},
                     {"quartermaster.dev/fabric", "infiniband"},  // set by administrators only
                     {"topology.kubernetes.io/zone", "elsewhere"},
                     {"node-role.kubernetes.io/control-plane", ""}},
                    {{"quartermaster.dev/numa", "{}"}, {"quartermaster.dev/cordoned-by", "drain"}});
  said.owned_prefixes = {"cache.quartermaster.dev/", "topology.kubernetes.io/"};
  const auto output = script.step({SignsHeard{kNode, said}});
  EXPECT_EQ(render(output, false),
            std::vector<std::string>{"mark a cache.quartermaster.dev/bert=true gpu.nvidia.com/nvlink-enabled=true "
                                     "gpu.nvidia.com/nvlink-gpus-per-island=4 quartermaster.dev/fabric-seen=roce "
                                     "quartermaster.dev/numa={}"});
  EXPECT_EQ(std::get<MarkNode>(output.intents.at(0).what).signs.owned_prefixes,
            std::vector<std::string>{"cache.quartermaster.dev/"});
  EXPECT_TRUE(script.step({SignsHeard{kNode, said}}).intents.empty()) << "again";
  // A report with one label less is a new report.
  said.labels.erase("cache.quartermaster.dev/bert");
  EXPECT_EQ(script.step({SignsHeard{kNode, said}}).intents.size(), 1U);
  EXPECT_TRUE(script.step({SignsHeard{kNode, std::nullopt}}).intents.empty());
  EXPECT_EQ(script.engine().tables().signs.find(kNode), nullptr);
}

TEST(Signs, OfANodeThatIsNotKnownYetWaitForIt) {
  Script script;
  const auto said = signs({{"gpu.nvidia.com/nvlink-enabled", "false"}});
  EXPECT_TRUE(script.step({SignsHeard{kNode, said}}).intents.empty());
  EXPECT_EQ(render(script.step({NodeSeen{kNode, node_facts(8)}}), false),
            std::vector<std::string>{"mark a gpu.nvidia.com/nvlink-enabled=false"});
  // The report has no label that an agent may set: nothing is stored.
  EXPECT_TRUE(script.step({SignsHeard{NodeName("b"), signs({{"pool", "mine"}})}}).intents.empty());
  EXPECT_EQ(script.engine().tables().signs.find(NodeName("b")), nullptr);
}

}  // namespace signs_test
}  // namespace qm::placement::testing
