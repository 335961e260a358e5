#pragma once
#include "qm/admission/exact/displacements.hpp"
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

/// By which rule a pool is shared out to its queues. kDrf serves who has had least (hierarchical DRF), up to the capabilities, and
/// takes nothing back.
enum class Sharing : std::uint8_t { kProportion, kCapacity, kDrf };
/// The words proportion, capacity and drf.
[[nodiscard]] std::optional<Sharing> sharing_of(std::string_view word);

/// The workloads of one pool of resources, each as a whole, decided by Volcano's rules as things happen: where Volcano holds
/// sessions, run() decides until nothing more can be decided.
///
/// The queue that the rule serves first is looked at first, and in it who is overdue, by the end of its time, then by priority,
/// age and uid. Who fits is admitted. Who does not, takes back from other queues what the rule lets it, or else from lower
/// priorities of its own queue, and has a claim until its victims are gone. What is idle counts as it will be then: room that
/// somebody has a claim to is nobody else's. Whoever would have to give way to someone who comes later in the same run is not
/// admitted in the first place.
///
/// Order    what run() decides follows from who waits, claims and holds, and who displaced whom; never from how that came about.
/// Law      never more is held than there is, and by no queue more than its capability; a plan takes nobody who is above the
///          taker (ADR 0019); after run() nobody waits whom its rule would admit.
/// Units    instants as the owner counts them. Threads  one; a copy is a snapshot.
/// Cost     run: O(queues · log · resources) for each who is admitted, and O(held · policy) for each shape and queue that may
///          take back and finds too little.
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
    std::optional<std::int64_t> deadline = {};  ///< when its waiting time is over
    std::int64_t since = 0;                     ///< when it got what it holds
    std::int64_t kept_until = 0;                ///< nobody displaces it before
  };

  Pool(Queues queues, Sharing by)
      : queues_(std::move(queues)), held_(queues_), by_(by), lines_(static_cast<std::size_t>(queues_.size())) {}

  /// From now on the job waits; has a claim that these leave for; holds what it needs; and holds it but is leaving.
  void wait(Job job);
  void claim(Job job, std::vector<int> victims);
  void hold(Job job);
  void leave(int id);
  /// It is not here any more.
  void remove(int id);
  void keep_until(int id, std::int64_t instant) { seats_.at(id).job.kept_until = instant; }
  [[nodiscard]] exact::Displacements& displacements() { return displacements_; }

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

  /// What a queue deserves now: its capability where the rule knows no deserts.
  [[nodiscard]] Resources deserved(QueueId queue) const;
  [[nodiscard]] const Queues& queues() const { return queues_; }
  [[nodiscard]] const std::vector<int>& victims_of(int id) const { return seats_.at(id).victims; }
  /// When somebody's waiting time is over next, after an instant.
  [[nodiscard]] std::optional<std::int64_t> alarm(std::int64_t after) const;
  /// Who is leaving, in no order that means anything.
  [[nodiscard]] std::vector<int> leaving() const;

  /// What is in the way of a job: each resource of which there is too little, and whose word that is.
  struct Obstacle {
    enum class Kind : std::uint8_t {
      kClosed,      ///< the queue takes nobody, or has queues below it
      kNever,       ///< more than the queue may ever have
      kCapability,  ///< the queue, or one above it, may not have so much more
      kShare,       ///< beyond what the queue deserves now
      kIdle,        ///< others have it
    };
    Kind kind = Kind::kIdle;
    std::size_t resource = 0;
    std::int64_t asked = 0, left = 0;
  };
  [[nodiscard]] std::vector<Obstacle> obstacles(const Job& job) const;
  /// As few who hold something as would let the job in if they ended; empty where none would.
  [[nodiscard]] std::vector<int> ends_that_admit(const Job& job) const;

 private:
  enum class At : std::uint8_t { kWaiting, kClaiming, kHolding, kLeaving };
  struct Seat {
    Job job;
    At at = At::kWaiting;
    std::vector<int> victims;
  };
  using Key = std::tuple<std::int64_t, std::int64_t, std::string, int>;
  /// Who waits in a queue: jobs of the same needs fare alike, but for those who are overdue or whom a displacement concerns.
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
  void move(Seat& seat, At at);
  void enter(const Seat& seat);
  void depart(const Seat& seat);
  /// Of who is overdue: the earlier end of the waiting time first.
  static std::pair<std::int64_t, Key> turn_of(const Job& job) { return {*job.deadline, key_of(job)}; }
  [[nodiscard]] bool overdue(const Job& job) const { return job.deadline && *job.deadline <= now_; }
  [[nodiscard]] Resources idle_for(const Job& job) const;
  [[nodiscard]] bool fits_now(const Job& job) const;
  [[nodiscard]] const Job* first(QueueId queue, const Tried& tried) const;
  void give_up(const Job& job, Tried& tried) const;
  /// Calls with the rule, as it follows from what all queues want now.
  template <class Then>
  auto by_rule(Then&& then) const;
  template <class Rule>
  void keep_for_overdue(const Rule& rule);
  [[nodiscard]] bool settle();
  void serve_all(Outcome& out);
  enum class Served : std::uint8_t { kNobody, kFromIdle, kFromOthers };
  template <class Rule>
  Served serve(const Rule& rule, QueueId queue, Tried& tried, Outcome& out);
  template <class Rule>
  [[nodiscard]] std::vector<Displaced> plan(const Rule& rule, const Job& job) const;
  void carry_out(int id, const std::vector<Displaced>& plan, Outcome& out);

  Queues queues_;  ///< as it will be once who is leaving has left, and who has a claim is admitted
  Queues held_;    ///< as it is
  Sharing by_;
  std::map<int, Seat> seats_;
  std::vector<Line> lines_;
  std::set<Key> claims_;
  std::set<int> admitted_now_;  ///< by this run
  struct Kept {
    std::pair<std::int64_t, Key> turn;
    Resources needs;
  };
  std::vector<Kept> kept_;  ///< of what is idle, for who is overdue
  exact::Displacements displacements_;
  std::int64_t now_ = 0;
};

}  // namespace qm::admission::volcano
