#pragma once
#include "qm/placement/pack/inventory.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace qm::placement::gang {

using pack::NodeId;

/// Depth in the tree: 0 is the whole fleet, then the named levels, the widest first, and last the nodes.
using Level = std::int32_t;
inline constexpr Level kFleet = 0;

/// A zone, a rack, a node: a number within its level, in order of creation. A node's number is its NodeId.
struct Domain {
  Level level = kFleet;
  std::uint32_t index = 0;
  friend auto operator<=>(const Domain&, const Domain&) = default;
};

/// The topology of a fleet: zone, block, rack, or other levels. Racks with equal names in two blocks are two
/// domains.
///
/// Bounds   kMaxLevels named levels.
/// Cost     add(): O(depth log domains); all else O(1), above() O(depth).
class Tree {
 public:
  static constexpr std::size_t kMaxLevels = 8;

  /// Names of the levels, the widest first, without nodes; empty for a fleet without a topology.
  explicit Tree(std::vector<std::string> levels);

  /// Adds a node with the next number; `path` names its domain at each named level.
  NodeId add(std::span<const std::string> path, std::string name);

  [[nodiscard]] Level depth() const { return static_cast<Level>(levels_.size()) - 1; }  ///< the level of the nodes
  [[nodiscard]] std::size_t size(Level level) const { return at(level).name.size(); }
  [[nodiscard]] std::optional<Level> level(std::string_view name) const;
  [[nodiscard]] const std::string& name(Level level) const { return at(level).title; }
  [[nodiscard]] const std::string& name(Domain domain) const { return at(domain.level).name[domain.index]; }
  /// The number, one level up, of the domain that contains this one.
  [[nodiscard]] std::uint32_t parent(Domain domain) const { return at(domain.level).parent[domain.index]; }
  /// Numbers, one level down, of its parts, in order of creation.
  [[nodiscard]] std::span<const std::uint32_t> parts(Domain domain) const {
    return at(domain.level).parts[domain.index];
  }
  /// The domain of a level, not deeper than its own, that contains this one.
  [[nodiscard]] Domain above(Domain domain, Level level) const;
  [[nodiscard]] bool within(Domain domain, Domain wider) const {
    return domain.level >= wider.level && above(domain, wider.level) == wider;
  }
  /// Whether node `a` comes before `b` in the order that groups nodes by domain at every level.
  [[nodiscard]] bool before(NodeId a, NodeId b) const;

 private:
  struct Row {
    std::string title;
    std::vector<std::string> name;
    std::vector<std::uint32_t> parent;
    std::vector<std::vector<std::uint32_t>> parts;
    std::map<std::pair<std::uint32_t, std::string>, std::uint32_t> by_name;  // without nodes
  };
  [[nodiscard]] const Row& at(Level level) const { return levels_[static_cast<std::size_t>(level)]; }
  std::uint32_t append(std::size_t level, std::uint32_t parent, std::string name);

  std::vector<Row> levels_;
};

}  // namespace qm::placement::gang
