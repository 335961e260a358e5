#pragma once
#include "qm/autoscaler/condition_writer.hpp"
#include "qm/autoscaler/engine.hpp"

#include <map>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// Why a NodePool is not ready; empty texts = it is.
struct PoolFaults {
  std::string validation;  ///< of its own fields
  std::string node_class;  ///< of its class
  friend auto operator<=>(const PoolFaults&, const PoolFaults&) = default;
};

/// The conditions of a NodePool, with Karpenter's names: ValidationSucceeded, NodeClassReady, Ready, and
/// NodeRegistrationHealthy, which is for information: False while instances of a type of the pool do not become ready.
[[nodiscard]] std::vector<Condition> pool_conditions(const Tables& tables, const Pool& pool, const PoolFaults& faults);

/// Writes the status of NodePools: the conditions, and the resources of their nodes.
///
/// Threads  one.
class PoolStatus {
 public:
  struct Status {
    std::vector<Condition> conditions;
    Json resources;
  };
  PoolStatus(kube::Client& client, const DomainClock& clock);
  /// The status of these NodePools, without calls.
  [[nodiscard]] static std::map<std::string, Status> status_of(const Engine& engine,
                                                               const std::map<std::string, PoolFaults>& faults);
  void write(const std::map<std::string, Status>& status);

 private:
  ConditionWriter status_;
};

}  // namespace qm::autoscaler
