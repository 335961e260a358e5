#pragma once
#include "qm/config/manifest.hpp"

#include <span>
#include <string>

namespace qm::autoscaler {

/// Draws NodePools and their EC2NodeClasses as a Mermaid flowchart, for a page or a pull request.
///
/// A pool shows weight, capacity types, GPUs, limits, highest cost in an hour and consolidation; a class shows its root
/// volume. A class that is not among the objects is drawn as unknown, and so is what a pool does not set: nothing is
/// assumed.
///
/// Order    pools by weight, the heaviest first, then by name; equal objects give an equal text.
/// Threads  any; reads only its arguments.
/// Fails    never: objects of other kinds are ignored.
[[nodiscard]] std::string diagram_of(std::span<const config::Object> objects);

}  // namespace qm::autoscaler
