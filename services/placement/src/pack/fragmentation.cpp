#include "qm/placement/pack/fragmentation.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace qm::placement::pack {

std::vector<Demand> typical(std::vector<Demand> mix, double share) {
  std::int64_t all = 0, covered = 0;
  for (const auto& one : mix) all += one.weight;
  std::ranges::stable_sort(mix, std::greater<>(), &Demand::weight);
  const auto end = std::ranges::find_if(mix, [&](const Demand& one) {
    const bool enough = static_cast<double>(covered) >= share * static_cast<double>(all);
    covered += one.weight;
    return enough;
  });
  mix.erase(end, mix.end());
  return mix;
}

Fragmentation::Fragmentation(std::span<const Demand> mix, std::size_t models, Remainders remainders) : models_(models) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> group_of;  // share, devices
  for (const auto& [pod, weight] : mix) {
    weight_ += weight;
    if (pod.gpus == 0) continue;  // pods without GPUs use no idle GPU capacity
    group_of[{pod.gpu_milli, pod.gpus}] = 0;
    thresholds_.push_back(pod.cpu_milli);
  }
  std::ranges::sort(thresholds_);
  thresholds_.erase(std::unique(thresholds_.begin(), thresholds_.end()), thresholds_.end());
  for (auto& [ask, position] : group_of) {
    position = groups_.size();
    const auto [milli, gpus] = ask;
    groups_.push_back({gpus, milli, remainders == Remainders::kLost && gpus > 1 && milli == kDevice});
  }
  const auto bands = thresholds_.size() + 1;
  served_.assign(models * bands * groups_.size(), 0);
  for (const auto& [pod, weight] : mix) {
    if (pod.gpus == 0) continue;
    const auto group = group_of.at({pod.gpu_milli, pod.gpus});
    for (std::size_t band = 1; band < bands; ++band) {
      if (thresholds_[band - 1] < pod.cpu_milli) continue;
      for (std::size_t model = 0; model < models; ++model) {
        if ((pod.models >> model & 1) != 0) served_[(model * bands + band) * groups_.size() + group] += weight;
      }
    }
  }
}

std::int64_t Fragmentation::of(const NodeState& node) const {
  std::int64_t enough_milli = node.free_milli();  // of the devices that have enough free for the current share
  std::int64_t lost = enough_milli * weight_;
  const auto band =
      static_cast<std::size_t>(std::ranges::upper_bound(thresholds_, node.cpu_milli) - thresholds_.begin());
  if (band == 0 || node.pods < 1) return lost;
  QM_ASSERT(node.model < models_, "model {} of {}", node.model, models_);
  const std::int64_t* served = &served_[(node.model * (thresholds_.size() + 1) + band) * groups_.size()];
  std::int32_t enough = node.gpus;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    while (enough > 0 && node.free[static_cast<std::size_t>(enough) - 1] < groups_[i].gpu_milli) {
      enough_milli -= node.free[static_cast<std::size_t>(--enough)];
    }
    if (enough < groups_[i].gpus) continue;
    const std::int64_t rest = groups_[i].leaves_rest ? enough % groups_[i].gpus * std::int64_t{kDevice} : 0;
    lost -= served[i] * (enough_milli - rest);
  }
  return lost;
}

}  // namespace qm::placement::pack
