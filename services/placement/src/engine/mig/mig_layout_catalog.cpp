// Free capacity of nodes under allowed MIG layouts, for repartitions of idle GPUs and for preemption.
#include "engine/mig/mig_layout_catalog.hpp"

#include "engine/mig/node_layouts.hpp"

#include <algorithm>

namespace qm::placement {
namespace {

constexpr std::string_view kReplicas = ".replicas", kShared = ".shared";

}  // namespace

bool requests_instances(const std::vector<PodSet>& pod_sets) {
  return std::ranges::any_of(pod_sets, [](const PodSet& set) { return set.shape.gpu.mig_count > 0; });
}

bool is_shared(const NodeFacts& facts) {
  return std::ranges::any_of(facts.labels,
                             [&](const auto& label) {
                               const std::string& key = label.first;
                               return key.ends_with(kReplicas) &&
                                      replicas_of(facts, key.substr(0, key.size() - kReplicas.size())) > 1;
                             }) ||
         std::ranges::any_of(facts.extended, [](const auto& item) { return item.first.ends_with(kShared); });
}

std::int64_t instance_pods_that_fit(const NodeCapacity& capacity, const PodSet& set) {
  if (set.shape.gpu.mig_count == 0 || !admitted(capacity, set.shape)) return 0;
  return std::min<std::int64_t>(set.count, pods_that_fit(capacity, set.shape));
}

std::vector<std::string> MigLayoutCatalog::names(const mig::Model& model) const {
  std::vector<std::string> out;
  for (const auto& [name, definition] : state_.tables.layouts) out.push_back(name);
  if (!out.empty()) return out;
  for (const auto& profile : model.profiles) {
    if (!profile.name.empty() && profile.name.find('+') == std::string_view::npos)
      out.push_back(fmt::format("all-{}", profile.name));
  }
  out.emplace_back("all-balanced");
  return out;
}

const mig::NodeLayout* MigLayoutCatalog::layout(const NodeFacts& facts, const std::string& name) {
  const auto& own = state_.tables.layouts.rows();
  const auto gpus = installed(facts, own);
  auto [at, fresh] = layouts_.try_emplace({name, facts.model, gpus});
  if (fresh) {
    if (auto made = mig::layout_named(name, own, facts.model, gpus)) at->second = std::move(*made);
  }
  return at->second ? &*at->second : nullptr;
}

NodeCapacity MigLayoutCatalog::capacity(const NodeName& name, const mig::NodeLayout& layout,
                                        const HypotheticalState& hypothetical) const {
  NodeCapacity capacity = capacities_.capacity_of(name, hypothetical);
  std::erase_if(capacity.extended, [](const auto& item) { return item.first.starts_with(words::kMigPrefix); });
  capacity.instances.assign(layout.gpus.size(), {});
  capacity.free_milli.assign(layout.gpus.size(), 0);
  for (std::size_t gpu = 0; gpu < layout.gpus.size(); ++gpu) {
    if (layout.gpus[gpu] == mig::kNoState) {  // the model may be null then
      capacity.free_milli[gpu] = 1000;
      continue;
    }
    for (const auto& [profile, count] : mig::instances_of(*layout.model, layout.gpus[gpu])) {
      const std::string resource = mig::resource_of(*layout.model, profile);
      capacity.instances[gpu][resource] = count;
      capacity.extended[resource] += count;
    }
  }
  const Repartition* repartition = state_.tables.repartitions.find(name);
  if (repartition != nullptr && repartition->reserved_for && repartition->reserved_for->waits) {
    const Workload* workload = state_.tables.workloads.find(repartition->reserved_for->uid);
    for (const HeldCapacity& place : repartition->reserved_for->places) {
      if (workload == nullptr || place.set >= std::ssize(workload->spec.pod_sets)) continue;
      for (const auto& [resource, amount] :
           counted(workload->spec.pod_sets[static_cast<std::size_t>(place.set)].shape)) {
        if (resource.starts_with(words::kMigPrefix)) capacity.extended[resource] -= amount;
      }
    }
  }
  return capacity;
}

std::int64_t MigLayoutCatalog::cost(const NodeName& name, const mig::NodeLayout& to) const {
  const auto from = layouts_of_nodes_.layout_of(name);
  const auto& costs = state_.options.mig_repartition.costs;
  std::int64_t out = 0;
  for (std::size_t gpu = 0; gpu < to.gpus.size(); ++gpu) {
    const auto before = from && gpu < from->gpus.size() ? from->gpus[gpu] : mig::kNoState, after = to.gpus[gpu];
    if (before == after) continue;
    const auto pieces = [](const mig::NodeLayout& layout, mig::StateId state) {
      std::int64_t sum = 0;
      if (state == mig::kNoState) return sum;
      for (const auto& [profile, count] : mig::instances_of(*layout.model, state)) sum += count;
      return sum;
    };
    if (from) out += pieces(*from, before) * costs.destroy;
    out += pieces(to, after) * costs.create;
    if ((before == mig::kNoState) != (after == mig::kNoState)) out += costs.enable;
  }
  return out;
}

}  // namespace qm::placement
