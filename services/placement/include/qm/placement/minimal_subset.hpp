#pragma once
#include <cstddef>
#include <utility>
#include <vector>

namespace qm::placement {

/// Drops the items without which the rest still fits, from the last to the first; each is tried once.
///
/// `items` must fit. `fits(subset)` is called with each candidate; the last subset for which it returned true is the
/// result, so it may keep what it computed. If fewer items never fit where more do not, no item of the result can be
/// dropped.
///
/// Cost     one call of `fits` for each item.
template <class Item, class Fits>
[[nodiscard]] std::vector<Item> minimal_subset(std::vector<Item> items, Fits&& fits) {
  for (std::size_t i = items.size(); i-- > 0;) {
    std::vector<Item> fewer = items;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (fits(std::as_const(fewer))) items = std::move(fewer);
  }
  return items;
}

}  // namespace qm::placement
