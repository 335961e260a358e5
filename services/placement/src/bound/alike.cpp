// Node groups and pod classes are merged in the same way: round, merge those that have become
// equal, and round more coarsely until few enough are left.
#include "alike.hpp"

#include "units.hpp"

#include <algorithm>
#include <map>

namespace qm::placement::bound {
namespace {

constexpr int kSteps = 40;  // 2^40 of any resource is more than a node has

std::int64_t down(std::int64_t value, std::int64_t unit) { return value / unit * unit; }
std::int64_t up(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

/// Memory is rounded first, because it is the least likely to be the scarce resource; then CPU as
/// well.
struct Grain {
  explicit Grain(int step)
      : memory(kMebi << std::min(step, 20)), cpu(step <= 10 ? 1 : std::int64_t{1} << (step - 10)) {}
  std::int64_t memory, cpu;
};

pack::PodClass coarser(pack::PodClass pod, const Grain& grain) {
  pod.cpu_milli = down(pod.cpu_milli, grain.cpu);
  pod.memory_bytes = down(pod.memory_bytes, grain.memory);
  if (pod.gpus == 0) pod.gpu_milli = 0, pod.models = pack::kAnyModel;
  return pod;
}

pack::NodeState coarser(const pack::NodeState& node, const Grain& grain) {
  pack::NodeState out;
  out.cpu_milli = up(node.cpu_milli, grain.cpu);
  out.memory_bytes = up(node.memory_bytes, grain.memory);
  out.model = node.model;
  out.gpus = node.gpus;
  // A device with a share already in use has its free part rounded up in coarser steps, and at the
  // coarsest grain counts as wholly free.
  const int share = grain.cpu == 1 ? 1 : grain.cpu < 1024 ? 250 : pack::kDevice;
  for (std::size_t i = 0; i < node.gpus; ++i) out.free[i] = static_cast<std::uint16_t>(up(node.free[i], share));
  return out;
}

/// Returns the key of each item, at the finest grain that leaves at most `most` different keys.
template <class Key, class Item, class KeyOf>
std::vector<std::size_t> join(std::span<const Item> items, std::size_t most, KeyOf key_of, std::vector<Key>& keys) {
  std::vector<std::size_t> out(items.size());
  for (int step = 0; step <= kSteps; ++step) {
    const Grain grain(step);
    std::map<Key, std::size_t> number;
    keys.clear();
    for (std::size_t i = 0; i < items.size(); ++i) {
      const Key key = coarser(key_of(items[i]), grain);
      const auto [it, fresh] = number.try_emplace(key, keys.size());
      if (fresh) keys.push_back(key);
      out[i] = it->second;
    }
    if (keys.size() <= most) break;
  }
  return out;
}

}  // namespace

Alike made_alike(std::span<const NodeGroup> nodes, std::span<const Wanted> wanted) {
  Alike out;
  std::vector<pack::PodClass> pods;
  out.class_of = join(
      wanted, kMostClasses, [](const Wanted& one) { return one.pod; }, pods);
  for (const auto& pod : pods) out.wanted.push_back({pod, 0, 0});
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    auto& sum = out.wanted[out.class_of[i]];
    sum.most += std::max<std::int64_t>(wanted[i].most, 0);
    sum.least += std::clamp<std::int64_t>(wanted[i].least, 0, std::max<std::int64_t>(wanted[i].most, 0));
  }
  std::vector<pack::NodeState> states;
  out.group_of = join(
      nodes, kMostGroups, [](const NodeGroup& one) { return one.node; }, states);
  for (const auto& state : states) out.nodes.push_back({state, 0});
  for (std::size_t i = 0; i < nodes.size(); ++i)
    out.nodes[out.group_of[i]].count += std::max<std::int64_t>(nodes[i].count, 0);
  return out;
}

}  // namespace qm::placement::bound
