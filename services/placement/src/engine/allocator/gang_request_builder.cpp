#include "engine/allocator/gang_request_builder.hpp"

namespace qm::placement {
namespace {

constexpr std::size_t kOwnGates = 16;  // reserved for the sets of the first workload

/// Whether it admits pods of the shape, and fits at least one.
bool admits(const NodeCapacity& capacity, const PodShape& shape) {
  return admitted(capacity, shape) && pods_that_fit(capacity, shape) > 0;
}

}  // namespace

bool is_exclusive(const std::vector<PodSet>& pod_sets) {
  return std::ranges::any_of(pod_sets, [](const PodSet& set) { return set.topology.exclusive; });
}

GangRequestBuilder::GangRequestBuilder(const std::vector<PodSet>& pod_sets, const TopologyLevels& levels,
                                       std::size_t own)
    : pod_sets_(pod_sets), levels_(levels), own_(own) {
  const auto first = std::span(pod_sets).first(own);
  const bool alone = std::ranges::any_of(first, [](const PodSet& set) { return set.topology.exclusive; });
  for (std::size_t i = 0; i < pod_sets.size(); ++i) alone_.push_back(i < own ? alone : pod_sets[i].topology.exclusive);
}

std::vector<std::string> GangRequestBuilder::path(const NodeName& name, const NodeCapacity& capacity) const {
  std::vector<std::string> out;
  for (const std::string& key : levels_) {
    const auto label = capacity.facts->labels.find(key);
    out.push_back(label == capacity.facts->labels.end() ? fmt::format("(node {})", name) : label->second);
  }
  return out;
}

std::uint8_t GangRequestBuilder::gate(const NodeName& name, const NodeCapacity& capacity,
                                      const InterPodConstraints* constraints) {
  std::vector<bool> lets_in(pod_sets_.size());
  for (std::size_t i = 0; i < pod_sets_.size(); ++i) {
    const auto& asked = pod_sets_[i].topology;
    const auto written_label = [&](const std::string& key) {
      return key.empty() || key == kHostname || capacity.facts->labels.contains(key);
    };
    lets_in[i] = !(alone_[i] && capacity.gpu_pods) && written_label(asked.required) && written_label(asked.slice) &&
                 admits(capacity, pod_sets_[i].shape) &&
                 (constraints == nullptr || constraints->admits(i, name, capacity));
  }
  if (own_ < lets_in.size() && gates_.size() + kOwnGates >= gang::kMostGates && !gates_.contains(lets_in))
    std::fill(lets_in.begin() + static_cast<std::ptrdiff_t>(own_), lets_in.end(), false);
  const auto number = std::min<std::size_t>(gates_.size(), gang::kMostGates - 1);
  return gates_.try_emplace(std::move(lets_in), static_cast<std::uint8_t>(number)).first->second;
}

gang::Gates GangRequestBuilder::gates_of(std::size_t position) const {
  gang::Gates out = 0;
  for (const auto& [lets_in, gate] : gates_) {
    if (lets_in[position]) out |= gang::Gates{1} << gate;
  }
  if (gates_.size() >= gang::kMostGates) out &= ~(gang::Gates{1} << (gang::kMostGates - 1));
  return out;
}

Result<gang::Level> GangRequestBuilder::level(const gang::Tree& tree, const std::string& key) const {
  if (key.empty()) return gang::kFleet;
  if (key == kHostname) return tree.depth();
  if (const auto found = tree.level(key)) return *found;
  return fail(Error{Code::kInvalid, fmt::format("there is no topology level {}", key), key,
                    fmt::format("the levels here are {}{}", fmt::join(levels_, ", "),
                                fmt::format("{}{}", levels_.empty() ? "" : ", ", kHostname))});
}

Status GangRequestBuilder::read(const gang::Tree& tree) {
  return read(tree, [this](std::size_t position) { return gates_of(position); });
}

Status GangRequestBuilder::read(const gang::Tree& tree, const std::function<gang::Gates(std::size_t)>& gates) {
  std::map<std::string, std::size_t> groups;
  for (std::size_t position = 0; position < pod_sets_.size(); ++position) {
    const PodSet& set = pod_sets_[position];
    const auto& asked = set.topology;
    auto& children = request_.gang.children;
    std::size_t child = children.size();
    if (!asked.group.empty()) child = groups.try_emplace(asked.group, child).first->second;
    if (child == children.size()) {
      auto& group = children.emplace_back();
      QM_ASSIGN(group.required, level(tree, asked.required));
      QM_ASSIGN(group.preferred, level(tree, asked.preferred));
      members_.emplace_back();
    }
    auto& made = children[child].sets.emplace_back();
    made.pod = class_of(set.shape);
    made.count = set.count;
    if (minimum_of(set) < set.count) made.min_count = minimum_of(set);
    made.gates = gates(position);
    if (!asked.slice.empty()) {
      made.slices.size = asked.slice_size;
      QM_ASSIGN(made.slices.level, level(tree, asked.slice));
    }
    members_[child].push_back(position);
  }
  for (const auto& positions : members_) order_.insert(order_.end(), positions.begin(), positions.end());
  return gang::check(request_, tree);
}

pack::PodClass class_of(const PodShape& shape) {
  const GpuShape& gpu = shape.gpu;
  return {shape.cpu_milli, shape.memory_bytes, gpu.milli > 0 ? 1 : static_cast<std::int32_t>(gpu.whole),
          static_cast<std::int32_t>(gpu.milli > 0 ? gpu.milli : pack::kDevice), pack::kAnyModel};
}

}  // namespace qm::placement
