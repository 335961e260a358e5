// From the nodes up to the level asked for: at each level those domains that may hold the gang, by a lower bound of their cost.
// Whoever holds it at a wider level but in no part uses two parts or more at every level below, so when that alone costs as much as
// what was found, wider levels need no look.
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
  std::int64_t outer = all;  // of one domain at each level down to this one
  std::vector<Candidate> heap;
  for (Level now = tree.depth(); now >= std::max(level, within.level); --now) {
    if (found && found->best.cost <= outer + 2 * (all - outer) && now < tree.depth()) break;
    if (any && now > std::max(level, within.level)) {
      outer -= weights[at(now)];
      continue;  // what a part holds the whole holds
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
      const bool rival = found && found->best.domain.level == now;  // of wider levels only what costs less counts
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
