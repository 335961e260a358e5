#pragma once
#include "pods.hpp"
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"
#include "qm/model/checkpoint.hpp"

#include <cstddef>
#include <string>

namespace qm::agent {

/// The longest answer of a rank, in bytes.
inline constexpr std::size_t kMaxAnswer = 8 << 10;

/// The answer of a rank to a checkpoint order: {"step", "uri", "epoch", "bytes", "seconds", "fence"}, of which only the
/// step is required. The same text is the body of an HTTP answer, a file, and the value of an annotation.
struct RankAnswer {
  StepSave save;      ///< of one rank
  std::string fence;  ///< of the order that it answers; empty = the rank does not report it
};

/// Fails    kInvalid names the rank and what cannot be used: no JSON object, no step, a URI that no rank can resume from.
[[nodiscard]] Result<RankAnswer> read_rank_answer(const Rank& rank, const std::string& text);

}  // namespace qm::agent
