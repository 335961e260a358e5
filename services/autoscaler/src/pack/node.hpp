#pragma once
#include "model.hpp"

#include <cstdint>
#include <vector>

namespace qm::autoscaler::pack {

/// A planned node: the pods of each class, and the cheapest shape that holds them.
struct Node {
  struct Entry {
    std::uint32_t number;  ///< class
    std::uint32_t count;
  };
  Load load{};
  std::uint32_t mask = 0;
  std::size_t shape = 0;
  double cost = 0;
  double slack = 0;  ///< value of the room that is not used
  std::vector<Entry> entries;
};
using Nodes = std::vector<Node>;

[[nodiscard]] double cost_of(const Nodes& nodes);
[[nodiscard]] std::size_t pods_on(const Node& node);

/// A node with one more pod.
struct Fit {
  std::uint32_t mask = 0;
  std::size_t shape = 0;
  double cost = kNever;
  double slack = 0;
};

/// Adds pods to nodes and removes them, under all constraints that are left after the zones are fixed.
class NodeEditor {
 public:
  explicit NodeEditor(Model& model) : model_(&model) {}

  [[nodiscard]] const PodClass& pod_class(std::uint32_t number) const { return model_->classes[number]; }
  /// Whether the node could be launched with the pod; host constraints are not judged.
  [[nodiscard]] bool fits(const Node& node, std::uint32_t pod, Fit& out);
  /// Whether the host constraints of the pod and of those on the node hold together.
  [[nodiscard]] bool hosts_allow(const Node& node, std::uint32_t pod) const;
  [[nodiscard]] Node fresh(std::uint32_t pod);
  void add(Node& node, std::uint32_t pod, const Fit& fit) const;
  /// Removes one pod of the class; the shape becomes the cheapest for the rest.
  void remove(Node& node, std::uint32_t pod);

 private:
  [[nodiscard]] double room_value(std::uint32_t mask, std::size_t shape);
  [[nodiscard]] std::int64_t earlier(const Node& node, std::uint32_t owner, const HostSpread& spread) const;

  Model* model_;
  std::vector<std::vector<double>> values_;  // of each shape, by mask
};

}  // namespace qm::autoscaler::pack
