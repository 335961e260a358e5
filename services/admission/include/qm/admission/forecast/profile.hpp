#pragma once
#include "qm/admission/kueue/tree.hpp"
#include "qm/admission/kueue/victims.hpp"
#include "qm/base/time.hpp"

#include <map>
#include <optional>
#include <vector>

namespace qm::admission::forecast {

/// Free quota of one tree from now on: the current tree, and the times at which workloads leave and start.
///
/// Law      Reservations at a result of earliest() keep each queue within its quota, its borrowing limit and what
///          others lend, at each instant; drop() undoes reserve().
/// Bound    starts within `horizon`; ends are rounded up to `resolution`; beyond `steps` instants of change no more
///          starts are found.
/// Threads  one.
/// Cost     reserve, drop: O(log steps). earliest: O(steps · cells · depth).
class Profile {
 public:
  struct Settings {
    Duration horizon = std::chrono::hours(24 * 7);
    Duration resolution = std::chrono::minutes(1);
    std::size_t steps = 4096;
  };
  /// `tree`: with all usage at `now`.
  Profile(kueue::Tree tree, Instant now, Settings settings);
  Profile(kueue::Tree tree, Instant now) : Profile(std::move(tree), now, Settings()) {}

  /// Quota that the tree counts as used becomes free at `at`.
  void frees(kueue::Node queue, const kueue::Amounts& amounts, Instant at);
  void reserve(kueue::Node queue, const kueue::Amounts& amounts, Instant from, Duration run);
  void drop(kueue::Node queue, const kueue::Amounts& amounts, Instant from, Duration run);

  /// The first instant from which the amounts fit for `run`; empty if it is not within the bounds.
  [[nodiscard]] std::optional<Instant> earliest(kueue::Node queue, const kueue::Amounts& amounts, Duration run,
                                                Instant not_before);
  /// The available amount at that instant.
  [[nodiscard]] std::int64_t available(kueue::Node queue, kueue::Cell cell, Instant at);

  [[nodiscard]] Instant now() const { return now_; }
  [[nodiscard]] std::size_t steps() const { return changes_.size(); }

 private:
  struct Change {
    kueue::Node queue = 0;
    kueue::Amounts amounts;
    bool takes = false;
    friend bool operator==(const Change&, const Change&) = default;
  };
  using Changes = std::map<Instant, std::vector<Change>>;
  [[nodiscard]] Instant rounded(Instant at) const;
  void put(Instant at, Change change);
  void take_back(Instant at, const Change& change);
  void apply(const std::vector<Change>& changes, bool forward);
  Changes::iterator go_to(Instant at);
  void go_back(Changes::iterator from);

  kueue::Tree tree_;
  Instant now_;
  Settings settings_;
  Changes changes_;
};

/// The possible assignments of a workload, by flavor: the amounts of each, in the order in which its queue offers them;
/// empty if there are none. For workloads that do not scale, with all their pods.
/// Bound    the first 64.
[[nodiscard]] std::vector<kueue::Amounts> remedies_of(const kueue::QuotaState& field, const kueue::Work& work);

/// Conservative backfill: each pending workload in order gets the earliest start at which it fits, given all earlier
/// reservations. So a later workload may start now only if it delays no reserved start.
///
/// In a strictly ordered queue no workload starts before those ahead of it in that queue. There is no preemption.
///
/// Law      A reservation does not depend on later workloads. While no workload exceeds its declared run time, planning
///          again later in the same order gives no workload a later start.
/// Bound    `depth` reservations, and those of the profile; workloads beyond them have no start, and do not block
///          others.
/// Threads  one.
/// Cost     one earliest() for each way of each workload. A workload at the end of the order is added to the plan.
/// Source   Mu'alem and Feitelson 2001; Slurm, sched/backfill: bf_window, bf_max_job_test, bf_resolution.
class Backfill {
 public:
  struct Waiting {
    int id = -1;
    kueue::Node queue = 0;
    std::vector<kueue::Amounts> ways;
    Duration run{};         ///< run time that is reserved
    bool in_order = false;  ///< its queue is strictly ordered
  };
  struct Reservation {
    int id = -1;
    Instant start;
    std::size_t way = 0;
    friend bool operator==(const Reservation&, const Reservation&) = default;
  };
  explicit Backfill(Profile profile, std::size_t depth = 100) : profile_(std::move(profile)), depth_(depth) {}

  /// Reserves the next workload in order; empty if the bounds allow no start.
  std::optional<Reservation> next(const Waiting& work);
  [[nodiscard]] const std::vector<Reservation>& reservations() const { return reservations_; }
  [[nodiscard]] Profile& profile() { return profile_; }

 private:
  Profile profile_;
  std::size_t depth_;
  std::vector<Reservation> reservations_;
  std::map<kueue::Node, std::optional<Instant>> not_before_;  ///< in strictly ordered queues; empty: never
};

}  // namespace qm::admission::forecast
