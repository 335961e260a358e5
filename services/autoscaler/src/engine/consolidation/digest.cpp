#include "consolidation/digest.hpp"

namespace qm::autoscaler {

void fold(const ConsolidationRow& row, Digest& digest) {
  digest.add(static_cast<std::int64_t>(row.phase));
  digest.add(micros(row.since));
  for (const auto* names : {&row.claims, &row.replacements}) {
    digest.add(static_cast<std::int64_t>(names->size()));
    for (const auto& name : *names) digest.add(name.value());
  }
  digest.add(row.reason);
}

void fold(const ConsolidationCheck& row, Digest& digest) {
  digest.add(micros(row.at));
  digest.add(static_cast<std::int64_t>(row.digest));
}

}  // namespace qm::autoscaler
