#pragma once
#include "masks.hpp"
#include "qm/autoscaler/pack/plan.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace qm::autoscaler::pack {

/// At most `limit` earlier pods of a group on the node, the pod itself included if it is a member.
struct HostSpread {
  std::uint32_t group = 0;
  std::int64_t limit = 1;
  bool self = false;
};

/// Pods that are equal to the packer: any of them may take the place of another.
struct PodClass {
  Load load{};
  std::uint32_t mask = 0;      ///< offers that accept the pod
  std::uint32_t any_zone = 0;  ///< the same without the choice of a zone
  std::vector<std::uint32_t> member,
      anti;  ///< host groups: those that select the pod, and those that it repels; ascending
  std::vector<HostSpread> spread;
  bool coupled = false;           ///< any of the three is not empty
  std::vector<std::size_t> pods;  ///< ascending
  double alone = 0;               ///< cost of the cheapest node for one pod
  double size = 0;                ///< of the load, in `value` of Model
};

/// A problem as numbers.
struct Model {
  std::size_t resources = 3;
  std::vector<std::string> names;  ///< of the resources
  Offers offers;
  Masks masks;
  std::vector<PodClass> classes;
  std::vector<Unplaced> unplaced;
  double node_price = 0;
  std::vector<double> price;  ///< of one unit of each resource: no shape is cheaper than its room at these prices
  std::vector<double> value;  ///< the same, with a part for resources that are not scarce: guides the search
  double resource_bound = 0;  ///< cost of all loads at these prices
  std::size_t pods = 0;       ///< to place
};

/// Checks the constraints, fixes zones and forms classes.
[[nodiscard]] Status build(const Problem& problem, double node_price, Model& out);

/// Whether two ordered lists have a common element.
[[nodiscard]] bool meet(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b);

}  // namespace qm::autoscaler::pack
