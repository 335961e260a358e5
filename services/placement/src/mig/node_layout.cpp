// Converts names of layouts to the resulting resources of a node, and what the node advertises back
// to a layout.
#include "qm/placement/mig/node_layout.hpp"

#include "qm/model/resources.hpp"
#include "qm/placement/mig/pack.hpp"
#include "qm/placement/mig/parted_layout.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::placement::mig {
namespace {

constexpr std::string_view kAll = "all-";
/// Search steps for a node whose GPUs are not partitioned alike.
constexpr std::int64_t kSteps = 20'000;

tl::unexpected<Error> refused(std::string message, std::string remedy) {
  return fail(Error{Code::kInvalid, std::move(message), "nvidia.com/mig.config", std::move(remedy)});
}

/// The most instances of the profile that fit on one GPU.
std::int32_t most_of(const Model& model, ProfileId profile) { return geometry_of(model.family).profiles[profile].most; }

/// mig-manager's all-balanced: two instances of the smallest profile, one of two slices and one of
/// three. On GPUs with four slices: two of the smallest and one of two.
Counts balanced(const Model& model) {
  if (model.family == Family::kFour) return {{four::k1g, 2}, {four::k2g, 1}};
  return {{seven::k1g, 2}, {seven::k2g, 1}, {seven::k3g, 1}};
}

Result<StateId> state_of(const Model& model, const Counts& counts, const std::string& name) {
  const bool too_many =
      std::ranges::any_of(counts, [&](const auto& count) { return count.second > most_of(model, count.first); });
  const StateId state = too_many ? kNoState : parted_layout(StateTable::of(model.family), counts);
  if (state != kNoState) return state;
  std::string mix;
  for (const auto& [profile, count] : counts) {
    mix += fmt::format("{}{}x {}", mix.empty() ? "" : ", ", count, model.profiles[profile].name);
  }
  return refused(fmt::format("layout {} has {} on one {}, which do not fit there together", name, mix, model.name),
                 "use fewer or smaller instances, a combination that NVIDIA lists for this GPU");
}

Result<StateId> state_of(const Model& model, const Part& part, const std::string& name) {
  Counts counts;
  for (const auto& [profile, count] : part.instances) {
    const auto id = profile_of(model, profile);
    if (!id) {
      std::string has;
      for (const auto& known : model.profiles) {
        if (!known.name.empty()) has += (has.empty() ? "" : ", ") + std::string(known.name);
      }
      return refused(fmt::format("layout {}: {} has no profile {}", name, model.name, profile), "it has " + has);
    }
    if (count > 0) counts[*id] += count;
  }
  return state_of(model, counts, name);
}

}  // namespace

Result<NodeLayout> layout_named(const std::string& name, const Definitions& own, std::string_view product,
                                std::int32_t gpus) {
  NodeLayout out{model_of(product), std::vector<StateId>(static_cast<std::size_t>(std::max(gpus, 0)), kNoState)};
  const auto no_mig_support = [&] {
    return refused(
        fmt::format("layout {}: {} does not support MIG", name, product.empty() ? "a node without GPUs" : product),
        "MIG needs an A100, A30, H100, H200 or later; share this GPU by MPS or time-slicing");
  };
  if (const auto given = own.find(name); given != own.end()) {
    for (const Part& part : given->second) {
      if (part.enabled && out.model == nullptr) return no_mig_support();
      StateId state = kNoState;
      if (part.enabled) {
        QM_ASSIGN(state, state_of(*out.model, part, name));
      }
      if (part.devices.empty()) std::ranges::fill(out.gpus, state);
      for (const auto device : part.devices) {
        if (device < 0 || device >= gpus) {
          return refused(fmt::format("layout {} has device {}, and the node has {} GPUs", name, device, gpus),
                         "define a layout for nodes with this number of GPUs");
        }
        out.gpus[static_cast<std::size_t>(device)] = state;
      }
    }
    return out;
  }
  if (name == "all-disabled") return out;
  if (!name.starts_with(kAll)) {
    return refused(fmt::format("layout {} does not exist", name), "apply a mig-parted list that defines it");
  }
  if (out.model == nullptr) return no_mig_support();
  const std::string what = name.substr(kAll.size());
  if (what == "enabled") {
    std::ranges::fill(out.gpus, StateTable::empty());
    return out;
  }
  if (what == "balanced") {
    QM_ASSIGN(const StateId state, state_of(*out.model, balanced(*out.model), name));
    std::ranges::fill(out.gpus, state);
    return out;
  }
  const auto profile = profile_of(*out.model, what);
  QM_ASSIGN(const StateId state,
            state_of(*out.model, Part{{}, true, {{what, profile ? most_of(*out.model, *profile) : 1}}}, name));
  std::ranges::fill(out.gpus, state);
  return out;
}

std::map<ProfileId, std::int32_t> instances_of(const Model& model, StateId layout) {
  std::map<ProfileId, std::int32_t> out;
  if (layout == kNoState) return out;
  for (const Spot& spot : StateTable::of(model.family).instances(layout)) ++out[spot.profile];
  return out;
}

Capacity capacity_of(const NodeLayout& layout, bool single) {
  Capacity out;
  for (const StateId state : layout.gpus) {
    if (state == kNoState) {
      ++out[std::string(words::kGpuResource)];
      continue;
    }
    for (const auto& [profile, count] : instances_of(*layout.model, state)) {
      out[single ? std::string(words::kGpuResource) : resource_of(*layout.model, profile)] += count;
    }
  }
  return out;
}

std::optional<NodeLayout> layout_showing(const Capacity& capacity, std::string_view product, std::int32_t gpus) {
  const Model* model = model_of(product);
  if (model == nullptr || gpus <= 0) return std::nullopt;
  const StateTable& table = StateTable::of(model->family);
  const auto whole = capacity.find(std::string(words::kGpuResource));
  const auto partitioned =
      static_cast<std::size_t>(std::clamp<std::int64_t>(gpus - (whole == capacity.end() ? 0 : whole->second), 0, gpus));
  NodeLayout out{model, std::vector<StateId>(static_cast<std::size_t>(gpus), kNoState)};
  std::vector<Pending> pending(model->profiles.size());
  Counts each;
  bool even = true;
  for (const auto& [resource, amount] : capacity) {
    const auto profile = resource.starts_with(words::kMigPrefix) ? profile_of(*model, resource) : std::nullopt;
    if (!profile || amount <= 0) continue;
    const auto most = static_cast<std::int64_t>(partitioned) * most_of(*model, *profile);
    pending[*profile].count = static_cast<int>(std::min(amount, most));
    even = even && partitioned > 0 && amount <= most && amount % static_cast<std::int64_t>(partitioned) == 0;
    if (even) each[*profile] = static_cast<int>(amount / static_cast<std::int64_t>(partitioned));
  }
  std::vector<StateId> states(partitioned, StateTable::empty());
  if (const StateId alike = even && !each.empty() ? parted_layout(table, each) : kNoState; alike != kNoState) {
    std::ranges::fill(states, alike);
  } else {
    states = pack(table, states, pending, kSteps).states;
  }
  std::ranges::copy(states, out.gpus.begin());  // which GPUs are partitioned is not reported: the lowest ones
  return out;
}

}  // namespace qm::placement::mig
