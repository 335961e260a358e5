#pragma once
#include <optional>
#include <string>

namespace qm::wire {

/// The payload of a tombstone for a key that a Snapshot omits, made from topic and key alone: uid, attempt, node and the like, and
/// a state that ends it. Without `rolled_back` the key ended and its owner has forgotten the tombstone; with it, the database of
/// the owner lost the key. nullopt where the consumer keeps what it has: facts that stay true, lists that never end, keys of a form
/// that this release does not know, and with `rolled_back` all that the owner observes in the cluster and publishes again
/// (workloads, nodes, assignments, health, spot notices), because a pod that runs must not be released in between.
///
/// Threads  any.
std::optional<std::string> last_state(const std::string& topic, const std::string& key, bool rolled_back);

}  // namespace qm::wire
