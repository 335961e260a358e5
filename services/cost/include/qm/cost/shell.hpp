#pragma once
#include "qm/clock/clock.hpp"
#include "qm/cost/engine.hpp"
#include "qm/metrics/metrics.hpp"
#include "qm/service/engine_shell.hpp"
#include "qm/service/host.hpp"
#include "qm/store/store.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace qm::config {
struct Budget;
struct PricePlan;
}  // namespace qm::config

namespace qm::cost {

/// The codec of the cost service: topics and price plans to facts, entries and rows to the store.
///
/// Reads    qm.capacity (instances, spot prices), qm.node, qm.placement (assignments); other messages are ignored.
/// Sends    qm.cost, one CostTotals per (period, team), when a settlement changed it; one BudgetGrant per budget, and
///          one WorkloadSpent per attempt with a budget.
/// Writes   the ledger table, one row per line of an entry.
class Codec {
 public:
  Result<std::vector<Engine::Command>> decode(const service::Input& input);
  void encode(const Engine& engine, const Output& output, std::span<const std::size_t> origin,
              service::Effects& effects);
  Status load(Engine& engine, std::span<const store::StateRow> rows);
  void debug_state(const Engine& engine, service::StateDump& out) const;
};

using Shell = service::EngineShell<Engine, Codec>;

/// The engine behind a Shell of a Host.
[[nodiscard]] const Engine& engine_of(const service::Shell& shell);

/// Converts the changed rows of a step, and back. Fails: kInvalid names the row that cannot be parsed.
void append_changed_rows(const State& state, std::vector<store::StateRow>& out);
[[nodiscard]] Result<State> state_from_rows(std::span<const store::StateRow> rows);

/// A price plan as an input of the engine: through the mailbox, so that it is in the journal.
[[nodiscard]] service::Input prices_input(const PricePlan& plan, std::optional<Instant> from = {});
[[nodiscard]] PricePlan plan_from(const config::PricePlan& document);
/// All budgets as an input of the engine, likewise.
[[nodiscard]] service::Input budgets_input(std::span<const Budget> budgets);
[[nodiscard]] Result<std::vector<Engine::Command>> budgets_from(const std::string& bytes);
[[nodiscard]] Budget budget_from(const config::Budget& document);
/// The Budget documents of manifest files.
[[nodiscard]] Result<std::vector<Budget>> budgets_from_manifests(std::span<const std::string> paths);
/// The budget changes of a step, as events.
void publish_budgets(const Output& output, service::Effects& effects);

/// The PricePlan documents of manifest files, one by one.
[[nodiscard]] Result<std::vector<PricePlan>> plans_from_manifests(std::span<const std::string> paths);
/// Joins several plans to one; the built-in one if there are none.
[[nodiscard]] PricePlan joined(std::span<const PricePlan> plans);

/// The ledger table with its constraints, and the report views.
[[nodiscard]] std::vector<store::Migration> migrations();

/// Sets the qm_cost_* gauges before each scrape. Registry and host must outlive the last scrape.
void export_metrics(metrics::Registry& registry, service::Host& host, const DomainClock& clock);

[[nodiscard]] service::HostOptions host_options(const std::string& shard);

}  // namespace qm::cost
