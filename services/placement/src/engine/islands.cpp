// Which devices of a node belong together: NVLink joins them by islands, and shares are of one GPU.
#include "qm/base/assert.hpp"
#include "qm/placement/policy.hpp"

#include <algorithm>
#include <charconv>

namespace qm::placement {
namespace {

constexpr std::string_view kIslandLabel = "gpu.nvidia.com/nvlink-gpus-per-island";
constexpr std::string_view kSharesLabel = "nvidia.com/gpu.replicas";

/// The label as a number above zero; 0 where it is none.
std::int32_t number_of(const Labels& labels, std::string_view key) {
  const auto label = labels.find(std::string(key));
  if (label == labels.end()) return 0;
  std::int32_t number = 0;
  const auto* end = label->second.data() + label->second.size();
  const auto [stop, error] = std::from_chars(label->second.data(), end, number);
  return error == std::errc() && stop == end && number > 0 ? number : 0;
}

}  // namespace

std::int32_t island_of(const Labels& labels) { return number_of(labels, kIslandLabel); }

std::int32_t shares_of(const NodeFacts& facts) {
  const auto shares = number_of(facts.labels, kSharesLabel);
  return shares > 1 && facts.gpus >= shares ? shares : 1;
}

std::int32_t gpu_of(const DeviceRef& device, std::int32_t shares) {
  return device.milli == 0 ? device.index : device.index / shares;  // an instance has its GPU's index
}

std::vector<std::size_t> choose_devices(const std::vector<std::int32_t>& free_milli, std::int32_t island,
                                        std::int64_t count) {
  const auto size = island > 0 ? static_cast<std::size_t>(island) : std::max<std::size_t>(free_milli.size(), 1);
  std::vector<std::vector<std::size_t>> idle((free_milli.size() + size - 1) / size);
  for (std::size_t i = 0; i < free_milli.size(); ++i) {
    if (free_milli[i] == 1000) idle[i / size].push_back(i);
  }
  std::vector<std::size_t> out;
  while (std::ssize(out) < count) {
    const auto left = static_cast<std::size_t>(count) - out.size();
    // (has not enough, then fewest where it has and most where it has not): the smallest wins, the first of equals.
    const auto best = std::ranges::min_element(idle, std::less<>(), [&](const auto& some) {
      const bool enough = some.size() >= left;
      return std::pair(!enough, enough ? std::ssize(some) : -std::ssize(some));
    });
    QM_ASSERT(best != idle.end() && !best->empty(), "{} idle devices are missing", left);
    const auto taken = std::min(left, best->size());
    out.insert(out.end(), best->begin(), best->begin() + static_cast<std::ptrdiff_t>(taken));
    best->erase(best->begin(), best->begin() + static_cast<std::ptrdiff_t>(taken));
  }
  std::ranges::sort(out);
  return out;
}

}  // namespace qm::placement
