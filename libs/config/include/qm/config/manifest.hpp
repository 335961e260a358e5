#pragma once
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"
#include "qm/config/node_class.hpp"
#include "qm/model/money.hpp"
#include "qm/model/quantity.hpp"
#include "qm/model/resources.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace qm::config {

/// A message about a position in a file: "queues.yaml:14: spec.cohort: must not be empty; give it a name".
struct Diagnostic {
  enum class Severity { kWarning, kError };
  Severity severity = Severity::kError;
  std::string file;
  int line = 0;
  std::string field;
  std::string message;
  std::string remedy;
  bool unknown_field = false;  ///< a warning about a field that its kind does not have
  [[nodiscard]] std::string to_string() const;
};

/// One parsed document: its identity, its whole content, and the line of each field.
struct Document {
  std::string file;
  int line = 1;  ///< first line of the document
  std::string api_version, kind, ns, name;
  Json content;
  std::map<std::string, int> lines;  ///< "spec.cohort" -> line
  /// Fields that no typed reader used, by path ("spec.template.spec.volumes"); they are in `content`. Everything,
  /// for a document that is carried unparsed.
  std::vector<std::string> carried;
};

// ---- the kinds that engines use; each is a plain value ----

struct FlavorQuota {
  FlavorName flavor;
  std::map<std::string, Quantity> nominal;
  std::map<std::string, Quantity> borrowing_limit;  ///< absent = no limit
  std::map<std::string, Quantity> lending_limit;
};
struct ResourceGroup {
  std::vector<std::string> covered;
  std::vector<FlavorQuota> flavors;
};
struct ClusterQueue {
  QueueName name;
  std::string cohort;
  std::vector<ResourceGroup> groups;
  std::string queueing_strategy = "BestEffortFIFO";
  std::string reclaim_within_cohort = "Never", within_cluster_queue = "Never", borrow_within_cohort = "Never";
  std::int64_t fair_weight_milli = 1000;
  std::string stop_policy = "None";
};
struct LocalQueue {
  Namespace ns;
  std::string name;
  QueueName cluster_queue;
  std::string stop_policy = "None";
};
struct Cohort {
  std::string name, parent;
  std::vector<ResourceGroup> groups;
};
struct ResourceFlavor {
  FlavorName name;
  Labels node_labels;
  std::vector<Taint> node_taints;
  std::vector<Toleration> tolerations;
};
struct PriorityClass {  ///< WorkloadPriorityClass and PriorityClass
  std::string name;
  std::int32_t value = 0;
  bool workload_only = false;
  bool global_default = false;
};
struct NodePoolRequirement {
  std::string key, op;
  std::vector<std::string> values;
  std::int32_t min_values = 0;  ///< different values that the instance types of a launch must have; 0 = not set
};
/// How many nodes may be disrupted at once: "10%" or "2", always or in a cron window.
struct DisruptionBudget {
  std::string nodes;
  std::string schedule;  ///< UTC cron; empty = always
  Duration duration{0};
  std::vector<std::string> reasons;  ///< empty = all
};
struct NodePool {
  std::string name, api_version;
  std::int32_t weight = 0;
  std::vector<NodePoolRequirement> requirements;
  Labels labels;
  std::vector<Taint> taints;
  std::map<std::string, Quantity> limits;
  std::string consolidation_policy = "WhenEmptyOrUnderutilized";
  Duration consolidate_after{0};                    ///< Duration::max() = never
  Duration expire_after = std::chrono::hours(720);  ///< of a node; Duration::max() = never
  std::vector<DisruptionBudget> budgets{{"10%", {}, {}, {}}};  ///< as listed; the default where none are listed
  std::vector<Taint> startup_taints;                           ///< removed by others before the node is used
  Labels annotations;                                          ///< of nodes
  std::optional<Duration> termination_grace;                   ///< of a node that is drained; none = as long as needed
  std::string node_class;
  std::int64_t replicas = -1;  ///< of a static pool; -1 = scaled by demand
  std::string
      scaling_group;  ///< annotation quartermaster.dev/auto-scaling-group: the group that launches its instances
};
/// quartermaster.dev/v1alpha1 PricePlan: the price of a node, for providers without a price list.
struct PricePlan {
  std::string name;
  struct Entry {
    std::string instance_type, capacity_type, zone;  ///< empty = any
    HourlyRate rate;
  };
  std::vector<Entry> entries;
};
/// quartermaster.dev/v1alpha1 CheckpointPolicy: how the ranks of a team or queue save checkpoints.
struct CheckpointPolicy {
  std::string name;
  LabelSelector selector;  ///< of workload labels; empty = every workload
  std::string mode = "http";
  int port = 0;
  Duration expected{0};  ///< expected duration of a checkpoint
};
/// quartermaster.dev/v1alpha1 Budget: the amount that a queue, a namespace or a team may spend in each period.
struct Budget {
  std::string name;
  QueueName cluster_queue;  ///< exactly one of the three names identifies the owner
  Namespace ns;
  Team team;
  std::string unit;                              ///< "GPUHours" or "USD"
  Money amount;                                  ///< per period: dollars, or a number of GPU-hours
  std::string period;                            ///< "Year", "Month", "Week" (from Monday) or "Day"
  Duration utc_offset{0};                        ///< of the calendar, constant all year
  std::int32_t carry_over_percent = 0;           ///< of the remainder at its end
  std::string policy = "Hard";                   ///< or "Soft": workloads beyond it are admitted too
  Duration default_run = std::chrono::hours(1);  ///< held for workloads without an expected run time
};

