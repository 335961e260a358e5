#include "resource_prices.hpp"

#include "qm/simplex/simplex.hpp"

#include <algorithm>

namespace qm::autoscaler::pack {
namespace {

constexpr double kBelow = 1 - 1e-9;  // a bound is lowered by this factor, far more than the sums can be wrong

double worth_of(const std::vector<double>& price, const Load& load) {
  double sum = 0;
  for (std::size_t r = 0; r < price.size(); ++r) sum += price[r] * static_cast<double>(load[r]);
  return sum;
}

}  // namespace

void price_resources(Model& model) {
  const std::size_t resources = model.resources;
  model.price.assign(resources, 0);
  std::vector<double> demand(resources, 0);
  double alone = 0;
  for (const auto& one : model.classes) {
    const auto count = static_cast<double>(one.pods.size());
    alone += one.alone * count;
    for (std::size_t r = 0; r < resources; ++r) demand[r] += count * static_cast<double>(one.load[r]);
  }
  const auto& shapes =
      model.masks.table(model.masks.intern(Masks::Bits(model.masks.families() / 64 + 1, ~std::uint64_t{0})));
  Simplex program;
  std::vector<std::size_t> row(resources, resources);
  for (std::size_t r = 0; r < resources; ++r) {
    if (demand[r] > 0) row[r] = program.add_at_least(1, 10 * alone + 1);
  }
  for (std::size_t i = 0; i < shapes.cost.size(); ++i) {
    Simplex::Entries entries;
    for (std::size_t r = 0; r < resources; ++r) {
      if (demand[r] > 0 && shapes.room[i][r] > 0)
        entries.emplace_back(row[r], static_cast<double>(shapes.room[i][r]) / demand[r]);
    }
    program.add_column(-shapes.cost[i], std::move(entries));
  }
  if (!model.classes.empty() && program.solve({})) {
    for (std::size_t r = 0; r < resources; ++r) {
      if (demand[r] > 0) model.price[r] = std::max(0.0, -program.dual(row[r])) / demand[r];
    }
  }
  double excess = 1;
  for (std::size_t i = 0; i < shapes.cost.size(); ++i) {
    const double worth = worth_of(model.price, shapes.room[i]);
    if (worth > 0) excess = std::max(excess, shapes.cost[i] > 0 ? worth / shapes.cost[i] : kNever);
  }
  double bound = 0;
  for (std::size_t r = 0; r < resources; ++r) {
    model.price[r] /= excess;
    bound += model.price[r] * demand[r];
  }
  model.resource_bound = bound * kBelow;
  // The search also values resources that are not scarce in total: they may be in the offers of some pods.
  model.value = model.price;
  for (std::size_t r = 0; r < resources; ++r) {
    if (demand[r] > 0) model.value[r] += 0.1 * bound / static_cast<double>(resources) / demand[r];
  }
  for (auto& one : model.classes) one.size = worth_of(model.value, one.load);
}

}  // namespace qm::autoscaler::pack
