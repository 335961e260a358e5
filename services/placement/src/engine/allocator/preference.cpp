#include "qm/placement/preference.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>
#include <limits>
#include <set>

namespace qm::placement {
namespace {

constexpr std::size_t kMostTypes = 256;

std::int32_t devices_of(const GpuShape& gpu) { return gpu.milli > 0 ? 1 : static_cast<std::int32_t>(gpu.whole); }

NodeShape machine_of(const NodeFacts& facts) { return {facts.model, facts.cpu_milli, facts.memory_bytes, facts.gpus}; }

template <class Key>
void add(std::map<Key, std::int64_t>& counts, const Key& key, std::int64_t more) {
  const auto known = counts.try_emplace(key).first;
  known->second += more;
  if (known->second == 0) counts.erase(known);
}

/// Whether the difference exceeds a quarter of `before`.
template <class Key>
bool far(const std::map<Key, std::int64_t>& now, const std::map<Key, std::int64_t>& before) {
  std::int64_t all = 0, differ = 0;
  for (const auto& [key, count] : before) {
    const auto there = now.find(key);
    all += count;
    differ += std::abs(count - (there == now.end() ? 0 : there->second));
  }
  for (const auto& [key, count] : now) differ += before.contains(key) ? 0 : count;
  return differ * 4 > all;
}

/// The policy without pods and nodes; null for an unknown name. Every build of an index starts with one, so
/// all are created once.
std::shared_ptr<const pack::Policy> of_nothing(const std::string& name) {
  static const auto made = [] {
    std::map<std::string_view, std::shared_ptr<const pack::Policy>> out;
    for (const auto policy : pack::policy_names()) out.emplace(policy, pack::make_policy(policy, {}));
    return out;
  }();
  const auto found = made.find(name);
  return found == made.end() ? nullptr : found->second;
}

}  // namespace

Preference::Preference(std::string policy) : name_(std::move(policy)), policy_(of_nothing(name_)), epoch_(1) {}

void Preference::count(const std::vector<PodSet>& pod_sets, int sign) {
  for (const PodSet& set : pod_sets) {
    const GpuShape& gpu = set.shape.gpu;
    const auto milli = static_cast<std::int32_t>(gpu.milli > 0 ? gpu.milli : pack::kDevice);
    add(known_.pods, PodSize{set.shape.cpu_milli, devices_of(gpu), milli, gpu.models}, sign * set.count);
  }
}

void Preference::keep(const NodeName& node, const NodeFacts& facts) {
  NodeShape machine = machine_of(facts);
  if (const auto known = machine_of_.find(node); known != machine_of_.end()) {
    if (known->second == machine) return;
    drop(node);
  }
  add(known_.machines, machine, 1);
  machine_of_.emplace(node, std::move(machine));
}

void Preference::drop(const NodeName& node) {
  const auto known = machine_of_.find(node);
  if (known == machine_of_.end()) return;
  add(known_.machines, known->second, -1);
  machine_of_.erase(known);
}

bool Preference::has_drifted() const {
  for (const auto& [machine, nodes] : known_.machines) {
    if (!weighed_.machines.contains(machine)) return true;
  }
  return far(known_.pods, weighed_.pods) || far(known_.machines, weighed_.machines);
}

Preference Preference::scored_by_known_mix() const {
  Preference out(name_);
  out.known_ = known_;
  out.weigh(known_);
  return out;
}

void Preference::prepare(const FreeCapacity& free_capacity) {
  if (machine_of_.empty()) {
    known_.machines.clear();
    for (const auto& [name, node_capacity] : free_capacity) add(known_.machines, machine_of(*node_capacity.facts), 1);
    weigh(known_);
  } else if (has_drifted()) {
    weigh(known_);
  }
}

void Preference::weigh(const DemandMix& mix) {
  if (policy_ != nullptr && mix == weighed_) return;
  weighed_ = mix;
  ++epoch_;
  model_number_.clear();
  type_number_.clear();
  for (const auto& [machine, nodes] : weighed_.machines) {
    const auto type = std::min(type_number_.size(), kMostTypes - 1);
    type_number_[machine] = static_cast<std::uint8_t>(type);
    const auto model = std::min(model_number_.size(), std::size_t{pack::kMaxModels} - 1);
    model_number_.try_emplace(machine.model, static_cast<std::uint8_t>(model));
  }
  pack::Outlook outlook;
  for (const auto& [size, pods] : weighed_.pods) outlook.mix.push_back({class_of(size), pods});
  std::set<std::int32_t> sizes;
  for (const auto& [machine, nodes] : weighed_.machines) {
    outlook.capacity.insert(outlook.capacity.end(), static_cast<std::size_t>(nodes), empty(machine));
    sizes.insert(outlook.capacity.back().gpus);
  }
  // A pod for a whole node may be submitted later, even if no known pod requests one.
  for (const auto gpus : sizes) outlook.mix.push_back({{0, 0, gpus, pack::kDevice, pack::kAnyModel}, 1});
  policy_ = pack::make_policy(name_, outlook);
}

pack::NodeState Preference::empty(const NodeShape& machine) const {
  NodeFacts facts;
  facts.model = machine.model;
  facts.cpu_milli = machine.cpu_milli;
  facts.memory_bytes = machine.memory_bytes;
  facts.gpus = machine.gpus;
  NodeCapacity node_capacity;
  node_capacity.facts = &facts;
  node_capacity.cpu_milli = facts.cpu_milli;
  node_capacity.memory_bytes = facts.memory_bytes;
  node_capacity.free_milli.assign(static_cast<std::size_t>(std::max(facts.gpus, 0)), pack::kDevice);
  return state_of(node_capacity);
}

pack::PodClass Preference::class_of(const PodSize& size) const {
  pack::PodClass pod{size.cpu_milli, 0, size.devices, size.device_milli, pack::kAnyModel};
  if (size.models.empty()) return pod;
  pod.models = 0;
  for (const auto& name : size.models) {
    if (const auto known = model_number_.find(name); known != model_number_.end()) {
      pod.models |= pack::Models{1} << known->second;
    }
  }
  return pod;
}

pack::NodeState Preference::state_of(const NodeCapacity& node_capacity) const {
  const NodeFacts& facts = *node_capacity.facts;
  pack::NodeState state;
  state.cpu_milli = std::max<std::int64_t>(node_capacity.cpu_milli, 0);
  state.memory_bytes = std::max<std::int64_t>(node_capacity.memory_bytes, 0);
  state.pods = static_cast<std::int32_t>(
      std::clamp<std::int64_t>(node_capacity.pods, 0, std::numeric_limits<std::int32_t>::max()));
  const auto type = type_number_.find(facts);
  QM_ASSERT(type != type_number_.end(), "no node type is known for a node with {} GPUs {}", facts.gpus, facts.model);
  state.type = type->second;
  state.model = model_number_.at(facts.model);
  state.gpus = static_cast<std::uint8_t>(std::min(node_capacity.free_milli.size(), pack::kMaxDevices));
  const auto fill = [&](const std::vector<std::int32_t>& free) {
    for (std::size_t i = 0; i < state.gpus; ++i) state.free[i] = static_cast<std::uint16_t>(free[i]);
    std::sort(state.free.begin(), state.free.begin() + state.gpus, std::greater<>());
  };
  if (node_capacity.free_milli.size() <= pack::kMaxDevices) {
    fill(node_capacity.free_milli);
    return state;
  }
  // Of a node with more devices than the state has, the freest ones.
  std::vector<std::int32_t> free = node_capacity.free_milli;
  std::ranges::sort(free, std::greater<>());
  fill(free);
  return state;
}

namespace {

/// The class of a pod that fits the node: its models were filtered before, and its memory is ignored.
pack::PodClass class_of_shape(const PodShape& shape) {
  const GpuShape& gpu = shape.gpu;
  return {shape.cpu_milli, 0, devices_of(gpu), static_cast<std::int32_t>(gpu.milli > 0 ? gpu.milli : pack::kDevice),
          pack::kAnyModel};
}

}  // namespace

std::int64_t Preference::score(const NodeCapacity& node_capacity, const PodShape& shape) const {
  return score(state_of(node_capacity), shape);
}

std::int64_t Preference::score(const pack::NodeState& state, const PodShape& shape) const {
  const auto pod = class_of_shape(shape);
  return pack::fits(state, pod) ? policy_->choose(state, pod).score : 0;
}

std::int64_t Scores::of(const NodeCapacity& node_capacity) {
  const auto state = preference_.state_of(node_capacity);
  if (const std::int64_t* known = known_.find(state)) return *known;
  return known_.emplace(state, preference_.score(state, shape_));
}

std::vector<DeviceRef> Preference::take(NodeCapacity& node_capacity, const NodeName& node,
                                        const PodShape& shape) const {
  const auto pod = class_of_shape(shape);
  if (!pod.shares()) return placement::take(node_capacity, node, shape);
  const auto state = state_of(node_capacity);
  return placement::take(node_capacity, node, shape,
                         pack::fits(state, pod) ? policy_->choose(state, pod).device_milli : std::int32_t{0});
}

}  // namespace qm::placement
