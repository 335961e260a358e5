#pragma once
#include "qm/admission/engine.hpp"

#include <map>
#include <string>

namespace qm::admission {

/// Why what a check would add to the pods of a workload cannot be had: the field, and who says otherwise. Empty where it can.
///
/// Law      a node label, a label and an annotation have one value: that of the pods, of their flavors, and of all checks. What
///          a template itself has for labels and annotations is known to whoever writes it (executor.hpp).
/// Cost     O(what is added, for each check).
[[nodiscard]] std::string clash_of(const Engine::Tables& tables, const Workload& w, const std::string& check,
                                   const std::map<std::string, PodSetUpdate>& updates);

}  // namespace qm::admission
