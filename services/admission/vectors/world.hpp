#pragma once
#include "qm/admission/exact/objects.hpp"
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

  exact::Work& admit(const Json& workload);  ///< it holds quota from now on
  exact::Work& read(const Json& workload, const std::string& queue);
  [[nodiscard]] exact::Field& field_of(const std::string& queue);
  [[nodiscard]] exact::Node node_of(const std::string& name) const;  ///< queue or cohort
  [[nodiscard]] exact::Amounts amounts(const std::string& queue, const Json& by_flavor_resource) const;

  void use_nodes(const Json& by_flavor);  ///< flavor -> pods on domains, in use from now on

  /// The pods of the workload slice that this work replaces.
  void add_before(exact::Work& work, const Json& slice);

  static std::string key_of(const Json& workload);

  exact::Objects objects;
  exact::Forest::Planted planted;
  std::list<exact::Work> works;
  std::map<std::string, exact::Work*> by_key;
  std::map<const exact::Work*, std::string> key_by_work;
};

/// The setting of a gate in a case; the default where the case does not set it.
bool gate(const Json& record, std::string_view name);
exact::OrderGates gates_of(const Json& record);
topology::Gates topology_gates(const Json& record);

}  // namespace qm::admission::vectors
