#pragma once
#include "qm/admission/exact/continuous.hpp"
#include "qm/admission/forecast/arrivals.hpp"
#include "qm/admission/forecast/life_table.hpp"

#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace qm::admission::forecast {

/// What a future begins from: one tree's queues with who runs and who waits, copied from the decider.
///
/// Nodes are not looked at: quota alone decides here.
struct Scene {
  struct Life {
    std::shared_ptr<const Lifetime> span;
    int kin = 0;  ///< as the caller numbers those who are likely to run alike
  };
  struct Running {
    exact::Work work;  ///< with its usage, and with its pod sets where it might be displaced
    Life life;
    Instant began;
  };
  struct Waiting {
    exact::Work work;
    Life life;
    exact::Amounts claimed;    ///< what it is waiting to be left by its victims; empty where it has no claim
    std::vector<int> victims;  ///< who run, and are leaving
  };
  exact::Field field;  ///< as made by emptied()
  std::vector<Running> running;
  std::vector<Waiting> waiting;
  std::vector<Life> of_class;  ///< of those who will come, by class of the arrivals
};
/// The same tree and rules without anybody in it, and without nodes.
[[nodiscard]] exact::Field emptied(const exact::Field& field);

/// When a workload starts, over a number of futures. Where too many of them end before it does, an instant is not known.
struct Estimate {
  int id = -1;
  std::optional<Instant> p10, p50, p90;
  int futures = 0, started = 0;  ///< in how many of them it did
  /// Whose end was the last before its start that gave room where it wants it; most often first, at most three.
  struct Cause {
    int id = -1;
    int futures = 0;
    friend bool operator==(const Cause&, const Cause&) = default;
  };
  std::vector<Cause> waits_for;
  friend bool operator==(const Estimate&, const Estimate&) = default;
};

/// Says when waiting workloads will start: plays futures with the decider itself, each with other run times and other arrivals, and
/// takes quantiles of the starts.
///
/// In a future everybody who runs ends after a time drawn from its lifetime, given how long it has run; so does everybody who
/// starts; others come as Arrivals has it. Who is displaced leaves after `leaving` and begins anew when it is admitted again. What
/// is drawn for a workload depends on the seed, the future, its id and kin alone.
///
/// Those of one kin are no independent draws: a team submits twenty like jobs, which run alike, and the law itself is known only
/// so well. So in each future a share `alike` of each kin has one draw in common. Without it the errors of many cancel out in every
/// future as they do not in the world, and intervals come out far too narrow.
///
/// Law      Same scene, seed and arrivals: the same estimates. p10 <= p50 <= p90, none before now.
/// Bound    a future ends when all who are asked for have started, at `horizon`, or after `events` ends and arrivals.
/// Threads  any; reads only its arguments.
/// Cost     futures · (who is there + events · what the decider takes for one); docs/results/forecast.md.
/// Source   Smith, Taylor and Foster 1999 (simulating the scheduler with predicted run times); Nissimov and Feitelson 2007.
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

  /// Of those of `ids` that wait, in the order of `ids`.
  [[nodiscard]] std::vector<Estimate> ask(const Scene& scene, std::span<const int> ids, const Arrivals& arrivals,
                                          Instant now) const;

 private:
  Settings settings_;
};

}  // namespace qm::admission::forecast
