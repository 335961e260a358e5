// Column generation. A linear program chooses among the patterns known so far; its duals are prices of pods. At these
// prices the best pattern of each shape is searched, and patterns that are worth more than their shape costs become
// columns. Whatever the prices: divided by the largest ratio of a pattern's worth to its cost they are a feasible dual
// solution, so the sum of the pods' prices is a lower bound (Farley, 1990). The prices that are tried lie between the
// program's own and the best known ones, since the duals of a program with few columns oscillate.
#include "bound/bound.hpp"

#include "bound/grid.hpp"
#include "bound/patterns.hpp"
#include "qm/simplex/simplex.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

namespace qm::autoscaler::pack {
namespace {

constexpr double kProven = 1 - 1e-9;  // a bound is lowered by this factor, far more than its sums can be wrong
constexpr std::size_t kMostClasses = 160;
constexpr std::size_t kMostColumns = 60;  // new ones per round
constexpr std::size_t kFirstNodes = 256;
constexpr std::int64_t kFirstGrid = 18;  // pods on a node

using Pods = std::vector<std::pair<std::size_t, std::int64_t>>;

/// The numbers below `count`, far from each other.
std::vector<std::size_t> strides(std::size_t count) {
  std::vector<std::size_t> out(count);
  std::size_t stride = count * 618 / 1000 + 1;
  while (std::gcd(stride, count) != 1) ++stride;
  for (std::size_t i = 0; i < count; ++i) out[i] = i * stride % count;
  return out;
}

class ColumnGeneration {
 public:
  ColumnGeneration(Model& model, const Nodes& plan, const BoundLimits& limits)
      : problem_(bound_problem(model, kMostClasses)),
        grid_(limits.cells == 0 ? std::nullopt : Grid::make(problem_, kFirstGrid)),
        limits_(limits),
        best_(model.resource_bound) {
    std::vector<double> alone(problem_.classes.size(), 0);
    for (std::size_t i = 0; i < model.classes.size(); ++i) {
      alone[problem_.class_of[i]] = std::max(alone[problem_.class_of[i]], model.classes[i].alone);
    }
    for (std::size_t i = 0; i < problem_.classes.size(); ++i) {
      program_.add_at_least(static_cast<double>(problem_.classes[i].count), alone[i] + 1e-9);
    }
    order_ = strides(problem_.shapes.size());
    add_plan(plan);
    prices_ = linear_prices();
  }

  double run() {
    (void)look(std::vector<double>(prices_));
    for (std::uint64_t round = 1; round < limits_.rounds && best_ < limits_.target && !stopped(); ++round) {
      if (!program_.solve([this] { return stopped(); })) break;
      std::vector<double> own;
      for (std::size_t i = 0; i < problem_.classes.size(); ++i) own.push_back(std::max(0.0, -program_.dual(i)));
      std::vector<double> between = own;
      for (std::size_t i = 0; i < own.size(); ++i) between[i] = 0.5 * own[i] + 0.5 * prices_[i];
      const bool added = look(between) || look(own);
      if (added) continue;
      if (best_ >= -program_.value() * (1 - 1e-7) || !search_deeper()) break;
    }
    return best_;
  }

 private:
  bool search_deeper() {
    if (grid_ && grid_->cells() <= limits_.cells / 4) {
      const std::size_t cells = grid_->cells();
      grid_pods_ *= cells <= limits_.cells / 16 ? 4 : 2;
      grid_ = Grid::make(problem_, grid_pods_);
      if (grid_->cells() > cells) return true;
    }
    if (search_nodes_ * 8 > limits_.search_nodes) return false;
    search_nodes_ *= 8;
    return true;
  }

  [[nodiscard]] bool stopped() const { return limits_.stop && limits_.stop(); }

  void add_plan(const Nodes& plan) {
    std::map<Pods, double> columns;
    for (const auto& node : plan) {
      std::map<std::size_t, std::int64_t> pods;
      for (const auto& entry : node.entries) pods[problem_.class_of[entry.number]] += entry.count;
      const auto [found, fresh] = columns.emplace(Pods(pods.begin(), pods.end()), node.cost);
      if (!fresh) found->second = std::min(found->second, node.cost);
    }
    for (const auto& [pods, cost] : columns) (void)add_column(pods, cost);
  }

  /// Returns false if the program has the column already: prices between two sets may favor a known one for ever.
  bool add_column(const Pods& pods, double cost) {
    if (!known_.emplace(pods, cost).second) return false;
    Simplex::Entries entries;
    for (const auto& [number, count] : pods) entries.emplace_back(number, static_cast<double>(count));
    program_.add_column(-cost, std::move(entries));
    return true;
  }

