#pragma once
#include "qm/admission/forecast/arrivals.hpp"
#include "qm/admission/forecast/life_table.hpp"
#include "qm/admission/kueue/continuous.hpp"

#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace qm::admission::forecast {

/// The start state of a forecast: the queues of one tree with running and pending workloads, copied from the scheduler.
///
/// Nodes are not modeled: quota alone decides here.
struct Scene {
  struct Life {
    std::shared_ptr<const Lifetime> span;
    int job_class = 0;  ///< class of workloads that are likely to run equally long, as the caller numbers them
  };
  struct Running {
    kueue::Work work;  ///< with its usage, and with its pod sets if it could be preempted
    Life life;
    Instant began;
  };
  struct Waiting {
    kueue::Work work;
    Life life;
    kueue::Amounts claimed;    ///< what it will get from its victims; empty without a claim
    std::vector<int> victims;  ///< running workloads that are being evicted for it
  };
  kueue::QuotaState field;  ///< from emptied()
  std::vector<Running> running;
  std::vector<Waiting> waiting;
  std::vector<Life> of_class;  ///< of future arrivals, by class of the arrivals
};
/// The same tree and rules without workloads, and without nodes.
[[nodiscard]] kueue::QuotaState emptied(const kueue::QuotaState& field);

/// The start of a workload over a number of futures. A quantile is empty if too many futures end before the start.
struct Estimate {
  int id = -1;
  std::optional<Instant> p10, p50, p90;
  int futures = 0, started = 0;  ///< number of futures in which it started
  /// A workload whose end was the last to free capacity that it requests, before its start; most frequent first, at
  /// most three.
  struct Cause {
    int id = -1;
    int futures = 0;
    friend bool operator==(const Cause&, const Cause&) = default;
  };
  std::vector<Cause> waits_for;
  friend bool operator==(const Estimate&, const Estimate&) = default;
};

/// Estimates when pending workloads will start: simulates futures with the scheduler itself, each with other run
/// times and other arrivals, and takes quantiles of the starts.
///
/// In a future each running workload ends after a time drawn from its lifetime, given how long it has run; so does each
/// started one. New workloads arrive as in Arrivals. A victim leaves after `leaving` and starts from the beginning
/// when it is admitted again. The draws for a workload depend only on the seed, the future, its id and its job class.
///
/// Draws of one job class are not independent: a team submits twenty similar jobs with similar run times, and the
/// distribution itself is uncertain. So in each future a share `alike` of each job class has one common draw.
/// Without it errors would cancel out within each future, unlike in reality, and intervals would be far too narrow.
///
/// Law      Same scene, seed and arrivals: the same estimates. p10 <= p50 <= p90, none before now.
/// Bound    a future ends when all requested workloads have started, at `horizon`, or after `events` ends and arrivals.
/// Threads  any; reads only its arguments.
/// Cost     futures · (workloads + events · cost of the scheduler for one event); docs/results/forecast.md.
/// Source   Smith, Taylor and Foster 1999 (simulating the scheduler with predicted run times); Nissimov and
///          Feitelson 2007.
class Eta {
 public:
  struct Settings {
    int futures = 64;
    double alike = 0.5;
    std::uint64_t seed = 1;
    Duration horizon = std::chrono::hours(24 * 14);
    int events = 50'000;
    Duration leaving = std::chrono::seconds(30);
  };
  Eta() : Eta(Settings()) {}
  explicit Eta(Settings settings) : settings_(settings) {}

  /// The estimates of those of `ids` that are pending, in the order of `ids`.
  [[nodiscard]] std::vector<Estimate> ask(const Scene& scene, std::span<const int> ids, const Arrivals& arrivals,
                                          Instant now) const;

 private:
  Settings settings_;
};

}  // namespace qm::admission::forecast
