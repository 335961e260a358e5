#include "qm/placement/preference.hpp"

#include <algorithm>
#include <limits>
#include <set>

namespace qm::placement {
namespace {

constexpr std::size_t kMostTypes = 256;

std::int32_t devices_of(const GpuShape& gpu) { return gpu.milli > 0 ? 1 : static_cast<std::int32_t>(gpu.whole); }

}  // namespace

Preference::Preference(std::string policy) : name_(std::move(policy)) {}
Preference::Preference(const Preference& other) : name_(other.name_), asked_(other.asked_) {}
Preference::Preference(Preference&&) noexcept = default;
Preference& Preference::operator=(Preference&&) noexcept = default;
Preference::~Preference() = default;

void Preference::count(const std::vector<PodSet>& pod_sets, int sign) {
  for (const PodSet& set : pod_sets) {
    const GpuShape& gpu = set.shape.gpu;
    const auto milli = static_cast<std::int32_t>(gpu.milli > 0 ? gpu.milli : pack::kDevice);
    const auto known = asked_.try_emplace({set.shape.cpu_milli, devices_of(gpu), milli, gpu.models}).first;
    known->second += sign * set.count;
    if (known->second == 0) asked_.erase(known);
  }
  changed_ = true;
}

void Preference::prepare(const Rooms& rooms) {
  std::map<Machine, std::int64_t> machines;
  for (const auto& [name, room] : rooms) {
    ++machines[{room.facts->model, room.facts->cpu_milli, room.facts->memory_bytes, room.facts->gpus}];
  }
  if (!changed_ && machines == machines_) return;
  changed_ = false;
  machines_ = std::move(machines);
  model_number_.clear();
  type_number_.clear();
  for (const auto& [machine, nodes] : machines_) {
    const auto type = std::min(type_number_.size(), kMostTypes - 1);
    type_number_[machine] = static_cast<std::uint8_t>(type);
    const auto model = std::min(model_number_.size(), std::size_t{pack::kMaxModels} - 1);
    model_number_.try_emplace(std::get<0>(machine), static_cast<std::uint8_t>(model));
  }
  pack::Outlook outlook;
  for (const auto& [asked, pods] : asked_) outlook.mix.push_back({class_of(asked), pods});
  for (const auto& [name, room] : rooms) {
    Room empty;
    empty.facts = room.facts;
    empty.cpu_milli = room.facts->cpu_milli;
    empty.memory_bytes = room.facts->memory_bytes;
    empty.free_milli.assign(static_cast<std::size_t>(std::max(room.facts->gpus, 0)), pack::kDevice);
    outlook.capacity.push_back(state_of(empty));
  }
  // Whoever wants a whole node may come, though none of the pods that are known does.
  std::set<std::int32_t> sizes;
  for (const auto& node : outlook.capacity) sizes.insert(node.gpus);
  for (const auto gpus : sizes) outlook.mix.push_back({{0, 0, gpus, pack::kDevice, pack::kAnyModel}, 1});
  policy_ = pack::make_policy(name_, outlook);
}

pack::PodClass Preference::class_of(const Asked& asked) const {
  const auto& [cpu, gpus, milli, models] = asked;
  pack::PodClass pod{cpu, 0, gpus, milli, pack::kAnyModel};
  if (models.empty()) return pod;
  pod.models = 0;
  for (const auto& name : models) {
    if (const auto known = model_number_.find(name); known != model_number_.end()) {
      pod.models |= pack::Models{1} << known->second;
    }
  }
  return pod;
}

pack::NodeState Preference::state_of(const Room& room) const {
  const NodeFacts& facts = *room.facts;
  pack::NodeState state;
  state.cpu_milli = std::max<std::int64_t>(room.cpu_milli, 0);
  state.memory_bytes = std::max<std::int64_t>(room.memory_bytes, 0);
  state.pods =
      static_cast<std::int32_t>(std::clamp<std::int64_t>(room.pods, 0, std::numeric_limits<std::int32_t>::max()));
  state.type = type_number_.at({facts.model, facts.cpu_milli, facts.memory_bytes, facts.gpus});
  state.model = model_number_.at(facts.model);
  state.gpus = static_cast<std::uint8_t>(std::min(room.free_milli.size(), pack::kMaxDevices));
  // Of a node with more devices than are looked at, those that are freest.
  std::vector<std::int32_t> free = room.free_milli;
  std::ranges::sort(free, std::greater<>());
  for (std::size_t i = 0; i < state.gpus; ++i) state.free[i] = static_cast<std::uint16_t>(free[i]);
  return state;
}

namespace {

/// The class of one pod that fits the node anyhow: its models were a filter, and its memory is not looked at.
pack::PodClass fitting(const PodShape& shape) {
  const GpuShape& gpu = shape.gpu;
  return {shape.cpu_milli, 0, devices_of(gpu), static_cast<std::int32_t>(gpu.milli > 0 ? gpu.milli : pack::kDevice),
          pack::kAnyModel};
}

}  // namespace

std::int64_t Preference::score(const Room& room, const PodShape& shape) const {
  const auto pod = fitting(shape);
  const auto state = state_of(room);
  return pack::fits(state, pod) ? policy_->choose(state, pod).score : 0;
}

std::vector<DeviceRef> Preference::take(Room& room, const NodeName& node, const PodShape& shape) const {
  const auto pod = fitting(shape);
  if (!pod.shares()) return placement::take(room, node, shape);
  const auto state = state_of(room);
  return placement::take(room, node, shape,
                         pack::fits(state, pod) ? policy_->choose(state, pod).device_milli : std::int32_t{0});
}

}  // namespace qm::placement
