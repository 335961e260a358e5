#pragma once
#include "qm/admission/quota.hpp"
#include "qm/base/time.hpp"
#include "qm/model/resources.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::admission {

/// The life of a workload; the numbers are those of quartermaster.v1.WorkloadPhase.
enum class Phase : std::uint8_t {
  kPending = 1,
  kQuotaReserved = 2,
  kAdmitted = 3,
  kEvicting = 4,  ///< an order stands; quota is held until the pods are gone
  kFinished = 5,
  kCancelled = 6,
};
[[nodiscard]] std::string_view name_of(Phase phase);

/// What placement last said about the current attempt; the numbers are those of quartermaster.v1.AssignmentState.
enum class Answer : std::uint8_t { kNone = 0, kReserved = 1, kShort = 2, kBound = 3, kReleased = 4, kExpired = 5 };

/// Whether a workload is made of pods of its own, rather than of a Job that makes them.
[[nodiscard]] inline bool is_pods(std::string_view kind) { return kind == "Pod" || kind == "PodGroup"; }

struct Eviction {
  std::string reason, message;
  Instant deadline{}, ordered{};
  bool checkpoint = false;
  Instant requeue_at{};  ///< not tried again before; zero = at once
  friend bool operator==(const Eviction&, const Eviction&) = default;
};

/// Room that is being made for a workload that waits: what it will have, once its victims are gone.
struct Claim {
  Flavors flavors;
  Usage usage;
  Counts counts;
  std::vector<WorkloadUid> victims;
  friend bool operator==(const Claim&, const Claim&) = default;
};
/// What an admission check says; the numbers are those of quartermaster.v1.CheckState.
enum class Verdict : std::uint8_t { kPending = 1, kReady = 2, kRetry = 3, kRejected = 4 };
[[nodiscard]] std::string_view name_of(Verdict verdict);
struct CheckAnswer {
  Verdict verdict = Verdict::kPending;
  std::string message;
  Instant at{};
  friend bool operator==(const CheckAnswer&, const CheckAnswer&) = default;
};

/// Who displaced a workload, when, and whether it was admitted since.
struct Displacer {
  Instant at{};
  bool settled = false;
  friend bool operator==(const Displacer&, const Displacer&) = default;
};
using Displacers = std::map<WorkloadUid, Displacer>;

/// One row per workload. Everything else that the engine knows about it is derived from this.
struct Workload {
  WorkloadSpec spec;  ///< `priority` is resolved from the class
  std::int32_t attempt = 1;
  Phase phase = Phase::kPending;
  std::uint64_t version = 0;      ///< events said about it so far
  QueueName cluster_queue;        ///< empty while it leads nowhere
  bool priority_unknown = false;  ///< its class does not exist: it waits
  Flavors flavors;
  Usage usage;                  ///< held from QuotaReserved until release
  Counts counts;                ///< of the attempt that holds quota, where some of its pods will do
  std::int32_t ended_pods = 0;  ///< of a Job that runs: pods that nothing is left for, and that hold no quota any more
  std::optional<Claim> claim;   ///< only while it waits
  Displacers displacers;        ///< who gave it cause to wait; they bind it (ADR 0019)
  Instant queued{}, quota_reserved{}, admitted{}, finished{};
  bool succeeded = false;
  std::optional<Eviction> eviction;
  std::string reason;  ///< of the newest transition

  Answer answer = Answer::kNone;
  std::string reservation, short_reason;
  std::int32_t short_streak = 0;  ///< attempts in a row for which there was no room
  std::int32_t promised_attempt = 0;
  Instant promised_until{};  ///< a node is announced for then
  std::string resume_uri;
  std::int32_t resume_attempt = 0;  ///< the attempt that wrote it
  Instant saved{};                  ///< when that was heard: work since then is lost with the pods
  Instant kept_until{};  ///< its minimum run time ends: nobody displaces it before; zero = it has none, or it is over

  Instant not_before{};  ///< end of back-off; zero = ready
  Instant ask_at{};      ///< when the open question or order is sent again
  Instant give_up_at{};  ///< end of the wait for what was announced or must follow

  bool cancelled = false;  ///< ends at the next release
  std::string cancel_reason;
  bool job_gone = false;
  bool queue_is_direct = false;  ///< the label named a cluster queue
  std::int32_t intents = 0;      ///< issued so far, for their ids
  std::int32_t open_intents = 0;
  bool others_place = false;  ///< another scheduler binds its pods: quota alone admits it, nobody reports its release

  // What has to hold beside quota (terms.cpp).
  std::map<std::string, CheckAnswer> checks;  ///< that its queue asks of its flavors, while it holds quota
  bool gated = false;    ///< holds quota and may not start yet: checks are open, or others have to be ready first
  std::string inactive;  ///< why it was deactivated, and then it is not tried until it is activated; empty = active
  std::string refused;   ///< why its pods would be refused; it is not tried meanwhile
  std::optional<bool> wished;  ///< what its object says of being active; nothing = it says nothing
  Duration max_execution{0};   ///< it may be admitted so long, over all attempts; zero = no limit
  Duration ran{0};             ///< in earlier attempts, counted against that
  Instant pods_ready{};        ///< since when all of its pods are ready; zero = not all are
  Instant pods_lost{};         ///< since when they are not although they were; zero = they never were, or they are
  std::int32_t requeues = 0;   ///< times its pods were not ready in time
  Instant requeued{};          ///< its place in the queue is from here on, where that is not its age
  bool patient = false;        ///< room that appears does not end its back-off
  std::string budget;          ///< that cannot pay for it: it is not tried until it can; empty = all can

  [[nodiscard]] bool holds_quota() const {
    return phase == Phase::kQuotaReserved || phase == Phase::kAdmitted || phase == Phase::kEvicting;
  }
  /// What it runs with: fewer pods than it asked for, where it was admitted so.
  [[nodiscard]] WorkloadSpec running() const;
  [[nodiscard]] bool ended() const { return phase == Phase::kFinished || phase == Phase::kCancelled; }
  /// From when on it counts as waiting, among equal priorities.
  [[nodiscard]] Instant waits_since() const { return requeued == Instant{} ? spec.submitted : requeued; }
  [[nodiscard]] bool ready() const {
    return phase == Phase::kPending && !cluster_queue.empty() && !priority_unknown && not_before == Instant{} &&
           inactive.empty() && refused.empty() && budget.empty();
  }
  friend bool operator==(const Workload&, const Workload&) = default;
};

/// A job that was asked for and is not yet seen in the cluster; key namespace/name.
struct Submission {
  Namespace ns;
  std::string name, queue;
  Team team;
  std::string intent;
  Instant at{};
  bool failed = false;
  std::string error;
  friend bool operator==(const Submission&, const Submission&) = default;
};

}  // namespace qm::admission
