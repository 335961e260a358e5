#include "qm/placement/gang/fleet.hpp"

#include "qm/base/assert.hpp"
#include "shape.hpp"

#include <algorithm>
#include <utility>

namespace qm::placement::gang {
namespace {

constexpr std::size_t kLittle = 1024;  // a shorter journal is not truncated

std::uint64_t bit_of(std::int32_t takes) {
  return takes == 0 ? 0 : std::uint64_t{1} << std::min(takes, DomainCapacity::kLastBit);
}

}  // namespace

std::int32_t pods_that_fit(const pack::NodeState& node, const pack::PodClass& pod) {
  if (!pack::fits(node, pod)) return 0;
  std::int64_t count = node.pods;
  if (pod.cpu_milli > 0) count = std::min(count, node.cpu_milli / pod.cpu_milli);
  if (pod.memory_bytes > 0) count = std::min(count, node.memory_bytes / pod.memory_bytes);
  if (pod.shares()) {
    std::int64_t shares = 0;
    for (std::size_t i = 0; i < node.gpus && node.free[i] >= pod.gpu_milli; ++i) shares += node.free[i] / pod.gpu_milli;
    count = std::min(count, shares);
  } else if (pod.gpus > 0) {
    count = std::min<std::int64_t>(count, node.idle() / pod.gpus);
  }
  return static_cast<std::int32_t>(count);
}

// ---- tables ----

void DomainCapacity::change(const Tree& tree, NodeId node, std::int32_t takes) {
  Domain domain{tree.depth(), node};
  std::int32_t& own = takes_[at(domain.level)][node];
  const std::int32_t more = takes - own;
  if (more == 0) return;
  std::int32_t before = own, after = takes;  // most pods that one node fits: as its domain recorded, and now
  own = takes;
  change_exactly(tree, node, before);
  while (domain.level > kFleet) {
    domain = {domain.level - 1, tree.parent(domain)};
    takes_[at(domain.level)][domain.index] += more;
    std::int32_t& most = largest_[at(domain.level)][domain.index];
    const std::int32_t was = most;
    if (after > most) {
      most = after;
    } else if (before == most && after < before) {
      const auto& below =
          at(domain.level + 1) < largest_.size() ? largest_[at(domain.level + 1)] : takes_[at(domain.level + 1)];
      most = 0;
      for (const auto part : tree.parts(domain)) most = std::max(most, below[part]);
    }
    before = was;
    after = most;
  }
}

void DomainCapacity::change_exactly(const Tree& tree, NodeId node, std::int32_t before) {
  const auto depth = at(tree.depth());
  Domain domain{tree.depth() - 1, tree.parent({tree.depth(), node})};
  std::uint64_t gained = bit_of(takes_[depth][node]), lost = bit_of(before);
  if (gained == lost) return;
  const auto others = [&](std::uint32_t part) { return (bit_of(takes_[depth][part]) & lost) != 0; };
  if (std::ranges::any_of(tree.parts(domain), others)) lost = 0;
  for (;;) {
    std::uint64_t& bits = exactly_[at(domain.level)][domain.index];
    const auto was = bits;
    bits = (bits | gained) & ~lost;
    if (bits == was || domain.level == kFleet) return;
    const auto& row = exactly_[at(domain.level)];
    domain = {domain.level - 1, tree.parent(domain)};
    if (lost != 0 && std::ranges::any_of(tree.parts(domain), [&](auto part) { return (row[part] & lost) != 0; }))
      lost = 0;
  }
}

std::int32_t Fleet::takes(NodeId node, const Kind& kind) const {
  const Node& it = nodes_[node];
  if ((it.flags & (kGone | kClosed)) != 0 || (kind.gates >> it.gate & 1U) == 0) return 0;
  if (kind.exclusive && (it.flags & kLent) == 0 && it.now != it.empty) return 0;
  if (kind.unit == Kind::Unit::kDevices) return it.now.idle();
  if (kind.unit == Kind::Unit::kCores) return static_cast<std::int32_t>((it.now.cpu_milli + 999) / 1000);
  const std::int32_t count = std::min(pods_that_fit(it.now, kind.pod), kind.most);
  return count - count % kind.run;
}

/// Domains may have been added since the table was made.
void Fleet::resize(DomainCapacity& capacity) const {
  capacity.takes_.resize(at(tree_.depth()) + 1);
  capacity.largest_.resize(at(tree_.depth()));
  capacity.exactly_.resize(at(tree_.depth()));
  for (Level level = kFleet; level <= tree_.depth(); ++level) {
    capacity.takes_[at(level)].resize(tree_.size(level), 0);
    if (level == tree_.depth()) break;
    capacity.largest_[at(level)].resize(tree_.size(level), 0);
    capacity.exactly_[at(level)].resize(tree_.size(level), 0);
  }
}

void Fleet::begin(DomainCapacity& capacity) const {
  capacity.takes_.clear();
  capacity.largest_.clear();
  capacity.exactly_.clear();
  resize(capacity);
  const auto depth = at(tree_.depth());
  for (NodeId node = 0; node < nodes_.size(); ++node) capacity.takes_[depth][node] = takes(node, capacity.kind_);
  for (auto level = depth; level > 0; --level) {
    for (std::uint32_t i = 0; i < capacity.takes_[level].size(); ++i) {
      const auto parent = tree_.parent({static_cast<Level>(level), i});
      capacity.takes_[level - 1][parent] += capacity.takes_[level][i];
      auto& most = capacity.largest_[level - 1][parent];
      most = std::max(most, level == depth ? capacity.takes_[level][i] : capacity.largest_[level][i]);
      capacity.exactly_[level - 1][parent] |=
          level == depth ? bit_of(capacity.takes_[level][i]) : capacity.exactly_[level][i];
    }
  }
  capacity.read_ = journal_base_ + journal_.size();
}

const DomainCapacity& Fleet::capacity(const Kind& kind) {
  const auto [found, added] = capacities_.try_emplace(kind);
  DomainCapacity& capacity = found->second;
  capacity.asked_ = ++asked_;
  if (added) {
    capacity.kind_ = kind;
    begin(capacity);
    if (capacities_.size() > kTables) {
      const auto older = [](const auto& a, const auto& b) { return a.second.asked_ < b.second.asked_; };
      capacities_.erase(std::min_element(capacities_.begin(), capacities_.end(), older));
    }
    return capacity;
  }
  const auto end = journal_base_ + journal_.size();
  if (capacity.read_ < journal_base_) {
    begin(capacity);
  } else if (capacity.read_ < end) {
    resize(capacity);
    for (; capacity.read_ < end; ++capacity.read_) {
      const NodeId node = journal_[capacity.read_ - journal_base_];
      capacity.change(tree_, node, takes(node, kind));
    }
  }
  return capacity;
}

// ---- nodes ----

NodeId Fleet::add(std::span<const std::string> path, std::string name, const pack::NodeState& empty) {
  const NodeId node = tree_.add(path, std::move(name));
  nodes_.push_back({empty, empty});
  write(node);
  return node;
}

void Fleet::set(NodeId node, const pack::NodeState& state) {
  Node& it = nodes_[node];
  if (it.now == state && (it.flags & kGone) == 0) return;
  it.now = state;
  it.flags = static_cast<std::uint8_t>(it.flags & ~kGone);
  write(node);
}

void Fleet::remove(NodeId node) { flag(node, kGone, true); }

void Fleet::flag(NodeId node, std::uint8_t bit, bool on) {
  auto& flags = nodes_[node].flags;
  const auto next = static_cast<std::uint8_t>(on ? flags | bit : flags & ~bit);
  if (flags == next) return;
  flags = next;
  write(node);
}

void Fleet::set_gate(NodeId node, std::uint8_t gate) {
  QM_ASSERT(gate < kMostGates, "there is no gate {}", gate);
  if (std::exchange(nodes_[node].gate, gate) != gate) write(node);
}

void Fleet::write(NodeId node) {
  journal_.push_back(node);
  if (journal_.size() > kLittle && journal_.size() > 2 * nodes_.size()) {
    // For a reader that is this far behind, a full count is faster.
    const auto drop = journal_.size() / 2;
    journal_.erase(journal_.begin(), journal_.begin() + static_cast<std::ptrdiff_t>(drop));
    journal_base_ += drop;
  }
}

void Fleet::audit() {
  for (auto& [kind, kept] : capacities_) {
    const DomainCapacity& now = capacity(kind);
    DomainCapacity fresh;
    fresh.kind_ = kind;
    begin(fresh);
    QM_ASSERT(now.takes_ == fresh.takes_, "a table of {} milli on {} GPUs differs from a recount", kind.pod.gpu_milli,
              kind.pod.gpus);
    QM_ASSERT(now.exactly_ == fresh.exactly_, "a table of {} milli on {} GPUs has nodes of another state",
              kind.pod.gpu_milli, kind.pod.gpus);
    QM_ASSERT(now.largest_ == fresh.largest_,
              "a table of {} milli on {} GPUs has other nodes of most free capacity than a recount", kind.pod.gpu_milli,
              kind.pod.gpus);
  }
}

}  // namespace qm::placement::gang
