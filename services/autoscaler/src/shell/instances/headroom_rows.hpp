#pragma once
// Headroom as rows and as an input: the SLOs of NodePools, and CapacityBuffers.
#include "qm/autoscaler/buffer.hpp"
#include "qm/autoscaler/headroom/history.hpp"
#include "qm/base/result.hpp"
#include "qm/store/store.hpp"

#include <string>
#include <vector>

namespace quartermaster::autoscaler::state {
class HeadroomSlo;
}

namespace qm::autoscaler {

/// Converts changed rows about the headroom of NodePools to state rows.
void append_changes(const HeadroomTables& tables, std::vector<store::StateRow>& out);
/// Restores such a row; false if the row is of another kind.
Result<bool> restore(HeadroomTables& tables, const store::StateRow& row);

[[nodiscard]] quartermaster::autoscaler::state::HeadroomSlo message(const HeadroomSlo& slo);
[[nodiscard]] HeadroomSlo headroom_slo_of(const quartermaster::autoscaler::state::HeadroomSlo& row);

/// All CapacityBuffers as the payload of one input.
[[nodiscard]] std::string buffers_bytes(const std::vector<Buffer>& buffers);
[[nodiscard]] Result<BuffersApplied> buffers_from_bytes(const std::string& bytes);

}  // namespace qm::autoscaler
