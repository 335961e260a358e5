#pragma once
#include "qm/autoscaler/engine.hpp"
#include "qm/base/json.hpp"
#include "qm/metrics/metrics.hpp"

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// The metrics of Karpenter that its dashboards and alerts use, from the rows of the engine: NodeClaims, NodePools and
/// disruptions. Each has the names of Karpenter 1.14, and those of earlier releases as aliases.
///
/// Counters start at the construction, and count from one call to the next. Rows of ended claims are kept for ten
/// minutes, so the page must be read at least that often.
///
/// Threads  any.
/// Source   https://karpenter.sh/docs/reference/metrics/
class KarpenterMetrics {
 public:
  /// Claims that exist now are not counted.
  explicit KarpenterMetrics(const Engine& engine);
  [[nodiscard]] std::vector<metrics::Family> families(const Engine& engine);

 private:
  using Counts = std::map<metrics::Labels, double>;
  /// How far a claim is, and what of it was counted.
  struct Seen {
    std::string pool, market, zone;
    bool launched = false, registered = false, initialized = false, terminated = false;
    std::string disruption;
  };
  [[nodiscard]] static Seen seen_of(const Claim& claim);
  void count(const Engine& engine);
  void count_disruption(const Claim& claim, const Seen& now);

  std::mutex mutex_;
  std::map<ClaimName, Seen> seen_;
  Counts created_, launched_, registered_, initialized_, terminated_, disrupted_, actions_, decisions_;
};

/// The metrics of Karpenter about nodes and pods, from the objects of the API server.
///
/// Threads  any.
/// Bounds   one row for each pod and node that exists.
class ObjectMetrics {
 public:
  void on_pod(const Json& pod, bool deleted);
  void on_node(const Json& node, bool deleted);
  [[nodiscard]] std::vector<metrics::Family> families() const;

 private:
  using Amounts = std::map<std::string, double>;  ///< by resource, in Karpenter's units: cores and bytes
  struct Pod {
    std::string ns, name, owner, node, phase;
    bool daemon = false;
    Amounts requests;
  };
  struct Node {
    metrics::Labels labels;  ///< those of its metrics, without the resource
    Amounts allocatable;
  };
  [[nodiscard]] metrics::Labels labels_of(const Pod& pod) const;

  mutable std::mutex mutex_;
  std::map<std::string, Pod> pods_;    ///< by uid
  std::map<std::string, Node> nodes_;  ///< by name
};

}  // namespace qm::autoscaler
