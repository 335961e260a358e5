#include "scheduler/quota_names.hpp"

namespace qm::admission {

void QuotaNames::add_tree(const std::map<std::pair<kueue::Flavor, kueue::Resource>, kueue::Cell>& planted) {
  cells.emplace_back();
  names.emplace_back(planted.size());
  for (const auto& [at, cell] : planted) {
    FlavorResource name{FlavorName(flavors[at.first]), resources[at.second]};
    names.back()[static_cast<std::size_t>(cell)] = name;
    cells.back().emplace(std::move(name), cell);
  }
}

kueue::Amounts QuotaNames::amounts_of(int tree, const Usage& usage) const {
  kueue::Amounts out;
  const auto& known = cells_of(tree);
  for (const auto& [at, amount] : usage) {
    if (const auto cell = known.find(at); cell != known.end()) kueue::add_to(out, cell->second, amount);
  }
  return out;
}

Usage QuotaNames::usage_of(int tree, const kueue::Amounts& amounts) const {
  Usage out;
  for (const auto& [cell, amount] : amounts) {
    out[names_of(tree)[static_cast<std::size_t>(cell)]] += amount;
  }
  return out;
}

}  // namespace qm::admission