  /// The prices to start with: of each unit of a resource, and of each place that a cap allows on a node.
  std::vector<double> linear_prices() {
    const std::size_t resources = problem_.resources;
    std::vector<double> demand(resources + problem_.caps.size(), 0);
    for (const auto& one : problem_.classes) {
      for (std::size_t r = 0; r < resources; ++r) demand[r] += static_cast<double>(one.count * one.load[r]);
      if (!one.caps.empty()) demand[resources + one.caps.front()] += static_cast<double>(one.count);
    }
    Simplex program;
    for (const auto one : demand) {
      if (one > 0) program.add_at_least(1, 1e3 * (best_ + 1));
    }
    for (const auto& shape : problem_.shapes) {
      Simplex::Entries entries;
      std::size_t row = 0;
      for (std::size_t i = 0; i < demand.size(); ++i) {
        if (demand[i] <= 0) continue;
        const auto has = static_cast<double>(i < resources ? shape.room[i] : problem_.caps[i - resources]);
        if (has > 0) entries.emplace_back(row, has / demand[i]);
        ++row;
      }
      program.add_column(-shape.cost, std::move(entries));
    }
    (void)program.solve([this] { return stopped(); });
    std::vector<double> unit(demand.size(), 0);
    for (std::size_t i = 0, row = 0; i < demand.size(); ++i) {
      if (demand[i] > 0) unit[i] = std::max(0.0, -program.dual(row++)) / demand[i];
    }
    pricing_.add({unit.begin(), unit.begin() + static_cast<std::ptrdiff_t>(resources)});
    std::vector<double> out;
    for (const auto& one : problem_.classes) {
      double price = one.caps.empty() ? 0 : unit[resources + one.caps.front()];
      for (std::size_t r = 0; r < resources; ++r) price += unit[r] * static_cast<double>(one.load[r]);
      out.push_back(price);
    }
    return out;
  }

  /// Searches the best patterns at these prices, which gives a bound. Returns false if there is no new column.
  bool look(const std::vector<double>& prices) {
    struct Found {
      double rank;
      std::size_t shape;
      Pods pods;
    };
    std::vector<Found> found;
    double ratio = 1;
    pricing_.set(prices);
    if (grid_ && !grid_->solve(prices, limits_.stop)) return false;
    for (std::size_t i = 0; i < problem_.shapes.size(); ++i) {
      // In long strides, so that the shapes that are searched differ in size.
      const BoundShape& shape = problem_.shapes[order_[i]];
      const bool small = grid_ && grid_->covers(shape);
      Pattern pattern = small ? grid_->best(shape) : pricing_.best(shape, search_nodes_);
      if (small && pattern.most > shape.cost) pattern.most = std::min(pattern.most, pricing_.most(shape));
      if (pattern.most > shape.cost) ratio = shape.cost > 0 ? std::max(ratio, pattern.most / shape.cost) : kNever;
      if (!pattern.pods.empty())
        found.push_back({-pattern.worth / std::max(shape.cost, 1e-12), order_[i], std::move(pattern.pods)});
      if (i % 16 == 0 && stopped()) return false;
    }
    double sum = 0;
    for (std::size_t i = 0; i < prices.size(); ++i) sum += prices[i] * static_cast<double>(problem_.classes[i].count);
    if (sum / ratio * kProven > best_) {
      best_ = sum / ratio * kProven;
      prices_ = prices;
      for (auto& one : prices_) one /= ratio;
    }
    std::ranges::sort(found, {}, [](const Found& one) { return std::pair(one.rank, one.shape); });
    if (found.size() > kMostColumns) found.resize(kMostColumns);
    bool added = false;
    for (const auto& one : found) added |= add_column(one.pods, problem_.shapes[one.shape].cost);
    return added;
  }

  BoundProblem problem_;
  std::optional<Grid> grid_;
  Pricing pricing_{problem_};
  std::vector<std::size_t> order_;  // of the shapes
  const BoundLimits& limits_;
  Simplex program_;
  std::set<std::pair<Pods, double>> known_;  // columns of the program
  std::vector<double> prices_;               // of the best bound, by class
  double best_;
  std::size_t search_nodes_ = kFirstNodes;
  std::int64_t grid_pods_ = kFirstGrid;
};

}  // namespace

double lower_bound(Model& model, const Nodes& plan, const BoundLimits& limits) {
  if (limits.rounds == 0 || model.classes.empty()) return model.resource_bound;
  return ColumnGeneration(model, plan, limits).run();
}

}  // namespace qm::autoscaler::pack
