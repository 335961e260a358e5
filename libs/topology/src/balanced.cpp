// Balanced placement: gangs that prefer a level are spread so that the domain with the fewest pods gets the maximum,
// over the fewest domains. Three steps: for every group of siblings, the threshold is what the last domain would get
// if they were filled in descending order of capacity; domains below it are excluded; of the best group, the fewest
// domains that fit share evenly.
#include "qm/topology/balanced.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace qm::topology {
namespace {

Counts& at(State& state, DomainId d) { return state[static_cast<std::size_t>(d)]; }
const Counts& at(const State& state, DomainId d) { return state[static_cast<std::size_t>(d)]; }

/// Shannon entropy of the pods over the children. Floating point decides here as in Kueue; a total order follows it.
double evenness(const State& state, DomainRange children) {
  Pods total = 0;
  for (DomainId d = children.begin; d < children.end; ++d) total += at(state, d).pods;
  if (total == 0) return 0;
  double out = 0;
  for (DomainId d = children.begin; d < children.end; ++d) {
    if (at(state, d).pods <= 0) continue;
    const double p = static_cast<double>(at(state, d).pods) / static_cast<double>(total);
    out += -p * std::log2(p);
  }
  return out;
}

/// Every domain of a subtree: ranges, level by level.
template <class Fn>
void each_below(const Tree& tree, DomainRange top, Fn&& fn) {
  for (DomainRange range = top; range.size() > 0; range = tree.children(range)) {
    for (DomainId d = range.begin; d < range.end; ++d) fn(d);
  }
}

void prune(const Tree& tree, State& state, DomainId d, Pods threshold, bool with_leader) {
  const Counts& c = at(state, d);
  if (c.slices < threshold) {
    each_below(tree, {d, d + 1}, [&](DomainId b) { at(state, b) = Counts{.affinity = at(state, b).affinity}; });
  } else if (with_leader && c.leaders > 0 && c.slices_with_leader < threshold) {
    each_below(tree, {d, d + 1}, [&](DomainId b) {
      Counts& s = at(state, b);
      s.pods_with_leader = s.slices_with_leader = s.leaders = 0;
    });
  }
}

Pods threshold_of(const State& state, const Load& load, const GreedyFit& fit) {
  Pods out = load.slices / fit.domains;
  if (fit.last_with_leader != kNoDomain) out = std::min(out, at(state, fit.last_with_leader).slices_with_leader);
  if (fit.last != kNoDomain) out = std::min(out, at(state, fit.last).slices);
  return out;
}

/// Saves the counts of a subtree, to restore them later.
class Saved {
 public:
  Saved(const Tree& tree, const State& state, DomainRange top) {
    each_below(tree, top, [&](DomainId d) { counts_.emplace_back(d, at(state, d)); });
  }
  void revert(State& state) const {
    for (const auto& [d, c] : counts_) at(state, d) = c;
  }

 private:
  std::vector<std::pair<DomainId, Counts>> counts_;
};

}  // namespace

std::optional<GreedyFit> greedy_fit(const State& state, std::span<const DomainId> domains, const Load& load,
                                    bool affinity) {
  const Ordering most_first{.least_free = false, .affinity = affinity};
  GreedyFit out;
  Pods slices = load.slices, leaders = load.leaders;
  std::vector<DomainId> rest(domains.begin(), domains.end());
  if (leaders > 0) {
    rest = sorted_with_leader(state, domains, most_first);
    auto it = rest.begin();
    for (; leaders > 0 && it != rest.end() && at(state, *it).leaders > 0; ++it) {
      ++out.domains;
      out.last_with_leader = *it;
      leaders -= at(state, *it).leaders;
      slices -= at(state, *it).slices_with_leader;
    }
    if (leaders > 0) return std::nullopt;
    rest.erase(rest.begin(), it);
  }
  rest = sorted(state, rest, most_first);
  for (auto it = rest.begin(); slices > 0 && it != rest.end() && at(state, *it).slices > 0; ++it) {
    ++out.domains;
    out.last = *it;
    slices -= at(state, *it).slices;
  }
  if (slices > 0) return std::nullopt;
  return out;
}

std::vector<DomainId> sorted_by_evenness(const Tree& tree, const State& state, std::span<const DomainId> domains) {
  struct Row {
    Pods leaders, slices;
    double evenness;
    DomainId domain;
  };
  std::vector<Row> rows;
  for (const DomainId d : domains) {
    rows.push_back({at(state, d).leaders, at(state, d).slices_with_leader, evenness(state, tree.children(d)), d});
  }
  std::ranges::sort(rows, [](const Row& a, const Row& b) {
    if (a.leaders != b.leaders) return a.leaders > b.leaders;
    if (a.slices != b.slices) return a.slices > b.slices;
    if (a.evenness > b.evenness || a.evenness < b.evenness) return a.evenness > b.evenness;
    return a.domain < b.domain;
  });
  std::vector<DomainId> out;
  for (const Row& r : rows) out.push_back(r.domain);
  return out;
}

