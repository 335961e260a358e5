#pragma once
#include "qm/base/table.hpp"
#include "qm/kube_rules/pod_rules.hpp"
#include "qm/placement/rows/assignments.hpp"
#include "qm/placement/rows/meta.hpp"
#include "qm/placement/rows/nodes.hpp"
#include "qm/placement/rows/pods.hpp"
#include "qm/placement/rows/repartitions.hpp"
#include "qm/placement/rows/storage.hpp"
#include "qm/placement/rows/workloads.hpp"

#include <cstdint>
#include <limits>
#include <string>

/// Rows of the placement engine: observed facts and decisions. Plain values without behavior.
///
/// Units    GPUs in milli-GPU (1000 = one device), CPU in milli-cores, memory in bytes; a zero Instant = not yet.
namespace qm::placement {

namespace rules = kube_rules;  ///< constraints of pods and nodes, as kube-scheduler evaluates them

/// Number of pods where there is no limit.
inline constexpr std::int64_t kAnyNumber = std::numeric_limits<std::int32_t>::max();

/// The complete state.
struct Tables {
  Table<NodeName, Node> nodes;
  Table<NodeName, NodeCordonCauses> cordon_causes;
  Table<NodeName, Observation> observations;
  Table<std::string, Pod> pods;  ///< by uid
  Table<std::string, Storage> storage;
  Table<NodeName, NodeReport> report;  ///< written by node agents, limited to the allowed labels and annotations
  Table<WorkloadUid, Workload> workloads;
  Table<AttemptId, Assignment> assignments;
  Table<NodeName, Repartition> repartitions;
  Table<std::string, mig::Definition> layouts;  ///< by name: the layouts of mig-parted's list
  Table<int, Meta> meta;                        ///< one row, key 0
  Table<int, DemandMix> mix;                    ///< one row, key 0
  Table<WorkloadUid, Proposal> proposals;
  Table<int, DefragRun> defrag_run;  ///< one row, key 0

  template <class Fn>
  void each(Fn&& fn) {
    fn(nodes), fn(cordon_causes), fn(observations), fn(pods), fn(storage), fn(report), fn(workloads), fn(assignments),
        fn(repartitions), fn(layouts), fn(meta), fn(mix), fn(proposals), fn(defrag_run);
  }
};

}  // namespace qm::placement
