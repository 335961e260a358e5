// mig-manager, followed by the device plugin: a node's label names a layout, its state changes from pending to
// success or failed, and the node advertises the resources of the layout.
#include "cluster.hpp"

#include <algorithm>

namespace qm::fleet {
namespace {

constexpr std::string_view kConfig = "nvidia.com/mig.config", kState = "nvidia.com/mig.config.state";

/// The number of instances of the profile ("1g.10gb") that fit a GPU; 0 = the GPU does not support the profile.
int instances_of(std::string_view profile, const InstanceType& type) {
  const auto dot = profile.find("g.");
  if (dot == std::string_view::npos || (type.gpu_model != "H100" && type.gpu_model != "A100")) return 0;
  const auto slices = whole_number(profile.substr(0, dot)).value_or(0);
  const auto memory = whole_number(profile.substr(dot + 2, profile.size() - dot - 4)).value_or(0);  // followed by "gb"
  const int of_one = memory * 4096 >= type.gpu_memory_mib ? 4 : 7;  // with double memory, or one slice
  return slices == 1 ? of_one : slices == 2 ? 3 : slices == 3 ? 2 : slices == 4 || slices == 7 ? 1 : 0;
}

}  // namespace

void Cluster::on_layout(const ObjectPtr& before, const ObjectPtr& after) {
  const std::string layout = label_of(*after, kConfig).string(), name = name_of(*after);
  if (layout.empty() || (before && label_of(*before, kConfig) == label_of(*after, kConfig))) return;
  world_.post([this, name] { set_layout_label(name, "pending"); });
  world_.after(options_.layout_delay, [this, name, layout] { apply_layout(name, layout); });
}

void Cluster::set_layout_label(const std::string& name, std::string_view state) {
  store_.modify(nodes_kind_, "", name, [&](Json& node) { node.set("metadata").set("labels").set(kState, state); });
}

void Cluster::apply_layout(const std::string& name, const std::string& layout) {
  NodeState* state = node(name);
  const auto object = store_.find(nodes_kind_, "", name);
  if (state == nullptr || !state->up || !object || label_of(*object, kConfig).string() != layout) return;
  const int instances = layout.starts_with("all-") ? instances_of(layout.substr(4), state->type) : 0;
  const bool busy = std::ranges::any_of(
      state->pods, [&](const auto& uid) { return pods_.at(uid).instances > 0 || !pods_.at(uid).devices.empty(); });
  const bool fails = std::exchange(state->layout_fails, false) || busy || (instances == 0 && layout != "all-disabled");
  if (!fails) {
    state->profile = layout.substr(4);
    state->instances = instances;
    show_devices(*state);
  }
  set_layout_label(name, fails ? "failed" : "success");
}

}  // namespace qm::fleet
