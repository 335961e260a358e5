#pragma once
#include "qm/cost/state.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace qm::cost {

// ---- commands: facts as received, in any order, any number of times -----------------------------------------------

struct InstanceUpdated {
  InstanceId id;
  ClaimName claim;
  std::uint64_t version = 0;
  std::string type, zone, capacity_type;
  NodeName node;
  std::int32_t gpus = 0;
  Instant launched{}, stopped{};
};
/// The owner of the claim has removed it, or lost it with its database. Its open usage ends now: no earlier time is
/// known.
struct InstanceForgotten {
  ClaimName claim;
};
struct SpotPriceUpdated {
  SpotPool pool;
  HourlyRate rate;
  Instant from{};
  std::uint64_t version = 0;
};
struct NodeUpdated {
  NodeName node;
  InstanceId instance;
  NodeState state = NodeState::kNotReady;
  Instant since{};
  std::int32_t gpus = 0;
  std::uint64_t version = 0;
};
struct AssignmentUpdated {
  AttemptId id;
  std::uint64_t version = 0;
  Owner owner;
  std::vector<Member> members;
  Labels labels;
  bool ended = false;
};
/// The plan applies from `from` on; unset = from now on, and from the beginning if it is the first.
struct PriceApplied {
  PricePlan plan;
  std::optional<Instant> from;
};
/// All existing budgets; a missing one is withdrawn.
struct BudgetsApplied {
  std::vector<Budget> budgets;
};
struct Tick {};

// ---- output -------------------------------------------------------------------------------------------------------

struct EntryLine {
  std::string account;
  Owner owner;
  Amount amount;  ///< debit positive
};
/// One balanced journal entry: the lines add up to zero, in money and in GPU-time.
struct Entry {
  std::string id;    ///< instance, slice and revision: the same charge never posts twice
  std::string kind;  ///< "charge" or "reversal"
  InstanceId instance;
  std::string node;
  Instant from, until;  ///< the time that the entry charges for
  std::vector<EntryLine> lines;
};
struct TeamTotal {
  std::string period, team;
  Amount amount;
};
/// A workload's name and labels, published when it first holds devices and when they change.
struct Introduced {
  Owner owner;
  Labels labels;
};
/// The cost of an attempt of a workload so far.
struct Spent {
  AttemptId attempt;
  SpentRow row;
  bool forgotten = false;  ///< no further event about it follows
};
struct Output {
  std::vector<Entry> entries;
  std::vector<Introduced> introduced;
  std::vector<TeamTotal> totals;   ///< changed in this step
  std::vector<BudgetRow> budgets;  ///< changed in this step
  std::vector<Spent> spent;        ///< changed in this step; only with a budget
  std::optional<Instant> wake_at;
};

struct Options {
  Duration settle_after = std::chrono::minutes(10);  ///< how long facts may take to arrive without a restatement
  Duration keep = std::chrono::hours(48);            ///< how long posted slices can still be restated
  int keep_months = 13;                              ///< of totals per workload and node
  std::size_t max_slices = 20'000;                   ///< posted in one step because of facts that arrived late
  /// Posted in one step because their hour is over or their attempt ended; the rest follows in the next steps. A ledger
  /// line takes some KiB until it is committed, and the hour ends on all instances at once.
  std::size_t max_due = 1'000;
};

// ---- responses ----------------------------------------------------------------------------------------------------

struct Statement {
  std::string period;  ///< empty = from the beginning
  Instant as_of{};
  std::map<std::string, Amount> lines;  ///< by team
  Amount total;
  Money provider;   ///< lifetimes times prices, summed without the slices
  Money imbalance;  ///< sum of all ledger lines
  std::size_t open_instances = 0;
};
struct PriceInEffect {
  PriceEntry entry;
  Instant from{};
  std::string source;  ///< name of the plan, or "spot market"
};

/// A price list for holds, with the most expensive price of each type; without types whose GPUs are not known.
[[nodiscard]] std::vector<HoldPrice> hold_prices(const PricePlan& plan);

/// Builds a double-entry ledger from the facts about instances, nodes, prices and assignments.
///
/// An instance's lifetime is split at every change of price, node state or occupancy, and at every full hour. The cost
/// of such a slice is a difference of HourlyRate::accrued on the instance's own clock; it is split evenly over the
/// devices, and each device's part over its holders, by largest remainder. Facts are stored and the slices are a pure
/// function of them, so the order of arrival and repetitions do not matter. A slice is posted `settle_after` its end;
/// a fact that changes a posted slice reverses its entry and posts the new one.
///
/// Budgets: the allotments of the current period and of the next follow from the budget and the calendar. The spending
/// of an attempt follows from the entries that were posted for it. It is final when the attempt has ended and all of
/// its time is posted; later restatements are in the ledger only.
///
/// Units    nano-dollars; microseconds of one whole GPU.
/// Laws     an entry adds up to zero; a slice's lines to its cost and to gpus * length; team totals to the provider's
///          bill. Asserted in step and in statement.
/// Order    entries by instance and time; everything else by key.
/// Threads  one.
/// Bounds   slices are stored for `keep`, then folded into totals; facts about folded time are counted and dropped.
/// Source   largest remainder (Hamilton) apportionment; accruals as differences of a floored running charge.
class Engine {
 public:
  using Command = std::variant<InstanceUpdated, InstanceForgotten, SpotPriceUpdated, NodeUpdated, AssignmentUpdated,
                               PriceApplied, BudgetsApplied, Tick>;
  using Output = qm::cost::Output;

