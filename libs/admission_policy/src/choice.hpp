#pragma once
#include "qm/admission_policy/facts.hpp"
#include "qm/base/json.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace qm::admission_policy {

/// The nodes that a pod selects, by its node selector and its required affinity.

/// The values that a label of the node may have; empty where the pod does not restrict it. Terms of an affinity are
/// alternatives, so the result is empty where one of them does not restrict the label.
[[nodiscard]] std::vector<std::string> values_of(const Json& spec, std::string_view key);
/// Whether the pod only fits nodes with all these labels.
[[nodiscard]] bool chooses(const Json& spec, const Labels& selector);
/// Whether a toleration names this key.
[[nodiscard]] bool names_taint(const Json& spec, std::string_view key);
/// The first pool that the pod selects; null = no known pool.
[[nodiscard]] const Pool* pool_of(const Json& spec, const Facts& facts);
/// The known nodes that the pod may run on: those of its pool, else of the instance types that it names.
struct KnownNode {
  std::string name;
  NodeShape shape;
};
[[nodiscard]] std::vector<KnownNode> nodes_of(const Json& spec, const Facts& facts);
/// How the GPUs that the pod requests are shared with other pods: by its pool, its resource name, or the label that
/// it selects.
[[nodiscard]] Sharing sharing_of(const Json& spec, const Facts& facts);

}  // namespace qm::admission_policy
