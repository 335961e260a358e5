#include "qm/placement/mig/parted_layout.hpp"

#include <algorithm>
#include <functional>

namespace qm::placement::mig {
namespace {

/// The state with an instance of the profile at the lowest free start; kNoState if none is free.
StateId place_lowest(const StateTable& table, StateId state, ProfileId profile) {
  for (const SpotId spot : table.spots_of(profile)) {
    if (const StateId next = table.place(state, spot); next != kNoState) return next;
  }
  return kNoState;
}

}  // namespace

StateId parted_layout(const StateTable& table, const Counts& counts) {
  std::vector<ProfileId> order;
  for (auto each = counts.rbegin(); each != counts.rend(); ++each) {
    for (int n = 0; n < each->second; ++n) order.push_back(each->first);
  }
  // At each position of the order, every remaining profile is tried, in the order given.
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
