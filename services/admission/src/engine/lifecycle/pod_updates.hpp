#pragma once
#include "qm/admission/tables.hpp"

#include <map>
#include <string>

namespace qm::admission {

/// Why the pod updates of a check cannot be applied to a workload: the field, and the source of the conflict. Empty
/// if they can.
///
/// Law      a node label, a label and an annotation have one value: that of the pods, of their flavors, and of all
///          checks. Only the executor, which writes the template, knows its own labels and annotations (executor.hpp).
/// Cost     O(additions of each check).
[[nodiscard]] std::string clash_of(const Tables& tables, const Workload& w, const std::string& check,
                                   const std::map<std::string, PodSetUpdate>& updates);

}  // namespace qm::admission