using Typed = std::variant<std::monostate, ClusterQueue, LocalQueue, Cohort, ResourceFlavor, PriorityClass, NodePool,
                           NodeClass, PricePlan, CheckpointPolicy, Budget, WorkloadSpec>;

struct Object {
  Document document;
  Typed typed;  ///< monostate = carried unparsed
};

struct Loaded {
  std::vector<Object> objects;
  std::vector<Diagnostic> diagnostics;  ///< warnings, and errors
  [[nodiscard]] bool ok() const;
};

/// Parses one YAML (or JSON) text of any number of documents.
///
/// A `kind: List` is replaced by its items. A document of a kind that no engine uses is carried unparsed with a
/// warning, and so is a fragment without a kind (kind ""). An unknown version of a known group, and an unknown kind
/// of a known version, are errors that name the nearest valid one. Unknown fields of a typed kind are carried with a
/// warning; known but unused fields are carried without a warning.
///
/// Bounds   1 MiB, depth 64, 50 aliases, 100,000 nodes with aliases written out.
/// Fails    never as a call: every problem is a diagnostic. A document with an error is not in `objects`; no
///          document is applied partially. At text that is not YAML the file ends.
Loaded load_text(std::string_view text, const std::string& file);
/// Parses objects that an earlier version accepted and stored: names and amounts are not checked again.
Loaded load_stored(std::string_view text, const std::string& file);
/// Parses a file, or every *.yaml, *.yml and *.json in a folder in name order. A duplicate object is a warning.
Loaded load_path(const std::string& path);

/// The treatment of fields that the kind does not have: an API server drops them, in a file they are probably
/// mistakes.
enum class UnknownFields { kWarn, kRefuse };
/// The errors of a load as one error: a single one has its field and remedy, with file and line in the message; of
/// several, the message has one line for each.
///
/// Fails    kInvalid if there is an error, and with kRefuse if there is an unknown field.
Status accept(const Loaded& loaded, UnknownFields unknown = UnknownFields::kWarn);

/// Converts a Job (batch/v1) to a workload: pod set, shape, queue, team, priority class, runtime. kInvalid names the
/// field. The priority value is resolved later, from the priority classes, so it is 0 here.
Result<WorkloadSpec> workload_from_job(const Json& job);
/// The same for a pod without a controller, which is read as a Job of one pod: its fields have the same meaning.
Result<WorkloadSpec> workload_from_pod(const Json& pod);
/// Creates the Job for a spec: suspended, indexed, with our scheduler name. A Job has one pod set: further pod sets
/// of the spec are dropped, so callers with external specs must refuse these before.
Json job_from_workload(const WorkloadSpec& spec, const std::map<std::string, std::string>& pod_annotations);
/// The requests of a pod: the sum over containers and sidecars, the maximum over init containers, plus the overhead;
/// a limit replaces a missing request. Required node affinity is parsed if it is a plain list of In terms: device
/// models become gpu.models, single values become the node selector; anything else stays with the object.
Result<PodShape> shape_from_pod_spec(const Json& pod_spec);
/// Converts one pod to a pod set with the topology of its annotations.
Result<PodSet> pod_set_from_pod(const Json& pod, std::string name);

/// Parses a duration in Go's format: "720h", "1h30m", "1.5s", "0"; down to microseconds. kInvalid names the text.
Result<Duration> parse_duration(std::string_view text);

/// The kinds that load typed, as "group/version Kind", sorted; all other kinds are carried unparsed.
std::vector<std::string> typed_kinds();

}  // namespace qm::config
