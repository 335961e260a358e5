// MIG layouts of nodes: the current state. A layout is an observation like any other.
#include "engine/mig/mig_layouts.hpp"

#include "engine/mig/node_layouts.hpp"

#include <algorithm>
#include <charconv>

namespace qm::placement {

namespace {

using relayout::Phase;
using relayout::Row;

constexpr std::int64_t kMaxReplicas = 1024, kMostGpus = 1024;  ///< larger label values are not plausible
constexpr std::string_view kMigMark = "-MIG-";  ///< before the profile in the product, if instances count as GPUs

std::int64_t number_in(std::string_view text, std::int64_t least, std::int64_t most) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return std::clamp(number, least, most);
}

/// Instances that count as GPUs, per GPU; 0 = unknown.
std::int64_t instances_each(const NodeFacts& facts, const mig::Definitions& layouts) {
  const auto mark = facts.model.find(kMigMark);
  const auto layout = mig::layout_named(std::string(label_of(facts, kMigConfig)), layouts, facts.model, 1);
  if (layout && layout->gpus[0] != mig::kNoState) {
    const auto capacity = mig::capacity_of(*layout, true);
    if (const auto gpus = capacity.find(std::string(words::kGpuResource)); gpus != capacity.end()) return gpus->second;
  }
  const mig::Model* model = mig::model_of(facts.model);
  const auto profile =
      model == nullptr ? std::nullopt : mig::profile_of(*model, facts.model.substr(mark + kMigMark.size()));
  return profile ? mig::geometry_of(model->family).profiles[*profile].most : 0;
}

bool holds_gpus(const GpuShape& gpu) { return !gpu.none(); }

std::string words_of(const mig::Capacity& capacity) {
  std::string out;
  for (const auto& [resource, amount] : capacity) {
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", resource, amount);
  }
  return out.empty() ? "nothing" : out;
}

}  // namespace

std::string_view label_of(const NodeFacts& facts, std::string_view key) {
  thread_local std::string text;  // called for every node
  text.assign(key);
  const auto found = facts.labels.find(text);
  return found == facts.labels.end() ? std::string_view() : found->second;
}

bool is_single(const NodeFacts& facts) { return label_of(facts, "nvidia.com/mig.strategy") == "single"; }

bool counts_instances(const NodeFacts& facts) {
  return is_single(facts) && facts.model.find(kMigMark) != std::string::npos;
}

std::int64_t replicas_of(const NodeFacts& facts, const std::string& resource) {
  return number_in(label_of(facts, resource + ".replicas"), 1, kMaxReplicas);
}

std::int32_t installed(const NodeFacts& facts, const mig::Definitions& layouts) {
  const auto replicas = static_cast<std::int32_t>(replicas_of(facts, std::string(words::kGpuResource)));
  const auto counted = std::min(facts.gpus_installed, static_cast<std::int32_t>(kMostGpus)) / replicas;
  if (counts_instances(facts)) {
    const auto each = instances_each(facts, layouts);
    const auto shown = std::max<std::int64_t>(counted, std::min<std::int64_t>(facts.gpus, kMostGpus) / replicas);
    return each == 0 ? 0 : static_cast<std::int32_t>((shown + each - 1) / each);
  }
  if (facts.labels.contains(std::string(words::kGpuCount))) {
    return static_cast<std::int32_t>(number_in(label_of(facts, words::kGpuCount), 0, kMostGpus));
  }
  return counted;
}

mig::Capacity advertised(const NodeFacts& facts) {
  constexpr std::string_view kShared = ".shared";
  mig::Capacity out;
  const auto add = [&](std::string resource, std::int64_t amount) {
    if (resource.ends_with(kShared)) resource.resize(resource.size() - kShared.size());
    const bool ours = resource == words::kGpuResource || resource.starts_with(words::kMigPrefix);
    if (ours && amount > 0) out[resource] += amount / replicas_of(facts, resource);
  };
  add(std::string(words::kGpuResource), facts.gpus);
  for (const auto& [resource, amount] : facts.extended) add(resource, amount);
  return out;
}

bool evicts_none(const Row& row) { return row.phase == Phase::kWaiting || row.over(); }

std::optional<mig::NodeLayout> MigLayouts::layout_of(const NodeName& name) const {
  const NodeFacts& facts = tables_.nodes.find(name)->facts;
  const auto shown = advertised(facts);
  if (std::ranges::none_of(shown, [](const auto& item) { return item.first.starts_with(words::kMigPrefix); })) {
    return std::nullopt;
  }
  if (const std::string label(label_of(facts, kMigConfig)); !label.empty()) {
    const auto named =
        mig::layout_named(label, tables_.layouts.rows(), facts.model, installed(facts, tables_.layouts.rows()));
    if (named && mig::capacity_of(*named) == shown) return *named;
  }
  return mig::layout_showing(shown, facts.model, installed(facts, tables_.layouts.rows()));
}

std::optional<PlannedLayout> MigLayouts::planned_of(const NodeName& name) const {
  const NodeFacts& facts = tables_.nodes.find(name)->facts;
  const std::string label(label_of(facts, kMigConfig));
  if (label.empty()) return std::nullopt;
  if (installed(facts, tables_.layouts.rows()) == 0) return PlannedLayout{{}, "its number of GPUs is not known"};
  const auto layout =
      mig::layout_named(label, tables_.layouts.rows(), facts.model, installed(facts, tables_.layouts.rows()));
  if (!layout) return PlannedLayout{{}, layout.error().message};
  return PlannedLayout{mig::capacity_of(*layout, is_single(facts)), {}};
}

