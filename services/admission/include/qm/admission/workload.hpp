#pragma once
#include "qm/admission/quota.hpp"
#include "qm/admission/topology.hpp"
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

/// The phases of a workload; the numbers are those of quartermaster.v1.WorkloadPhase.
enum class Phase : std::uint8_t {
  kPending = 1,
  kQuotaReserved = 2,
  kAdmitted = 3,
  kEvicting = 4,  ///< eviction is ordered; quota is held until the pods are gone
  kFinished = 5,
  kCancelled = 6,
  kRejected = 7,  ///< its object requests what is not supported; each update of the object is parsed again
};
[[nodiscard]] std::string_view name_of(Phase phase);

/// The last answer of placement for the current attempt; the numbers are those of quartermaster.v1.AssignmentState.
enum class Answer : std::uint8_t { kNone = 0, kReserved = 1, kShort = 2, kBound = 3, kReleased = 4, kExpired = 5 };

/// Whether a workload consists of pods themselves, not of a Job that creates them.
[[nodiscard]] inline bool is_pods(std::string_view kind) { return kind == "Pod" || kind == "PodGroup"; }

struct Eviction {
  std::string reason, message;
  Instant deadline{}, ordered{};
  bool checkpoint = false;
  Instant requeue_at{};  ///< not scheduled again before this; zero = at once
  friend bool operator==(const Eviction&, const Eviction&) = default;
};

/// Quota that is assigned to a pending workload and becomes free once its victims are gone.
struct Claim {
  Shared<Flavors> flavors;
  Shared<Usage> usage;
  Shared<Counts> counts;
  Shared<TopologyAssignments> nodes;
  std::vector<WorkloadUid> victims;
  friend bool operator==(const Claim&, const Claim&) = default;
};
/// The state of an admission check; the numbers are those of quartermaster.v1.CheckState.
enum class Verdict : std::uint8_t { kPending = 1, kReady = 2, kRetry = 3, kRejected = 4 };
[[nodiscard]] std::string_view name_of(Verdict verdict);
/// What a Ready check adds to the pods of one pod set: Kueue's podSetUpdates.
struct PodSetUpdate {
  Labels labels, annotations, node_selector;
  std::vector<Toleration> tolerations;
  friend bool operator==(const PodSetUpdate&, const PodSetUpdate&) = default;
};
struct CheckAnswer {
  Verdict verdict = Verdict::kPending;
  std::string message;
  Instant at{};
  std::map<std::string, PodSetUpdate> updates = {};  ///< by pod set; from a check that is Ready
  friend bool operator==(const CheckAnswer&, const CheckAnswer&) = default;
};

/// A preemption of a workload: when it happened, and whether the preemptor was admitted since.
struct Preemptor {
  Instant at{};
  bool settled = false;
  friend bool operator==(const Preemptor&, const Preemptor&) = default;
};
using Preemptors = std::map<WorkloadUid, Preemptor>;

using Text = Shared<std::string>;
using WholeSeconds = std::chrono::duration<std::int32_t>;

/// A WorkloadSpec as rows store it. Parts that workloads of one shape, queue or team have in common are shared.
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
  Shared<CheckpointTerms> checkpoint;
  bool checkpoints = false;
  bool pods_expected = false;  ///< only its group exists: it holds quota behind the gate until its pods exist

  Spec() = default;
  Spec(const WorkloadSpec& from);
  operator WorkloadSpec() const;
  [[nodiscard]] std::int64_t total_gpu_milli() const;
  [[nodiscard]] std::int32_t total_pods() const;
  friend bool operator==(const Spec&, const Spec&) = default;
};

/// Fields that few workloads have.
struct Exceptions {
  std::string refused;   ///< why its pods would be refused; it is not scheduled meanwhile
  std::string rejected;  ///< field, value and remedy of an unsupported request of its object
  std::string cancel_reason;
  /// What its object requests, where it holds quota for something else; used after the release.
  std::optional<Spec> next;
  std::uint32_t next_print = 0;  ///< spec_print of `next`
  std::int32_t scale_up_to = 0;  ///< of a running Job: pods that it requests or has, where quota for some is missing
  std::int32_t scaled_from = 0;  ///< of a Job that scaled up: pods that have to run together; 0 = all
  Shared<TopologyAssignments> nodes;  ///< from QuotaReserved until release, where a flavor has a topology
  void forget_next() {
    next.reset();
    next_print = 0;
  }
  friend bool operator==(const Exceptions&, const Exceptions&) = default;
};

/// One row per workload. Everything else that the engine knows about it is derived from the row. Very many
/// workloads are pending, so rare fields are a pointer, and common values are shared.
struct Workload {
  Spec spec;  ///< `priority` is resolved from the class
  Phase phase = Phase::kPending;
  Answer answer = Answer::kNone;
  bool priority_unknown = false;  ///< its class does not exist: it stays pending
  bool succeeded = false;
  std::int32_t attempt = 1;
  std::uint64_t version = 0;        ///< number of events published for it
  Shared<QueueName> cluster_queue;  ///< empty while its queue name resolves to none
  Shared<Flavors> flavors;
  Shared<Usage> usage;            ///< from QuotaReserved until release
  Shared<Counts> counts;          ///< of the attempt that holds quota, where it started with fewer pods
  Rare<Claim> claim;              ///< only while pending
  Shared<Preemptors> preemptors;  ///< workloads that preempted it and still bind it (ADR 0019)
  Instant queued{}, quota_reserved{}, admitted{}, finished{};
  Rare<Eviction> eviction;
  Text reason;  ///< of the newest transition

