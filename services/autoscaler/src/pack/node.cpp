#include "node.hpp"

#include <algorithm>

namespace qm::autoscaler::pack {

double cost_of(const Nodes& nodes) {
  double sum = 0;
  for (const auto& node : nodes) sum += node.cost;
  return sum;
}

std::size_t pods_on(const Node& node) { return static_cast<std::size_t>(node.load[2]); }

double NodeEditor::room_value(std::uint32_t mask, std::size_t shape) {
  if (mask < values_.size() && !values_[mask].empty()) return values_[mask][shape];
  if (mask >= values_.size()) values_.resize(mask + 1);
  for (const auto& room : model_->masks.table(mask).room) {
    double sum = 0;
    for (std::size_t r = 0; r < model_->resources; ++r) sum += model_->value[r] * static_cast<double>(room[r]);
    values_[mask].push_back(sum);
  }
  return values_[mask][shape];
}

bool NodeEditor::fits(const Node& node, std::uint32_t pod, Fit& out) {
  const PodClass& one = model_->classes[pod];
  out.mask = model_->masks.both(node.mask, one.mask);
  if (out.mask == 0) return false;
  Load load = node.load;
  for (std::size_t r = 0; r < model_->resources; ++r) load[r] += one.load[r];
  const ShapeTable& table = model_->masks.table(out.mask);
  out.shape = table.cheapest(load, model_->resources, out.mask == node.mask ? node.shape : 0);
  if (out.shape == ShapeTable::kNone) return false;
  out.cost = table.cost[out.shape];
  const double before = out.mask == node.mask && out.shape == node.shape
                            ? node.slack
                            : node.slack + room_value(out.mask, out.shape) - room_value(node.mask, node.shape);
  out.slack = before - one.size;
  return true;
}

// Pods of two classes may come in any order, unless the last one of a class precedes the first one of the other. The
// strict reading, in which whatever may be earlier is, needs no order of single pods.
std::int64_t NodeEditor::earlier(const Node& node, std::uint32_t owner, const HostSpread& spread) const {
  std::int64_t count = 0;
  const std::size_t last = model_->classes[owner].pods.back();
  for (const auto& entry : node.entries) {
    const PodClass& other = model_->classes[entry.number];
    if (entry.number != owner && other.pods.front() < last && std::ranges::binary_search(other.member, spread.group)) {
      count += entry.count;
    }
  }
  return count;
}

bool NodeEditor::hosts_allow(const Node& node, std::uint32_t pod) const {
  const PodClass& one = model_->classes[pod];
  if (!one.coupled) return true;
  std::int64_t equal = 0;
  for (const auto& entry : node.entries) {
    const PodClass& other = model_->classes[entry.number];
    if (!other.coupled) continue;
    if (entry.number == pod) equal = entry.count;
    if (meet(one.anti, other.member) || meet(other.anti, one.member)) return false;
    if (entry.number == pod || one.pods.front() >= other.pods.back()) continue;
    for (const auto& spread : other.spread) {
      if (!std::ranges::binary_search(one.member, spread.group)) continue;
      const std::int64_t self = spread.self ? entry.count : 0;
      if (earlier(node, entry.number, spread) + 1 + self > spread.limit) return false;
    }
  }
  return std::ranges::all_of(one.spread, [&](const HostSpread& spread) {
    return earlier(node, pod, spread) + (spread.self ? equal + 1 : 0) <= spread.limit;
  });
}

Node NodeEditor::fresh(std::uint32_t pod) {
  const PodClass& one = model_->classes[pod];
  Node out;
  out.load = one.load;
  out.mask = one.mask;
  const ShapeTable& table = model_->masks.table(one.mask);
  out.shape = table.cheapest(one.load, model_->resources);
  out.cost = table.cost[out.shape];
  out.slack = room_value(out.mask, out.shape) - one.size;
  out.entries.push_back({pod, 1});
  return out;
}

void NodeEditor::add(Node& node, std::uint32_t pod, const Fit& fit) const {
  const PodClass& one = model_->classes[pod];
  for (std::size_t r = 0; r < model_->resources; ++r) node.load[r] += one.load[r];
  node.mask = fit.mask;
  node.shape = fit.shape;
  node.cost = fit.cost;
  node.slack = fit.slack;
  for (auto& entry : node.entries) {
    if (entry.number == pod) {
      ++entry.count;
      return;
    }
  }
  node.entries.push_back({pod, 1});
}

void NodeEditor::remove(Node& node, std::uint32_t pod) {
  const auto found = std::ranges::find(node.entries, pod, &Node::Entry::number);
  if (--found->count == 0) node.entries.erase(found);
  const PodClass& one = model_->classes[pod];
  for (std::size_t r = 0; r < model_->resources; ++r) node.load[r] -= one.load[r];
  if (node.entries.empty()) return;
  node.mask = model_->classes[node.entries.front().number].mask;
  double used = 0;
  for (const auto& entry : node.entries) {
    node.mask = model_->masks.both(node.mask, model_->classes[entry.number].mask);
    used += model_->classes[entry.number].size * entry.count;
  }
  const ShapeTable& table = model_->masks.table(node.mask);
  node.shape = table.cheapest(node.load, model_->resources);
  node.cost = table.cost[node.shape];
  node.slack = room_value(node.mask, node.shape) - used;
}

}  // namespace qm::autoscaler::pack