std::vector<DomainId> fewest_that_fit(const Tree& tree, const State& state, std::span<const DomainId> domains,
                                      const Load& load, bool by_evenness, bool affinity) {
  const auto fit = greedy_fit(state, domains, load, affinity);
  if (!fit) return {};
  std::vector<DomainId> ordered(domains.begin(), domains.end());
  if (by_evenness) {
    ordered = sorted_by_evenness(tree, state, domains);
  } else {
    std::ranges::sort(ordered);
  }

  // chosen[n] has, by the remaining load (leaders, pods), the first choice of n domains found with this
  // remainder: its last domain and the choice before that.
  struct Choice {
    DomainId domain = kNoDomain;
    std::size_t before = 0;
  };
  using Left = std::pair<Pods, Pods>;
  std::vector<Choice> choices(1);
  const auto most = static_cast<std::size_t>(fit->domains);
  std::vector<std::map<Left, std::size_t>> chosen(most + 1);
  chosen[0][{load.leaders, load.pods()}] = 0;
  for (const DomainId d : ordered) {
    const Counts& c = at(state, d);
    for (std::size_t n = most; n > 0; --n) {
      const auto take = [&](Left left, std::size_t before) {
        if (chosen[n].try_emplace(left, choices.size()).second) choices.push_back({d, before});
      };
      for (const auto& [left, before] : chosen[n - 1]) {
        const auto [leaders, pods] = left;
        if (leaders <= 0 && pods <= 0) continue;
        if (leaders > 0 && c.leaders > 0) take({leaders - c.leaders, pods - c.pods_with_leader}, before);
        if (c.slices > 0) take({leaders, pods - c.pods}, before);
      }
    }
  }

  // No leader remains, and the fewest pods beyond the request.
  const auto& last = chosen[most];
  auto it = last.upper_bound({0, 0});
  if (it == last.begin() || (--it)->first.first != 0) return {};
  std::vector<DomainId> out;
  for (std::size_t i = it->second; i != 0; i = choices[i].before) out.push_back(choices[i].domain);
  std::ranges::reverse(out);
  return out;
}

std::vector<DomainId> share_evenly(const Tree& tree, State& state, std::span<const DomainId> domains, const Load& load,
                                   Pods threshold, bool affinity) {
  auto out = fewest_that_fit(tree, state, domains, load, false, affinity);
  const Pods least = static_cast<Pods>(out.size()) * threshold;
  if (out.empty() || load.slices < least) return {};
  out = sorted_with_leader(state, out, {.least_free = false, .affinity = affinity});
  Pods extra = load.slices - least, leaders = load.leaders;
  for (const DomainId d : out) {
    Counts& c = at(state, d);
    const Pods free_amounts = (leaders > 0 ? c.slices_with_leader : c.slices) - threshold;
    const Pods more = leaders > 0 || extra > 0 ? std::min(free_amounts, extra) : 0;
    c.leaders = leaders > 0 ? 1 : 0;
    leaders -= c.leaders;
    c.slices = c.slices_with_leader = threshold + more;
    c.pods = c.slices * load.slice_size;
    c.pods_with_leader = c.pods - c.leaders;
    extra -= more;
  }
  if (extra > 0 || leaders > 0) return {};
  return out;
}

void prune_below(const Tree& tree, State& state, DomainRange domains, Pods threshold, const SliceShape& slices,
                 bool with_leader) {
  const DomainRange children = tree.children(domains);
  for (DomainId d = children.begin; d < children.end; ++d) prune(tree, state, d, threshold, with_leader);
  roll_up(tree, state, domains, {.size = slices.size, .level = slices.level, .inner = {}}, with_leader);
  for (DomainId d = domains.begin; d < domains.end; ++d) prune(tree, state, d, threshold, with_leader);
}

std::optional<BalancedChoice> choose_siblings(const Tree& tree, State& state, int level, const Load& load,
                                              const SliceShape& slices, bool affinity) {
  std::vector<DomainRange> groups;
  if (level == 0) {
    groups.push_back(tree.at(0));
  } else {
    const DomainRange parents = tree.at(level - 1);
    for (DomainId d = parents.begin; d < parents.end; ++d) groups.push_back(tree.children(d));
  }

  const bool with_leader = load.leaders > 0;
  std::optional<BalancedChoice> best;
  std::optional<Saved> best_state;
  Pods best_domains = 0;
  for (const DomainRange siblings : groups) {
    const auto balanced = to_list(level < slices.level ? tree.children(siblings) : siblings);
    const auto fit = greedy_fit(state, balanced, load, affinity);
    if (!fit || fit->domains == 0) continue;
    Pods threshold = threshold_of(state, load, *fit);
    // Below this the last domain could not also fit the leader.
    const Pods with_capacity = with_leader && fit->last != kNoDomain
                                   ? std::min(threshold, at(state, fit->last).slices_with_leader)
                                   : threshold;
    const Pods so_far = best ? best->threshold : 0;
    if (threshold < so_far) continue;

    const Saved before(tree, state, siblings);
    const auto list = to_list(siblings);
    prune_below(tree, state, siblings, threshold, slices, with_leader);
    auto pruned = greedy_fit(state, list, load, affinity);
    if (!pruned && with_capacity < threshold && with_capacity > 0 && with_capacity >= so_far) {
      before.revert(state);
      threshold = with_capacity;
      prune_below(tree, state, siblings, threshold, slices, with_leader);
      pruned = greedy_fit(state, list, load, affinity);
    }
    if (pruned && (threshold > so_far || (threshold == so_far && pruned->domains < best_domains))) {
      best = BalancedChoice{siblings, threshold};
      best_domains = pruned->domains;
      best_state.emplace(tree, state, siblings);
    }
    before.revert(state);
  }
  if (!best || best->threshold <= 0) return std::nullopt;
  best_state->revert(state);
  return best;
}

}  // namespace qm::topology
