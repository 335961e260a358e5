#pragma once
#include "endpoints.hpp"
#include "qm/base/result.hpp"
#include "qm/model/resources.hpp"
#include "quartermaster/v1/admission_service.pb.h"
#include "quartermaster/v1/capacity_service.pb.h"
#include "quartermaster/v1/events.pb.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace qm::cli {

namespace pb = quartermaster::v1;

enum class Format { kTable, kJson, kYaml };

struct WorkloadName {
  std::string ns, name;
  [[nodiscard]] std::string to_string() const { return ns + "/" + name; }
};

/// Each verb names the service that it requires; null if it needs none.
struct ApplyVerb {
  static constexpr const char* kService = "admission";
  std::vector<std::string> files;  ///< files, folders, or "-"
  bool dry_run = false;
  std::string request_id;  ///< empty = a new id
  bool allow_unknown = false;
  bool replace = false;  ///< objects that exist with other content too
};
struct SubmitVerb {
  static constexpr const char* kService = "admission";
  std::string file;  ///< empty = from `spec`
  WorkloadSpec spec;
  std::map<std::string, std::string> annotations;
  std::string request_id;
  bool allow_unknown = false;
};
struct AdmitVerb {
  static constexpr const char* kService = nullptr;
  std::vector<std::string> files;
  std::string ns = "default";                   ///< of documents without a namespace
  std::map<std::string, std::string> settings;  ///< the webhook's settings, with the names that qm-admission uses
  bool allow_unknown = false;
};
struct PreflightVerb {
  static constexpr const char* kService = nullptr;
  std::string kube;             ///< as kube::find_server accepts it
  std::string operator_values;  ///< file; empty = none
  std::string nccl;             ///< output of nccl-tests; empty = none, else only this output is checked
};
struct ImportVerb {
  static constexpr const char* kService = nullptr;
  std::string what;                ///< "cluster-autoscaler", "gke" or "eksctl"
  std::vector<std::string> files;  ///< manifests, or a script
};
struct NodeVerb {
  static constexpr const char* kService = nullptr;
  enum class Action { kVerify, kDebug } action = Action::kVerify;
  std::string node, kube;
  std::map<std::string, std::string> labels;  ///< of the debug pod
};
struct RecommendVerb {
  static constexpr const char* kService = nullptr;
  std::int64_t tenants = 1;
  bool production = false;
  std::string gpu_model;  ///< empty = any
  std::string table;      ///< file; empty = built in
};
struct ListVerb {
  static constexpr const char* kService = "admission";
  std::string ns, queue, team;
  pb::WorkloadPhase phase = pb::WORKLOAD_PHASE_UNSPECIFIED;
};
struct GetVerb {
  static constexpr const char* kService = "admission";
  WorkloadName workload;
};
struct DescribeVerb {
  static constexpr const char* kService = "admission";
  WorkloadName workload;
};
struct WhyVerb {
  static constexpr const char* kService = "admission";
  WorkloadName workload;
};
struct WhenVerb {
  static constexpr const char* kService = "admission";
  WorkloadName workload;
};
struct WhatIfVerb {
  static constexpr const char* kService = "admission";
  std::vector<std::string> files;    ///< objects in their planned form, and planned Jobs
  std::vector<std::string> deleted;  ///< "ClusterQueue/research"
  bool allow_unknown = false;
};
struct CancelVerb {
  static constexpr const char* kService = "admission";
  WorkloadName workload;
  std::string reason, request_id;
};
struct ActiveVerb {  ///< stop and resume
  static constexpr const char* kService = "admission";
  WorkloadName workload;
  bool active = true;
  std::string reason, request_id;
};
struct CheckVerb {
  static constexpr const char* kService = "admission";
  WorkloadName workload;
  std::string check, message, request_id;
  pb::CheckState state = pb::CHECK_STATE_UNSPECIFIED;
  Duration retry_after{0};
};
struct QueueVerb {
  static constexpr const char* kService = "admission";
  std::string name;
};
struct ClassesVerb {
  static constexpr const char* kService = "admission";
};
struct PresetVerb {
  static constexpr const char* kService = nullptr;
  std::string model, flavor, resource;
  std::vector<std::pair<std::string, std::int64_t>> teams;  ///< with their GPUs, in the given order
};
struct PoolVerb {
  static constexpr const char* kService = nullptr;
  enum class Action { kShow, kDiagram, kPreset } action = Action::kShow;
  std::string name;                ///< of show: one NodePool; empty = all
  std::vector<std::string> files;  ///< empty = the cluster
  std::string kube;                ///< as kube::find_server accepts it
  std::string node_class;          ///< of preset
};
struct LintVerb {
  static constexpr const char* kService = nullptr;
  std::vector<std::string> files;  ///< empty = the cluster
  std::string kube;
};
struct InstancesVerb {
  static constexpr const char* kService = nullptr;
  std::string instance_type, gpu;  ///< empty = any
};
struct QueuesVerb {
  static constexpr const char* kService = "admission";
};
struct BudgetVerb {
  static constexpr const char* kService = "admission";
};
struct TopVerb {
  static constexpr const char* kService = "telemetry";
  std::string node, ns;
};
struct NodesVerb {
  static constexpr const char* kService = "placement";
  std::string state;
};
struct LayoutsVerb {
  static constexpr const char* kService = "placement";
  std::vector<std::string> files;     ///< the ordered layouts; without files and `withdraw` layouts are listed
  std::vector<std::string> withdraw;  ///< nodes
  bool dry_run = false;
  std::string request_id;
};
struct ClusterVerb {  ///< cluster gap
  static constexpr const char* kService = "placement";
};
struct DefragVerb {  ///< defrag plan
  static constexpr const char* kService = "placement";
  std::int64_t max_pods = 0;
  double max_gpu_hours = 0, max_usd = 0;  ///< 0 = no limit
};
struct ClaimsVerb {
  static constexpr const char* kService = "autoscaler";
  pb::InstanceState state = pb::INSTANCE_STATE_UNSPECIFIED;
};
struct PlanVerb {
  static constexpr const char* kService = "autoscaler";
};
struct ChaosVerb {  ///< chaos spot-interrupt, chaos node-kill
  static constexpr const char* kService = "admission";
  std::string what, node;        ///< node: empty = one that runs pods, of node-kill
  Duration notice{0};            ///< of spot-interrupt
  std::string cron;              ///< of node-kill; empty = now
  std::int64_t times = 1;        ///< instants of the cron line
  double speed = 0;              ///< factor of the simulated clock until each instant; 0 = unchanged
  Duration within{0};            ///< domain time for the recovery
  std::string fleet, report;     ///< URL of the controls; file
  bool allow_real_time = false;  ///< also if the suite does not run on a simulated clock
};
struct ScaleVerb {  ///< scale eval
  static constexpr const char* kService = "autoscaler";
  std::string ns, name;  ///< of a target or a scaler; empty = all
};
struct CapacityVerb {  ///< capacity why, plan and simulate
  static constexpr const char* kService = "autoscaler";
  enum class Action { kWhy, kPlan, kSimulate } action = Action::kPlan;
  pb::ExplainCapacityRequest why;
  pb::SimulateCapacityRequest change;  ///< without the manifests of `files`
  std::vector<std::string> files;      ///< NodePools
};
struct HistoryVerb {  ///< capacity simulate over a recorded journal
  static constexpr const char* kService = nullptr;
  std::string journal, shard = "default";  ///< connection string of the database
  pb::SimulateCapacityRequest change;      ///< without the manifests of `files`
  std::vector<std::string> files, sets;    ///< NodePools; settings of the service
  std::int64_t demand_percent = 100;
};
struct ScaleFilesVerb {  ///< scale eval of manifests, at an assumed load
  static constexpr const char* kService = nullptr;
  std::vector<std::string> files;
  std::map<std::string, double> values;  ///< by metric
  std::int64_t replicas = 0;             ///< 0 = the minimum of each scaler
};
struct ReportVerb {
  static constexpr const char* kService = "cost";
  std::string period;
};
struct PricesVerb {
  static constexpr const char* kService = "cost";
  std::string instance_type;
};
struct EventsVerb {
  static constexpr const char* kService = "telemetry";
  std::string topic, key;
  std::int64_t count = 0;  ///< ends after this number of lines; 0 = never
};

