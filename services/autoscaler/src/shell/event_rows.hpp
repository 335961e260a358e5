#pragma once
// Rows of orders, checkpoints and notices, and of Auto Scaling groups: one writer and one reader for each.
#include "qm/autoscaler/tables.hpp"
#include "state/autoscaler_state.pb.h"

#include <string>
#include <string_view>

namespace qm::autoscaler {
namespace st = quartermaster::autoscaler::state;

[[nodiscard]] st::ScalingGroup message(const ScalingGroup& group);
[[nodiscard]] ScalingGroup scaling_group_of(const st::ScalingGroup& row);
[[nodiscard]] std::string bytes(const ScalingGroup& group);
[[nodiscard]] std::string bytes(const HookWait& wait);

[[nodiscard]] std::string bytes(const Order& order);
/// A row of an earlier release has neither a number nor saves: its order is only open for two minutes.
[[nodiscard]] Order order_of(const st::Order& row);
[[nodiscard]] std::string bytes(const CheckpointRow& checkpoint);
[[nodiscard]] std::string bytes(const ScheduleRow& schedule);
[[nodiscard]] std::string bytes(const InstanceNoticeRow& notice);
/// An empty or unknown text is that of a row of an earlier release.
std::string bytes(const ReservedCapacity& reserved);
ReservedCapacity reserved_capacity_of(const std::string& id, const st::ReservedCapacity& row);
[[nodiscard]] NoticeKind notice_kind(std::string_view reason);

}  // namespace qm::autoscaler
