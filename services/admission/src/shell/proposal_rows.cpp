// Rows and messages of the proposals of placement.
#include "rows.hpp"

namespace qm::admission {

namespace pb = quartermaster::v1;
namespace state = quartermaster::admission;

pb::ProposalAnswer answer_of(const Judged& judged) {
  pb::ProposalAnswer out;
  out.set_number(judged.number);
  out.set_accepted(judged.accepted);
  out.set_reason(judged.reason);
  for (const auto& uid : judged.kept) out.add_kept(uid.value());
  return out;
}

state::ProposalRow to_row(const Judged& judged) {
  state::ProposalRow row;
  row.set_attempt(judged.attempt);
  *row.mutable_answer() = answer_of(judged);
  for (const auto& uid : judged.victims) row.add_victims(uid.value());
  row.set_micro_usd(judged.micro_usd);
  row.set_until_us(micros(judged.until));
  row.set_move(judged.move);
  return row;
}

Judged from_row(const state::ProposalRow& row) {
  Judged out;
  out.attempt = row.attempt();
  out.number = row.answer().number();
  out.accepted = row.answer().accepted();
  out.move = row.move();
  out.reason = row.answer().reason();
  for (const auto& uid : row.answer().kept()) out.kept.emplace_back(uid);
  for (const auto& uid : row.victims()) out.victims.emplace_back(uid);
  out.micro_usd = row.micro_usd();
  out.until = from_micros(row.until_us());
  return out;
}

state::GaveWayRow to_row(const GaveWay& count) {
  state::GaveWayRow row;
  row.set_since_us(micros(count.since));
  row.set_workloads(count.workloads);
  return row;
}

}  // namespace qm::admission
