// The rows are sorted by their values; then each level is one pass that starts a domain wherever a row's values up
// to this level differ from those of the previous row.
#include "qm/topology/tree.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>
#include <numeric>

namespace qm::topology {
namespace {

using Row = std::vector<std::string>;

/// For each row the row that represents its leaf: of one hostname the first.
std::vector<std::size_t> leaf_rows(std::span<const Row> rows, bool by_last_value) {
  std::vector<std::size_t> out(rows.size());
  std::iota(out.begin(), out.end(), std::size_t{0});
  if (!by_last_value) return out;
  std::vector<std::size_t> order = out;
  std::ranges::stable_sort(order, [&](auto a, auto b) { return rows[a].back() < rows[b].back(); });
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (rows[order[i]].back() == rows[order[i - 1]].back()) out[order[i]] = out[order[i - 1]];
  }
  return out;
}

bool same_up_to(const Row& a, const Row& b, std::size_t level) {
  return std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(level) + 1, b.begin());
}

}  // namespace

Tree::Tree(std::vector<std::string> levels, std::span<const Row> rows) : levels_(std::move(levels)) {
  QM_ASSERT(!levels_.empty(), "a topology has at least one level");
  for (const Row& row : rows)
    QM_ASSERT(row.size() == levels_.size(), "a row of {} values for {} levels", row.size(), levels_.size());
  const auto leaf_row = leaf_rows(rows, leaves_are_hosts());
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (leaf_row[i] == i) order.push_back(i);
  std::ranges::sort(order, [&](auto a, auto b) { return rows[a] < rows[b]; });

  std::vector<DomainId> of_row(rows.size(), kNoDomain);  // at the last created level
  for (std::size_t level = 0; level < levels_.size(); ++level) {
    const auto begin = size();
    const Row* before = nullptr;
    for (const std::size_t i : order) {
      if (before == nullptr || !same_up_to(*before, rows[i], level)) {
        const DomainId parent = of_row[i];
        if (parent != kNoDomain) {
          auto& range = children_[static_cast<std::size_t>(parent)];
          if (range.size() == 0) range.begin = size();
          range.end = size() + 1;
        }
        parent_.push_back(parent);
        children_.push_back({});
        value_.push_back(rows[i][level]);
      }
      of_row[i] = size() - 1;
      before = &rows[i];
    }
    at_.push_back({begin, size()});
  }

  leaf_of_row_.resize(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) leaf_of_row_[i] = of_row[leaf_row[i]];
  if (leaves_are_hosts()) {
    by_value_.resize(static_cast<std::size_t>(leaves().size()));
    std::iota(by_value_.begin(), by_value_.end(), leaves().begin);
    std::ranges::sort(by_value_, {}, [this](DomainId d) -> const std::string& { return value(d); });
  }
}

std::optional<int> Tree::level_of(std::string_view key) const {
  const auto it = std::ranges::find(levels_, key);
  if (it == levels_.end()) return std::nullopt;
  return static_cast<int>(it - levels_.begin());
}

int Tree::level(DomainId d) const {
  return static_cast<int>(std::ranges::find_if(at_, [&](DomainRange r) { return r.contains(d); }) - at_.begin());
}

DomainId Tree::ancestor(DomainId d, int level) const {
  for (int l = this->level(d); l > level; --l) d = parent(d);
  return d;
}

DomainRange Tree::children(DomainRange domains) const {
  if (domains.size() == 0) return {};
  return {children(domains.begin).begin, children(domains.end - 1).end};
}

DomainRange Tree::leaves_of(DomainId d) const {
  DomainRange out{d, d + 1};
  for (int l = level(d); l < lowest(); ++l) out = children(out);
  return out;
}

std::vector<std::string> Tree::values(DomainId d) const {
  std::vector<std::string> out;
  for (; d != kNoDomain; d = parent(d)) out.push_back(value(d));
  std::ranges::reverse(out);
  return out;
}

DomainId Tree::find_leaf(std::span<const std::string> values) const {
  const auto by_value = [this](DomainId d) -> const std::string& { return value(d); };
  if (leaves_are_hosts()) {
    if (values.size() != 1) return kNoDomain;
    const auto it = std::ranges::lower_bound(by_value_, values[0], {}, by_value);
    return it != by_value_.end() && value(*it) == values[0] ? *it : kNoDomain;
  }
  if (values.size() != levels_.size()) return kNoDomain;
  DomainRange in = at(0);
  DomainId out = kNoDomain;
  for (const auto& v : values) {
    // The first of the range whose value is not smaller.
    DomainId low = in.begin, high = in.end;
    while (low < high) {
      const DomainId middle = low + (high - low) / 2;
      if (value(middle) < v) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    if (low == in.end || value(low) != v) return kNoDomain;
    out = low;
    in = children(low);
  }
  return out;
}

}  // namespace qm::topology
