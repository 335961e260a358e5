// Column generation. A linear program chooses among the patterns known so far; its duals are prices of pods. At these
// prices the best pattern of each shape is searched, and patterns that are worth more than their shape costs become
// columns. Whatever the prices: divided by the largest ratio of a pattern's worth to its cost they are a feasible dual
// solution, so the sum of the pods' prices is a lower bound (Farley, 1990). The prices that are tried lie between the
// program's own and the best known ones, since the duals of a program with few columns oscillate.
#include "bound.hpp"

#include "patterns.hpp"
#include "qm/simplex/simplex.hpp"

#include <algorithm>
#include <map>

namespace qm::autoscaler::pack {
namespace {

constexpr double kProven = 1 - 1e-9;  // a bound is lowered by this factor, far more than its sums can be wrong
constexpr std::size_t kMostClasses = 160;
constexpr std::size_t kMostColumns = 60;  // new ones per round

class ColumnGeneration {
 public:
  ColumnGeneration(Model& model, const Nodes& plan, const BoundLimits& limits)
      : model_(model), problem_(bound_problem(model, kMostClasses)), limits_(limits), best_(model.resource_bound) {
    std::vector<double> alone(problem_.classes.size(), 0);
    for (std::size_t i = 0; i < model.classes.size(); ++i) {
      alone[problem_.class_of[i]] = std::max(alone[problem_.class_of[i]], model.classes[i].alone);
    }
    for (std::size_t i = 0; i < problem_.classes.size(); ++i) {
      program_.add_at_least(static_cast<double>(problem_.classes[i].count), alone[i] + 1e-9);
      double price = 0;
      for (std::size_t r = 0; r < model.resources; ++r)
        price += model.price[r] * static_cast<double>(problem_.classes[i].load[r]);
      prices_.push_back(price);
    }
    add_plan(plan);
  }

  double run() {
    for (std::uint64_t round = 0; round < limits_.rounds && best_ < limits_.target && !stopped(); ++round) {
      if (!program_.solve([this] { return stopped(); })) break;
      std::vector<double> own;
      for (std::size_t i = 0; i < problem_.classes.size(); ++i) own.push_back(std::max(0.0, -program_.dual(i)));
      std::vector<double> between = own;
      for (std::size_t i = 0; i < own.size(); ++i) between[i] = 0.5 * own[i] + 0.5 * prices_[i];
      if (!look(between) && !look(own)) break;
    }
    return best_;
  }

 private:
  using Pods = std::vector<std::pair<std::size_t, std::int64_t>>;

  [[nodiscard]] bool stopped() const { return limits_.stop && limits_.stop(); }

  void add_plan(const Nodes& plan) {
    std::map<Pods, double> columns;
    for (const auto& node : plan) {
      std::map<std::size_t, std::int64_t> pods;
      for (const auto& entry : node.entries) pods[problem_.class_of[entry.number]] += entry.count;
      const auto [found, fresh] = columns.emplace(Pods(pods.begin(), pods.end()), node.cost);
      if (!fresh) found->second = std::min(found->second, node.cost);
    }
    for (const auto& [pods, cost] : columns) add_column(pods, cost);
  }

  void add_column(const Pods& pods, double cost) {
    Simplex::Entries entries;
    for (const auto& [number, count] : pods) entries.emplace_back(number, static_cast<double>(count));
    program_.add_column(-cost, std::move(entries));
  }

  /// Searches the best patterns at these prices, which gives a bound. Returns false if there is no new column.
  bool look(const std::vector<double>& prices) {
    std::vector<std::pair<double, std::pair<std::size_t, Pattern>>> found;
    double ratio = 1;
    for (std::size_t i = 0; i < problem_.shapes.size(); ++i) {
      const BoundShape& shape = problem_.shapes[i];
      Pattern pattern = best_pattern(problem_, shape, prices, limits_.search_nodes);
      if (pattern.most > shape.cost) ratio = shape.cost > 0 ? std::max(ratio, pattern.most / shape.cost) : kNever;
      if (!pattern.pods.empty())
        found.emplace_back(-pattern.worth / std::max(shape.cost, 1e-12), std::pair(i, std::move(pattern)));
      if (i % 16 == 0 && stopped()) return false;
    }
    double sum = 0;
    for (std::size_t i = 0; i < prices.size(); ++i) sum += prices[i] * static_cast<double>(problem_.classes[i].count);
    if (sum / ratio * kProven > best_) {
      best_ = sum / ratio * kProven;
      prices_ = prices;
      for (auto& one : prices_) one /= ratio;
    }
    std::ranges::sort(found, {}, [](const auto& one) { return std::pair(one.first, one.second.first); });
    if (found.size() > kMostColumns) found.resize(kMostColumns);
    for (const auto& [rank, column] : found) add_column(column.second.pods, problem_.shapes[column.first].cost);
    return !found.empty();
  }

  Model& model_;
  BoundProblem problem_;
  const BoundLimits& limits_;
  Simplex program_;
  std::vector<double> prices_;  // of the best bound, by class
  double best_;
};

}  // namespace

double lower_bound(Model& model, const Nodes& plan, const BoundLimits& limits) {
  if (limits.rounds == 0 || model.classes.empty()) return model.resource_bound;
  return ColumnGeneration(model, plan, limits).run();
}

}  // namespace qm::autoscaler::pack
