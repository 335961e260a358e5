// A shortest path from the layout as it is to one that holds what is wanted. A node is a layout and which of its instances
// serve the request; from there an instance that does not serve may be destroyed, one that is wanted created, and one that
// is there may serve. What was drained, destroyed and created follows from where the path ends: an instance that was there
// and serves was not destroyed in between, for that would have cost more.
#include "qm/placement/mig/reslice.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <set>
#include <tuple>

namespace qm::placement::mig {
namespace {

SpotMask bit(SpotId spot) { return SpotMask{1} << spot; }

std::vector<SpotId> spots_in(SpotMask mask) {
  std::vector<SpotId> out;
  for (; mask != 0; mask &= mask - 1) out.push_back(static_cast<SpotId>(std::countr_zero(mask)));
  return out;
}

SpotMask used_mask(const Sliced& gpu) {
  SpotMask out = 0;
  for (const auto& [spot, drain] : gpu.used) out |= bit(spot);
  return out;
}

struct Node {
  std::int64_t cost = 0;
  StateId layout = StateTable::empty();
  SpotMask serve = 0;
  friend auto operator<=>(const Node&, const Node&) = default;
};

class ResliceSearch {
 public:
  ResliceSearch(const StateTable& table, const Sliced& gpu, std::span<const ProfileId> wanted, const StepCosts& costs)
      : table_(table), gpu_(gpu), costs_(costs), wanted_(table.geometry().profiles.size()) {
    for (const ProfileId profile : wanted) ++wanted_[profile];
  }

  /// All ends of least cost.
  std::vector<Node> run() {
    std::vector<Node> ends;
    open_.insert({0, gpu_.layout, 0});
    while (!open_.empty()) {
      const Node node = *open_.begin();
      open_.erase(open_.begin());
      if (!ends.empty() && node.cost > ends.front().cost) break;
      if (!done_.insert({node.layout, node.serve}).second) continue;
      if (serves_all(node)) {
        ends.push_back(node);
      } else {
        expand(node);
      }
    }
    return ends;
  }

 private:
  [[nodiscard]] int lacking(const Node& node, ProfileId profile) const {
    int out = wanted_[profile];
    for (const SpotId spot : table_.spots_of(profile)) out -= (node.serve & bit(spot)) != 0 ? 1 : 0;
    return out;
  }
  [[nodiscard]] bool serves_all(const Node& node) const {
    for (ProfileId profile = 0; profile < wanted_.size(); ++profile) {
      if (lacking(node, profile) > 0) return false;
    }
    return true;
  }
  /// None where it is in use and stays.
  [[nodiscard]] std::optional<std::int64_t> drain_cost(SpotId spot) const {
    const auto used = gpu_.used.find(spot);
    return used == gpu_.used.end() ? 0 : used->second;
  }

  void expand(const Node& node) {
    for (const SpotId spot : spots_in(table_.mask(node.layout) & ~node.serve)) {
      const auto drain = drain_cost(spot);
      if (!drain) continue;
      open_.insert({node.cost + *drain + costs_.destroy, table_.free(node.layout, spot), node.serve});
      if (lacking(node, table_.spot(spot).profile) > 0) {
        open_.insert({node.cost + *drain, node.layout, node.serve | bit(spot)});
      }
    }
    for (ProfileId profile = 0; profile < wanted_.size(); ++profile) {
      if (lacking(node, profile) == 0) continue;
      for (const SpotId spot : table_.spots_of(profile)) {
        const StateId next = table_.place(node.layout, spot);
        if (next != kNoState) open_.insert({node.cost + costs_.create, next, node.serve | bit(spot)});
      }
    }
  }

