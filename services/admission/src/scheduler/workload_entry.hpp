#pragma once
#include "qm/admission/kueue/tree.hpp"
#include "qm/base/time.hpp"
#include "scheduler/patterns.hpp"

#include <cstdint>
#include <optional>

namespace qm::admission {

/// What a workload is in its quota tree.
enum class Presence : std::uint8_t { kNowhere, kWaiting, kClaiming, kHolding, kLeaving };

/// A workload as Decisions last put it into its tree.
struct WorkloadEntry {
  int id = -1;
  Presence at = Presence::kNowhere;
  int tree = -1;
  int bound = -1;  ///< its current or last tree, while that may have preemptions of it
  kueue::Node node = 0;
  std::int32_t priority = 0;
  Instant since{};
  const Pattern* pattern = nullptr;
  std::int64_t raise = 0;  ///< of its priority, by age
  bool overdue = false;
  std::optional<Instant> ages;  ///< when one of both changes; only while pending
};

}  // namespace qm::admission
