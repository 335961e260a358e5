// From capacity per domain to leaves: the level and domains that fit everything (choose), then down the tree, each
// time over the fewest domains (descend, fewest).
#include "need.hpp"
#include "qm/topology/balanced.hpp"
#include "qm/topology/search.hpp"

#include <algorithm>
#include <limits>

namespace qm::topology {
Ordering Search::ordering(const Need& need) const {
  return {.least_free = need.unconstrained && gates_.profile_mixed, .affinity = gates_.preferred_affinity};
}

Result<Search::Chosen> Search::choose(const Need& need) {
  if (gates_.balanced && !need.required && !need.unconstrained) {
    Chosen out;
    if (choose_balanced(need, out)) return out;
  }
  return choose_level(need, need.level);
}

bool Search::choose_balanced(const Need& need, Chosen& out) {
  const State before = state_;
  const bool affinity = gates_.preferred_affinity;
  const Load load{.slices = need.slice_count(), .leaders = need.leaders, .slice_size = need.slices.size};
  const auto choice = choose_siblings(tree_, state_, need.level, load, need.slices, affinity);
  if (!choice) return false;
  out.balanced = true;
  out.level = need.level;
  out.domains = to_list(choice->siblings);
  if (need.level < need.slices.level) {
    const auto parents = fewest_that_fit(tree_, state_, out.domains, load, true, affinity);
    ++out.level;
    out.domains.clear();
    for (const DomainId d : parents) {
      const auto children = to_list(tree_.children(d));
      out.domains.insert(out.domains.end(), children.begin(), children.end());
    }
  }
  out.domains = share_evenly(tree_, state_, out.domains, load, choice->threshold, affinity);
  if (!out.domains.empty()) return true;
  state_ = before;
  return false;
}

Result<Search::Chosen> Search::choose_level(const Need& need, int level) const {
  const DomainRange range = tree_.at(level);
  if (range.size() == 0) return fail(Code::kExhausted, "no topology domains at level: {}", tree_.level_key(level));
  if (const DomainId one = one_for_all(need, range); one != kNoDomain) return Chosen{level, {one}, false};
  const auto domains = to_list(range);
  const auto before = [&](DomainId a, DomainId b) { return first_with_leader(state_, a, b, ordering(need)); };
  if (need.required) {
    return no_fit(need, level,
                  best_fit(need) ? at(*std::ranges::min_element(domains, before)).slices
                                 : at(*std::ranges::max_element(domains, before)).pods);
  }
  if (level > 0 && !need.unconstrained) return choose_level(need, level - 1);
  return choose_several(need, level, sorted_with_leader(state_, domains, ordering(need)));
}

/// The domain that fits everything: the tightest (BestFit), or the first in order (LeastFreeCapacity).
///
/// The nodes' preference comes before capacity. Only if the level is required may the domain be less preferred than
/// the first: otherwise more domains are better than less preferred ones.
DomainId Search::one_for_all(const Need& need, DomainRange range) const {
  const auto free_amounts = need.leaders > 0 ? kInSlices.with_leader : kInSlices.plain;
  const bool affinity = gates_.preferred_affinity;
  const auto before = [&](DomainId a, DomainId b) { return first_with_leader(state_, a, b, ordering(need)); };
  const auto better = [&](DomainId a, DomainId b) {
    if (best_fit(need) && affinity && at(a).affinity != at(b).affinity) return at(a).affinity > at(b).affinity;
    if (best_fit(need) && at(a).*free_amounts != at(b).*free_amounts) return at(a).*free_amounts < at(b).*free_amounts;
    return before(a, b);
  };
  DomainId out = kNoDomain, first = range.begin;
  for (DomainId d = range.begin; d < range.end; ++d) {
    if (affinity && before(d, first)) first = d;
    if (at(d).leaders < need.leaders || at(d).*free_amounts < need.slice_count()) continue;
    if (out == kNoDomain || better(d, out)) out = d;
  }
  if (out == kNoDomain || !best_fit(need) || !affinity || need.required) return out;
  return at(out).affinity == at(first).affinity ? out : kNoDomain;
}

Result<Search::Chosen> Search::choose_several(const Need& need, int level, std::vector<DomainId> domains) const {
  const Pods needed = need.slice_count();
  Pods rest = needed, leaders = need.leaders;
  domains = leader_first(std::move(domains), needed, leaders, kInSlices);
  Chosen out{level, {}, false};
  auto it = domains.begin();
  for (; leaders > 0 && it != domains.end() && at(*it).leaders > 0; ++it) {
    const bool last = best_fit(need) && at(*it).slices_with_leader >= rest;
    out.domains.push_back(last ? tightest({it, domains.end()}, rest, leaders, kInSlices) : *it);
    leaders -= at(out.domains.back()).leaders;
    rest -= at(out.domains.back()).slices_with_leader;
  }
  if (leaders > 0) return no_fit(need, level, need.leaders - leaders);
  domains = sorted(state_, std::span(it, domains.end()), ordering(need));
  for (it = domains.begin(); rest > 0 && it != domains.end(); ++it) {
    const bool last = best_fit(need) && at(*it).slices >= rest;
    out.domains.push_back(last ? tightest({it, domains.end()}, rest, 0, kInSlices) : *it);
    rest -= at(out.domains.back()).slices;
  }
  if (rest > 0) return no_fit(need, level, needed - rest);
  return out;
}

/// The first domain with least capacity that fits the need; the first of all if none does. Preference is
/// not traded for capacity: only domains as preferred as the first count.
DomainId Search::tightest(std::span<const DomainId> domains, Pods needed, Pods leaders, CapacityUnit unit) const {
  const auto free_amounts = leaders > 0 ? unit.with_leader : unit.plain;
  DomainId out = domains.front();
  Pods least = std::numeric_limits<Pods>::max();
  for (const DomainId d : domains) {
    if (gates_.preferred_affinity && at(d).affinity != at(domains.front()).affinity) break;
    if (at(d).leaders < leaders || at(d).*free_amounts < needed || at(d).*free_amounts >= least) continue;
    out = d;
    least = at(d).*free_amounts;
  }
  return out;
}

/// Moves the first domain to the front that fits the leader and leaves the others enough: a parent's count assumed
/// the capacity that remains where the leader costs least.
std::vector<DomainId> Search::leader_first(std::vector<DomainId> domains, Pods needed, Pods leaders,
                                           CapacityUnit unit) const {
  if (leaders == 0 || domains.size() < 2) return domains;
  Pods free_amounts = 0;
  for (const DomainId d : domains) free_amounts += at(d).*unit.plain;
  const auto it = std::ranges::find_if(domains, [&](DomainId d) {
    const Pods cost = at(d).*unit.plain - at(d).*unit.with_leader;
    return at(d).leaders >= leaders && free_amounts - cost >= needed;
  });
  if (it != domains.end()) std::rotate(domains.begin(), it, it + 1);
  return domains;
}

GangPlacement Search::descend(const Need& need, Chosen chosen) {
  auto domains = fewest(std::move(chosen.domains), need.pods, need.leaders, need.slices.size, kInSlices, need);
  int level = chosen.level;
  // Above the slices' own level whole slices are assigned to the domains that fit most, whatever their parents.
  for (; !chosen.balanced && level < std::min(tree_.lowest(), need.slices.level); ++level) {
    std::vector<DomainId> below;
    for (const DomainId d : domains) {
      const auto children = to_list(tree_.children(d));
      below.insert(below.end(), children.begin(), children.end());
    }
    domains = fewest(sorted(state_, below, ordering(need)), need.pods, need.leaders, need.slices.size, kInSlices, need);
  }
  // From there on every parent distributes its pods among its children.
  for (; level < tree_.lowest(); ++level) {
    const bool inside = level >= need.slices.level;
    const Pods size = inside ? std::max<Pods>(1, need.slices.inner_at(level + 1)) : need.slices.size;
    std::vector<DomainId> below;
    for (const DomainId parent : domains) {
      auto children = sorted(state_, to_list(tree_.children(parent)), ordering(need));
      for (const DomainId d : children) {
        if (size <= 1) break;
        at(d).slices = at(d).pods / size;
        at(d).slices_with_leader = at(d).pods_with_leader / size;
      }
      const auto some =
          fewest(std::move(children), at(parent).pods, at(parent).leaders, size, size > 1 ? kInSlices : kInPods, need);
      below.insert(below.end(), some.begin(), some.end());
    }
    domains = std::move(below);
  }
  std::ranges::sort(domains);
  GangPlacement out;
  for (const DomainId leaf : domains) {
    const Counts& c = at(leaf);
    if (need.leaders > 0 && c.leaders > 0) out.leader.push_back({leaf, c.leaders});
    if (c.pods > 0) out.workers.push_back({leaf, c.pods});
  }
  return out;
}

/// Fills domains in their order until all is placed, the last with the tightest that fits the rest; their counts
/// become the assignment. Empty if the domains do not fit it, although their parents' counts did.
std::vector<DomainId> Search::fewest(std::vector<DomainId> domains, Pods pods, Pods leaders, Pods per_unit,
                                     CapacityUnit unit, const Need& need) {
  Pods rest = pods / per_unit;
  domains = leader_first(std::move(domains), rest, leaders, unit);
  std::vector<DomainId> out;
  for (auto it = domains.begin(); it != domains.end(); ++it) {
    const auto free_amounts = leaders > 0 ? unit.with_leader : unit.plain;
    const auto holds = [&](DomainId d) { return at(d).*free_amounts >= rest && at(d).leaders >= leaders; };
    const bool tighten = best_fit(need) && holds(*it);
    const DomainId d = tighten ? tightest({it, domains.end()}, rest, leaders, unit) : *it;
    const bool last = holds(d);
    Counts& c = at(d);
    const Pods given = std::min(c.*free_amounts, rest);
    c.leaders = std::min(c.leaders, leaders);
    c.*unit.plain = given;
    c.pods = given * per_unit;
    out.push_back(d);
    if (last) return out;
    leaders -= c.leaders;
    rest -= given;
  }
  return {};
}

}  // namespace qm::topology
