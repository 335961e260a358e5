#pragma once
#include <optional>
#include <string>

namespace qm::wire {

/// The payload of a tombstone for a key that a Snapshot omits, made from topic and key alone: uid, attempt, node and
/// similar fields, and a final state. Without `rolled_back` the key was deleted, and its owner has removed the
/// tombstone or has not published the key again since its database lost it. With it, the database of the owner lost
/// the key a moment ago. nullopt if the consumer keeps its state: facts that stay true (spot prices,
/// acknowledgements, totals), lists that never end, and keys of a form that this release does not know. With
/// `rolled_back` it also keeps everything that the owner observes in the cluster or the cloud and publishes again:
/// workloads, nodes, assignments, instances, health, spot notices, budgets. A running pod must not be released in
/// between.
///
/// Threads  any.
std::optional<std::string> last_state(const std::string& topic, const std::string& key, bool rolled_back);

}  // namespace qm::wire