  explicit Engine(Options options = {});
  /// Loads stored rows.
  void load(State state);

  Output step(std::span<const Command> batch, Instant now);
  void undo();
  void commit();
  [[nodiscard]] std::uint64_t digest() const;

  [[nodiscard]] const State& state() const { return state_; }
  [[nodiscard]] const Meta& meta() const;
  [[nodiscard]] const Options& options() const { return options_; }

  /// The usage in [from, until), by key of the group; exact to the microsecond, posted or not.
  /// Fails: kInvalid for an empty window; kOutOfRange if a bound is older than `keep` and not the start of a month.
  [[nodiscard]] Result<std::map<std::string, Amount>> allocate(Instant from, Instant until, Group group) const;
  /// The chargeback of a month, or of everything, as of `as_of`. Fails as allocate; kInvalid names the period.
  [[nodiscard]] Result<Statement> statement(const std::string& period, Instant as_of) const;
  [[nodiscard]] std::vector<PriceInEffect> prices(Instant at) const;
  /// Running instances without a price in a plan or the spot market: they are charged nothing.
  [[nodiscard]] std::vector<InstanceId> unpriced(Instant at) const;
  /// The hourly cost of the running fleet at this time.
  [[nodiscard]] Money burn_rate(Instant at) const;
  /// Recomputes every posted slice and sum from the facts; returns the violations, empty if all laws hold.
  [[nodiscard]] std::string audit() const;

  /// Finds rows that belong together; derived from the state.
  struct Index {
    std::map<NodeName, std::set<AttemptId>> assignments;
    std::map<NodeName, std::set<InstanceId>> instances;
    std::set<std::pair<Instant, InstanceId>> due;  ///< when the next slice may be posted
    std::map<InstanceId, Instant> due_at;
    std::set<std::pair<Instant, AttemptId>> ending;  ///< ended and not final; when all of its time may be posted
    std::map<AttemptId, Instant> ending_at;
  };

 private:
  void on_fact(const InstanceUpdated& fact);
  void on_fact(const InstanceForgotten& fact);
  void on_fact(const SpotPriceUpdated& fact);
  void on_fact(const NodeUpdated& fact);
  void on_fact(const AssignmentUpdated& fact);
  void on_fact(const PriceApplied& fact);
  void on_fact(const BudgetsApplied& fact);
  void on_fact(const Tick&) {}

  Meta& edit_meta() { return state_.meta.edit(0); }
  void touch(const InstanceId& id, Instant from);
  void touch_node(const NodeName& node, Instant from);
  void schedule(const InstanceId& id);
  void unschedule(const InstanceId& id);
  void index_node(const NodeName& node, const InstanceId& id);
  void rebuild_index();

  void settle(Output& out);
  void settle_instance(const InstanceId& id, Instant from, Output& out, std::size_t& budget);
  void post(const SliceKey& key, const SliceRow& slice, bool reversal, Output& out);
  // Budgets (budgets.cpp).
  void keep_budgets();
  void finalise(Output& out);
  void submit_budgets(Output& out);
  void index_ending(const AttemptId& id);
  void forget_ending(const AttemptId& id);
  [[nodiscard]] std::optional<Instant> next_ending() const;
  void forget_spent(const AttemptId& id);
  [[nodiscard]] bool any_budget() const;
  [[nodiscard]] bool knows_instances_of(const AssignmentRow& row) const;
  [[nodiscard]] std::optional<Instant> next_turn() const;

  void fold();
  void fold_instance(const InstanceId& id, Instant horizon);
  void forget_instance(const InstanceId& id);
  void forget_facts(Instant horizon);
  void forget_details(Instant horizon);

  [[nodiscard]] Result<std::map<std::string, Amount>> until(Instant t, Group group) const;
  [[nodiscard]] Money billed_until(Instant t) const;

  Options options_;
  State state_;
  Index index_;
  std::map<InstanceId, Instant> dirty_;  ///< from when on the facts changed; within one step
  std::vector<Introduced> introduced_;   ///< within one step
  std::vector<Spent> forgotten_;         ///< within one step
};

[[nodiscard]] std::string_view account_of(std::string_view team);
[[nodiscard]] std::string key_of(const Owner& owner, Group group);

}  // namespace qm::cost
