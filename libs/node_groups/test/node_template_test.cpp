// Tags that describe the nodes of a group.
#include "qm/node_groups/node_template.hpp"

#include <gtest/gtest.h>

namespace qm::node_groups::testing {
namespace node_template_test {

using namespace std::chrono_literals;
using Tags = std::map<std::string, std::string>;

std::string error_of(const std::string& tag, const std::string& value) {
  const auto read = node_template_of({{std::string(kTemplateTag) + tag, value}});
  return read ? "" : read.error().to_string();
}

TEST(NodeTemplate, HasLabelsTaintsResourcesAndOptions) {
  const std::string prefix(kTemplateTag);
  const auto read = node_template_of({{prefix + "label/gpu-type", "h100"},
                                      {prefix + "label/k8s.amazonaws.com/accelerator", "nvidia-h100"},
                                      {prefix + "taint/nvidia.com/gpu", "present:NoSchedule"},
                                      {prefix + "taint/dedicated", ":NoExecute"},
                                      {prefix + "resources/aws.amazon.com/neuron", "16"},
                                      {prefix + "resources/ephemeral-storage", "100Gi"},
                                      {prefix + "autoscaling-options/scaledownunneededtime", "30m0s"},
                                      {prefix + "autoscaling-options/scaledownunreadytime", "1h"},
                                      {prefix + "autoscaling-options/scaledownutilizationthreshold", "0.5"},
                                      {prefix + "autoscaling-options/scaledowngpuutilizationthreshold", "0.125"},
                                      {prefix + "autoscaling-options/ignoredaemonsetsutilization", "true"},
                                      {"Name", "h100"},
                                      {"k8s.io/cluster-autoscaler/enabled", "true"}});
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_EQ(read->labels, (Labels{{"gpu-type", "h100"}, {"k8s.amazonaws.com/accelerator", "nvidia-h100"}}));
  EXPECT_EQ(read->taints,
            (std::vector<Taint>{{"dedicated", "", "NoExecute"}, {"nvidia.com/gpu", "present", "NoSchedule"}}));
  EXPECT_EQ(read->resources.at("aws.amazon.com/neuron").units(), 16);
  EXPECT_EQ(read->resources.at("ephemeral-storage").units(), 107374182400);
  EXPECT_EQ(read->unneeded, 30min);
  EXPECT_EQ(read->unready, 1h);
  EXPECT_EQ(read->utilization_milli, 500);
  EXPECT_EQ(read->gpu_utilization_milli, 125);
  EXPECT_EQ(read->ignore_daemon_sets, true);
}

TEST(NodeTemplate, RefusesATagThatCannotAct) {
  EXPECT_NE(error_of("taint/gpu", "present").find("'present' is not a value and an effect"), std::string::npos);
  EXPECT_NE(error_of("taint/gpu", "present:Never"), "");
  EXPECT_NE(error_of("resources/cpu", "many"), "");
  EXPECT_NE(error_of("resources/cpu", "-1"), "");
  EXPECT_NE(error_of("autoscaling-options/scaledownspeed", "1").find("unknown option"), std::string::npos);
  EXPECT_NE(error_of("autoscaling-options/scaledownunneededtime", "10").find("not a duration"), std::string::npos);
  EXPECT_NE(error_of("autoscaling-options/scaledownutilizationthreshold", "1.001").find("not a share"),
            std::string::npos);
  EXPECT_NE(error_of("autoscaling-options/ignoredaemonsetsutilization", "maybe"), "");
  EXPECT_NE(error_of("labels/x", "1").find("'labels' is unknown"), std::string::npos);
  EXPECT_NE(error_of("label", "1").find("names nothing"), std::string::npos);
}

}  // namespace node_template_test
}  // namespace qm::node_groups::testing
