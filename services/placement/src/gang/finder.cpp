// The search goes from the nodes up to the required level. At each level it tries the domains that
// may hold the gang, in order of a lower bound of their cost. A gang that fits a wider domain but
// none of its parts uses at least two parts at every level below. If those alone cost as much as
// the best domain found, wider levels are not searched.
#include "finder.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

namespace qm::placement::gang {
namespace {

struct Candidate {
  std::int64_t bound, leftover;
  std::uint32_t index;
  friend bool operator>(const Candidate& a, const Candidate& b) {
    return std::tie(a.bound, a.leftover, a.index) > std::tie(b.bound, b.leftover, b.index);
  }
};

/// Candidates of a level inside `wider`.
void gather(const Tree& tree, const Finder& finder, Domain wider, Level level, std::vector<Candidate>& out) {
  if (!finder.may_hold(wider)) return;
  if (wider.level < level) {
    for (const auto part : tree.parts(wider)) gather(tree, finder, {wider.level + 1, part}, level, out);
    return;
  }
  out.push_back({finder.bound(wider), finder.leftover(wider), wider.index});
}

}  // namespace

std::optional<Best> best_domain(const Tree& tree, Finder& finder, std::span<const std::int64_t> weights, Domain within,
                                Level level, bool any) {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max() / 4;
  struct Found {
    Best best;
    std::int64_t leftover;
  };
  std::optional<Found> found;
  std::int64_t all = 0;
  for (Level l = 1; l <= tree.depth(); ++l) all += weights[at(l)];
  std::int64_t outer = all;  // the weights of one domain at each level down to this one
  std::vector<Candidate> heap;
  for (Level now = tree.depth(); now >= std::max(level, within.level); --now) {
    if (found && found->best.cost <= outer + 2 * (all - outer) && now < tree.depth()) break;
    if (any && now > std::max(level, within.level)) {
      outer -= weights[at(now)];
      continue;  // a domain that contains a fitting part fits too
    }
    if (now == tree.depth() && finder.certain()) {
      if (const auto node = finder.best_node(within)) found = {{{now, *node}, all}, 0};
      if (found && any) return found->best;
      outer -= weights[at(now)];
      continue;
    }
    heap.clear();
    gather(tree, finder, within, now, heap);
    std::make_heap(heap.begin(), heap.end(), std::greater<>());
    while (!heap.empty()) {
      std::pop_heap(heap.begin(), heap.end(), std::greater<>());
      const Candidate one = heap.back();
      heap.pop_back();
      const Domain domain{now, one.index};
      const bool rival = found && found->best.domain.level == now;  // of wider levels only a lower cost counts
      if (found) {
        if (outer + one.bound > found->best.cost) break;
        if (outer + one.bound == found->best.cost && (!rival || one.leftover > found->leftover)) continue;
      }
      const auto below = found ? found->best.cost - outer + (rival ? 1 : 0) : kMax;
      const auto inner = finder.cost(domain, below);
      if (!inner || *inner >= below) continue;
      if (any) return Best{domain, outer + *inner};
      const Found next{{domain, outer + *inner}, one.leftover};
      const auto rank = [](const Found& f) { return std::tuple(f.best.cost, f.leftover, f.best.domain.index); };
      if (!rival || rank(next) < rank(*found)) found = next;
    }
    outer -= weights[at(now)];
  }
  if (!found) return std::nullopt;
  return found->best;
}

}  // namespace qm::placement::gang
