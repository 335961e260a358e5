#pragma once
#include "qm/admission/forecast/correction.hpp"
#include "qm/admission/forecast/eta.hpp"
#include "qm/base/result.hpp"

#include <string>
#include <vector>

namespace qm::admission::forecast {

/// One job of a trace, in order of submission.
struct TraceJob {
  Duration submitted{}, runs{};
  std::int64_t gpus = 0;
  std::string team;
};
/// Reads `submit_s,duration_s,num_gpus,vc`; kInvalid names the line.
[[nodiscard]] Result<std::vector<TraceJob>> read_jobs(const std::string& path);

/// How the jobs run: one queue for each team, all in one cohort, with quota in proportion to the GPU time of the team
/// in the trace.
struct ReplaySettings {
  std::int64_t gpus = 500;
  bool strict = false;                           ///< queues admit in strict order
  bool reclaim = false;                          ///< a team may reclaim its nominal quota
  bool arrivals = true;                          ///< the simulated futures include arrivals
  Duration begin = std::chrono::hours(24 * 14);  ///< of the estimates; before it, the replay only learns
  Duration end = std::chrono::hours(24 * 100);   ///< of the estimates; then it runs on until all starts are known
  Duration every = std::chrono::hours(6);        ///< between estimates, for pending new arrivals
  int most = 24;                                 ///< jobs estimated each time, evenly chosen
  Eta::Settings eta;
  RunTimes::Settings run_times;
  Correction::Settings correction;
};

/// The estimate for one job, and its actual wait. Waits count from the estimate.
struct TracedEstimate {
  Instant asked{};
  Interval raw, corrected;
  Duration truth{};
  std::int64_t gpus = 0;
  bool known = false;  ///< the job started, so `truth` is set
};
struct Replayed {
  std::vector<TracedEstimate> estimates;
  std::size_t jobs = 0, waited = 0;  ///< jobs of the trace, and those that did not start at once
  Duration longest{};                ///< longest wait
  std::vector<double> asking;        ///< seconds that each round of estimates took, for all of its jobs
};
/// Replays the trace through the scheduler in virtual time and makes estimates on the way; these know the past only.
/// `clock`: seconds of processor time, for `asking`.
[[nodiscard]] Replayed replay(const std::vector<TraceJob>& jobs, const ReplaySettings& settings, double (*clock)());

/// Accuracy of the estimates.
struct Score {
  std::size_t n = 0;
  double held = 0, below = 0, above = 0;  ///< shares of the actual waits within, below and above the interval
  double pinball_hours = 0;               ///< mean over the three quantiles and all estimates
  double median_width_hours = 0;
  double naive_pinball_hours = 0;  ///< the same for quantiles of all waits known by then, for comparison
};
[[nodiscard]] Score score(const std::vector<TracedEstimate>& estimates, bool corrected);

}  // namespace qm::admission::forecast
