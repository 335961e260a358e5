#include "qm/autoscaler/columns/type_facts.hpp"
#include "qm/autoscaler/shell.hpp"
#include "qm/catalog/catalog.hpp"
#include "rows.hpp"

#include <algorithm>

namespace qm::autoscaler {

service::HostOptions host_options(const std::string& shard) {
  service::HostOptions o;
  o.service = "autoscaler";
  o.shard = shard;
  o.consumes = {"qm.placement", "qm.node", "qm.workload", "qm.spot", "qm.gpu"};
  o.produces = {"qm.capacity"};
  return o;
}

std::vector<InstanceType> catalog_types() {
  std::vector<InstanceType> out;
  for (const auto& t : catalog::types()) {
    if (t.usd_hour.empty()) continue;
    auto [capacity, allocatable] = node_amounts(t);
    InstanceType type{std::string(t.name),        t.gpus,
                      std::string(t.gpu_product), allocatable["cpu"],
                      allocatable["memory"],      HourlyRate{*Money::parse_usd(t.usd_hour)}};
    type.reserved_cpu_milli = capacity["cpu"] - type.cpu_milli;
    type.reserved_memory_bytes = capacity["memory"] - type.memory_bytes;
    type.pods = allocatable["pods"];
    for (const std::string& own :
         {std::string("cpu"), std::string("memory"), std::string("pods"), std::string(words::kGpuResource)})
      allocatable.erase(own);
    type.extended = std::move(allocatable);
    type.labels = node_labels(t);
    out.push_back(std::move(type));
  }
  return out;
}

service::Input daemon_sets_input(const std::vector<PodSet>& sets) {
  service::Input in;
  in.source = service::Source::kWatch;
  in.name = "daemonsets";
  in.bytes = daemon_sets_bytes(sets);
  return in;
}

service::Input groups_input(const std::map<std::string, ScalingGroup>& groups) {
  service::Input in;
  in.source = service::Source::kWatch;
  in.name = "groups";
  in.bytes = groups_bytes(groups);
  return in;
}

service::Input pools_input(const std::vector<Pool>& pools) {
  service::Input in;
  in.source = service::Source::kWatch;
  in.name = "pools";
  in.bytes = pools_bytes(pools);
  return in;
}

void export_metrics(metrics::Registry& registry, service::Host& host) {
  registry.on_scrape([&registry, &host] {
    host.read([&](const service::Shell& shell) {
      const auto& t = engine_of(shell).tables();
      std::map<std::string, double> by_state, by_pool;
      std::map<std::pair<std::string, std::string>, double> usage;  // (pool, resource)
      for (int s = 0; s <= static_cast<int>(ClaimState::kFailed); ++s)
        by_state[std::string(name_of(static_cast<ClaimState>(s)))] = 0;
      for (const auto& [name, pool] : t.pools) {
        by_pool[name] = 0;
        // With Karpenter's metric names, so that its dashboards and alerts work.
        const auto limit = [&](const std::string& resource, std::int64_t amount, double unit) {
          usage[{name, resource}] = 0;
          if (amount < 0) return;
          registry
              .gauge("karpenter_nodepool_limit", "Limit of a NodePool (spec.limits), by resource",
                     {{"nodepool", name}, {"resource_type", resource}})
              .set(static_cast<double>(amount) / unit);
        };
        limit(std::string(words::kGpuResource), pool.limit_gpus, 1);
        limit("cpu", pool.limit_cpu_milli, 1000);
        limit("memory", pool.limit_memory_bytes, 1);
        limit("nodes", pool.limit_nodes, 1);
        for (const auto& [resource, amount] : pool.other_limits) limit(resource, amount, 1);
      }
      for (const auto& [name, c] : t.claims) {
        ++by_state[std::string(name_of(c.state))];
        const auto* type = engine_of(shell).type(c.type);
        if (!c.pool.empty() && type != nullptr && c.state != ClaimState::kGone && c.state != ClaimState::kFailed) {
          by_pool[c.pool] += static_cast<double>(type->gpus);
          usage[{c.pool, std::string(words::kGpuResource)}] += static_cast<double>(type->gpus);
          usage[{c.pool, "cpu"}] += static_cast<double>(type->cpu_milli + type->reserved_cpu_milli) / 1000;
          usage[{c.pool, "memory"}] += static_cast<double>(type->memory_bytes + type->reserved_memory_bytes);
          usage[{c.pool, "nodes"}] += 1;
          for (const auto& [resource, amount] : type->extended) {
            if (const auto at = usage.find({c.pool, resource}); at != usage.end())
              at->second += static_cast<double>(amount);
          }
        }
      }
      for (const auto& [state, n] : by_state)
        registry.gauge("qm_autoscaler_claims", "NodeClaims and instances by state", {{"state", state}}).set(n);
      for (const auto& [pool, n] : by_pool)
        registry.gauge("qm_autoscaler_pool_gpus", "GPUs of the instances of a NodePool", {{"nodepool", pool}}).set(n);
      for (const auto& [at, n] : usage) {
        registry
            .gauge("karpenter_nodepool_usage", "Resources of the instances of a NodePool",
                   {{"nodepool", at.first}, {"resource_type", at.second}})
            .set(n);
      }
      for (const auto& [name, one] : engine_of(shell).buffers()) {
        const metrics::Labels of{{"buffer", name}};
        registry.gauge("qm_autoscaler_headroom_nodes", "Free and starting nodes kept by a CapacityBuffer or an SLO", of)
            .set(static_cast<double>(one.nodes));
        constexpr double kNano = 1e9;
        registry.gauge("qm_autoscaler_headroom_usd_per_hour", "Price of those nodes", of)
            .set(static_cast<double>(one.per_hour.nano()) / kNano);
      }
      for (const auto& [pool, row] : t.headrooms) {
        registry
            .gauge("qm_autoscaler_headroom_arrivals", "Workloads that needed nodes of a NodePool with an SLO",
                   {{"nodepool", pool}})
            .set(static_cast<double>(row.total.arrivals));
        registry
            .gauge("qm_autoscaler_headroom_in_time", "Those of them that were pending within the SLO",
                   {{"nodepool", pool}})
            .set(static_cast<double>(row.total.covered));
      }
      registry.gauge("qm_autoscaler_demand", "Gangs that have quota and no place")
          .set(static_cast<double>(t.demand.size()));
      double open = 0;
      for (const auto& [id, order] : t.orders) open += order.outcome.empty() ? 1 : 0;
      registry.gauge("qm_autoscaler_checkpoint_orders_open", "Checkpoint orders without an outcome").set(open);
    });
  });
}

}  // namespace qm::autoscaler
