#pragma once
#include "qm/admission/budgets.hpp"
#include "qm/admission/forecasts.hpp"
#include "qm/admission/job_updated.hpp"
#include "qm/admission/options.hpp"
#include "qm/admission/proposals.hpp"
#include "qm/admission/workload_table.hpp"
#include "qm/base/digest.hpp"
#include "qm/base/ranked.hpp"
#include "qm/base/result.hpp"
#include "qm/base/table.hpp"
#include "qm/base/time.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace qm::admission {

// ---- commands: the inputs of a step ----

/// Creates or replaces queues, cohorts, flavors, topologies, priority classes, namespace labels and admission checks.
/// Objects that are not named do not change.
struct ApplyObjects {
  std::vector<ClusterQueue> cluster_queues;
  std::vector<LocalQueue> local_queues;
  std::vector<Cohort> cohorts;
  std::vector<Flavor> flavors;
  std::vector<PriorityClass> priority_classes;
  std::vector<NamespaceLabels> namespaces;
  std::vector<AdmissionCheck> admission_checks;
  std::vector<Topology> topologies;
  std::vector<std::string> applied;   ///< "ClusterQueue/research", for the reply
  std::vector<std::string> warnings;  ///< from the parser; the engine appends its own
  bool dry_run = false;
};
/// An object was deleted from the API server. A row that has since been applied in another way
/// (`from_cluster` is false) is kept.
struct ObjectDeleted {
  std::string kind;  ///< "ClusterQueue", ...
  Namespace ns;
  std::string name;
};
/// The complete list of the objects of one kind in the API server. Rows of this kind that came from the API server
/// and are not in the list are removed.
struct ObjectsSynced {
  std::string kind;
  std::set<std::pair<Namespace, std::string>> names;
};
struct PlacementUpdated {
  WorkloadUid uid;
  std::int32_t attempt = 0;
  Answer state = Answer::kNone;
  std::string reservation, reason;
  Instant expires{};
};
struct PromiseUpdated {
  WorkloadUid uid;
  std::int32_t attempt = 0;
  Instant ready_by{};
  bool withdrawn = false;
};
struct CheckpointUpdated {
  WorkloadUid uid;
  std::int32_t attempt = 0;
  std::string uri;
  std::int64_t number = 0;  ///< of the order to save; grows. 0 = published by an earlier release
};
/// The workloads that placement publishes as pending with free capacity for their pods: the complete list, in
/// placement order.
struct RequeueListUpdated {
  std::vector<std::pair<WorkloadUid, std::int32_t>> items;  ///< with the pending attempt
};
struct EvictionRequested {
  WorkloadUid uid;
  std::int32_t attempt = 0;
  std::string reason, message;
  Instant deadline{};
  std::string resume_uri;
  std::string from;  ///< "placement", "autoscaler"
  std::int64_t checkpoint_number = 0;
};
/// A job to create; `job` is the object as it goes to the API server.
struct Submit {
  Namespace ns;
  std::string name, queue, priority_class;
  Team team;
  std::string job;
};
struct Cancel {
  WorkloadUid uid;  ///< or namespace and name
  Namespace ns;
  std::string name, reason;
};
/// The answer to an admission check of a workload.
struct AnswerCheck {
  WorkloadUid uid;  ///< or namespace and name
  Namespace ns;
  std::string name, check;
  Verdict verdict = Verdict::kPending;
  std::string message;
  Duration retry_after{0};                           ///< with Retry; zero: `retry_delay` of the AdmissionCheck
  std::int32_t attempt = 0;                          ///< the attempt that the answer is for; 0: the current one
  std::map<std::string, PodSetUpdate> updates = {};  ///< with Ready; by pod set
};
/// `spec.active` of the Workload object that mirrors a workload.
struct ActiveUpdated {
  WorkloadUid uid;
  bool active = true;
};
/// Activates or deactivates a workload. An inactive workload is not scheduled, and is evicted where it holds quota.
struct SetActive {
  WorkloadUid uid;  ///< or namespace and name
  Namespace ns;
  std::string name, reason;
  bool active = true;
};
struct IntentOutcome {
  std::string kind, id;
  std::string subject;  ///< uid, or namespace/name for job.create
  std::int32_t attempt = 0;
  bool ok = true;
  bool complete = false, failed = false;  ///< the executor found that the job has finished
  std::string error;
  bool quiet = false;  ///< job.suspend: the job is suspended and has no pods left
};
/// An estimate of its start was returned for a pending workload.
struct EstimatePublished {
  WorkloadUid uid;
  StartEstimate estimate;
};
struct Tick {};
/// Marks every quota tree for scheduling, although no change in it is known.
struct Reconsider {};

using Command = std::variant<ApplyObjects, ObjectDeleted, ObjectsSynced, JobUpdated, JobDeleted, JobsSynced,
                             PlacementUpdated, PromiseUpdated, CheckpointUpdated, RequeueListUpdated, EvictionRequested,
                             Submit, Cancel, AnswerCheck, ActiveUpdated, SetActive, IntentOutcome, BudgetGranted,
                             SpendingUpdated, EstimatePublished, ProposalUpdated, NodesUpdated, Tick, Reconsider>;

// ---- output: the decisions of a step ----

struct Event {
  enum class What : std::uint8_t {
    kQueued,
    kQuotaReserved,
    kAdmitted,
    kEvicting,
    kRequeued,
    kFinished,
    kCancelled,
    kBound,        ///< all pods are bound; placement has published this already, so the event is only stored
    kChecked,      ///< the gate is open: admission checks and pod readiness no longer block it, and placement may act
    kDeactivated,  ///< while pending
    kActivated,
    kPodsEnded,  ///< the Job has fewer pods left to run, so the workload holds less quota
    kUpdated,    ///< the row changed with its object: spec, priority class or number of pods
    kRejected,   ///< the object requests something that is not supported
    kRepeated,   ///< the request or the eviction order is published again
    kForgotten,  ///< ended long ago: the row and its key are removed
  };
  What what = What::kQueued;
  Workload workload;
  Instant at{};
};
[[nodiscard]] std::string_view name_of(Event::What what);

struct Intent {
  std::string kind;  ///< job.create, job.unsuspend, job.suspend, job.delete, event.create
  std::string id;
  std::string key;          ///< namespace/name of the job: intents of one key run one after the other
  Workload workload;        ///< as of the decision
  std::string object;       ///< job.create: the job; event.create: the message
  std::string reason = {};  ///< event.create: reason of the Event; empty = QueueIsCluster
};

struct ApplyReply {
  std::vector<std::string> applied, warnings;
};
struct SubmitReply {
  Namespace ns;
  std::string name;
};
struct CancelReply {
  Phase phase = Phase::kCancelled;
};
/// Reply to AnswerCheck and SetActive.
struct PhaseReply {
  Phase phase = Phase::kPending;
};
using AnyReply = std::variant<ApplyReply, SubmitReply, CancelReply, PhaseReply>;
struct Reply {
  std::size_t command = 0;  ///< index in the batch
  Result<AnyReply> result;
};

struct Output {
  std::vector<Event> events;
  std::vector<Intent> intents;
  std::vector<Reply> replies;
  std::optional<Instant> wake_at;
  bool pending = true;  ///< workloads are pending, or gangs wait for their turn to start
};

}  // namespace qm::admission
