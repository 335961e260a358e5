#pragma once
#include "qm/autoscaler/columns/columns.hpp"
#include "qm/config/manifest.hpp"
#include "qm/model/money.hpp"

#include <optional>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// The requirements and labels of a NodePool, as columns_of() reads them.
[[nodiscard]] NodeTemplate node_template_of(const config::NodePool& pool);

/// The most that the nodes of a NodePool can cost in an hour.
struct HourlySpend {
  Money usd;
  std::string limit;          ///< that bounds it: "nvidia.com/gpu 20", "nodes 4", "replicas 3"
  std::string instance_type;  ///< the most expensive one for each unit of the limit
};

/// What a NodePool allows and what it can cost.
struct PoolSummary {
  std::vector<std::string> instance_types;  ///< by name
  std::vector<std::string> gpus;            ///< names as in node labels, sorted; empty = no type has GPUs
  bool on_demand = false, spot = false;
  std::vector<std::string> zones;            ///< empty = any zone of its node class
  std::optional<HourlySpend> most;           ///< none = no limit of the pool bounds its cost
  std::vector<std::string> unlimited_types;  ///< of which no limit bounds the number; of a pool without `most`
  std::string problem;                       ///< why nothing can be launched; then the other fields are empty
};

/// Summarizes a NodePool by the catalog.
///
/// Spend    the highest sum of catalog prices that one of the limits allows, for the limit with the lowest such sum: an
///          upper bound, since the limits act together. Whole nodes count for limits of up to 10,000 GPUs, cores or nodes;
///          larger ones, and memory, count as if nodes could be divided. A limit bounds only types that have its resource.
/// Prices   on demand, in the region of the catalog. Spot capacity counts by it too: it is never more expensive.
/// Threads  any; reads only its arguments.
/// Fails    never: a pool from which nothing can be launched has a `problem`.
/// Cost     types of the catalog x (requirements + units of the limits).
[[nodiscard]] PoolSummary summary_of(const config::NodePool& pool);

}  // namespace qm::autoscaler
