#pragma once
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace qm {

/// Maximizes a linear function of nonnegative columns, subject to rows. Columns may be added after
/// a solution; the next solve starts from the last basis.
///
/// This is the revised simplex method with a dense inverse of the basis, made for some hundred
/// rows. The result is not proven exact: a caller that needs a proof uses the duals as a proposal
/// and verifies it.
class Simplex {
 public:
  using Entries = std::vector<std::pair<std::size_t, double>>;  ///< row and factor

  /// Adds a row whose value is at most `most`. All rows must be added before the first solve.
  std::size_t add_at_most(double most);
  /// Adds a row whose value is at least `least`; each missing unit costs `penalty`.
  std::size_t add_at_least(double least, double penalty);
  /// Returns the number of the column, for amount().
  std::size_t add_column(double worth, Entries entries);
  /// Returns false if `stop` returned true or if numerical errors prevent a further step. The duals
  /// are then those of the last step.
  bool solve(const std::function<bool()>& stop);
  [[nodiscard]] double value() const;
  /// What the last solution takes of the column.
  [[nodiscard]] double amount(std::size_t column) const;
  /// What one more unit of the row's limit would add. Positive for "at most", negative for "at
  /// least".
  [[nodiscard]] double dual(std::size_t row) const { return duals_[row]; }
  /// What one unit of a column would add beyond the value of its rows; its whole worth before the
  /// first solve.
  [[nodiscard]] double reduced(double worth, const Entries& entries) const;

 private:
  struct Column {
    double worth;
    Entries entries;
    bool basic = false;
  };
  [[nodiscard]] double* row(std::size_t i) { return &inverse_[i * basis_.size()]; }
  void begin_row(double limit, double worth);
  bool factor();
  bool pivot(std::size_t entering);

  std::vector<Column> columns_;
  std::vector<double> limits_;
  std::vector<std::size_t> basis_;  // column by row
  std::vector<double> inverse_;     // inverse of the basis, row by row
  std::vector<double> amounts_;     // values of the basic columns
  std::vector<double> duals_;
};

}  // namespace qm
