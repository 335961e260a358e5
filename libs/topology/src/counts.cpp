#include "qm/topology/counts.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

namespace qm::topology {
namespace {

void count_slices(Counts& c, Pods size) {
  c.slices = c.pods / size;
  c.slices_with_leader = c.pods_with_leader / size;
}

Pods in_whole(Pods pods, Pods run) { return run > 0 ? pods / run * run : pods; }

/// `inner` is the size of the runs in which a child provides pods, 0 for any number.
Counts sum_of(const State& state, DomainRange children, Pods inner, bool with_leader) {
  constexpr Pods kMost = std::numeric_limits<Pods>::max();
  Counts out;
  bool hosts_leader = false;
  Pods least_pods = kMost, least_slices = kMost;  // cost of a leader
  for (DomainId d = children.begin; d < children.end; ++d) {
    const Counts& c = state[static_cast<std::size_t>(d)];
    const Pods pods = in_whole(c.pods, inner);
    out.pods += pods;
    out.slices += c.slices;
    if (!with_leader || c.leaders > 0) {
      hosts_leader = true;
      least_pods = std::min(least_pods, pods - in_whole(c.pods_with_leader, inner));
      least_slices = std::min(least_slices, c.slices - c.slices_with_leader);
    }
    out.leaders = std::max(out.leaders, c.leaders);
    out.affinity += c.affinity;
  }
  out.pods_with_leader = hosts_leader ? out.pods - least_pods : 0;
  out.slices_with_leader = hosts_leader ? out.slices - least_slices : 0;
  return out;
}

auto key_of(const State& state, DomainId d, Ordering ordering) {
  const Counts& c = state[static_cast<std::size_t>(d)];
  return std::tuple(ordering.affinity ? -c.affinity : 0, ordering.least_free ? c.slices : -c.slices, c.pods, d);
}

auto key_with_leader(const State& state, DomainId d, Ordering ordering) {
  const Counts& c = state[static_cast<std::size_t>(d)];
  return std::tuple(-c.leaders, ordering.affinity ? -c.affinity : 0,
                    ordering.least_free ? c.slices_with_leader : -c.slices_with_leader, c.pods_with_leader, d);
}

/// Keys are computed once, and sorted input is unchanged: without a leader the second sort of a search is that case.
template <class Key>
std::vector<DomainId> sorted_by(std::span<const DomainId> domains, Key&& key) {
  std::vector<decltype(key(DomainId{}))> rows;
  rows.reserve(domains.size());
  for (const DomainId d : domains) rows.push_back(key(d));
  if (!std::ranges::is_sorted(rows)) std::ranges::sort(rows);
  std::vector<DomainId> out;
  out.reserve(rows.size());
  for (const auto& row : rows) out.push_back(std::get<DomainId>(row));
  return out;
}

}  // namespace

void roll_up(const Tree& tree, State& state, DomainRange top, const SliceShape& slices, bool with_leader) {
  if (top.size() == 0) return;
  std::vector<DomainRange> below{top};  // level by level
  const int first = tree.level(top.begin);
  for (int level = first; level < tree.lowest(); ++level) below.push_back(tree.children(below.back()));
  for (int level = tree.lowest(); level >= first; --level) {
    const DomainRange range = below[static_cast<std::size_t>(level - first)];
    for (DomainId d = range.begin; d < range.end; ++d) {
      Counts& c = state[static_cast<std::size_t>(d)];
      if (level < tree.lowest()) c = sum_of(state, tree.children(d), slices.inner_at(level + 1), with_leader);
      if (level == slices.level) count_slices(c, slices.size);
    }
  }
}

std::vector<DomainId> sorted(const State& state, std::span<const DomainId> domains, Ordering ordering) {
  return sorted_by(domains, [&](DomainId d) { return key_of(state, d, ordering); });
}

std::vector<DomainId> sorted_with_leader(const State& state, std::span<const DomainId> domains, Ordering ordering) {
  return sorted_by(domains, [&](DomainId d) { return key_with_leader(state, d, ordering); });
}

bool first_with_leader(const State& state, DomainId a, DomainId b, Ordering ordering) {
  return key_with_leader(state, a, ordering) < key_with_leader(state, b, ordering);
}

std::vector<DomainId> to_list(DomainRange range) {
  std::vector<DomainId> out(static_cast<std::size_t>(range.size()));
  std::iota(out.begin(), out.end(), range.begin);
  return out;
}

}  // namespace qm::topology
