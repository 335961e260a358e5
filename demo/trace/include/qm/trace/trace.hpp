#pragma once
#include "qm/base/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace qm::trace {

/// One job of a trace: its arrival, run time, number of GPUs, and team.
struct Job {
  std::int64_t submit_s = 0;
  std::int64_t duration_s = 0;
  std::int32_t gpus = 1;
  std::string team;  ///< the trace's virtual cluster
};

/// Reads CSV with a header that names submit_s, duration_s, num_gpus and vc, in any order; other columns are ignored.
/// Sorted by submit_s. Fails: kInvalid names line and column.
Result<std::vector<Job>> read_csv(std::string_view text, const std::string& file);

/// The jobs of [from, until): those that arrive in it, and those that run when it begins, assuming a start on
/// arrival. A running job is returned with submit_s = from and its remaining duration.
struct Window {
  std::int64_t from_s = 0, until_s = 0;
  std::vector<Job> running, arriving;
  [[nodiscard]] std::int64_t running_gpus() const;
};
Window window_of(const std::vector<Job>& jobs, std::int64_t from_s, std::int64_t until_s);

/// The busiest window of `hours` on a grid of `hours`: among those with at least a third of the jobs of the fullest
/// one, the one with the most gangs over several nodes; ties go to more jobs, then the earlier one.
Window busiest(const std::vector<Job>& jobs, int hours, std::int32_t gpus_per_node);

/// Reduces a window and keeps its pattern and load: at most `jobs` arrivals and `running_gpus` of running jobs,
/// selected evenly.
Window thinned(const Window& window, std::size_t jobs, std::int64_t running_gpus);

/// Busy hours drawn from a model of the Philly trace (Jeon et al., ATC'19, as published): sizes, run times by size
/// and shares of virtual clusters follow its figures, arrivals those of its busy hours. Same seed, same hours.
struct ModelOptions {
  std::uint64_t seed = 1;
  int hours = 4;
  double jobs_per_hour = 90;
  std::int64_t running_gpus = 280;  ///< jobs that run when the hours begin
};
Window draw(const ModelOptions& options);

/// The model's own figures, for the test that compares them with the real file.
struct Quantiles {
  std::int32_t gpus;
  double weight;       ///< share of jobs
  std::int64_t at[9];  ///< run time in seconds at 0, 5, 10, 25, 50, 75, 90, 95, 99 %
  std::int64_t max;
};
const std::vector<Quantiles>& model_sizes();
struct Share {
  const char* team;
  double weight;
};
const std::vector<Share>& model_teams();

}  // namespace qm::trace
