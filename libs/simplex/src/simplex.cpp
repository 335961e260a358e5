// The initial basis is the slack of each row (or its shortfall variable), so a feasible solution
// exists from the start. The limits are perturbed by tiny amounts: many patterns are equally good,
// and without the perturbation the method could cycle.
#include "qm/simplex/simplex.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace qm {
namespace {

constexpr double kWorthwhile = 1e-9;
constexpr double kPivot = 1e-9;
constexpr int kRefactor = 100;  // pivots between two inversions from scratch

}  // namespace

void Simplex::begin_row(double limit, double worth) {
  const std::size_t number = limits_.size();
  duals_.push_back(0);
  limits_.push_back(limit + (1e-7 + 1e-7 * std::abs(limit)) * static_cast<double>(1 + number * 37 % 101));
  columns_.push_back({worth, {{number, 1.0}}, true});
  basis_.push_back(columns_.size() - 1);
}

std::size_t Simplex::add_at_most(double most) {
  begin_row(most, 0);
  return limits_.size() - 1;
}

std::size_t Simplex::add_at_least(double least, double penalty) {
  begin_row(least, -penalty);
  const std::size_t number = limits_.size() - 1;
  columns_.push_back({0, {{number, -1.0}}, false});
  return number;
}

std::size_t Simplex::add_column(double worth, Entries entries) {
  columns_.push_back({worth, std::move(entries), false});
  return columns_.size() - 1;
}

double Simplex::amount(std::size_t column) const {
  const auto found = std::find(basis_.begin(), basis_.end(), column);
  return found == basis_.end() || amounts_.empty() ? 0 : amounts_[static_cast<std::size_t>(found - basis_.begin())];
}

double Simplex::reduced(double worth, const Entries& entries) const {
  for (const auto& [row, factor] : entries) worth -= duals_[row] * factor;
  return worth;
}

double Simplex::value() const {
  double sum = 0;
  for (std::size_t i = 0; i < basis_.size(); ++i) sum += columns_[basis_[i]].worth * amounts_[i];
  return sum;
}

bool Simplex::factor() {
  const std::size_t n = basis_.size();
  std::vector<double> matrix(n * n, 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    for (const auto& [row, factor] : columns_[basis_[i]].entries) matrix[row * n + i] = factor;
  }
  inverse_.assign(n * n, 0.0);
  for (std::size_t i = 0; i < n; ++i) inverse_[i * n + i] = 1;
  // Gauss-Jordan elimination with the largest pivot of each column. Rows of slacks do not change,
  // so most steps touch few rows.
  for (std::size_t column = 0; column < n; ++column) {
    std::size_t best = column;
    for (std::size_t i = column + 1; i < n; ++i) {
      if (std::abs(matrix[i * n + column]) > std::abs(matrix[best * n + column])) best = i;
    }
    if (std::abs(matrix[best * n + column]) < kPivot) return false;
    if (best != column) {
      std::swap_ranges(&matrix[best * n], &matrix[best * n] + n, &matrix[column * n]);
      std::swap_ranges(row(best), row(best) + n, row(column));
    }
    const double pivot = 1 / matrix[column * n + column];
    for (std::size_t j = 0; j < n; ++j) matrix[column * n + j] *= pivot, row(column)[j] *= pivot;
    for (std::size_t i = 0; i < n; ++i) {
      const double factor = matrix[i * n + column];
      if (i == column || factor == 0) continue;
      for (std::size_t j = column; j < n; ++j) matrix[i * n + j] -= factor * matrix[column * n + j];
      for (std::size_t j = 0; j < n; ++j) row(i)[j] -= factor * row(column)[j];
    }
  }
  amounts_.assign(n, 0.0);
  duals_.assign(n, 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    amounts_[i] = std::max(0.0, std::inner_product(row(i), row(i) + n, limits_.begin(), 0.0));
    const double worth = columns_[basis_[i]].worth;
    if (worth == 0) continue;
    for (std::size_t j = 0; j < n; ++j) duals_[j] += worth * row(i)[j];
  }
  return true;
}

bool Simplex::pivot(std::size_t entering) {
  const std::size_t n = basis_.size();
  auto& column = columns_[entering];
  std::vector<double> direction(n, 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    for (const auto& [at, factor] : column.entries) direction[i] += row(i)[at] * factor;
  }
  std::size_t leaving = n;
  double step = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (direction[i] <= kPivot) continue;
    const double reach = amounts_[i] / direction[i];
    if (leaving == n || reach < step || (reach == step && direction[i] > direction[leaving])) leaving = i, step = reach;
  }
  if (leaving == n) return false;  // every column uses something that is limited: only numerical errors lead here
  const double gain = reduced(column.worth, column.entries);
  double* pivot_row = row(leaving);
  const double scale = 1 / direction[leaving];
  for (std::size_t j = 0; j < n; ++j) pivot_row[j] *= scale;
  for (std::size_t i = 0; i < n; ++i) {
    if (i == leaving || direction[i] == 0) continue;
    double* other = row(i);
    for (std::size_t j = 0; j < n; ++j) other[j] -= direction[i] * pivot_row[j];
    amounts_[i] = std::max(0.0, amounts_[i] - step * direction[i]);
  }
  amounts_[leaving] = step;
  for (std::size_t j = 0; j < n; ++j) duals_[j] += gain * pivot_row[j];
  columns_[basis_[leaving]].basic = false;
  column.basic = true;
  basis_[leaving] = entering;
  return true;
}

bool Simplex::solve(const std::function<bool()>& stop) {
  if (!factor()) return false;
  for (int pivots = 1;; ++pivots) {
    std::size_t best = columns_.size();
    double gain = kWorthwhile;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i].basic) continue;
      const double own = reduced(columns_[i].worth, columns_[i].entries);
      if (own > gain) best = i, gain = own;
    }
    if (best == columns_.size()) return true;
    if (!pivot(best) || (pivots % kRefactor == 0 && !factor())) return false;
    if (pivots % 16 == 0 && stop && stop()) return false;
  }
}

}  // namespace qm
