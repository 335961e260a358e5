#pragma once
#include "policies.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace qm::placement::pack {

/// Scores by how much a placement makes the fragment of its node grow or shrink, as one of 101
/// levels: the logistic curve of the milli-GPUs gained. The coarse levels are part of the rule:
/// among about equal placements the first node is chosen.
class Gradient {
 public:
  Gradient(std::span<const Demand> mix, std::span<const NodeState> capacity,
           Fragmentation::Remainders remainders = Fragmentation::Remainders::kUsable)
      : fragment_(mix, models_of(capacity), remainders) {
    for (std::size_t level = 1; level < 100; ++level) {
      const double gpus = std::log(static_cast<double>(level) / static_cast<double>(100 - level));
      least_[level - 1] =
          static_cast<std::int64_t>(std::ceil(gpus * kDevice * static_cast<double>(fragment_.weight())));
    }
  }
  /// The level of a placement that reduces the fragment by `less`, in milli-GPU times weight().
  [[nodiscard]] std::int64_t level(std::int64_t less) const {
    return std::ranges::upper_bound(least_, less) - least_.begin();
  }
  [[nodiscard]] std::int64_t weight() const { return fragment_.weight(); }
  [[nodiscard]] std::int64_t fragment(const NodeState& node) const { return fragment_.of(node); }
  /// The device with the highest score(its free milli, fragment less); the fullest of equal ones.
  /// `before` is the node's fragment.
  template <class Score>
  [[nodiscard]] Choice best(const NodeState& node, std::int64_t before, const PodClass& pod, Score&& score) const {
    const auto of = [&](std::int32_t device_milli) {
      return score(device_milli, before - fragment_.of(with(node, pod, device_milli)));
    };
    if (!pod.shares()) return {of(0), 0};
    Choice best{-1, 0};
    each_device(node, pod, [&](std::int32_t milli) {
      const auto found = of(milli);
      if (found >= best.score) best = {found, milli};
    });
    return best;
  }

 private:
  static std::size_t models_of(std::span<const NodeState> capacity) {
    std::size_t models = 1;
    for (const auto& node : capacity) models = std::max<std::size_t>(models, node.model + std::size_t{1});
    return models;
  }

  Fragmentation fragment_;
  std::array<std::int64_t, 99> least_{};
};

}  // namespace qm::placement::pack
