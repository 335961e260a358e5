#pragma once
#include "qm/admission/forecast/correction.hpp"
#include "qm/admission/forecast/run_times.hpp"
#include "qm/admission/workload.hpp"

namespace qm::admission {

struct Tables;

/// An estimate that was returned for the start of a pending workload, to be compared with the real start. One row
/// per wait.
struct StartEstimate {
  std::int32_t attempt = 0;
  Instant at{};
  forecast::Interval raw, corrected;           ///< from `at` on: as forecast, and after the correction
  std::size_t group = 0;                       ///< group of the correction
  bool low_known = false, high_known = false;  ///< whether the correction has learned from this end
  friend bool operator==(const StartEstimate&, const StartEstimate&) = default;
};

/// The workloads whose run times predict this one: same team (or queue), GPU count in powers of two, and name stem.
[[nodiscard]] forecast::JobClass job_class_of(const Workload& w);
/// What it declares: the annotation of the expected run time, and the rest of its maximum execution time.
[[nodiscard]] forecast::Declared declared_of(const Workload& w);
/// How forecasts of starts are corrected, as learned from earlier ones.
[[nodiscard]] forecast::Correction start_correction(const Tables& tables);

}  // namespace qm::admission
