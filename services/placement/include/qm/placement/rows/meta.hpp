#pragma once
#include "qm/placement/rows/repartitions.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace qm::placement {

/// Single values of the engine.
struct Meta {
  bool nodes_synced = false, pods_synced = false;  ///< a complete list was received since the watch started
  /// Kinds of storage with a complete list since the first start: "claim", "volume", "class", "limits".
  std::set<std::string> storage_listed;
  std::int64_t next_intent = 1;
  std::int64_t next_proposal = 1;
  Instant searched{};  ///< last search for preemption victims
  DefaultLayout layout;
  Instant repartition_searched{};    ///< last search for a MIG repartition
  std::vector<Instant> repartition;  ///< times of repartitions for pending workloads that count toward the budget
  /// Next comparison of pending workloads with the free capacity. Zero = when capacity is added.
  Instant requeue_at{};
  std::int32_t requeue_round = 0;  ///< offers since then that left capacity unused
  friend auto operator<=>(const Meta&, const Meta&) = default;
};

/// Size of a pod.
struct PodSize {
  std::int64_t cpu_milli = 0;
  std::int32_t devices = 0, device_milli = 0;  ///< number of GPUs; part of each
  std::vector<std::string> models;             ///< GPU models; empty = any
  friend auto operator<=>(const PodSize&, const PodSize&) = default;
};
/// Hardware shape of a node.
struct NodeShape {
  std::string model;
  std::int64_t cpu_milli = 0, memory_bytes = 0;
  std::int32_t gpus = 0;
  friend auto operator<=>(const NodeShape&, const NodeShape&) = default;
};
/// The demand and the fleet that node scores depend on. This row is updated only when the known mix has
/// drifted, so that cached scores stay valid: see Preference::has_drifted().
struct DemandMix {
  std::map<PodSize, std::int64_t> pods;
  std::map<NodeShape, std::int64_t> machines;
  friend auto operator<=>(const DemandMix&, const DemandMix&) = default;
};

}  // namespace qm::placement
