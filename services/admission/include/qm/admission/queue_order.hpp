#pragma once
#include "qm/admission/workload.hpp"

#include <compare>
#include <cstdint>

namespace qm::admission {

/// Queue position: higher priority first, then the earlier instant, then the uid.
struct QueueOrder {
  std::int64_t minus_priority = 0;
  Instant since{};
  Uid uid;
  static QueueOrder of(const Workload& w) { return {-std::int64_t{w.spec.priority}, w.waits_since(), w.spec.uid}; }
  friend auto operator<=>(const QueueOrder&, const QueueOrder&) = default;
};

}  // namespace qm::admission
