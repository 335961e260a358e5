#pragma once
#include "qm/admission/kueue/objects.hpp"
#include "qm/base/json.hpp"

#include <list>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace qm::admission::vectors {

/// The queues, cohorts, flavors and admitted workloads of a case, ready for queries.
struct World {
  /// Reads clusterQueues, cohorts, resourceFlavors of the input and the gates of the record.
  explicit World(const Json& record);

  kueue::Work& admit(const Json& workload);  ///< it holds quota from now on
  kueue::Work& read(const Json& workload, const std::string& queue);
  [[nodiscard]] kueue::QuotaState& field_of(const std::string& queue);
  [[nodiscard]] kueue::Node node_of(const std::string& name) const;  ///< queue or cohort
  [[nodiscard]] kueue::Amounts amounts(const std::string& queue, const Json& by_flavor_resource) const;

  void use_nodes(const Json& by_flavor);  ///< flavor -> pods on domains, in use from now on

  /// The pods of the workload slice that this work replaces.
  void add_before(kueue::Work& work, const Json& slice);

  static std::string key_of(const Json& workload);

  kueue::Objects objects;
  kueue::Forest::Planted planted;
  std::list<kueue::Work> works;
  std::map<std::string, kueue::Work*> by_key;
  std::map<const kueue::Work*, std::string> key_by_work;
};

/// The setting of a gate in a case; the default where the case does not set it.
bool gate(const Json& record, std::string_view name);
kueue::OrderGates gates_of(const Json& record);
topology::Gates topology_gates(const Json& record);

}  // namespace qm::admission::vectors
