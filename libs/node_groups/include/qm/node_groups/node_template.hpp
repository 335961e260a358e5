#pragma once
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"
#include "qm/model/quantity.hpp"
#include "qm/model/resources.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::node_groups {

/// Of a group that Cluster Autoscaler may discover; "/<cluster>" appended: of this cluster.
inline constexpr std::string_view kEnabledTag = "k8s.io/cluster-autoscaler/enabled";
inline constexpr std::string_view kTemplateTag = "k8s.io/cluster-autoscaler/node-template/";

/// The nodes of a group that has none yet, by its tags.
struct NodeTemplate {
  Labels labels;
  std::vector<Taint> taints;                  ///< by key
  std::map<std::string, Quantity> resources;  ///< in addition to those of the instance type, or instead of them
  std::optional<Duration> unneeded, unready;  ///< instead of the settings of Cluster Autoscaler
  std::optional<std::int64_t> utilization_milli, gpu_utilization_milli;
  std::optional<bool> ignore_daemon_sets;
};

/// Reads the tags with the prefix kTemplateTag; others are ignored.
///
/// Fails    kInvalid names the tag: an unknown kind or option, a taint without an effect, or a value of another type.
/// Source   Cluster Autoscaler, cloudprovider/aws/README.md, "Auto-discovery setup".
[[nodiscard]] Result<NodeTemplate> node_template_of(const std::map<std::string, std::string>& tags);

}  // namespace qm::node_groups
