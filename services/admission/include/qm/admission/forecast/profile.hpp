#pragma once
#include "qm/admission/exact/tree.hpp"
#include "qm/admission/exact/victims.hpp"
#include "qm/base/time.hpp"

#include <map>
#include <optional>
#include <vector>

namespace qm::admission::forecast {

/// What one quota tree has free from now on: the tree as it is, and who leaves and comes when.
///
/// Law      What was reserved where earliest() said so keeps every queue within its quota, its borrowing limit and what the others
///          lend, at every instant; drop() undoes reserve().
/// Bound    starts within `horizon`; ends are rounded up to `resolution`; beyond `steps` instants of change nothing
///          more is found.
/// Threads  one.
/// Cost     reserve, drop: O(log steps). earliest: O(steps · cells · depth).
class Profile {
 public:
  struct Settings {
    Duration horizon = std::chrono::hours(24 * 7);
    Duration resolution = std::chrono::minutes(1);
    std::size_t steps = 4096;
  };
  /// `tree`: with all that is used at `now`.
  Profile(exact::Tree tree, Instant now, Settings settings);
  Profile(exact::Tree tree, Instant now) : Profile(std::move(tree), now, Settings()) {}

  /// What the tree counts as used comes free then.
  void frees(exact::Node queue, const exact::Amounts& amounts, Instant at);
  void reserve(exact::Node queue, const exact::Amounts& amounts, Instant from, Duration run);
  void drop(exact::Node queue, const exact::Amounts& amounts, Instant from, Duration run);

  /// The first instant from which the amounts fit for so long; nothing where that is not within the bounds.
  [[nodiscard]] std::optional<Instant> earliest(exact::Node queue, const exact::Amounts& amounts, Duration run,
                                                Instant not_before);
  /// What may be taken then.
  [[nodiscard]] std::int64_t available(exact::Node queue, exact::Cell cell, Instant at);

  [[nodiscard]] Instant now() const { return now_; }
  [[nodiscard]] std::size_t steps() const { return changes_.size(); }

 private:
  struct Change {
    exact::Node queue = 0;
    exact::Amounts amounts;
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

  exact::Tree tree_;
  Instant now_;
  Settings settings_;
  Changes changes_;
};

/// The ways in which a workload could be admitted, flavor by flavor: the amounts of each, in the order in which its queue offers
/// them; empty where it could not be. For workloads that do not grow, and with all their pods.
/// Bound    the first 64.
[[nodiscard]] std::vector<exact::Amounts> ways_of(const exact::Field& field, const exact::Work& work);

/// Conservative backfill: each waiting workload in its turn gets the earliest start at which it fits, given all that were reserved
/// before it. So a later one may start now only where no start before it moves.
///
/// In a queue that keeps to its order nobody starts before those ahead of it in that queue. Nobody is displaced.
///
/// Law      What is reserved for one does not depend on who comes after it. While nobody runs longer than was said, planning
///          again later in the same order gives nobody a later start.
/// Bound    `depth` reservations, and those of the profile; who is beyond them has no start, and is not waited for.
/// Threads  one.
/// Cost     one earliest() for each way of each workload. Who comes last in the order is added to what is planned.
/// Source   Mu'alem and Feitelson 2001; Slurm, sched/backfill: bf_window, bf_max_job_test, bf_resolution.
class Backfill {
 public:
  struct Waiting {
    int id = -1;
    exact::Node queue = 0;
    std::vector<exact::Amounts> ways;
    Duration run{};         ///< that it is given
    bool in_order = false;  ///< its queue keeps to its order
  };
  struct Reservation {
    int id = -1;
    Instant start;
    std::size_t way = 0;
    friend bool operator==(const Reservation&, const Reservation&) = default;
  };
  explicit Backfill(Profile profile, std::size_t depth = 100) : profile_(std::move(profile)), depth_(depth) {}

  /// The next in the order; nothing where the bounds leave no start.
  std::optional<Reservation> next(const Waiting& work);
  [[nodiscard]] const std::vector<Reservation>& reservations() const { return reservations_; }
  [[nodiscard]] bool starts_now(const Reservation& one) const { return one.start <= profile_.now(); }
  [[nodiscard]] Profile& profile() { return profile_; }

 private:
  Profile profile_;
  std::size_t depth_;
  std::vector<Reservation> reservations_;
  std::map<exact::Node, std::optional<Instant>> not_before_;  ///< in queues that keep to their order; nothing: never
};

}  // namespace qm::admission::forecast
