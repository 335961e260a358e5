#pragma once
#include "qm/placement/engine.hpp"

namespace qm::placement {

[[nodiscard]] bool wants_instances(const std::vector<PodSet>& pod_sets);
/// GPUs or instances of the node are given to several pods at once.
[[nodiscard]] bool is_shared(const NodeFacts& facts);
/// Pods of a set that wants MIG instances that the room takes, as far as it asks for them; 0 for any other set.
[[nodiscard]] std::int64_t takes_instances(const Room& room, const PodSet& set);

/// What the layouts on offer would make of nodes: those of mig-parted's list that was given, or where none was, those that mig-manager comes with.
class Engine::Offers {
 public:
  explicit Offers(const Engine& engine) : engine_(engine) {}

  /// Of the layouts for nodes of the model.
  [[nodiscard]] std::vector<std::string> names(const mig::Model& model) const;
  /// Null where GPUs like the node's cannot be cut so.
  [[nodiscard]] const mig::NodeLayout* layout(const NodeFacts& facts, const std::string& name);
  /// The node's room once it is cut so, and nobody uses its GPUs but who is lifted. What is kept there for somebody is kept.
  [[nodiscard]] Room room(const NodeName& name, const mig::NodeLayout& layout, const Lifted& lifted) const;
  /// In micro-dollars: what is destroyed and created, and GPUs whose mode changes, which resets them. 0: it is cut so.
  [[nodiscard]] std::int64_t cost(const NodeName& name, const mig::NodeLayout& to) const;

 private:
  const Engine& engine_;
  std::map<std::tuple<std::string, std::string, std::int32_t>, std::optional<mig::NodeLayout>> layouts_;
};

}  // namespace qm::placement
