#pragma once
#include "qm/store/lease.hpp"
#include "qm/store/store.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace qm::store {

/// The lease of a memory disk: one contract suite with the lease on PostgreSQL. The object is the session of its holder: a
/// holder whose Lease object is gone shows as LeaseView::session = false.
///
/// Threads  any number of leases on one disk; each of them one at a time.
std::unique_ptr<Lease> open_memory_lease(std::shared_ptr<MemoryDisk> disk);

/// Where the history of a disk, or of a copy of it, has come to.
struct DiskPosition {
  std::uint64_t epoch = 0;    ///< of the newest leader
  std::uint64_t commits = 0;  ///< so far
  std::uint64_t outbox = 0;   ///< last sequence
  std::uint64_t intents = 0;  ///< last sequence
};
[[nodiscard]] DiskPosition position(MemoryDisk& disk);
[[nodiscard]] DiskPosition position(MemoryDisk& disk, std::size_t copy);

/// What a new leader would find, without becoming one.
[[nodiscard]] Loaded look_at(MemoryDisk& disk);
/// The newest row of each key of the disk's own topics, those that ended included.
[[nodiscard]] std::vector<OutboxRow> newest_rows(MemoryDisk& disk);
/// Who holds the lease of the disk now.
[[nodiscard]] std::string lease_holder(MemoryDisk& disk);

}  // namespace qm::store