using Verb = std::variant<ApplyVerb, SubmitVerb, AdmitVerb, ListVerb, GetVerb, DescribeVerb, WhyVerb, WhenVerb,
                          WhatIfVerb, CancelVerb, QueuesVerb, BudgetVerb, TopVerb, NodesVerb, LayoutsVerb,
                          RecommendVerb, ClaimsVerb, PlanVerb, ReportVerb, PricesVerb, EventsVerb, PreflightVerb,
                          NodeVerb, ActiveVerb, CheckVerb, QueueVerb, ClassesVerb, PresetVerb, ClusterVerb, DefragVerb,
                          ImportVerb, ScaleVerb, CapacityVerb, HistoryVerb, PoolVerb, LintVerb, InstancesVerb,
                          ScaleFilesVerb, ChaosVerb>;

struct Options {
  std::string endpoints;
  Format format = Format::kTable;
  std::chrono::microseconds timeout = std::chrono::seconds(10);
  Security security;
  Verb verb;
};

/// Parsing ends the program: --help with code 0, or an error with kUsage.
struct Ending {
  int code = 0;
  std::string text;
};

/// Reads the command line. The endpoints file comes from --endpoints, else QM_ENDPOINTS, else build/run/endpoints.json.
tl::expected<Options, Ending> parse_options(const std::vector<std::string>& args);

}  // namespace qm::cli