  Text reservation, short_reason;
  /// Of a running Job: pods that have no work left and no longer hold quota. Negative: that many more pods run than
  /// were admitted, because another scheduler binds them; their quota is held too.
  std::int32_t ended_pods = 0;
  std::uint16_t short_streak = 0;  ///< successive attempts without free capacity
  /// 1, 2, ... in decision order, among the workloads that got quota in the same step; at most 65535.
  std::uint16_t quota_position = 0;
  std::int32_t promised_attempt = 0;
  std::int32_t resume_attempt = 0;  ///< the attempt that wrote it
  std::int64_t resume_number = 0;   ///< of the order to save: with the attempt, an older checkpoint is not used
  Instant promised_until{};         ///< a node is announced for then
  Text resume_uri;
  Instant saved{};              ///< when the checkpoint was reported: work since then is lost with the pods
  Instant min_runtime_until{};  ///< end of its minimum run time: no preemption before; zero = none, or over

  Instant not_before{};      ///< end of back-off; zero = ready
  Instant retry_at{};        ///< when an unanswered request or order is published again
  Instant wait_deadline{};   ///< end of the wait for an announced or required event
  Instant reserved_until{};  ///< end of the reservation of placement's last answer; zero = it has none

  bool cancelled = false;  ///< ends at the next release
  bool job_deleted = false;
  bool queue_is_direct = false;  ///< the label names a cluster queue
  bool external_scheduler =
      false;                 ///< another scheduler binds its pods: quota alone admits it, and no release is reported
  std::int32_t intents = 0;  ///< issued so far, for their ids
  std::int32_t open_intents = 0;

  // Conditions in addition to quota (admission_checks.cpp).
  std::int32_t requeues = 0;  ///< how often its pods were not ready in time
  /// Of the object that `spec` was parsed from, as in JobUpdated: only that object is unsuspended.
  std::uint32_t spec_print = 0;
  Shared<std::map<std::string, CheckAnswer>> checks;  ///< required by its queue for its flavors, while it holds quota
  Text inactive;                    ///< why it was deactivated; it is not scheduled until activated; empty = active
  Rare<Exceptions> exceptions;      ///< use the accessors
  Duration max_execution{0};        ///< limit of admitted time over all attempts; zero = no limit
  Duration ran{0};                  ///< in earlier attempts, counted against that
  Instant pods_ready{};             ///< since when all of its pods are ready; zero = not all are
  Instant pods_lost{};              ///< since when some are not ready although all were; zero = never were, or all are
  Instant requeued{};               ///< start of its queue position, where that is not its age
  std::optional<bool> spec_active;  ///< `spec.active` of its object; empty = not set
  bool gated = false;    ///< holds quota and may not start yet: checks are pending, or others must be ready first
  bool patient = false;  ///< free capacity does not end its back-off
  WholeSeconds waiting_time{0};  ///< as in JobUpdated
  Text budget;                   ///< the budget that cannot pay for it: not scheduled until it can; empty = all can

  /// Its assumed run time where starts are reserved, declared or learned from similar workloads when it was first
  /// observed; zero = unknown.
  Duration planned{0};

  [[nodiscard]] const std::string& refused() const { return exceptions ? exceptions->refused : no_text(); }
  [[nodiscard]] const std::string& rejected() const { return exceptions ? exceptions->rejected : no_text(); }
  /// Its nodes, by pod set; empty where admission assigned none.
  [[nodiscard]] const TopologyAssignments& nodes() const { return exceptions ? *exceptions->nodes : no_nodes(); }
  [[nodiscard]] const std::string& cancel_reason() const { return exceptions ? exceptions->cancel_reason : no_text(); }
  /// Null if its object requests what the workload has or is pending for.
  [[nodiscard]] const Spec* next() const { return exceptions && exceptions->next ? &*exceptions->next : nullptr; }
  template <class Fn>
  void except(Fn&& fn) {
    Exceptions all = exceptions ? *exceptions : Exceptions{};
    fn(all);
    exceptions = all == Exceptions{} ? Rare<Exceptions>() : Rare<Exceptions>(std::move(all));
  }
  [[nodiscard]] static const std::string& no_text();
  [[nodiscard]] static const TopologyAssignments& no_nodes();
  [[nodiscard]] bool holds_quota() const {
    return phase == Phase::kQuotaReserved || phase == Phase::kAdmitted || phase == Phase::kEvicting;
  }
  /// Of a running elastic Job: pods that it requests, where quota for some is missing; 0 = it has quota for all. Where
  /// another scheduler binds them, these pods run.
  [[nodiscard]] std::int32_t scale_up_to() const { return exceptions ? exceptions->scale_up_to : 0; }
  [[nodiscard]] bool scale_up_pending() const {
    return phase == Phase::kAdmitted && scale_up_to() > 0 && !external_scheduler;
  }
  /// What it runs with: fewer pods than requested, if it was admitted so. After a scale-up not all have to run
  /// together.
  [[nodiscard]] WorkloadSpec running() const;
  [[nodiscard]] std::int64_t running_gpu_milli() const;
  [[nodiscard]] std::int32_t running_pods() const;
  /// Of running_pods(), those that hold quota.
  [[nodiscard]] std::int32_t counted_pods() const { return running_pods() - ended_pods; }
  [[nodiscard]] bool ended() const { return phase == Phase::kFinished || phase == Phase::kCancelled; }
  /// The instant from which it counts as pending, among equal priorities.
  [[nodiscard]] Instant waits_since() const { return requeued == Instant{} ? spec.submitted : requeued; }
  [[nodiscard]] bool ready() const {
    return phase == Phase::kPending && !cluster_queue.empty() && !priority_unknown && not_before == Instant{} &&
           inactive.empty() && refused().empty() && budget.empty() && !spec.pod_sets.empty();
  }
  friend bool operator==(const Workload&, const Workload&) = default;
};

/// A submitted job that is not yet observed in the cluster; key namespace/name.
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
