// Rows and messages of the proposals of placement.
#include "rows/rows.hpp"

namespace qm::admission {

namespace pb = quartermaster::v1;
namespace state = quartermaster::admission;

pb::ProposalAnswer answer_of(const ProposalDecision& decision) {
  pb::ProposalAnswer out;
  out.set_number(decision.number);
  out.set_accepted(decision.accepted);
  out.set_reason(decision.reason);
  for (const auto& uid : decision.kept) out.add_refused(uid.value());
  return out;
}

state::ProposalRow to_row(const ProposalDecision& decision) {
  state::ProposalRow row;
  row.set_attempt(decision.attempt);
  *row.mutable_answer() = answer_of(decision);
  for (const auto& uid : decision.victims) row.add_victims(uid.value());
  row.set_micro_usd(decision.micro_usd);
  row.set_until_us(micros(decision.until));
  row.set_move(decision.move);
  return row;
}

ProposalDecision from_row(const state::ProposalRow& row) {
  ProposalDecision out;
  out.attempt = row.attempt();
  out.number = row.answer().number();
  out.accepted = row.answer().accepted();
  out.move = row.move();
  out.reason = row.answer().reason();
  for (const auto& uid : row.answer().refused()) out.kept.emplace_back(uid);
  for (const auto& uid : row.victims()) out.victims.emplace_back(uid);
  out.micro_usd = row.micro_usd();
  out.until = from_micros(row.until_us());
  return out;
}

state::PreemptionBudgetRow to_row(const PreemptionBudget& count) {
  state::PreemptionBudgetRow row;
  row.set_since_us(micros(count.since));
  row.set_workloads(count.workloads);
  return row;
}

}  // namespace qm::admission
