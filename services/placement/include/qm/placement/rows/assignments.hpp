#pragma once
#include "qm/base/time.hpp"
#include "qm/model/resources.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::placement {

enum class AssignmentState { kReserved, kShort, kBound, kReleased, kExpired };

/// One pod of a gang, with its node and devices.
struct Member {
  std::int32_t set = 0;    ///< index of its pod set
  std::int32_t index = 0;  ///< rank in the pod set
  NodeName node;
  std::vector<DeviceRef> devices;
  std::string pod, pod_uid;  ///< current pod of this member
  bool bind_sent = false;
  Instant bound{};     ///< first time a pod of this member was bound
  Instant released{};  ///< when its devices were released
  bool lost = false;   ///< lost with its node: the rank is missing and may be placed again
  [[nodiscard]] bool live() const { return released == Instant{}; }
  friend auto operator<=>(const Member&, const Member&) = default;
};

/// A request to admission to evict an attempt.
struct EvictionRequest {
  std::string reason, message;
  Instant deadline{};
  NodeName node;
  bool pods_lost = false;
  /// Until then the ranks save by an order of the autoscaler, which then evicts them. Zero = evict now.
  Instant save_until{};
  friend auto operator<=>(const EvictionRequest&, const EvictionRequest&) = default;
};

/// The placement decision for one (uid, attempt).
struct Assignment {
  Namespace ns;
  std::string workload;
  Team team;
  Labels labels;  ///< words::kChargebackLabels only
  std::vector<PodSet> pod_sets;
  std::vector<std::string> rules;  ///< by pod set, in the format of PodFacts::rules; empty where no pod was known
  AssignmentState state = AssignmentState::kShort;
  /// Empty in state Short. Of an elastic gang: all ranks that are or were placed, in the order in which they
  /// were added.
  std::vector<Member> members;
  std::string short_reason;
  Instant decided{};
  Instant expires{};       ///< zero = never
  Instant ended{};         ///< when it was released or expired
  bool confirmed = false;  ///< admission has published Admitted
  std::optional<EvictionRequest> eviction;
  std::uint64_t revision = 0;  ///< number of publications
  [[nodiscard]] bool holds() const { return state == AssignmentState::kReserved || state == AssignmentState::kBound; }
  friend auto operator<=>(const Assignment&, const Assignment&) = default;
};

/// A new assignment of the workload, before its decision.
[[nodiscard]] Assignment assignment_for(const WorkloadSpec& spec);

[[nodiscard]] std::string_view name_of(AssignmentState value);

}  // namespace qm::placement
