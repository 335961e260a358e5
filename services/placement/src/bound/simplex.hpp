#pragma once
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace qm::placement::bound {

/// Maximises a linear function of columns that are not negative, under rows. Columns may be added after it was solved; the
/// next solution starts from the last.
///
/// The revised simplex method with the inverse of the basis as a dense matrix: made for some hundred rows. Nothing is proved
/// here: whoever needs certainty takes the duals as a proposal.
class Simplex {
 public:
  using Entries = std::vector<std::pair<std::size_t, double>>;  ///< row and factor

  /// A row that is at most `most`. All rows come before the first solution.
  std::size_t add_at_most(double most);
  /// A row that is at least `least`; each unit that is missing costs `penalty`.
  std::size_t add_at_least(double least, double penalty);
  void add_column(double worth, Entries entries);
  /// False where `stop` said so, or where numbers have become too bad to go on; the duals are then those of the last step.
  bool solve(const std::function<bool()>& stop);
  [[nodiscard]] double value() const;
  /// What one more unit of the row's limit would add. Positive for "at most", negative for "at least".
  [[nodiscard]] double dual(std::size_t row) const { return duals_[row]; }
  /// What one unit of a column would add beyond what its rows are worth; all of it before the first solution.
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
  std::vector<double> inverse_;     // of the basis, row by row
  std::vector<double> amounts_;     // of the basic columns
  std::vector<double> duals_;
};

}  // namespace qm::placement::bound
