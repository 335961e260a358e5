#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qm::topology {

/// A domain's place in its tree: numbered level by level from the outermost, within a level by its values.
using DomainId = std::int32_t;
inline constexpr DomainId kNoDomain = -1;

/// Domains of one level that follow one another.
struct DomainRange {
  DomainId begin = 0;
  DomainId end = 0;
  [[nodiscard]] std::int32_t size() const { return end - begin; }
  [[nodiscard]] bool contains(DomainId d) const { return begin <= d && d < end; }
};

/// The label that names a node; where it is the innermost level, a leaf is a node.
inline constexpr std::string_view kHostnameLabel = "kubernetes.io/hostname";

/// The domains of a topology: blocks, racks, hosts, or whatever the levels are.
///
/// Shape    every leaf is at the innermost level. Ids are dense, children of a domain follow one another, and inside a
///          level a smaller id means smaller level values, compared word by word: order by values is order by id, and
///          whatever a search keeps per domain is an array.
/// Hosts    where the innermost level is the hostname, the hostname alone is the leaf's name, and the first row that
///          has it says where it hangs.
/// Threads  immutable, any.
/// Cost     build O(n log n) comparisons of words for n rows; the rest as said, in memory O(domains).
class Tree {
 public:
  /// `levels` are label keys, outermost first, at least one; a row is a node's values of them.
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
  /// The leaf of a row that the tree was built from.
  [[nodiscard]] DomainId leaf_of_row(std::size_t row) const { return leaf_of_row_[row]; }
  /// The leaf that an assignment names: by hostname alone, or by all values. kNoDomain where there is none.
  [[nodiscard]] DomainId find_leaf(std::span<const std::string> values) const;

 private:
  std::vector<std::string> levels_;
  std::vector<DomainRange> at_;
  std::vector<DomainId> parent_;
  std::vector<DomainRange> children_;
  std::vector<std::string> value_;
  std::vector<DomainId> leaf_of_row_;
  std::vector<DomainId> by_value_;  ///< leaves by their own value, where these are hosts
};

}  // namespace qm::topology
