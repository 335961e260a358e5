// Rows and events of budgets and holds.
#include "rows/rows.hpp"

namespace qm::admission {

namespace state = quartermaster::admission;
namespace pb = quartermaster::v1;

BudgetGranted from_event(const pb::BudgetGrant& grant) {
  BudgetGranted out;
  out.budget = grant.budget();
  out.sequence = grant.sequence();
  out.terms = {QueueName(grant.cluster_queue()),
               Namespace(grant.namespace_()),
               Team(grant.team()),
               grant.unit() == pb::BUDGET_NANO_USD,
               grant.soft(),
               Duration(grant.default_run_us()),
               {}};
  for (const auto& price : grant.prices()) {
    out.terms.prices.push_back({price.instance_type(), price.gpu_product(), price.nano_usd_gpu_hour()});
  }
  for (const auto& one : grant.allotments()) {
    out.allotments.push_back(
        {{from_micros(one.from_us()), from_micros(one.to_us())}, one.amount(), one.carry_over_permille()});
  }
  out.withdrawn = grant.withdrawn();
  return out;
}

state::BudgetRow to_row(const std::string& name, const BudgetRow& budget) {
  state::BudgetRow row;
  auto& grant = *row.mutable_grant();
  grant.set_budget(name);
  grant.set_sequence(budget.sequence);
  grant.set_cluster_queue(budget.terms.cluster_queue.value());
  grant.set_namespace_(budget.terms.ns.value());
  grant.set_team(budget.terms.team.value());
  grant.set_unit(budget.terms.dollars ? pb::BUDGET_NANO_USD : pb::BUDGET_GPU_MILLISECONDS);
  grant.set_soft(budget.terms.soft);
  grant.set_default_run_us(budget.terms.default_run.count());
  for (const auto& price : budget.terms.prices) {
    auto& price_row = *grant.add_prices();
    price_row.set_instance_type(price.instance_type);
    price_row.set_gpu_product(price.gpu_product);
    price_row.set_nano_usd_gpu_hour(price.nano_usd_gpu_hour);
  }
  for (const auto& [from, one] : budget.account.allotments()) {
    auto& allotment = *row.add_allotments();
    allotment.set_from_us(micros(from));
    allotment.set_to_us(micros(one.period.to));
    allotment.set_carry_over_permille(one.carry_over_permille);
    allotment.set_granted_total(one.granted_total);
    allotment.set_granted(one.granted);
    allotment.set_carried_in(one.carried_in);
    allotment.set_spent(one.spent);
    allotment.set_held(one.held);
    allotment.set_carried_out(one.carried_out);
    allotment.set_lapsed(one.lapsed);
  }
  row.set_owed(budget.account.owed());
  row.set_spent_before(budget.account.spent_before());
  return row;
}

std::pair<std::string, BudgetRow> from_row(const state::BudgetRow& row) {
  auto granted = from_event(row.grant());
  std::map<Instant, forecast::Budget::Allotment> allotments;
  for (const auto& one : row.allotments()) {
    allotments[from_micros(one.from_us())] = {{from_micros(one.from_us()), from_micros(one.to_us())},
                                              one.carry_over_permille(),
                                              one.granted_total(),
                                              one.granted(),
                                              one.carried_in(),
                                              one.spent(),
                                              one.held(),
                                              one.carried_out(),
                                              one.lapsed()};
  }
  return {granted.budget,
          {std::move(granted.terms), granted.sequence,
           forecast::Budget::restored(std::move(allotments), row.owed(), row.spent_before())}};
}

state::HoldRow to_row(const HoldKey& key, const Hold& hold) {
  state::HoldRow row;
  row.set_uid(key.uid.value());
  row.set_attempt(key.attempt);
  row.set_budget(key.budget);
  for (const auto& [from, amount] : hold.left) (*row.mutable_left())[micros(from)] = amount;
  row.set_seen(hold.seen);
  row.set_until_us(micros(hold.until));
  return row;
}

std::pair<HoldKey, Hold> from_row(const state::HoldRow& row) {
  Hold hold;
  for (const auto& [from, amount] : row.left()) hold.left[from_micros(from)] = amount;
  hold.seen = row.seen();
  hold.until = from_micros(row.until_us());
  return {{WorkloadUid(row.uid()), row.attempt(), row.budget()}, std::move(hold)};
}

}  // namespace qm::admission
