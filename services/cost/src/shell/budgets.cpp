// Input and output of budgets: documents, the mailbox, and the topic.
#include "qm/config/typed.hpp"
#include "qm/cost/shell.hpp"
#include "qm/wire/encode.hpp"
#include "quartermaster/v1/events.pb.h"

#include <algorithm>
#include <iterator>

namespace qm::cost {
namespace {

namespace pb = quartermaster::v1;

constexpr std::int64_t kGpuMillisPerHour = 3'600'000;

/// Converts a decimal number with nine digits after the point.
std::int64_t gpu_millis(Money hours) {
  const std::int64_t nano = hours.nano(), whole = 1'000'000'000;
  return nano / whole * kGpuMillisPerHour + nano % whole * kGpuMillisPerHour / whole;
}

}  // namespace

Budget budget_from(const config::Budget& document) {
  Budget out;
  out.name = document.name;
  out.cluster_queue = document.cluster_queue.value();
  out.ns = document.ns.value();
  out.team = document.team.value();
  out.unit = document.unit == "USD" ? BudgetUnit::kNanoUsd : BudgetUnit::kGpuMillis;
  out.amount = out.unit == BudgetUnit::kNanoUsd ? document.amount.nano() : gpu_millis(document.amount);
  out.period = document.period == "Year"    ? BudgetPeriod::kYear
               : document.period == "Month" ? BudgetPeriod::kMonth
               : document.period == "Week"  ? BudgetPeriod::kWeek
                                            : BudgetPeriod::kDay;
  out.utc_offset = document.utc_offset;
  out.carry_over_permille = document.carry_over_percent * 10;
  out.soft = document.policy == "Soft";
  out.default_run = document.default_run;
  return out;
}

service::Input budgets_input(std::span<const Budget> budgets) {
  Json list = Json::array();
  for (const auto& budget : budgets) {
    list.push_back(Json::object({{"name", budget.name},
                                 {"clusterQueue", budget.cluster_queue},
                                 {"namespace", budget.ns},
                                 {"team", budget.team},
                                 {"unit", static_cast<std::int64_t>(budget.unit)},
                                 {"amount", budget.amount},
                                 {"period", static_cast<std::int64_t>(budget.period)},
                                 {"utcOffsetUs", std::int64_t{budget.utc_offset.count()}},
                                 {"carryPermille", std::int64_t{budget.carry_over_permille}},
                                 {"soft", budget.soft},
                                 {"defaultRunUs", std::int64_t{budget.default_run.count()}}}));
  }
  service::Input input;
  input.source = service::Source::kWatch;
  input.name = "budgets";
  input.bytes = Json::object({{"budgets", std::move(list)}}).dump();
  return input;
}

Result<std::vector<Engine::Command>> budgets_from(const std::string& bytes) {
  QM_ASSIGN(const auto json, Json::parse(bytes));
  BudgetsApplied applied;
  for (const auto& item : json["budgets"].items()) {
    Budget budget{item["name"].string(),
                  item["clusterQueue"].string(),
                  item["namespace"].string(),
                  item["team"].string(),
                  static_cast<BudgetUnit>(item["unit"].integer()),
                  item["amount"].integer(-1),
                  static_cast<BudgetPeriod>(item["period"].integer()),
                  Duration(item["utcOffsetUs"].integer()),
                  static_cast<std::int32_t>(item["carryPermille"].integer()),
                  item["soft"].boolean(),
                  Duration(item["defaultRunUs"].integer())};
    if (budget.name.empty() || budget.amount < 0) {
      return fail({Code::kInvalid, fmt::format("budget \"{}\" has no name, or no amount", budget.name), "budgets", {}});
    }
    applied.budgets.push_back(std::move(budget));
  }
  return std::vector<Engine::Command>{std::move(applied)};
}

Result<std::vector<Budget>> budgets_from_manifests(std::span<const std::string> paths) {
  QM_ASSIGN(const auto documents, config::typed_manifests<config::Budget>(paths));
  std::vector<Budget> budgets;
  std::ranges::transform(documents, std::back_inserter(budgets), budget_from);
  return budgets;
}

void publish_budgets(const Output& output, service::Effects& effects) {
  for (const auto& row : output.budgets) {
    pb::CostEvent event;
    auto* grant = event.mutable_grant();
    grant->set_budget(row.budget.name);
    grant->set_sequence(row.sequence);
    grant->set_cluster_queue(row.budget.cluster_queue);
    grant->set_namespace_(row.budget.ns);
    grant->set_team(row.budget.team);
    grant->set_unit(row.budget.unit == BudgetUnit::kNanoUsd ? pb::BUDGET_NANO_USD : pb::BUDGET_GPU_MILLISECONDS);
    grant->set_soft(row.budget.soft);
    grant->set_default_run_us(row.budget.default_run.count());
    grant->set_withdrawn(row.withdrawn);
    for (const auto& [from, one] : row.periods) {
      auto* allotment = grant->add_allotments();
      allotment->set_from_us(micros(from));
      allotment->set_to_us(micros(one.to));
      allotment->set_amount(one.amount);
      allotment->set_carry_over_permille(one.carry_over_permille);
    }
    for (const auto& price : row.prices) {
      auto* used = grant->add_prices();
      used->set_instance_type(price.instance_type);
      used->set_gpu_product(price.gpu_product);
      used->set_nano_usd_gpu_hour(price.nano_usd_gpu_hour);
    }
    effects.events.push_back({"qm.cost", "budget/" + row.budget.name, wire::encode(event), false});
  }
  for (const auto& [attempt, row, forgotten] : output.spent) {
    pb::CostEvent event;
    auto* spent = event.mutable_spent();
    spent->set_uid(attempt.uid.value());
    spent->set_attempt(attempt.attempt);
    spent->set_nano_usd(row.amount.nano.nano());
    spent->set_gpu_micros(row.amount.gpu_micros);
    spent->set_final(row.final);
    effects.events.push_back({"qm.cost", "spent/" + attempt.to_string(), wire::encode(event), forgotten});
  }
}

}  // namespace qm::cost
