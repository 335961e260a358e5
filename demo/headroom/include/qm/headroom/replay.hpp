#pragma once
#include "qm/base/result.hpp"
#include "qm/trace/trace.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace qm::headroom {

/// What the users were promised, and the nodes. A job runs on whole nodes of the smallest shape that fits it: of 1, 2, 4
/// or 8 GPUs; a job of more GPUs on several nodes of eight.
struct Terms {
  std::int64_t wait_s = 60;
  std::int64_t quantile_ppm = 950'000;
  std::int64_t boot_s = 240;
  std::int64_t nano_usd_gpu_hour = 4'000'000'000;
  std::int64_t memory_s = 90 * 86'400;  ///< of the history from which levels are planned
};
inline constexpr std::int64_t kShapeGpus[] = {1, 2, 4, 8};

/// Of the jobs that arrive in the measured part.
struct Outcome {
  std::int64_t jobs = 0, in_time = 0;
  double usd = 0;  ///< of free and starting nodes; nodes in use cost the same under every policy
  [[nodiscard]] double share() const {
    return jobs == 0 ? 1 : static_cast<double>(in_time) / static_cast<double>(jobs);
  }
};

/// Jobs of one shape in virtual time: first come, first served; a released node that is not needed is terminated; nodes
/// are launched at once when free, starting and missing ones are fewer than the level.
///
/// `level`   free nodes wanted, by time; called at each event, and each 300 s.
/// `started` called with the arrival and the wait of each job; may be empty.
/// Order     the same input gives the same outcome.
class ShapeReplay {
 public:
  using Level = std::function<std::int64_t(std::int64_t now_s)>;
  using Started = std::function<void(std::int64_t at_s, std::int64_t wait_s)>;
  [[nodiscard]] static Outcome run(const std::vector<trace::Job>& jobs, std::int64_t gpus, const Terms& terms,
                                   std::int64_t from_s, std::int64_t until_s, const Level& level,
                                   const Started& started = {});
};
/// The jobs of a shape, with the number of nodes in `gpus`.
[[nodiscard]] std::vector<trace::Job> jobs_of(const std::vector<trace::Job>& jobs, std::int64_t gpus);

/// Levels planned every day from what was known then, and corrected by what was attained. Each shape has to attain the
/// quantile on its own.
[[nodiscard]] Result<Outcome> planned(const std::vector<trace::Job>& jobs, std::int64_t gpus, const Terms& terms,
                                      std::int64_t from_s, std::int64_t until_s);
/// The smallest constant level that attains the quantile in [from_s, until_s): known only afterwards.
struct Static {
  std::int64_t level = 0;
  Outcome outcome;
};
[[nodiscard]] Static smallest_static(const std::vector<trace::Job>& jobs, std::int64_t gpus, const Terms& terms,
                                     std::int64_t from_s, std::int64_t until_s);

}  // namespace qm::headroom
