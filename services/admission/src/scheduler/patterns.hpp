#pragma once
#include "qm/admission/kueue/work.hpp"
#include "qm/admission/scheduler/assignment.hpp"
#include "scheduler/quota_names.hpp"
#include "scheduler/topology/topology_nodes.hpp"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace qm::admission {

/// Pod sets as the rules model them. Workloads with equal requests share a pattern, and the rules treat them as one
/// shape.
struct Pattern {
  int shape = 0;
  std::vector<kueue::PodSet> pod_sets;
  /// Assignment of the last workload of this pattern, by name; the next one usually gets the same.
  struct Made {
    int tree = -1;
    std::vector<kueue::Assignment::Set> sets;
    kueue::Amounts usage;
    Assignment named;
  };
  mutable Made last;
};

/// Finds the pattern of a spec, and builds it on first use.
///
/// Cost     O(log patterns) for pod sets that are shared with an earlier spec; otherwise the text of the requests.
class Patterns {
 public:
  /// `flavors` decide which pods refuse which flavor.
  explicit Patterns(std::map<FlavorName, Flavor> flavors = {}) : flavors_(std::move(flavors)) {}

  /// Valid as long as this object. Names of resources get numbers.
  [[nodiscard]] const Pattern* of(const Spec& spec, QuotaNames& names, const TopologyNodes& nodes);

 private:
  std::map<FlavorName, Flavor> flavors_;
  /// By pod sets and whether the kind is Job, which may start with some of its pods. Avoids building the text again.
  std::map<std::pair<Shared<std::vector<PodSet>>, bool>, const Pattern*> known_;
  std::map<std::string, Pattern> patterns_;  ///< by the text of the pod requests
};

/// The assignment of the rules in terms of the API.
[[nodiscard]] Assignment assignment_of(const QuotaNames& names, int tree, const Pattern& pattern,
                                       const kueue::Assignment& made);

}  // namespace qm::admission
