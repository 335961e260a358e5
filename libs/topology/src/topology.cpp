#include "qm/topology/topology.hpp"

#include "matcher.hpp"
#include "qm/base/assert.hpp"

#include <algorithm>

namespace qm::topology {
namespace {

bool counts(const Flavor& flavor, const Node& node) {
  if (!node.ready || !node.schedulable) return false;
  const bool carries = std::ranges::all_of(flavor.node_labels, [&](const auto& label) {
    const auto it = node.labels.find(label.first);
    return it != node.labels.end() && it->second == label.second;
  });
  return carries && std::ranges::all_of(flavor.levels, [&](const auto& key) { return node.labels.contains(key); });
}

std::vector<const Node*> counting(const Flavor& flavor, std::span<const Node> nodes) {
  std::vector<const Node*> out;
  for (const Node& node : nodes)
    if (counts(flavor, node)) out.push_back(&node);
  return out;
}

Tree tree_of(const Flavor& flavor, const std::vector<const Node*>& nodes) {
  std::vector<std::vector<std::string>> rows;
  rows.reserve(nodes.size());
  for (const Node* node : nodes) {
    auto& row = rows.emplace_back();
    for (const auto& key : flavor.levels) row.push_back(node->labels.at(key));
  }
  return Tree(flavor.levels, rows);
}

}  // namespace

Topology::Topology(const ResourceNames& names, Flavor flavor, std::span<const Node> all)
    : names_(&names), flavor_(std::move(flavor)), tree_(tree_of(flavor_, counting(flavor_, all))) {
  const auto nodes = counting(flavor_, all);
  widen();
  std::vector<const Node*> first(static_cast<std::size_t>(tree_.leaves().size()), nullptr);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const DomainId leaf = tree_.leaf_of_row(i);
    leaf_of_node_.emplace_back(nodes[i]->name, leaf);
    give_back(leaf, nodes[i]->allocatable);
    auto& one = first[static_cast<std::size_t>(leaf - tree_.leaves().begin)];
    if (one == nullptr) one = nodes[i];
  }
  empty_ = free_;
  std::ranges::sort(leaf_of_node_);
  if (tree_.leaves_are_hosts()) {
    matcher_ = std::make_unique<Matcher>(tree_.leaves().begin);
    for (const Node* node : first) matcher_->add(*node);
  }
}

Topology::~Topology() = default;
Topology::Topology(Topology&&) noexcept = default;
Topology& Topology::operator=(Topology&&) noexcept = default;

DomainId Topology::leaf_of_node(std::string_view name) const {
  const auto it =
      std::ranges::lower_bound(leaf_of_node_, name, {}, [](const auto& p) -> std::string_view { return p.first; });
  return it != leaf_of_node_.end() && it->first == name ? it->second : kNoDomain;
}

void Topology::take_outside(DomainId leaf, const Requests& usage) {
  change(leaf, usage, -1);
  change(empty_, leaf, usage, -1);
}

void Topology::widen() {
  const std::size_t width = names_->size();
  const auto leaves = static_cast<std::size_t>(tree_.leaves().size());
  for (Amounts* amounts : {&free_, &empty_}) {
    Amounts wider(leaves * width);
    for (std::size_t i = 0; i < leaves && width_ > 0; ++i) {
      std::copy_n(amounts->begin() + static_cast<std::ptrdiff_t>(i * width_), width_,
                  wider.begin() + static_cast<std::ptrdiff_t>(i * width));
    }
    *amounts = std::move(wider);
  }
  width_ = width;
}

void Topology::change(DomainId leaf, const Requests& usage, std::int64_t sign) { change(free_, leaf, usage, sign); }

void Topology::change(Amounts& amounts, DomainId leaf, const Requests& usage, std::int64_t sign) {
  QM_ASSERT(tree_.leaves().contains(leaf), "domain {} is not a leaf", leaf);
  if (std::ranges::any_of(usage, [&](const Amount& a) { return static_cast<std::size_t>(a.resource) >= width_; }))
    widen();
  const auto begin = static_cast<std::size_t>(leaf - tree_.leaves().begin) * width_;
  for (const Amount& a : usage) amounts[begin + static_cast<std::size_t>(a.resource)] += sign * a.amount;
}

}  // namespace qm::topology
