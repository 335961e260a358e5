#include "instances/consolidation_rows.hpp"

#include "qm/wire/encode.hpp"
#include "state/autoscaler_state.pb.h"

namespace qm::autoscaler {
namespace st = quartermaster::autoscaler::state;

std::string bytes(const ConsolidationRow& from) {
  st::Consolidation row;
  row.set_phase(static_cast<int>(from.phase));
  row.set_since_us(micros(from.since));
  for (const auto& name : from.claims) row.add_claims(name.value());
  for (const auto& name : from.replacements) row.add_replacements(name.value());
  row.set_reason(from.reason);
  return wire::encode(row);
}

std::string bytes(const ConsolidationCheck& from) {
  st::ConsolidationCheck row;
  row.set_at_us(micros(from.at));
  row.set_digest(from.digest);
  return wire::encode(row);
}

Result<bool> restore_consolidation(Tables& tables, const store::StateRow& row) {
  if (row.kind == "consolidation") {
    st::Consolidation m;
    if (!m.ParseFromString(*row.value))
      return fail(Code::kInternal, "the stored consolidation {} cannot be read", row.key);
    ConsolidationRow to;
    to.phase = static_cast<ConsolidationRow::Phase>(m.phase());
    to.since = from_micros(m.since_us());
    for (const auto& name : m.claims()) to.claims.emplace_back(name);
    for (const auto& name : m.replacements()) to.replacements.emplace_back(name);
    to.reason = m.reason();
    tables.consolidations.restore(row.key, std::move(to));
    return true;
  }
  if (row.kind != "consolidation_check") return false;
  st::ConsolidationCheck m;
  if (!m.ParseFromString(*row.value)) return fail(Code::kInternal, "the stored consolidation check cannot be read");
  tables.consolidation_checks.restore(row.key, {from_micros(m.at_us()), m.digest()});
  return true;
}

}  // namespace qm::autoscaler
