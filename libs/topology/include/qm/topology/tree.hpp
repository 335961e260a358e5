#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qm::topology {

/// The id of a domain in its tree: numbered level by level from the outermost, within a level by its values.
using DomainId = std::int32_t;
inline constexpr DomainId kNoDomain = -1;

/// Consecutive domains of one level.
struct DomainRange {
  DomainId begin = 0;
  DomainId end = 0;
  [[nodiscard]] std::int32_t size() const { return end - begin; }
  [[nodiscard]] bool contains(DomainId d) const { return begin <= d && d < end; }
};

/// The label with a node's name; if it is the innermost level, a leaf is a node.
inline constexpr std::string_view kHostnameLabel = "kubernetes.io/hostname";

/// The domains of a topology: blocks, racks, hosts, or other levels.
///
/// Shape    every leaf is at the innermost level. Ids are dense, the children of a domain are consecutive, and
///          inside a level a smaller id means smaller level values, compared value by value: the order of ids is the
///          order of values, and per-domain data of a search is an array.
/// Hosts    if the innermost level is the hostname, the hostname alone is the leaf's name, and the first row with
///          that name determines its parent.
/// Threads  immutable, any.
/// Cost     build O(n log n) string comparisons for n rows; otherwise as noted, in memory O(domains).
class Tree {
 public:
  /// `levels` are label keys, outermost first, at least one; a row has a node's values of them.
  Tree(std::vector<std::string> levels, std::span<const std::vector<std::string>> rows);

  [[nodiscard]] int depth() const { return static_cast<int>(levels_.size()); }
  [[nodiscard]] int lowest() const { return depth() - 1; }
  [[nodiscard]] const std::string& level_key(int level) const { return levels_[static_cast<std::size_t>(level)]; }
  [[nodiscard]] const std::vector<std::string>& levels() const { return levels_; }
  [[nodiscard]] std::optional<int> level_of(std::string_view key) const;
  [[nodiscard]] bool leaves_are_hosts() const { return levels_.back() == kHostnameLabel; }

  [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(parent_.size()); }
  [[nodiscard]] DomainRange at(int level) const { return at_[static_cast<std::size_t>(level)]; }
  [[nodiscard]] DomainRange leaves() const { return at_.back(); }
  [[nodiscard]] int level(DomainId d) const;  ///< O(depth)
  [[nodiscard]] DomainId parent(DomainId d) const { return parent_[static_cast<std::size_t>(d)]; }
  [[nodiscard]] DomainId ancestor(DomainId d, int level) const;
  [[nodiscard]] DomainRange children(DomainId d) const { return children_[static_cast<std::size_t>(d)]; }
  /// The children of all of them; of leaves none.
  [[nodiscard]] DomainRange children(DomainRange domains) const;
  [[nodiscard]] DomainRange leaves_of(DomainId d) const;

  [[nodiscard]] const std::string& value(DomainId d) const { return value_[static_cast<std::size_t>(d)]; }
  [[nodiscard]] std::vector<std::string> values(DomainId d) const;  ///< from the outermost level down to its own
  /// The leaf of a row from which the tree was built.
  [[nodiscard]] DomainId leaf_of_row(std::size_t row) const { return leaf_of_row_[row]; }
  /// The leaf of an assignment: by hostname alone, or by all values. kNoDomain if there is none.
  [[nodiscard]] DomainId find_leaf(std::span<const std::string> values) const;

 private:
  std::vector<std::string> levels_;
  std::vector<DomainRange> at_;
  std::vector<DomainId> parent_;
  std::vector<DomainRange> children_;
  std::vector<std::string> value_;
  std::vector<DomainId> leaf_of_row_;
  std::vector<DomainId> by_value_;  ///< leaves by their own value, if these are hosts
};

}  // namespace qm::topology
