#pragma once
#include "qm/admission/forecast/life_table.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace qm::admission::forecast {

/// By what workloads are told apart that are likely to run as long as each other.
struct Kin {
  std::string team;   ///< or queue
  std::string shape;  ///< what it asks for, coarsely: "8 gpu"
  std::string stem;   ///< of its name; empty where it says nothing
  /// The shape under which it is kept how a team keeps to what it declares.
  static constexpr const char* kPromises = "declared";
  friend auto operator<=>(const Kin&, const Kin&) = default;
};
/// The part of a name that its repetitions share: without digits and hashes at the end ("bert-7f9c2" and "bert-12" are "bert").
[[nodiscard]] std::string stem_of(std::string_view name);

/// What the workload says of itself.
struct Declared {
  std::optional<Duration> expected;
  std::optional<Duration> deadline;  ///< after which it is ended (activeDeadlineSeconds, maximumExecutionTimeSeconds)
};

/// What is known of how long workloads run: learned from those that ran, declared by themselves.
///
/// Four tables lean on each other, the narrower on the wider: of all, of a shape, of a shape and team, of a shape, team and stem;
/// the one of all leans on a stated prior. Who declares a run time is judged by how those of the team kept to theirs: the life
/// table is then one of shares of what was declared, and its prior has half of them within it. Nobody outlives a deadline.
///
/// Bound    `kinds` tables at most; of more the one that was used longest ago is forgotten, and the wider one answers. Of those
///          that run, `running` count as seen so far; of more the newest.
/// Threads  one.
/// Cost     O(levels · spans) for each end; the same, and O(running · spans) of the kin, for each question. Answers
///          are kept for `fresh`.
/// Source   why declared times alone will not do: Mu'alem and Feitelson 2001; Tsafrir, Etsion and Feitelson 2007.
class RunTimes {
 public:
  struct Settings {
    Duration half_life = std::chrono::hours(24 * 14);  ///< of what was seen
    Duration prior_median = std::chrono::minutes(20);
    double leaning = 8;  ///< lives, on the wider table
    std::size_t kinds = 4096;
    std::size_t running = 256;  ///< of one kin
    Duration fresh = std::chrono::minutes(10);
  };
  RunTimes() : RunTimes(Settings()) {}
  explicit RunTimes(Settings settings);

  using Id = int;
  /// It runs from now on. An id that runs already is started anew.
  void started(Id id, const Kin& kin, const Declared& declared, Instant now);
  /// It ended by itself, or was cut off: displaced, or taken from us. Unknown ids are passed over.
  void ended(Id id, LifeTable::End how, Instant now);

  /// What a run of so long teaches: of its kin, and of how its team keeps to what it declares, in shares of that.
  struct Lesson {
    Kin of;
    Duration lived{};
  };
  [[nodiscard]] static std::vector<Lesson> lessons(const Kin& kin, const Declared& declared, Duration ran);

  /// What was learned of a kind earlier, and kept: it counts for the wider ones as well.
  void restore(const Kin& kin, const LifeTable& table);
  /// The next wider kind; nothing for the widest.
  [[nodiscard]] static std::optional<Kin> wider(const Kin& kin);
  /// The narrowest kind of which a life counts still, and how many do; the widest, and none, where there is no such kind.
  struct Evidence {
    Kin of;
    double lives = 0;
  };
  [[nodiscard]] Evidence evidence(const Kin& kin, const Declared& declared, Instant now) const;

  /// The lifetime of a workload of this kind, from its start.
  [[nodiscard]] Lifetime of(const Kin& kin, const Declared& declared, Instant now);
  [[nodiscard]] std::size_t kinds() const { return kinds_.size(); }

 private:
  struct Kind {
    LifeTable table;
    std::multiset<Instant> running;
    Instant used{};
    std::optional<std::pair<Instant, Lifetime::Hazards>> answer;
  };
  struct Run {
    Kin kin;
    Declared declared;
    Instant began;
  };
  [[nodiscard]] static std::vector<Kin> chain_of(const Kin& kin);  ///< widest first, each once
  [[nodiscard]] static Kin promises_of(const Kin& kin);
  Kind& kind(const Kin& kin, Instant now);
  Lifetime::Hazards learned(const Kin& kin, const Lifetime::Hazards& wider, Instant now);

  Settings settings_;
  Lifetime::Hazards prior_, promise_prior_;
  std::map<Kin, Kind> kinds_;
  std::map<Id, Run> running_;
};

}  // namespace qm::admission::forecast
