#pragma once
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"
#include "qm/model/money.hpp"
#include "qm/model/quantity.hpp"
#include "qm/model/resources.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace qm::config {

/// Something to say about a place in a file: "queues.yaml:14: spec.cohort: must not be empty; give it a name".
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

/// One document as read: its identity, its whole content, and where each field stands.
struct Document {
  std::string file;
  int line = 1;  ///< first line of the document
  std::string api_version, kind, ns, name;
  Json content;
  std::map<std::string, int> lines;  ///< "spec.cohort" -> line
  /// Fields that no typed reader took, by path ("spec.template.spec.volumes"); they are in `content`. All of a document
  /// that is carried whole.
  std::vector<std::string> carried;
};

// ---- the kinds that engines read; every one is a plain value ----

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
  std::vector<DisruptionBudget> budgets;
  std::string node_class;
  std::int64_t replicas = -1;  ///< of a static pool; -1 = it follows demand
  std::string
      scaling_group;  ///< annotation quartermaster.dev/auto-scaling-group: the group that launches its instances
};
/// quartermaster.dev/v1alpha1 PricePlan: what a node costs, where the provider does not say.
struct PricePlan {
  std::string name;
  struct Entry {
    std::string instance_type, capacity_type, zone;  ///< empty = any
    HourlyRate rate;
  };
  std::vector<Entry> entries;
};
/// quartermaster.dev/v1alpha1 CheckpointPolicy: how ranks of a team or queue save.
struct CheckpointPolicy {
  std::string name;
  LabelSelector selector;  ///< of workload labels; empty = every workload
  std::string mode = "http";
  int port = 0;
  Duration expected{0};  ///< how long a save is thought to take
};
/// quartermaster.dev/v1alpha1 Budget: what a queue, a namespace or a team may spend in each period.
struct Budget {
  std::string name;
  QueueName cluster_queue;  ///< one of the three says whose it is
  Namespace ns;
  Team team;
  std::string unit;                              ///< "GPUHours" or "USD"
  Money amount;                                  ///< of each period: dollars, or GPU-hours counted as such
  std::string period;                            ///< "Year", "Month", "Week" (from Monday) or "Day"
  Duration utc_offset{0};                        ///< of the calendar, all the year
  std::int32_t carry_over_percent = 0;           ///< of what is free at its end
  std::string policy = "Hard";                   ///< or "Soft": what is over it is admitted all the same
  Duration default_run = std::chrono::hours(1);  ///< held for whoever does not say how long it runs
};

using Typed = std::variant<std::monostate, ClusterQueue, LocalQueue, Cohort, ResourceFlavor, PriorityClass, NodePool,
                           PricePlan, CheckpointPolicy, Budget, WorkloadSpec>;

struct Object {
  Document document;
  Typed typed;  ///< monostate = carried whole
};

struct Loaded {
  std::vector<Object> objects;
  std::vector<Diagnostic> diagnostics;  ///< warnings, and errors
  [[nodiscard]] bool ok() const;
};

/// Reads one YAML (or JSON) text of any number of documents.
///
/// A `kind: List` is read as the documents that it holds. A document of a kind that no engine reads is carried whole,
/// a fragment without a kind too (kind ""), with a warning. A version that its group does not have, and a kind that its
/// version does not have, are errors that name the nearest one. Fields that a typed kind does not have are carried with a warning; those that it knows but does not use are carried without.
///
/// Bounds   1 MiB, depth 64, 50 aliases, 100,000 nodes with aliases written out.
/// Fails    never as a call: every problem is a diagnostic. A document with an error is not in `objects`; nothing is
///          half applied. A text that is no YAML ends the file at that place.
Loaded load_text(std::string_view text, const std::string& file);
/// Reads what an earlier version accepted and stored: names and amounts are not checked again.
Loaded load_stored(std::string_view text, const std::string& file);
/// Reads a file, or every *.yaml, *.yml and *.json below a folder in name order. An object given twice is a warning.
Loaded load_path(const std::string& path);

/// What becomes of a field that its kind does not have: an API server drops it, an author meant another one.
enum class UnknownFields { kWarn, kRefuse };
/// The errors of what was loaded as one error: of a single one with its field and remedy and its file and line in the message, of
/// several with one line for each.
///
/// Fails    kInvalid where there is an error, and with kRefuse where there is an unknown field.
Status accept(const Loaded& loaded, UnknownFields unknown = UnknownFields::kWarn);

/// A Job (batch/v1) as a workload: pod set, shape, queue, team, priority class, runtime. kInvalid names the field.
/// The priority value is resolved by the reader of priority classes, so it stays 0 here.
Result<WorkloadSpec> workload_from_job(const Json& job);
/// The Job that a spec describes: suspended, indexed, scheduled by us. A Job has one pod set: further ones of the spec
/// are not in it, so whoever takes specs from outside refuses those first.
Json job_from_workload(const WorkloadSpec& spec, const std::map<std::string, std::string>& pod_annotations);
/// What a pod asks for: containers and sidecars summed, init containers as maximum, overhead added; a limit stands for a
/// request that is not given. Required node affinity is read where it is a plain list of In terms: device models go to
/// gpu.models, single values to the node selector; anything else stays with the object.
Result<PodShape> shape_from_pod_spec(const Json& pod_spec);
/// One pod as a set of pods like it, with what its annotations say of its topology.
Result<PodSet> pod_set_from_pod(const Json& pod, std::string name);

/// A duration as Go writes it: "720h", "1h30m", "1.5s", "0"; down to microseconds. kInvalid names the text.
Result<Duration> parse_duration(std::string_view text);

/// The kinds that load typed, as "group/version Kind", sorted; every other kind is carried whole.
std::vector<std::string> typed_kinds();

}  // namespace qm::config
