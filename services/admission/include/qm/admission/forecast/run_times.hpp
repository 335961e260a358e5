#pragma once
#include "qm/admission/forecast/life_table.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace qm::admission::forecast {

/// Class of workloads that are likely to run equally long.
struct JobClass {
  std::string team;   ///< or queue
  std::string shape;  ///< rough size of the request: "8 gpu"
  std::string stem;   ///< of its name; empty if it is not informative
  /// The shape under which the ratio of real to declared run times of a team is stored.
  static constexpr const char* kPromises = "declared";
  friend auto operator<=>(const JobClass&, const JobClass&) = default;
};
/// The part of a name that its repetitions share: without trailing digits and hashes ("bert-7f9c2" and "bert-12" are
/// "bert").
[[nodiscard]] std::string name_stem(std::string_view name);

/// The run time that a workload declares.
struct Declared {
  std::optional<Duration> expected;
  std::optional<Duration> deadline;  ///< when it is terminated (activeDeadlineSeconds, maximumExecutionTimeSeconds)
};

/// Estimates of run times: learned from finished runs, or declared by the workloads.
///
/// Four tables, each narrower one weighted with the wider one: all; a shape; a shape and team; a shape, team and
/// stem. The widest is weighted with a fixed prior. A declared run time is corrected by how runs of the team
/// compared to theirs: the life table then has shares of the declared time, and half of its prior is within it. No
/// lifetime exceeds a deadline.
///
/// Bound    at most `kinds` tables; of more the least recently used is dropped, and the wider one is used. Of running
///          workloads `running` count as observed so far; of more the newest.
/// Threads  one.
/// Cost     O(levels · spans) for each end; the same, and O(running · spans) of the job class, for each query. Results
///          are cached for `fresh`.
/// Source   why declared times alone are insufficient: Mu'alem and Feitelson 2001; Tsafrir, Etsion and Feitelson 2007.
class RunTimes {
 public:
  struct Settings {
    Duration half_life = std::chrono::hours(24 * 14);  ///< of observations
    Duration prior_median = std::chrono::minutes(20);
    double leaning = 8;  ///< weight of the wider table, in lifetimes
    std::size_t kinds = 4096;
    std::size_t running = 256;  ///< of one job class
    Duration fresh = std::chrono::minutes(10);
  };
  RunTimes() : RunTimes(Settings()) {}
  explicit RunTimes(Settings settings);

  using Id = int;
  /// It runs from now on. An id that runs already is restarted.
  void started(Id id, const JobClass& job_class, const Declared& declared, Instant now);
  /// It finished, or was cut off: preempted, or out of our control. Unknown ids are ignored.
  void ended(Id id, LifeTable::End how, Instant now);

  /// What a run of this length teaches: about its job class, and, as a share of the declared time, about its team's
  /// declarations.
  struct Lesson {
    JobClass of;
    Duration lived{};
  };
  [[nodiscard]] static std::vector<Lesson> lessons(const JobClass& job_class, const Declared& declared, Duration ran);

  /// Restores the observations of one job class; they count for the wider ones as well.
  void restore(const JobClass& job_class, const LifeTable& table);
  /// The next wider job class; empty for the widest.
  [[nodiscard]] static std::optional<JobClass> wider(const JobClass& job_class);
  /// The narrowest job class with lifetimes that still count, and their number; the widest and zero if there is none.
  struct Evidence {
    JobClass of;
    double lives = 0;
  };
  [[nodiscard]] Evidence evidence(const JobClass& job_class, const Declared& declared, Instant now) const;

  /// The lifetime of a workload of this job class, from its start.
  [[nodiscard]] Lifetime of(const JobClass& job_class, const Declared& declared, Instant now);
  [[nodiscard]] std::size_t kinds() const { return kinds_.size(); }

 private:
  struct Kind {
    LifeTable table;
    std::multiset<Instant> running;
    Instant used{};
    std::optional<std::pair<Instant, Lifetime::Hazards>> answer;
  };
  struct Run {
    JobClass job_class;
    Declared declared;
    Instant began;
  };
  [[nodiscard]] static std::vector<JobClass> chain_of(const JobClass& job_class);  ///< widest first, each once
  [[nodiscard]] static JobClass promises_of(const JobClass& job_class);
  Kind& kind(const JobClass& job_class, Instant now);
  Lifetime::Hazards learned(const JobClass& job_class, const Lifetime::Hazards& wider, Instant now);

  Settings settings_;
  Lifetime::Hazards prior_, promise_prior_;
  std::map<JobClass, Kind> kinds_;
  std::map<Id, Run> running_;
};

}  // namespace qm::admission::forecast
