#pragma once
#include <string_view>

namespace qm::words {

/// Annotation of a node: uids of the workloads for whose pods its instance was launched, separated by commas. The
/// autoscaler writes it when the node registers; placement keeps the node for these pods.
inline constexpr std::string_view kLaunchedFor = "quartermaster.dev/launched-for";

}  // namespace qm::words
