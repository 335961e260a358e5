#pragma once
#include "qm/admission/kueue/displacements.hpp"
#include "qm/admission/volcano/capacity.hpp"
#include "qm/admission/volcano/proportion.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace qm::admission::volcano {

/// The rule that shares a pool out to its queues. kDrf serves the queue that received least (hierarchical DRF), up
/// to the capabilities, and never reclaims.
enum class Sharing : std::uint8_t { kProportion, kCapacity, kDrf };
/// The values proportion, capacity and drf.
[[nodiscard]] std::optional<Sharing> sharing_of(std::string_view word);

/// Schedules the workloads of one resource pool, each as a whole, by Volcano's rules, continuously. Where Volcano runs
/// sessions, run() decides until nothing more can be decided.
///
/// The queue that the rule serves first is considered first. In it overdue jobs come first, by deadline, then the
/// others by priority, age and uid. A job that fits is admitted. Otherwise it reclaims from other queues what the
/// rule allows, or preempts lower priorities of its own queue. It then has a claim until its victims are gone. Idle
/// resources are counted as they will be then: claimed capacity is not available to other jobs. A job that a later
/// one in the same run would preempt is not admitted.
///
/// Order    the decisions of run() follow from the pending, claiming and holding jobs and from past preemptions; never
///          from the sequence that led there.
/// Law      no more is held than exists, and by no queue more than its capability; a plan has no victim that is
///          above the preemptor (ADR 0019); after run() no job is pending that its rule would admit.
/// Units    instants in the unit of the owner. Threads  one; a copy is a snapshot.
/// Cost     run: O(queues · log · resources) for each admission, and O(held · policy) for each shape and queue that may
///          reclaim and finds too little.
/// Source   Volcano, pkg/scheduler/actions: allocate, reclaim, preempt; ADR 0020.
class Pool {
 public:
  struct Job {
    int id = -1;
    QueueId queue = 0;
    Resources needs;
    std::int32_t priority = 0;
    std::int64_t created = 0;
    std::string uid;
    bool preemptable = true;
    std::optional<std::int64_t> deadline = {};  ///< when its waiting time expires
    std::int64_t since = 0;                     ///< when it got its resources
    std::int64_t min_runtime_until = 0;         ///< no preemption before
  };

  Pool(Queues queues, Sharing by)
      : queues_(std::move(queues)), held_(queues_), by_(by), lines_(static_cast<std::size_t>(queues_.size())) {}

  /// From now on the job is pending; has a claim to the resources of these victims; holds its needs; or holds them
  /// and is being evicted.
  void wait(Job job);
  void claim(Job job, std::vector<int> victims);
  void hold(Job job);
  void leave(int id);
  /// The job is removed.
  void remove(int id);
  void min_runtime_end(int id, std::int64_t instant) { entries_.at(id).job.min_runtime_until = instant; }
  [[nodiscard]] kueue::PreemptionGraph& preemptions() { return preemptions_; }

  enum class Why : std::uint8_t { kReclaim, kPriority };
  struct Displaced {
    int victim = -1, by = -1;
    Why why = Why::kReclaim;
  };
  struct Outcome {
    std::vector<int> admitted, claimed, unclaimed;
    std::vector<Displaced> displaced;
  };
  Outcome run(std::int64_t now);

  /// The amount that a queue deserves now; its capability if the rule has no deserved amounts.
  [[nodiscard]] Resources deserved(QueueId queue) const;
  [[nodiscard]] const Queues& queues() const { return queues_; }
  [[nodiscard]] const std::vector<int>& victims_of(int id) const { return entries_.at(id).victims; }
  /// The next instant after `after` at which the waiting time of a job expires.
  [[nodiscard]] std::optional<std::int64_t> alarm(std::int64_t after) const;
  /// The jobs that are being evicted, in no particular order.
  [[nodiscard]] std::vector<int> leaving() const;

  /// What blocks a job: each resource with too little, and the limit that applies.
  struct Obstacle {
    enum class Kind : std::uint8_t {
      kClosed,      ///< the queue is closed, or has queues below it
      kNever,       ///< more than the queue may ever use
      kCapability,  ///< beyond the capability of the queue or of one above it
      kShare,       ///< beyond what the queue deserves now
      kIdle,        ///< other jobs hold it
    };
    Kind kind = Kind::kIdle;
    std::size_t resource = 0;
    std::int64_t asked = 0, left = 0;
  };
  [[nodiscard]] std::vector<Obstacle> obstacles(const Job& job) const;
  /// A minimal set of holders whose end would admit the job; empty if there is none.
  [[nodiscard]] std::vector<int> holders_to_finish(const Job& job) const;

 private:
  enum class At : std::uint8_t { kWaiting, kClaiming, kHolding, kLeaving };
  struct WorkloadEntry {
    Job job;
    At at = At::kWaiting;
    std::vector<int> victims;
  };
  using Key = std::tuple<std::int64_t, std::int64_t, std::string, int>;
  /// The pending jobs of a queue. Jobs with equal needs have equal results, except overdue jobs and those with a
  /// preemption.
  struct Line {
    std::map<Resources, std::set<Key>> shapes;
    std::set<std::pair<std::int64_t, int>> deadlines;
  };
  struct Tried {
    bool blocked = false;
    std::set<Resources> shapes;
    std::set<int> jobs;
  };
  struct Drf;

  static Key key_of(const Job& job) { return {-std::int64_t{job.priority}, job.created, job.uid, job.id}; }
  Line& line_of(const Job& job) { return lines_[static_cast<std::size_t>(job.queue)]; }
  void sit(Job job, At at, std::vector<int> victims = {});
  void move(WorkloadEntry& entry, At at);
  void enter(const WorkloadEntry& entry);
  void depart(const WorkloadEntry& entry);
  /// Order of overdue jobs: earlier deadline first.
  static std::pair<std::int64_t, Key> deadline_key(const Job& job) { return {*job.deadline, key_of(job)}; }
  [[nodiscard]] bool overdue(const Job& job) const { return job.deadline && *job.deadline <= now_; }
  [[nodiscard]] Resources idle_for(const Job& job) const;
  [[nodiscard]] bool fits_now(const Job& job) const;
  [[nodiscard]] const Job* first(QueueId queue, const Tried& tried) const;
  void give_up(const Job& job, Tried& tried) const;
  /// Calls `then` with the rule, as it follows from the current requests of all queues.
  template <class Then>
  auto by_rule(Then&& then) const;
  template <class Rule>
  void reserve_for_overdue(const Rule& rule);
  [[nodiscard]] bool admit_claims();
  void serve_all(Outcome& out);
  enum class Served : std::uint8_t { kNone, kFromIdle, kFromVictims };
  template <class Rule>
  Served serve(const Rule& rule, QueueId queue, Tried& tried, Outcome& out);
  template <class Rule>
  [[nodiscard]] std::vector<Displaced> plan(const Rule& rule, const Job& job) const;
  void carry_out(int id, const std::vector<Displaced>& plan, Outcome& out);

  Queues queues_;  ///< as it will be once evicted jobs are gone and claims are admitted
  Queues held_;    ///< as it is
  Sharing by_;
  std::map<int, WorkloadEntry> entries_;
  std::vector<Line> lines_;
  std::set<Key> claims_;
  std::set<int> admitted_now_;  ///< in this run
  struct Kept {
    std::pair<std::int64_t, Key> turn;
    Resources needs;
  };
  std::vector<Kept> kept_;  ///< idle resources kept for overdue jobs
  kueue::PreemptionGraph preemptions_;
  std::int64_t now_ = 0;
};

}  // namespace qm::admission::volcano
