#include "qm/autoscaler/gang_launch/alternatives.hpp"

#include <algorithm>
#include <tuple>

namespace qm::autoscaler {

std::vector<std::size_t> ranked(std::span<const Alternative> alternatives) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < alternatives.size(); ++i) {
    if (!alternatives[i].held) out.push_back(i);
  }
  const auto rank = [&](std::size_t i) {
    const Alternative& a = alternatives[i];
    return std::tuple(a.nano_usd_hour, a.still_out_milli, a.order, i);
  };
  std::ranges::sort(out, [&](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
  return out;
}

}  // namespace qm::autoscaler
