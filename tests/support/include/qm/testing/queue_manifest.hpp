#pragma once
#include <string>
#include <utility>
#include <vector>

namespace qm::testing {

/// The smallest complete set of Kueue's queue objects, as YAML: a ResourceFlavor, the ClusterQueue `research` with it,
/// and the LocalQueue `team/q`. Tests state only what differs.
struct QueueManifest {
  std::string flavor = "any";
  std::string flavor_spec = {};  ///< lines of its spec, two spaces before each; empty = no spec
  std::string queue_spec = {};   ///< more lines of the spec of the ClusterQueue, two spaces before each
  std::vector<std::pair<std::string, int>> quota{{"nvidia.com/gpu", 64}};  ///< by resource
  std::string more = {};  ///< further documents, each ended by a line "---"; they come first
};

/// The WorkloadPriorityClasses `low` (10) and `high` (100), for QueueManifest::more.
inline constexpr const char* kPriorityClasses = R"(apiVersion: kueue.x-k8s.io/v1beta1
kind: WorkloadPriorityClass
metadata: {name: low}
value: 10
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: WorkloadPriorityClass
metadata: {name: high}
value: 100
---
)";

[[nodiscard]] inline std::string yaml_of(const QueueManifest& queue) {
  std::string covered, resources;
  for (const auto& [resource, amount] : queue.quota) {
    covered += (covered.empty() ? "\"" : ", \"") + resource + "\"";
    resources += "      - {name: \"" + resource + "\", nominalQuota: " + std::to_string(amount) + "}\n";
  }
  return queue.more + R"(apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: )" +
         queue.flavor + "}\n" + (queue.flavor_spec.empty() ? "" : "spec:\n" + queue.flavor_spec) + R"(---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: research}
spec:
  namespaceSelector: {}
)" + queue.queue_spec +
         "  resourceGroups:\n  - coveredResources: [" + covered + "]\n    flavors:\n    - name: " + queue.flavor +
         "\n      resources:\n" + resources + R"(---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {namespace: team, name: q}
spec: {clusterQueue: research}
)";
}

}  // namespace qm::testing
