#pragma once
#include "qm/admission/forecast/correction.hpp"
#include "qm/admission/forecast/eta.hpp"
#include "qm/base/result.hpp"

#include <string>
#include <vector>

namespace qm::admission::forecast {

/// One job of a trace, by its submission.
struct TraceJob {
  Duration submitted{}, runs{};
  std::int64_t gpus = 0;
  std::string team;
};
/// Reads `submit_s,duration_s,num_gpus,vc`; kInvalid names the line.
[[nodiscard]] Result<std::vector<TraceJob>> read_jobs(const std::string& path);

/// How the jobs are run: a queue for each team, all in one cohort, each with the share of the GPUs that its team used of all.
struct ReplaySettings {
  std::int64_t gpus = 500;
  bool strict = false;                           ///< queues keep to their order
  bool reclaim = false;                          ///< a team takes back what is its own
  bool arrivals = true;                          ///< in the futures others come too
  Duration begin = std::chrono::hours(24 * 14);  ///< of asking; before it, it only learns
  Duration end = std::chrono::hours(24 * 100);   ///< of asking; then it is only played on until all is known
  Duration every = std::chrono::hours(6);        ///< it asks for those who came since, and wait
  int most = 24;                                 ///< of them, evenly chosen
  Eta::Settings eta;
  RunTimes::Settings run_times;
  Correction::Settings correction;
};

/// What was said to one job, and what came. Waits count from the question.
struct Told {
  Instant asked{};
  Interval raw, corrected;
  Duration truth{};
  std::int64_t gpus = 0;
  bool known = false;  ///< the trace says when it started
};
struct Replayed {
  std::vector<Told> told;
  std::size_t jobs = 0, waited = 0;  ///< all of the trace, and those that did not start at once
  Duration longest{};                ///< wait
  std::vector<double> asking;        ///< seconds that each question took, for all whom it was about
};
/// Plays the trace through the decider in virtual time and asks for estimates on the way; only what is past is known to them.
/// `clock`: seconds of processor time, for `asking`.
[[nodiscard]] Replayed replay(const std::vector<TraceJob>& jobs, const ReplaySettings& settings, double (*clock)());

/// How good they were.
struct Score {
  std::size_t n = 0;
  double held = 0, below = 0, above = 0;  ///< shares of truths
  double pinball_hours = 0;               ///< mean over the three quantiles and all estimates
  double median_width_hours = 0;
  double naive_pinball_hours = 0;  ///< of quantiles of all truths known by then, for comparison
};
[[nodiscard]] Score score(const std::vector<Told>& told, bool corrected);

}  // namespace qm::admission::forecast
