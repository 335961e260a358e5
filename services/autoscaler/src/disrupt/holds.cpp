#include "qm/autoscaler/disrupt/holds.hpp"

#include <fmt/format.h>

namespace qm::autoscaler {
namespace {

bool ends_before(const Hold& a, const Hold& b) { return a.until && (!b.until || *a.until < *b.until); }

std::optional<Hold> hold_of_annotation(const HoldingPod& pod, Instant now) {
  if (!pod.do_not_disrupt) return std::nullopt;
  Hold hold{fmt::format("pod {} has the annotation {}", pod.name, kDoNotDisrupt), std::nullopt};
  if (*pod.do_not_disrupt == Duration::max()) return hold;
  hold.until = pod.started + *pod.do_not_disrupt;
  return *hold.until > now ? std::optional(std::move(hold)) : std::nullopt;
}

}  // namespace

std::optional<Hold> annotation_hold(std::span<const HoldingPod> pods, Instant now) {
  std::optional<Hold> last;
  for (const HoldingPod& pod : pods) {
    auto hold = hold_of_annotation(pod, now);
    if (hold && (!last || ends_before(*last, *hold))) last = std::move(hold);
  }
  return last;
}

std::optional<Hold> hold_of(std::span<const HoldingPod> pods, Instant now) {
  const auto last = annotation_hold(pods, now);
  if (last && !last->until) return last;
  for (const HoldingPod& pod : pods) {
    if (!pod.blocked_by.empty())
      return Hold{fmt::format("PodDisruptionBudget {} allows no eviction of pod {}", pod.blocked_by, pod.name), {}};
  }
  return last;
}

}  // namespace qm::autoscaler
