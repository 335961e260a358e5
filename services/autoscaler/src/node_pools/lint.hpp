#pragma once
#include "qm/autoscaler/node_pools/lint.hpp"
#include "qm/autoscaler/node_pools/summary.hpp"

#include <string>
#include <vector>

namespace qm::autoscaler {

/// A NodePool among the objects, with its summary.
struct LintedPool {
  const config::Object* object = nullptr;
  const config::NodePool* pool = nullptr;
  PoolSummary summary;
};

using PoolFindings = std::vector<PoolFinding>;

/// "NodePool gpu-spot", "Job ml/train".
[[nodiscard]] std::string title_of(const config::Document& document);
/// A finding about the object, with its source.
[[nodiscard]] PoolFinding finding_about(const config::Document& document, std::string code, std::string field,
                                        std::string message, std::string remedy);
/// "30m", "12h", "90s".
[[nodiscard]] std::string duration_text(Duration duration);

void lint_workload(const config::Object& object, const std::vector<LintedPool>& pools, PoolFindings& out);
/// `objects`: to find the target of the scaler.
void lint_scaler(const config::Object& scaler, std::span<const config::Object> objects, PoolFindings& out);

}  // namespace qm::autoscaler
