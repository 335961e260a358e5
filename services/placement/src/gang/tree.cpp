#include "qm/placement/gang/tree.hpp"

#include "qm/base/assert.hpp"

namespace qm::placement::gang {

Tree::Tree(std::vector<std::string> levels) {
  QM_ASSERT(levels.size() <= kMaxLevels, "{} levels, at most {} are supported", levels.size(), kMaxLevels);
  levels_.resize(levels.size() + 2);
  levels_.front().title = "fleet";
  levels_.back().title = "node";
  for (std::size_t i = 0; i < levels.size(); ++i) levels_[i + 1].title = std::move(levels[i]);
  append(0, 0, "the fleet");
}

std::uint32_t Tree::append(std::size_t level, std::uint32_t parent, std::string name) {
  Row& row = levels_[level];
  const auto index = static_cast<std::uint32_t>(row.name.size());
  row.name.push_back(std::move(name));
  row.parent.push_back(parent);
  if (level + 1 < levels_.size()) row.parts.emplace_back();
  if (level > 0) levels_[level - 1].parts[parent].push_back(index);
  return index;
}

NodeId Tree::add(std::span<const std::string> path, std::string name) {
  QM_ASSERT(path.size() + 2 == levels_.size(), "a path of {} domains in a tree of {} levels", path.size(),
            levels_.size() - 2);
  std::uint32_t parent = 0;
  for (std::size_t i = 0; i < path.size(); ++i) {
    auto& by_name = levels_[i + 1].by_name;
    const auto known = by_name.find({parent, path[i]});
    if (known != by_name.end()) {
      parent = known->second;
      continue;
    }
    const auto index = append(i + 1, parent, path[i]);
    by_name.emplace(std::pair(parent, path[i]), index);
    parent = index;
  }
  return append(levels_.size() - 1, parent, std::move(name));
}

std::optional<Level> Tree::level(std::string_view name) const {
  for (Level level = kFleet; level <= depth(); ++level) {
    if (at(level).title == name) return level;
  }
  return std::nullopt;
}

Domain Tree::above(Domain domain, Level level) const {
  while (domain.level > level) domain = {domain.level - 1, parent(domain)};
  return domain;
}

bool Tree::before(NodeId a, NodeId b) const {
  // The first level, from the widest on, at which the two domains differ; the loop goes up and
  // finds it last.
  Domain one{depth(), a}, other{depth(), b};
  bool less = false;
  while (one.level > kFleet && one != other) {
    less = one.index < other.index;
    one = {one.level - 1, parent(one)};
    other = {other.level - 1, parent(other)};
  }
  return less;
}

}  // namespace qm::placement::gang
