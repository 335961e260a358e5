#pragma once
#include "qm/store/lease.hpp"
#include "qm/store/store.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace qm::store {

/// The lease of a memory disk: the same contract suite as the lease on PostgreSQL. The object is the session of its
/// holder: after the destruction of a holder's Lease object LeaseView::session is false.
///
/// Threads  any number of leases on one disk; each of them one at a time.
std::unique_ptr<Lease> open_memory_lease(std::shared_ptr<MemoryDisk> disk);

/// The position in the history of a disk, or of a copy of it.
struct DiskPosition {
  std::uint64_t epoch = 0;    ///< of the newest leader
  std::uint64_t commits = 0;  ///< so far
  std::uint64_t outbox = 0;   ///< last sequence
  std::uint64_t intents = 0;  ///< last sequence
};
[[nodiscard]] DiskPosition position(MemoryDisk& disk);
[[nodiscard]] DiskPosition position(MemoryDisk& disk, std::size_t copy);

/// Returns what a new leader would load, without becoming one.
[[nodiscard]] Loaded look_at(MemoryDisk& disk);
/// The newest row of each key of the disk's own topics, including deleted keys.
[[nodiscard]] std::vector<OutboxRow> newest_rows(MemoryDisk& disk);
/// The current holder of the disk's lease.
[[nodiscard]] std::string lease_holder(MemoryDisk& disk);

}  // namespace qm::store
