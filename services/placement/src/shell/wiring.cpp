#include "qm/base/parse.hpp"
#include "qm/placement/shell.hpp"

namespace qm::placement {

service::HostOptions host_options(const std::string& shard) {
  service::HostOptions options;
  options.service = "placement";
  options.shard = shard;
  options.consumes = {"qm.workload", "qm.gpu", "qm.capacity"};
  options.produces = {"qm.placement", "qm.node"};
  options.urgency_of = &urgency_of;
  options.executor_threads = 16;  // a busy API server responds in half a second
  return options;
}

namespace {

/// The GPU memory of a node in GB, as in NVIDIA's names: 2^30 bytes. By the labels of GPU feature discovery, one of which
/// node affinity uses; 0 = not known. Time slices and other replicas of a GPU have no memory of their own.
double gpu_memory_gb(const NodeFacts& facts) {
  const auto number = [&](std::string_view label) {
    const auto at = facts.labels.find(std::string(label));
    return at == facts.labels.end() ? 0 : std::max(whole_number<std::int64_t>(at->second).value_or(0), std::int64_t{0});
  };
  constexpr double kMibPerGb = 1024;
  return static_cast<double>(number("nvidia.com/gpu.memory")) * static_cast<double>(number(words::kGpuCount)) /
         kMibPerGb;
}

}  // namespace

void export_metrics(metrics::Registry& registry, service::Host& host) {
  // Collected each time, so that the series of a node ends with the node.
  registry.on_collect([&host] {
    metrics::Family memory{
        "qm_placement_node_gpu_memory_gb", "Memory of a node's GPUs, in GB", metrics::Family::Kind::kGauge, {}};
    host.read([&memory](const service::Shell& shell) {
      for (const auto& [name, node] : engine_of(shell).tables().nodes) {
        const double gb = gpu_memory_gb(node.facts);
        if (gb > 0) memory.series.push_back({{{"node", name.value()}, {"model", node.facts.model}}, gb});
      }
    });
    return std::vector{std::move(memory)};
  });
  registry.on_scrape([&registry, &host] {
    host.read([&registry](const service::Shell& shell) {
      const Engine& engine = engine_of(shell);
      const Tables& tables = engine.tables();
      const auto set = [&](const char* name, const char* help, double value, const metrics::Labels& labels = {}) {
        registry.gauge(name, help, labels).set(value);
      };
      std::map<NodeState, int> nodes{{NodeState::kReady, 0}, {NodeState::kNotReady, 0}, {NodeState::kCordoned, 0}};
      std::int64_t gpus = 0, used = 0;
      for (const auto& [name, node] : tables.nodes) {
        ++nodes[node.state];
        gpus += node.facts.gpus;
        for (const auto& use : engine.devices_of(name)) used += use.used_milli;
      }
      for (const auto& [state, count] : nodes) {
        set("qm_placement_nodes", "Nodes by state", count, {{"state", std::string(name_of(state))}});
      }
      set("qm_placement_gpus", "Allocatable GPUs", static_cast<double>(gpus));
      set("qm_placement_gpus_used", "GPUs that pods use or reservations hold, in whole devices",
          static_cast<double>(used) / 1000);
      std::map<AssignmentState, int> states{{AssignmentState::kReserved, 0},
                                            {AssignmentState::kShort, 0},
                                            {AssignmentState::kBound, 0},
                                            {AssignmentState::kReleased, 0},
                                            {AssignmentState::kExpired, 0}};
      std::int64_t waiting = 0;
      for (const auto& [id, row] : tables.assignments) {
        ++states[row.state];
        if (row.state != AssignmentState::kReserved) continue;
        for (const Member& member : row.members) waiting += member.live() && member.bound == Instant{} ? 1 : 0;
      }
      for (const auto& [state, count] : states) {
        set("qm_placement_assignments", "Assignments by state", count, {{"state", std::string(name_of(state))}});
      }
      set("qm_placement_pods_pending", "Members of reservations without a bound pod", static_cast<double>(waiting));
      int mismatch = 0, under_way = 0, stuck = 0;
      for (const auto& [name, repartition] : tables.repartitions) {
        mismatch += repartition.mismatch ? 1 : 0;
        under_way += repartition.order && !repartition.order->over() ? 1 : 0;
        stuck += repartition.order && repartition.order->phase == relayout::Phase::kStuck ? 1 : 0;
      }
      set("qm_placement_mig_capacity_mismatch", "Nodes that advertise other devices than their MIG layout has",
          mismatch);
      set("qm_placement_layout_orders", "MIG layout orders in progress", under_way);
      set("qm_placement_layouts_stuck", "Nodes that stay cordoned because neither MIG layout could be applied", stuck);
      set("qm_placement_demand", "Workloads on the demand list", static_cast<double>(engine.demand_size()));
      set("qm_placement_synced", "1 once nodes and pods were listed completely", engine.synced() ? 1 : 0);
    });
  });
}

}  // namespace qm::placement
