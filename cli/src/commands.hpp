#pragma once
#include "client.hpp"
#include "options.hpp"
#include "qm/base/json.hpp"
#include "qm/cli/run.hpp"
#include "qm/clock/clock.hpp"

#include <iosfwd>
#include <string>
#include <vector>

namespace qm::cli {

/// A file of -f.
struct Manifest {
  std::string source, text;
};

/// The context of a verb. Answers are written to `out`, in the requested format.
struct Context {
  Client& client;
  const DomainClock& clock;
  Format format = Format::kTable;
  std::ostream& out;
  std::ostream& err;
  std::vector<Manifest> manifests;  ///< of apply, submit and admit, read before anything is sent
  Endpoints endpoints = {};

  int code = kDone;  ///< the exit code of a successful invocation

  [[nodiscard]] bool structured() const { return format != Format::kTable; }
};

/// How a verb treats workloads (Jobs, Pods, ...) in its manifests.
enum class Workloads : std::uint8_t { kRead, kRefused };
/// Refuses manifests with errors, each with its file and line, before anything is sent. Unknown fields are refused
/// too, or reported with a warning if they are allowed.
Status check_manifests(const Context& context, bool allow_unknown, Workloads workloads);  // admit.cpp

/// Refuses manifests with objects that admission has with other content, and prints the difference to `err`; with
/// `dry_run` it only prints.
Status check_replaced(const Context& context, bool dry_run);  // replaced.cpp

/// The verbs, one function each. They fail with the service's refusal, or with kInternal if its answer is wrong.
Status run_verb(Context& context, const ApplyVerb& verb);  // change.cpp
Status run_verb(Context& context, const SubmitVerb& verb);
Status run_verb(Context& context, const CancelVerb& verb);
Status run_verb(Context& context, const ActiveVerb& verb);
Status run_verb(Context& context, const CheckVerb& verb);
Status run_verb(Context& context, const LayoutsVerb& verb);
Status run_verb(Context& context, const QueueVerb& verb);  // objects.cpp
Status run_verb(Context& context, const ClassesVerb& verb);
Status run_verb(Context& context, const PresetVerb& verb);  // preset.cpp
Status run_verb(Context& context, const AdmitVerb& verb);   // admit.cpp
Status run_verb(Context& context, const ListVerb& verb);    // workloads.cpp
Status run_verb(Context& context, const GetVerb& verb);
Status run_verb(Context& context, const DescribeVerb& verb);
Status run_verb(Context& context, const WhyVerb& verb);
Status run_verb(Context& context, const WhenVerb& verb);
Status run_verb(Context& context, const WhatIfVerb& verb);
Status run_verb(Context& context, const QueuesVerb& verb);
Status run_verb(Context& context, const BudgetVerb& verb);  // budgets.cpp
Status run_verb(Context& context, const NodesVerb& verb);   // capacity.cpp
Status run_verb(Context& context, const ClusterVerb& verb);
Status run_verb(Context& context, const DefragVerb& verb);
Status run_verb(Context& context, const ClaimsVerb& verb);
Status run_verb(Context& context, const PlanVerb& verb);
Status run_verb(Context& context, const ScaleVerb& verb);  // scale.cpp
/// Appends the context's manifests to the change, with the name of their file.
void add_manifests(const Context& context, pb::SimulateCapacityRequest& change);  // capacity_plan.cpp
Status run_verb(Context& context, const CapacityVerb& verb);
Status run_verb(Context& context, const HistoryVerb& verb);    // capacity_history.cpp
Status run_verb(Context& context, const ScaleFilesVerb& verb);
Status run_verb(Context& context, const PreflightVerb& verb);  // preflight.cpp
Status run_verb(Context& context, const NodeVerb& verb);
Status run_verb(Context& context, const RecommendVerb& verb);  // recommend.cpp
Status run_verb(Context& context, const TopVerb& verb);        // telemetry.cpp
Status run_verb(Context& context, const EventsVerb& verb);
Status run_verb(Context& context, const ReportVerb& verb);  // cost.cpp
Status run_verb(Context& context, const PricesVerb& verb);
Status run_verb(Context& context, const ImportVerb& verb);  // import.cpp
Status run_verb(Context& context, const ChaosVerb& verb);   // chaos.cpp
Status run_verb(Context& context, const PoolVerb& verb);    // pools.cpp
Status run_verb(Context& context, const LintVerb& verb);
Status run_verb(Context& context, const InstancesVerb& verb);

/// Prints manifests: YAML documents to apply, or a List as JSON.
void print_manifests(const Context& context, const std::vector<Json>& objects);  // preset.cpp
/// NodePools for spot capacity first and on-demand capacity last.
std::vector<Json> tiered_pools(const std::string& node_class);

}  // namespace qm::cli