NodeCapacity::Instances MigLayouts::idle_instances(const NodeName& name, const std::set<AttemptId>& gone) const {
  const auto layout = layout_of(name);
  if (!layout) return {};
  const NodeFacts& facts = tables_.nodes.find(name)->facts;
  NodeCapacity::Instances idle(layout->gpus.size());
  for (std::size_t gpu = 0; gpu < idle.size(); ++gpu) {
    for (const auto& [profile, count] : mig::instances_of(*layout->model, layout->gpus[gpu])) {
      const std::string resource = mig::resource_of(*layout->model, profile);
      idle[gpu][resource] = count * static_cast<std::int32_t>(replicas_of(facts, resource));
    }
  }
  std::map<std::string, std::int64_t> somewhere;  // held on an unknown GPU
  const auto hold = [&](const PodShape& shape, std::vector<std::int32_t> gpus) {
    if (shape.gpu.mig_count == 0) return;
    const std::string resource = std::string(words::kMigPrefix) + shape.gpu.mig_profile;
    gpus.resize(static_cast<std::size_t>(shape.gpu.mig_count), -1);
    for (const auto gpu : gpus) {
      auto* at = gpu >= 0 && gpu < std::ssize(idle) ? &idle[static_cast<std::size_t>(gpu)] : nullptr;
      const auto has = at == nullptr ? std::map<std::string, std::int32_t>::iterator() : at->find(resource);
      if (at != nullptr && has != at->end() && has->second > 0) {
        --has->second;
      } else {
        ++somewhere[resource];
      }
    }
  };
  if (const auto members = index_.members.find(name); members != index_.members.end()) {
    for (const auto& [id, position] : members->second) {
      if (gone.contains(id)) continue;
      const Assignment& row = *tables_.assignments.find(id);
      const Member& member = row.members[position];
      std::vector<std::int32_t> gpus;
      for (const DeviceRef& device : member.devices) gpus.push_back(device.index);
      hold(row.pod_sets[static_cast<std::size_t>(member.set)].shape, std::move(gpus));
    }
  }
  const Observation* seen = tables_.observations.find(name);
  for (const Pod* pod : pods_.non_member_pods(name)) {
    std::vector<std::int32_t> gpus = pod->planned_gpus();
    if (const auto given = seen == nullptr ? std::map<std::string, std::vector<DeviceRef>>::const_iterator()
                                           : seen->pods.find(pod->facts.key());
        seen != nullptr && given != seen->pods.end()) {
      gpus.clear();
      for (const DeviceRef& device : given->second) gpus.push_back(device.index);
    }
    hold(pod->facts.shape, std::move(gpus));
  }
  for (auto& [resource, count] : somewhere) {
    for (auto& gpu : idle) {
      const auto has = gpu.find(resource);
      if (has == gpu.end()) continue;
      const auto taken = std::min<std::int64_t>(has->second, count);
      has->second -= static_cast<std::int32_t>(taken);
      count -= taken;
    }
  }
  return idle;
}

void MigLayouts::fill_instances(const NodeName& name, NodeCapacity& node_capacity,
                                const std::set<AttemptId>& gone) const {
  node_capacity.instances = idle_instances(name, gone);
  if (node_capacity.instances.empty()) return;
  const mig::Model& model = *mig::model_of(node_capacity.facts->model);
  for (auto& [resource, amount] : node_capacity.extended) {
    if (!resource.starts_with(words::kMigPrefix) || !mig::profile_of(model, resource)) continue;
    std::int64_t idle = 0;
    for (const auto& gpu : node_capacity.instances) {
      if (const auto has = gpu.find(resource); has != gpu.end()) idle += has->second;
    }
    amount = std::min(amount, idle);
  }
}

bool MigLayouts::is_repartitioning(const NodeName& name) const {
  const Repartition* repartition = tables_.repartitions.find(name);
  if (repartition == nullptr || !repartition->order) return false;
  return repartition->order->phase == Phase::kStuck || !evicts_none(*repartition->order);
}

std::string MigLayouts::layout_finding(const NodeName& name) const {
  const Repartition* repartition = tables_.repartitions.find(name);
  if (repartition == nullptr || !repartition->mismatch) return {};
  const NodeFacts& facts = tables_.nodes.find(name)->facts;
  return fmt::format("MIG_CAPACITY_MISMATCH: layout {} has {}, and the node advertises {}", label_of(facts, kMigConfig),
                     words_of(planned_of(name)->capacity), words_of(advertised(facts)));
}

relayout::Observed MigLayouts::seen_for_layout(const NodeName& name, const Repartition& repartition) const {
  const Node& node = *tables_.nodes.find(name);
  relayout::Observed seen;
  seen.config = label_of(node.facts, kMigConfig);
  seen.state = label_of(node.facts, kMigState);
  seen.capacity = advertised(node.facts);
  seen.cordoned = node.facts.unschedulable;
  seen.ready = node.facts.ready;
  if (const auto members = index_.members.find(name); members != index_.members.end()) {
    for (const auto& [id, position] : members->second) {
      const Assignment& row = *tables_.assignments.find(id);
      if (!holds_gpus(row.pod_sets[static_cast<std::size_t>(row.members[position].set)].shape.gpu)) continue;
      const auto asked = repartition.asked.find(id.to_string());
      // The grace period of the order is the time for saving and leaving.
      seen.occupants.push_back({id.to_string(), asked == repartition.asked.end() ? Instant{} : asked->second, false});
    }
  }
  for (const Pod* pod : pods_.non_member_pods(name)) {
    if (!pod->facts.daemon && holds_gpus(pod->facts.shape.gpu)) seen.occupants.push_back({pod->facts.key(), {}, true});
  }
  return seen;
}

}  // namespace qm::placement
