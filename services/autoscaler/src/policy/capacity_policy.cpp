// The policy table: workload type, objective and checkpoints to spot, on-demand or reserved capacity.
#include "qm/autoscaler/policy/capacity_policy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace qm::autoscaler {
namespace {

/// A row; what is not set matches any workload.
struct CapacityRow {
  std::string_view type;
  std::optional<Reliability> reliability;
  std::optional<bool> checkpoints;
  bool long_only;
  std::vector<Capacity> order;
  std::string_view condition;
};

const std::vector<CapacityRow>& rows() {
  using enum Capacity;
  static const std::vector<CapacityRow> all{
      {"inference", Reliability::kOnDemand, {}, false, {kOnDemand}, "under reliability=on-demand"},
      {"inference", Reliability::kSpotFirst, {}, false, {kSpot, kOnDemand}, "under reliability=spot-first"},
      {"training", {}, {}, true, {kOnDemand, kReserved}, "of 24 hours or more"},
      {"training", {}, true, false, {kSpot}, "with checkpoints"},
      {"training", {}, false, false, {kOnDemand}, "without checkpoints"},
      {"fine-tuning", {}, true, false, {kSpot}, "with checkpoints"},
      {"fine-tuning", {}, false, false, {kOnDemand}, "without checkpoints"},
      {"batch", {}, {}, false, {kSpot}, "work"}};
  return all;
}

bool matches(const CapacityRow& row, const WorkloadTraits& workload, Reliability reliability) {
  return row.type == workload.type && (!row.reliability || *row.reliability == reliability) &&
         (!row.checkpoints || *row.checkpoints == workload.checkpoints) &&
         (!row.long_only || workload.expected >= kLongTraining);
}

}  // namespace

std::string text_of(const std::vector<Capacity>& order) {
  using enum Capacity;
  if (order == std::vector{kSpot, kOnDemand}) return "spot first, on-demand fallback";
  constexpr std::array<std::string_view, 3> kNames{"spot", "on-demand", "reserved"};
  std::string out;
  for (const Capacity each : order)
    out += (out.empty() ? "" : " + ") + std::string(kNames.at(static_cast<std::size_t>(each)));
  return out;
}

CapacityChoice capacity_for(const WorkloadTraits& workload, Reliability reliability) {
  if (reliability == Reliability::kByPrice) return {};
  const auto row = std::ranges::find_if(rows(), [&](const auto& each) { return matches(each, workload, reliability); });
  if (row == rows().end()) return {};
  return {row->order, fmt::format("{} {}: {}", workload.type, row->condition, text_of(row->order))};
}

}  // namespace qm::autoscaler