  const StateTable& table_;
  const Sliced& gpu_;
  const StepCosts& costs_;
  std::vector<int> wanted_;  // by profile
  std::set<Node> open_;
  std::set<std::pair<StateId, SpotMask>> done_;
};

/// The instances that a plan to this end drains, destroys and creates.
struct Steps {
  SpotMask drain, destroy, create;
  Steps(const StateTable& table, const Sliced& gpu, const Node& end) {
    const SpotMask before = table.mask(gpu.layout), after = table.mask(end.layout);
    drain = used_mask(gpu) & (~after | end.serve);
    destroy = before & ~after;
    create = after & ~before;
  }
  [[nodiscard]] int count() const { return std::popcount(drain) + std::popcount(destroy) + std::popcount(create); }
};

/// An order in which the lowest starts are the wanted ones, if there is one.
bool order_by_lowest_start(const StateTable& table, StateId from, std::vector<SpotId>& create) {
  std::vector<SpotId> order = create;
  do {
    StateId state = from;
    for (const SpotId spot : order) {
      const StateId next = place_lowest(table, state, table.spot(spot).profile);
      state = next != kNoState && table.has(next, spot) ? next : kNoState;
      if (state == kNoState) break;
    }
    if (state != kNoState) {
      create = std::move(order);
      return true;
    }
  } while (std::ranges::next_permutation(order).found);
  return false;
}

Reslice plan_of(const StateTable& table, const Sliced& gpu, const Node& end) {
  Reslice out;
  const SpotMask before = table.mask(gpu.layout), after = table.mask(end.layout);
  const Steps steps(table, gpu, end);
  out.drain = spots_in(steps.drain);
  out.destroy = spots_in(steps.destroy);
  out.create = spots_in(steps.create);
  out.serve = spots_in(end.serve);
  out.layout = end.layout;
  out.cost = end.cost;
  out.order_reaches = order_by_lowest_start(table, table.find(before & after), out.create);
  for (const Spot& spot : table.instances(end.layout)) ++out.counts[spot.profile];
  out.counts_reach = parted_layout(table, out.counts) == end.layout;
  out.nothing_stays = (used_mask(gpu) & after & ~end.serve) == 0;
  return out;
}

}  // namespace

std::optional<Reslice> reslice(const StateTable& table, std::span<const Sliced> gpus, std::span<const ProfileId> wanted,
                               const StepCosts& costs, const Policy& policy) {
  struct Best {
    std::tuple<std::int64_t, int, std::int64_t, std::size_t> rank;  // cost, steps, loss, GPU
    Node end;
  };
  std::optional<Best> best;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const Sliced& gpu = gpus[i];
    const SpotMask used = used_mask(gpu);
    QM_ASSERT((used & ~table.mask(gpu.layout)) == 0, "GPU {} uses what its layout {} has not", i, gpu.layout);
    QM_ASSERT(gpu.mig || gpu.layout == StateTable::empty(), "GPU {} has instances with the mode off", i);
    QM_ASSERT(!gpu.whole || !gpu.mig, "GPU {} is used as a whole in MIG mode", i);
    if (gpu.whole) continue;  // the mode may be switched on an idle GPU only
    for (Node end : ResliceSearch(table, gpu, wanted, costs).run()) {
      if (!gpu.mig) end.cost += costs.enable;
      const SpotMask kept = used & table.mask(end.layout);
      const std::int64_t loss = policy.loss(table.find(used), table.find(kept | end.serve));
      const std::tuple rank(end.cost, Steps(table, gpu, end).count(), loss, i);
      if (!best || rank < best->rank) best = Best{rank, end};
    }
  }
  if (!best) return std::nullopt;
  const std::size_t gpu = std::get<3>(best->rank);
  Reslice out = plan_of(table, gpus[gpu], best->end);
  out.gpu = gpu;
  out.enable = !gpus[gpu].mig;
  return out;
}

StateId place_lowest(const StateTable& table, StateId state, ProfileId profile) {
  for (const SpotId spot : table.spots_of(profile)) {
    if (const StateId next = table.place(state, spot); next != kNoState) return next;
  }
  return kNoState;
}

StateId parted_layout(const StateTable& table, const Counts& counts) {
  std::vector<ProfileId> order;
  for (auto each = counts.rbegin(); each != counts.rend(); ++each) {
    for (int n = 0; n < each->second; ++n) order.push_back(each->first);
  }
  // Each place of the order in turn gets each profile that is left, the first of them first.
  const std::function<StateId(std::size_t, StateId)> fill = [&](std::size_t place, StateId state) {
    if (place == order.size()) return state;
    for (std::size_t other = place; other < order.size(); ++other) {
      const auto tried = order.begin() + static_cast<std::ptrdiff_t>(other);
      if (std::find(order.begin() + static_cast<std::ptrdiff_t>(place), tried, *tried) != tried) continue;
      std::swap(order[place], order[other]);
      const StateId next = place_lowest(table, state, order[place]);
      const StateId filled = next == kNoState ? kNoState : fill(place + 1, next);
      std::swap(order[place], order[other]);
      if (filled != kNoState) return filled;
    }
    return kNoState;
  };
  return fill(0, StateTable::empty());
}

}  // namespace qm::placement::mig
