#pragma once
#include "qm/admission/forecast/aging.hpp"
#include "qm/admission/forecast/windows.hpp"
#include "qm/admission/kueue/work.hpp"
#include "qm/admission/volcano/pool.hpp"
#include "qm/base/time.hpp"
#include "qm/model/ids.hpp"
#include "qm/model/resources.hpp"

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace qm::admission {

using kueue::kUnlimited;
using kueue::PreemptPolicy;
using kueue::Quota;

/// The unit of quota: one resource of one flavor.
struct FlavorResource {
  FlavorName flavor;
  std::string resource;
  friend auto operator<=>(const FlavorResource&, const FlavorResource&) = default;
};
using Usage = std::map<FlavorResource, std::int64_t>;
using Counts = std::vector<std::int32_t>;  ///< pods of each pod set, in their order; empty = all pods of all sets
using Flavors = std::map<std::string, std::map<std::string, FlavorName>>;  ///< pod set -> resource -> flavor

struct FlavorQuotas {
  FlavorName flavor;
  std::map<std::string, Quota> resources;
  friend bool operator==(const FlavorQuotas&, const FlavorQuotas&) = default;
};
struct ResourceGroup {
  std::vector<std::string> covered;
  std::vector<FlavorQuotas> flavors;  ///< in the order in which they are tried
  friend bool operator==(const ResourceGroup&, const ResourceGroup&) = default;
};

enum class Strategy : std::uint8_t { kBestEffortFifo, kStrictFifo };
enum class StopPolicy : std::uint8_t { kNone, kHold, kHoldAndDrain };

/// Quota of a queue while a window is open: nominal amounts that replace its own. Of several open windows the first
/// applies.
struct QuotaWindow {
  forecast::Window window;
  std::map<FlavorName, std::map<std::string, std::int64_t>> nominal;
  friend bool operator==(const QuotaWindow&, const QuotaWindow&) = default;
};

/// The objects that the engine reads, as plain values. `source` is the manifest of the object (JSON); the engine only
/// stores it, so that an applied object can be read back in full.
struct ClusterQueue {
  QueueName name;
  std::string cohort;
  std::vector<ResourceGroup> groups;
  Strategy strategy = Strategy::kBestEffortFifo;
  PreemptPolicy within_cluster_queue = PreemptPolicy::kNever;
  PreemptPolicy reclaim_within_cohort = PreemptPolicy::kNever;
  StopPolicy stop = StopPolicy::kNone;
  std::string source;
  bool from_cluster = false;  ///< read from the API server, so removed when it is deleted there
  bool closing = false;       ///< deleted while workloads hold its quota: admits nothing, removed with the last
  bool preempts_while_borrowing = false;             ///< borrowWithinCohort.policy is LowerPriority
  std::optional<std::int32_t> borrow_max_threshold;  ///< borrowWithinCohort.maxPriorityThreshold
  bool stops_at_borrowing = true;                    ///< flavorFungibility.whenCanBorrow: MayStopSearch
  bool stops_at_preemption = false;                  ///< flavorFungibility.whenCanPreempt: MayStopSearch
  bool prefers_borrowing = true;                     ///< flavorFungibility.preference: BorrowingOverPreemption
  std::int64_t weight_milli = 1000;                  ///< fairSharing.weight
  /// namespaceSelector, as a query on the labels of a namespace: empty string = all namespaces, nullopt = none.
  std::optional<std::string> namespaces = "";
  std::map<std::string, std::set<FlavorName>> checks;  ///< admission checks, and the flavors of each; empty = all
  Duration minimum_run{0};                             ///< its workloads are not preempted before they ran this long
  /// A Queue of Volcano: it has no quota of its own, and gets its share of the pool of all such queues.
  std::optional<volcano::QueueObject> volcano;
  bool by_usage = false;  ///< admissionMode UsageBasedAdmissionFairSharing: the least used LocalQueue goes first
  /// Its order is kept; a later workload starts earlier only if that delays no reserved start (conservative backfill).
  bool backfill = false;
  std::vector<QuotaWindow> windows;
  bool drains = false;                   ///< with windows: workloads beyond the quota and what others lend are evicted
  std::optional<forecast::Aging> aging;  ///< pending workloads rise in priority; none is passed beyond its bound
  friend bool operator==(const ClusterQueue&, const ClusterQueue&) = default;
};
/// Usage of a queue beyond its nominal quota, which it borrows. Without a cohort there is nothing to borrow: usage
/// above a lowered nominal quota is the queue's own.
[[nodiscard]] inline std::int64_t borrowed(const ClusterQueue& queue, std::int64_t used, std::int64_t nominal) {
  return queue.cohort.empty() || used < nominal ? 0 : used - nominal;
}
struct LocalQueue {
  Namespace ns;
  std::string name;
  QueueName cluster_queue;
  StopPolicy stop = StopPolicy::kNone;
  std::string source;
  bool from_cluster = false;
  std::int64_t weight_milli = 1000;  ///< fairSharing.weight: used if its cluster queue orders by usage
  friend bool operator==(const LocalQueue&, const LocalQueue&) = default;
};
/// Past usage of a local queue whose cluster queue orders by usage. Sampled on a time grid: each sampling moves it
/// towards what the queue holds, by the fraction of a half-life that passed. Quota admitted since the last sampling
/// counts at once with the share that the next sampling will give it.
using LocalName = std::pair<Namespace, std::string>;
struct LocalUsage {
  std::map<std::string, std::int64_t> consumed, entered;  ///< by resource, in the units of quota
  Instant sampled{};
  friend bool operator==(const LocalUsage&, const LocalUsage&) = default;
};
struct Cohort {
  std::string name, parent;
  std::vector<ResourceGroup> groups;
  std::string source;
  bool from_cluster = false;
  std::int64_t weight_milli = 1000;         ///< fairSharing.weight
  std::optional<volcano::Sharing> sharing;  ///< its quota is the pool of Volcano's queues
  Duration waiting_time{0};                 ///< in a pool: after this wait a workload goes first and capacity is kept
  friend bool operator==(const Cohort&, const Cohort&) = default;
};
struct Flavor {
  FlavorName name;
  Labels node_labels;
  std::vector<Taint> node_taints;
  std::vector<Toleration> tolerations;
  std::string source;
  bool from_cluster = false;
  std::string topology;  ///< the Topology of its nodes; empty = admission counts its quota only
  friend bool operator==(const Flavor&, const Flavor&) = default;
};
struct PriorityClass {
  std::string name;
  std::int32_t value = 0;
  bool workload_only = false;  ///< WorkloadPriorityClass: overrides a PriorityClass of the same name
  bool global_default = false;
  std::string source;
  bool from_cluster = false;
  Duration minimum_run{0};  ///< as of a queue; the longer one applies
  friend bool operator==(const PriorityClass&, const PriorityClass&) = default;
};

/// A condition that a controller decides for each workload with reserved quota, before the workload may start.
struct AdmissionCheck {
  std::string name, controller;
  bool active = true;       ///< its controller is active
  Duration retry_delay{0};  ///< after Retry, if the answer has none; zero = the back-off of a failed start
  std::string source;
  bool from_cluster = false;
  friend bool operator==(const AdmissionCheck&, const AdmissionCheck&) = default;
};

/// The labels by which queues select namespaces. An unknown namespace has only its name.
struct NamespaceLabels {
  Namespace name;
  Labels labels;
  std::string source;
  bool from_cluster = false;
  friend bool operator==(const NamespaceLabels&, const NamespaceLabels&) = default;
};

/// The groups of the queue with the quota at an instant.
[[nodiscard]] std::vector<ResourceGroup> groups_at(const ClusterQueue& queue, Instant now);
/// When its quota may change next; empty if it never does.
[[nodiscard]] std::optional<Instant> quota_changes_after(const ClusterQueue& queue, Instant now);

/// Amount of a resource for display: CPU and GPU are counted in thousandths, memory in bytes, everything else in units.
[[nodiscard]] std::string show_amount(std::string_view resource, std::int64_t amount);

}  // namespace qm::admission
