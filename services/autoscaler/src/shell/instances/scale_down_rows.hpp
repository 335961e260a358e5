#pragma once
#include "qm/autoscaler/scale_down/rows.hpp"
#include "qm/base/result.hpp"
#include "qm/service/shell.hpp"
#include "qm/store/store.hpp"

#include <string>
#include <vector>

namespace quartermaster::autoscaler::state {
class GroupScaleDown;
}

namespace qm::autoscaler {

/// Converts changed rows about the scale-down of groups to state rows.
void append_changes(const ScaleDownTables& tables, std::vector<store::StateRow>& out);
/// Restores such a row; false if the row is of another kind.
Result<bool> restore(ScaleDownTables& tables, const store::StateRow& row);

[[nodiscard]] quartermaster::autoscaler::state::GroupScaleDown message(const GroupScaleDown& from);
[[nodiscard]] GroupScaleDown group_scale_down_of(const quartermaster::autoscaler::state::GroupScaleDown& row);

/// The intents that protect instances against their group.
void encode_protections(const std::vector<ProtectIntent>& protections, service::Effects& effects);

}  // namespace qm::autoscaler
