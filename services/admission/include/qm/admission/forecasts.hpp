#pragma once
#include "qm/admission/forecast/correction.hpp"
#include "qm/admission/forecast/run_times.hpp"
#include "qm/admission/workload.hpp"

namespace qm::admission {

/// What was said of the start of a workload that waits, to be held against what comes. Rows, one for each wait.
struct Said {
  std::int32_t attempt = 0;
  Instant at{};
  forecast::Interval raw, told;                ///< from `at` on: as the futures had it, and as it was corrected
  std::size_t group = 0;                       ///< of the correction
  bool low_known = false, high_known = false;  ///< whether the truth is beyond these ends was learned from
  friend bool operator==(const Said&, const Said&) = default;
};

/// Whose run times tell how long it runs: of its team (or queue), of as many GPUs in powers of two, of its name.
[[nodiscard]] forecast::Kin kin_of(const Workload& w);
/// What it says of itself: the annotation of the expected run time, and what is left of its maximum execution time.
[[nodiscard]] forecast::Declared declared_of(const Workload& w);

}  // namespace qm::admission
