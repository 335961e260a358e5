#pragma once
#include "qm/admission/webhook/facts.hpp"
#include "qm/base/json.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace qm::admission::webhook {

/// Which nodes a pod chooses, by its node selector and its required affinity.

/// The values that a node's label may have; empty where the pod says nothing of it. Terms of an affinity are alternatives,
/// so where one of them leaves the label open, it is open.
[[nodiscard]] std::vector<std::string> values_of(const Json& spec, std::string_view key);
/// Whether a node has to have all these labels.
[[nodiscard]] bool chooses(const Json& spec, const Labels& selector);
/// Whether a toleration names this key.
[[nodiscard]] bool names_taint(const Json& spec, std::string_view key);
/// The first pool that the pod chooses; null = none that is known.
[[nodiscard]] const Pool* pool_of(const Json& spec, const Facts& facts);
/// Nodes that the pod may come to, as far as they are known: those of its pool, else of the instance types that it names.
struct KnownNode {
  std::string name;
  NodeShape shape;
};
[[nodiscard]] std::vector<KnownNode> nodes_of(const Json& spec, const Facts& facts);
/// How the GPUs that the pod asks for are shared with others: by its pool, its resource's name, or the label it selects.
[[nodiscard]] Sharing sharing_of(const Json& spec, const Facts& facts);

}  // namespace qm::admission::webhook
