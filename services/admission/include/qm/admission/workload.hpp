#pragma once
#include "qm/admission/quota.hpp"
#include "qm/base/shared.hpp"
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
  kRejected = 7,  ///< its object asks for what is not supported; an update of the object is parsed again
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
  Shared<Flavors> flavors;
  Shared<Usage> usage;
  Shared<Counts> counts;
  std::vector<WorkloadUid> victims;
  friend bool operator==(const Claim&, const Claim&) = default;
};
/// What an admission check says; the numbers are those of quartermaster.v1.CheckState.
enum class Verdict : std::uint8_t { kPending = 1, kReady = 2, kRetry = 3, kRejected = 4 };
[[nodiscard]] std::string_view name_of(Verdict verdict);
/// What a check adds to the pods of one pod set when it is Ready: Kueue's podSetUpdates.
struct PodSetUpdate {
  Labels labels, annotations, node_selector;
  std::vector<Toleration> tolerations;
  friend bool operator==(const PodSetUpdate&, const PodSetUpdate&) = default;
};
struct CheckAnswer {
  Verdict verdict = Verdict::kPending;
  std::string message;
  Instant at{};
  std::map<std::string, PodSetUpdate> updates = {};  ///< by pod set; of a check that is Ready
  friend bool operator==(const CheckAnswer&, const CheckAnswer&) = default;
};

/// Who displaced a workload, when, and whether it was admitted since.
struct Displacer {
  Instant at{};
  bool settled = false;
  friend bool operator==(const Displacer&, const Displacer&) = default;
};
using Displacers = std::map<WorkloadUid, Displacer>;

using Text = Shared<std::string>;
using WholeSeconds = std::chrono::duration<std::int32_t>;

/// A WorkloadSpec as rows keep it: what workloads of one shape, queue or team have in common, they share.
struct Spec {
  Uid uid;
  Shared<Namespace> ns;
  std::string name;
  Text kind = "Job", queue, priority_class;
  Shared<Team> team;
  Shared<std::vector<PodSet>> pod_sets;
  Instant submitted{};
  Duration expected_runtime{0};
  Shared<Labels> labels;
  std::int32_t priority = 0;
  bool checkpoints = false;
  bool pods_to_come = false;  ///< only its group is there: it holds quota behind the gate until its pods are

  Spec() = default;
  Spec(const WorkloadSpec& from);
  operator WorkloadSpec() const;
  [[nodiscard]] std::int64_t total_gpu_milli() const;
  [[nodiscard]] std::int32_t total_pods() const;
  friend bool operator==(const Spec&, const Spec&) = default;
};

/// What few workloads have.
struct Exceptions {
  std::string refused;   ///< why its pods would be refused; it is not tried meanwhile
  std::string rejected;  ///< field, value and remedy of what its object asks for and is not supported
  std::string cancel_reason;
  std::optional<Spec>
      next;  ///< what its object asks for, where it holds quota for something else; used after the release
  std::uint32_t next_print = 0;  ///< spec_print of that
  std::int32_t grow_to = 0;      ///< of a Job that runs: pods that it asks for or has, where quota of some is lacking
  std::int32_t grown_from = 0;   ///< of one that grew: pods that have to run together; 0 = all
  void forget_next() {
    next.reset();
    next_print = 0;
  }
  friend bool operator==(const Exceptions&, const Exceptions&) = default;
};

/// One row per workload. Everything else that the engine knows about it is derived from this. Very many wait, so what few have is
/// a pointer, and what many have in common is shared.
struct Workload {
  Spec spec;  ///< `priority` is resolved from the class
  Phase phase = Phase::kPending;
  Answer answer = Answer::kNone;
  bool priority_unknown = false;  ///< its class does not exist: it waits
  bool succeeded = false;
  std::int32_t attempt = 1;
  std::uint64_t version = 0;        ///< events said about it so far
  Shared<QueueName> cluster_queue;  ///< empty while it leads nowhere
  Shared<Flavors> flavors;
  Shared<Usage> usage;            ///< held from QuotaReserved until release
  Shared<Counts> counts;          ///< of the attempt that holds quota, where some of its pods will do
  Rare<Claim> claim;              ///< only while it waits
  Shared<Displacers> displacers;  ///< who gave it cause to wait; they bind it (ADR 0019)
  Instant queued{}, quota_reserved{}, admitted{}, finished{};
  Rare<Eviction> eviction;
  Text reason;  ///< of the newest transition

