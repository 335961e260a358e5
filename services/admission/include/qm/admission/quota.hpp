#pragma once
#include "qm/admission/exact/work.hpp"
#include "qm/admission/forecast/ageing.hpp"
#include "qm/admission/forecast/windows.hpp"
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

using exact::kUnlimited;
using exact::PreemptPolicy;
using exact::Quota;

/// What quota is counted in: one resource of one flavor.
struct FlavorResource {
  FlavorName flavor;
  std::string resource;
  friend auto operator<=>(const FlavorResource&, const FlavorResource&) = default;
};
using Usage = std::map<FlavorResource, std::int64_t>;
using Counts = std::vector<std::int32_t>;  ///< pods of each pod set, in their order; empty = all of all
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

/// Quota of a queue while a window is open: nominal amounts that stand in place of its own. Where several are open the first counts.
struct QuotaWindow {
  forecast::Window window;
  std::map<FlavorName, std::map<std::string, std::int64_t>> nominal;
  friend bool operator==(const QuotaWindow&, const QuotaWindow&) = default;
};

/// The objects that the engine reads, as plain values. `source` is the manifest that the object came from (JSON); the
/// engine only keeps it, so that what was applied reads back whole.
struct ClusterQueue {
  QueueName name;
  std::string cohort;
  std::vector<ResourceGroup> groups;
  Strategy strategy = Strategy::kBestEffortFifo;
  PreemptPolicy within_cluster_queue = PreemptPolicy::kNever;
  PreemptPolicy reclaim_within_cohort = PreemptPolicy::kNever;
  StopPolicy stop = StopPolicy::kNone;
  std::string source;
  bool from_cluster = false;  ///< read from the API server, so gone when it is gone there
  bool closing = false;       ///< deleted while workloads hold its quota: nothing new, and gone with the last of them
  bool preempts_while_borrowing = false;             ///< borrowWithinCohort.policy is LowerPriority
  std::optional<std::int32_t> borrow_max_threshold;  ///< borrowWithinCohort.maxPriorityThreshold
  bool stops_at_borrowing = true;                    ///< flavorFungibility.whenCanBorrow: MayStopSearch
  bool stops_at_preemption = false;                  ///< flavorFungibility.whenCanPreempt: MayStopSearch
  bool prefers_borrowing = true;                     ///< flavorFungibility.preference: BorrowingOverPreemption
  std::int64_t weight_milli = 1000;                  ///< fairSharing.weight
  /// namespaceSelector, as a query on the labels of a namespace: empty = every namespace, nothing = none.
  std::optional<std::string> namespaces = "";
  std::map<std::string, std::set<FlavorName>> checks;  ///< admission checks, and of which flavors; empty = of all
  Duration minimum_run{0};                             ///< nobody displaces its workloads before they ran so long
  /// A Queue of Volcano's: it has no quota of its own, the pool that holds all of these is shared out to it.
  std::optional<volcano::QueueObject> volcano;
  bool by_usage = false;  ///< admissionMode UsageBasedAdmissionFairSharing: the LocalQueue that used least goes first
  bool backfill =
      false;  ///< its order holds, and who comes later passes only where no reserved start moves (conservative)
  std::vector<QuotaWindow> windows;
  bool drains = false;  ///< with windows: who runs beyond the quota and what the others lend is evicted
  std::optional<forecast::Ageing> ageing;  ///< who waits rises, and is passed for no longer than its bound
  friend bool operator==(const ClusterQueue&, const ClusterQueue&) = default;
};
/// What a queue uses beyond its nominal quota, and so borrows. Without a cohort there is nothing to borrow: usage above a nominal quota that
/// was lowered is the queue's own.
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
  std::int64_t weight_milli = 1000;  ///< fairSharing.weight: counts where its cluster queue goes by usage
  friend bool operator==(const LocalQueue&, const LocalQueue&) = default;
};
/// What a local queue used of late, where its cluster queue goes by usage. Sampled on a grid of time: from one sampling to the
/// next it moves towards what the queue holds, by the share of a half-life that passed. What was admitted since the last one
/// counts at once with what the next will make of it.
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
  Duration waiting_time{0};                 ///< in a pool: who waited so long goes first, and room is kept for it
  friend bool operator==(const Cohort&, const Cohort&) = default;
};
struct Flavor {
  FlavorName name;
  Labels node_labels;
  std::vector<Taint> node_taints;
  std::vector<Toleration> tolerations;
  std::string source;
  bool from_cluster = false;
  friend bool operator==(const Flavor&, const Flavor&) = default;
};
struct PriorityClass {
  std::string name;
  std::int32_t value = 0;
  bool workload_only = false;  ///< WorkloadPriorityClass: wins over a PriorityClass of the same name
  bool global_default = false;
  std::string source;
  bool from_cluster = false;
  Duration minimum_run{0};  ///< as of a queue; the longer one holds
  friend bool operator==(const PriorityClass&, const PriorityClass&) = default;
};

/// A question that others answer of each workload which holds quota, before it may start.
struct AdmissionCheck {
  std::string name, controller;
  bool active = true;       ///< somebody says that they answer it
  Duration retry_delay{0};  ///< after Retry, where the answer says none; zero = as after a start that failed
  std::string source;
  bool from_cluster = false;
  friend bool operator==(const AdmissionCheck&, const AdmissionCheck&) = default;
};

/// What queues select namespaces by. One that was never seen has its name alone.
struct NamespaceLabels {
  Namespace name;
  Labels labels;
  std::string source;
  bool from_cluster = false;
  friend bool operator==(const NamespaceLabels&, const NamespaceLabels&) = default;
};

/// The queue's groups with the quota that holds at an instant.
[[nodiscard]] std::vector<ResourceGroup> groups_at(const ClusterQueue& queue, Instant now);
/// When that may be another; nothing where it stays.
[[nodiscard]] std::optional<Instant> quota_changes_after(const ClusterQueue& queue, Instant now);

/// Amount of a resource for people: CPU and GPU are counted in thousandths, memory in bytes, all else in units.
[[nodiscard]] std::string show_amount(std::string_view resource, std::int64_t amount);

}  // namespace qm::admission
