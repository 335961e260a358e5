#pragma once
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace qm {

/// How a workload that can save a checkpoint does so, as its author declares it.
struct CheckpointTerms {
  Duration interval{0};     ///< between orders to save on spot capacity; 0 = the setting of the autoscaler
  std::int64_t steps = 0;   ///< between saves of its own; 0 = unknown
  std::int32_t quorum = 0;  ///< ranks that have to save the same step; 0 = all
  Duration expected{0};     ///< expected duration of a save; 0 = unknown
  std::string uri;          ///< where its checkpoints are; empty = unknown
  friend auto operator<=>(const CheckpointTerms&, const CheckpointTerms&) = default;
};

/// Ranks that saved the same step: of one node, or of a whole gang.
struct StepSave {
  std::int64_t step = 0, epoch = 0;
  std::int32_t ranks = 0;
  std::string uri;         ///< of the checkpoint; all ranks of a gang report the same one
  std::int64_t bytes = 0;  ///< written by these ranks together; 0 = unknown
  Duration took{0};        ///< of the slowest of them; 0 = unknown
  friend auto operator<=>(const StepSave&, const StepSave&) = default;
};

inline constexpr std::size_t kMaxResumeUri = 1024;  ///< bytes

/// kInvalid unless the text is a URI or an absolute path from which a pod may resume: at most kMaxResumeUri bytes,
/// only characters of RFC 3986. Empty = the rank has none. The text comes from a container, and is written to an
/// annotation.
Status check_resume_uri(std::string_view uri);

/// Whether the URI names storage that ends with its node: a file, or a volume of the kinds emptyDir, hostPath and local.
/// An absolute path is not decided by its text: the mounted volume decides.
[[nodiscard]] bool is_node_local(std::string_view uri);

}  // namespace qm
