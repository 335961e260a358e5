#pragma once
#include "qm/admission/kueue/amount.hpp"
#include "qm/admission/kueue/forest.hpp"
#include "qm/admission/kueue/names.hpp"
#include "qm/admission/workload.hpp"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace qm::admission {

/// Numbers of flavors, resources and local queues, and the cells of each quota tree: rows have names, and the rules
/// have numbers.
struct QuotaNames {
  kueue::Names flavors;
  kueue::Names resources;
  kueue::Names local_queues;                                 ///< of queues that order by usage
  std::vector<std::map<FlavorResource, kueue::Cell>> cells;  ///< by tree
  std::vector<std::vector<FlavorResource>> names;            ///< by tree and cell

  /// Names the cells of the next tree.
  void add_tree(const std::map<std::pair<kueue::Flavor, kueue::Resource>, kueue::Cell>& planted);
  [[nodiscard]] int number(const LocalName& local) {
    return local_queues.of(fmt::format("{}/{}", local.first, local.second));
  }
  [[nodiscard]] const std::map<FlavorResource, kueue::Cell>& cells_of(int tree) const {
    return cells[static_cast<std::size_t>(tree)];
  }
  [[nodiscard]] const std::vector<FlavorResource>& names_of(int tree) const {
    return names[static_cast<std::size_t>(tree)];
  }
  /// Usage of quota that the tree no longer has is not counted.
  [[nodiscard]] kueue::Amounts amounts_of(int tree, const Usage& usage) const;
  [[nodiscard]] Usage usage_of(int tree, const kueue::Amounts& amounts) const;
};

}  // namespace qm::admission
