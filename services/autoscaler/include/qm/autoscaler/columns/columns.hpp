#pragma once
#include "qm/autoscaler/requirements/requirement.hpp"
#include "qm/catalog/catalog.hpp"

#include <map>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// The part of a NodePool that decides which nodes it may have.
struct NodeTemplate {
  std::vector<Expression> requirements;
  Labels labels;
};

/// Which instance types, zones and capacity types the nodes of a NodePool may have, and which labels remain open. A
/// column of the pool is one instance type, zone and capacity type of these.
struct Columns {
  std::vector<std::string> instance_types;  ///< of the catalog, with a price; sorted
  bool on_demand = false, spot = false;
  bool reserved = false;                           ///< capacity reservations of the node class
  std::vector<std::string> zones;                  ///< allowed; empty = any but `not_zones`
  std::vector<std::string> not_zones;              ///< sorted; used if `zones` is empty
  std::vector<Requirement> open;                   ///< on users' labels whose value is chosen for each node, by key
  std::map<std::string, std::int32_t> min_values;  ///< by key: different values that the types of a launch must have
};

/// The columns of a NodePool.
///
/// Order    instance types by name.
/// Fails    kInvalid: a requirement that cannot act (restricted or not supported key, invalid values), requirements
///          without a common value, or fewer different values than `minValues`. `field` is the path in the NodePool, the
///          message has the key. Nothing is ignored: the pool is not ready.
/// Cost     types of the catalog x requirements.
/// Source   Karpenter 1.14, scheduling of NodePools.
[[nodiscard]] Result<Columns> columns_of(const NodeTemplate& node_template);

}  // namespace qm::autoscaler
