#pragma once
#include "qm/admission/queue_order.hpp"
#include "qm/admission/scheduler/rules.hpp"
#include "qm/admission/tables.hpp"
#include "qm/base/ranked.hpp"
#include "scheduler/decisions.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace qm::admission {

struct EngineState;

/// All pending workloads of a queue.
struct PendingLine {
  Ranked<QueueOrder> all;
  std::int64_t ready = 0;
  friend bool operator==(const PendingLine&, const PendingLine&) = default;
};

/// The amounts that a pending workload requests of budgets. If it waits for a budget, `lacks` has that one and
/// `wants` is empty.
struct BudgetRequests {
  std::map<std::string, std::int64_t> wants;
  std::optional<std::pair<std::string, std::int64_t>> lacks;
  friend bool operator==(const BudgetRequests&, const BudgetRequests&) = default;
};
using ByBudget = std::map<std::string, std::set<std::pair<std::int64_t, WorkloadUid>>>;

/// Lookup key: namespace and name. Rows of one name are in order of age.
struct WorkloadName {
  const Namespace& ns;
  const std::string& name;
  WorkloadName(const Namespace& of, const std::string& called) : ns(of), name(called) {}
  WorkloadName(const Workload* w) : ns(*w->spec.ns), name(w->spec.name) {}
};
struct ByWorkloadName {
  using is_transparent = void;
  static auto key(const WorkloadName& of) { return std::tie(of.ns, of.name); }
  bool operator()(const Workload* a, const Workload* b) const {
    return std::tie(*a->spec.ns, a->spec.name, a->spec.submitted, *a->spec.uid) <
           std::tie(*b->spec.ns, b->spec.name, b->spec.submitted, *b->spec.uid);
  }
  bool operator()(const Workload* a, const WorkloadName& b) const { return key(a) < key(b); }
  bool operator()(const WorkloadName& a, const Workload* b) const { return key(a) < key(b); }
};

/// A gang that was started, and whose pods are not all bound.
struct StartingGang {
  Instant until{};  ///< its pods count until then
  Uid uid;
  std::int32_t pods = 0;
  friend auto operator<=>(const StartingGang&, const StartingGang&) = default;
};

/// When it is a gang's turn to start, its position among those that got quota at once, and the gang.
using Turn = std::tuple<Instant, std::uint16_t, Uid>;

/// Derived from the tables and the time, and nothing else.
struct Indexes {
  explicit Indexes(Rules rules) : decisions(std::move(rules)) {}
  Decisions decisions;
  std::map<QueueName, std::set<Uid>> holders;
  std::map<QueueName, PendingLine> waiting;
  std::optional<Instant> quota_changes;  ///< when a window opens or closes next
  std::vector<QueueName> draining;       ///< queues that evict workloads beyond their quota
  std::set<std::pair<Instant, Uid>> timers;
  std::set<std::pair<Instant, Uid>> gated;          ///< all checks are Ready; in the order in which quota was reserved
  std::set<Turn> startable;                         ///< have nodes and are not started, in the order of their turns
  std::set<StartingGang> starting_gangs;            ///< whose pods placement binds
  std::set<std::pair<Instant, Uid>> bound_gangs;    ///< whose pods are all bound, by the time of their start
  std::set<QueueOrder> scaling_up;                  ///< elastic Jobs that run and lack quota for some pods
  std::set<Uid> starting;                           ///< past the gate, and not all of their pods are ready
  std::set<std::pair<Instant, Uid>> ended;          ///< and the job is gone; kept for `retention`
  std::set<const Workload*, ByWorkloadName> names;  ///< row addresses are stable
  std::map<QueueName, Usage> held;                  ///< sum over the holders of each queue
  /// By local queue and resource, where the cluster queue orders by usage.
  std::map<LocalName, std::map<std::string, std::int64_t>> held_by_local;
  std::map<WorkloadUid, BudgetRequests> asked;
  ByBudget wants, lacks;                            ///< by budget: workloads to try, and workloads that wait for it
  std::set<std::pair<Instant, HoldKey>> holds_due;  ///< when a hold has to be extended
};

/// The index entries of a row; all empty for a row that does not exist.
struct Marks {
  bool known = false;
  std::optional<Instant> timer, ended;
  Shared<QueueName> holds;  ///< the queue whose quota it holds; empty if it holds none
  Shared<Usage> usage;
  std::optional<std::pair<Shared<QueueName>, QueueOrder>> waits;
  bool ready = false;
  std::optional<Instant> gated;
  std::optional<Turn> startable;
  std::optional<StartingGang> starts;
  std::optional<Instant> bound;
  std::optional<QueueOrder> grows;
  bool starting = false;
  BudgetRequests asks;
};
[[nodiscard]] Marks marks_of(const EngineState& state, const Workload& w);
/// Replaces the entries of a row. Only entries that differ are written: most changes of a row concern no index.
void reindex(Indexes& in, const Workload& w, const Marks& from, const Marks& to);

/// Builds all indexes from the rows.
void build_indexes(const EngineState& state, Indexes& into);
/// The same after a change of objects: claims and preemptions that follow from the old ones no longer bind.
void rebuild_indexes(EngineState& state);

}  // namespace qm::admission