  Text reservation, short_reason;
  /// Of a Job that runs: pods that nothing is left for, and that hold no quota any more. Negative: so many run beyond those that were
  /// admitted, as another scheduler binds them, and their quota is held too.
  std::int32_t ended_pods = 0;
  std::uint16_t short_streak = 0;  ///< attempts in a row for which there was no room
  std::uint16_t quota_turn =
      0;  ///< 1, 2, ... of those that got quota in the same step, in the order decided; at most 65535
  std::int32_t promised_attempt = 0;
  std::int32_t resume_attempt = 0;  ///< the attempt that wrote it
  Instant promised_until{};         ///< a node is announced for then
  Text resume_uri;
  Instant saved{};       ///< when that was heard: work since then is lost with the pods
  Instant kept_until{};  ///< its minimum run time ends: nobody displaces it before; zero = it has none, or it is over

  Instant not_before{};  ///< end of back-off; zero = ready
  Instant ask_at{};      ///< when the open question or order is sent again
  Instant give_up_at{};  ///< end of the wait for what was announced or must follow

  bool cancelled = false;  ///< ends at the next release
  bool job_gone = false;
  bool queue_is_direct = false;  ///< the label named a cluster queue
  bool others_place = false;  ///< another scheduler binds its pods: quota alone admits it, nobody reports its release
  std::int32_t intents = 0;   ///< issued so far, for their ids
  std::int32_t open_intents = 0;

  // What has to hold beside quota (terms.cpp).
  std::int32_t requeues = 0;  ///< times its pods were not ready in time
  std::uint32_t spec_print =
      0;  ///< of the object that `spec` was read from, as JobSeen has it: only that one is let go
  Shared<std::map<std::string, CheckAnswer>> checks;  ///< that its queue asks of its flavors, while it holds quota
  Text inactive;  ///< why it was deactivated, and then it is not tried until it is activated; empty = active
  Rare<Exceptions> exceptions;  ///< use the accessors
  Duration max_execution{0};    ///< it may be admitted so long, over all attempts; zero = no limit
  Duration ran{0};              ///< in earlier attempts, counted against that
  Instant pods_ready{};         ///< since when all of its pods are ready; zero = not all are
  Instant pods_lost{};          ///< since when they are not although they were; zero = they never were, or they are
  Instant requeued{};           ///< its place in the queue is from here on, where that is not its age
  std::optional<bool> wished;   ///< what its object says of being active; nothing = it says nothing
  bool gated = false;    ///< holds quota and may not start yet: checks are open, or others have to be ready first
  bool patient = false;  ///< room that appears does not end its back-off
  WholeSeconds waiting_time{0};  ///< as JobSeen has it
  Text budget;                   ///< that cannot pay for it: it is not tried until it can; empty = all can

  /// How long it is taken to run where starts are reserved: as it says or as its like ran, when it was first seen; zero = not known.
  Duration planned{0};

  [[nodiscard]] const std::string& refused() const { return exceptions ? exceptions->refused : no_text(); }
  [[nodiscard]] const std::string& rejected() const { return exceptions ? exceptions->rejected : no_text(); }
  [[nodiscard]] const std::string& cancel_reason() const { return exceptions ? exceptions->cancel_reason : no_text(); }
  /// Null where its object asks for what it has or waits for.
  [[nodiscard]] const Spec* next() const { return exceptions && exceptions->next ? &*exceptions->next : nullptr; }
  template <class Fn>
  void except(Fn&& fn) {
    Exceptions all = exceptions ? *exceptions : Exceptions{};
    fn(all);
    exceptions = all == Exceptions{} ? Rare<Exceptions>() : Rare<Exceptions>(std::move(all));
  }
  [[nodiscard]] static const std::string& no_text();
  [[nodiscard]] bool holds_quota() const {
    return phase == Phase::kQuotaReserved || phase == Phase::kAdmitted || phase == Phase::kEvicting;
  }
  /// Of an elastic Job that runs: pods that it asks for, where quota of some is lacking; 0 = it has quota of all. Where another scheduler
  /// binds them, these run.
  [[nodiscard]] std::int32_t grow_to() const { return exceptions ? exceptions->grow_to : 0; }
  [[nodiscard]] bool waits_to_grow() const { return phase == Phase::kAdmitted && grow_to() > 0 && !others_place; }
  /// What it runs with: fewer pods than it asked for, where it was admitted so. Of one that grew not all have to run together.
  [[nodiscard]] WorkloadSpec running() const;
  [[nodiscard]] std::int64_t running_gpu_milli() const;
  [[nodiscard]] std::int32_t running_pods() const;
  /// Of running_pods(), those whose quota is held.
  [[nodiscard]] std::int32_t counted_pods() const { return running_pods() - ended_pods; }
  [[nodiscard]] bool ended() const { return phase == Phase::kFinished || phase == Phase::kCancelled; }
  /// From when on it counts as waiting, among equal priorities.
  [[nodiscard]] Instant waits_since() const { return requeued == Instant{} ? spec.submitted : requeued; }
  [[nodiscard]] bool ready() const {
    return phase == Phase::kPending && !cluster_queue.empty() && !priority_unknown && not_before == Instant{} &&
           inactive.empty() && refused().empty() && budget.empty() && !spec.pod_sets.empty();
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
