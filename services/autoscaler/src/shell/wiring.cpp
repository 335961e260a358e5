#include "instances/headroom_rows.hpp"
#include "launch/launch_codec.hpp"
#include "launch/provisioning_rows.hpp"
#include "qm/autoscaler/columns/type_facts.hpp"
#include "qm/autoscaler/metrics/headroom_metrics.hpp"
#include "qm/autoscaler/metrics/karpenter_metrics.hpp"
#include "qm/autoscaler/shell.hpp"
#include "qm/catalog/catalog.hpp"
#include "rows.hpp"

#include <algorithm>
#include <iterator>

namespace qm::autoscaler {
namespace {

service::Input watched(std::string name, std::string bytes) {
  service::Input in;
  in.source = service::Source::kWatch;
  in.name = std::move(name);
  in.bytes = std::move(bytes);
  return in;
}

}  // namespace

service::HostOptions host_options(const std::string& shard) {
  service::HostOptions o;
  o.service = "autoscaler";
  o.shard = shard;
  o.consumes = {"qm.placement", "qm.node", "qm.workload", "qm.spot", "qm.gpu"};
  o.gather = std::chrono::milliseconds(100);  // short against the launch of an instance
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
  return watched("daemonsets", daemon_sets_bytes(sets));
}

service::Input provisioning_input(const std::vector<ProvisioningRequest>& requests) {
  return watched("provisioning", provisioning_bytes(requests));
}

service::Input buffers_input(const std::vector<Buffer>& buffers) { return watched("buffers", buffers_bytes(buffers)); }

service::Input reservations_input(const std::vector<ReservationsListed::Item>& reservations) {
  return watched("reservations", reservations_bytes(reservations));
}

service::Input groups_input(const std::map<std::string, ScalingGroup>& groups) {
  return watched("groups", groups_bytes(groups));
}

service::Input pools_input(const std::vector<Pool>& pools) { return watched("pools", pools_bytes(pools)); }

void export_metrics(metrics::Registry& registry, service::Host& host) {
  std::shared_ptr<KarpenterMetrics> karpenter;
  host.read([&](const service::Shell& shell) { karpenter = std::make_shared<KarpenterMetrics>(engine_of(shell)); });
  registry.on_collect([karpenter, &host] {
    std::vector<metrics::Family> out;
    host.read([&](const service::Shell& shell) {
      out = karpenter->families(engine_of(shell));
      std::ranges::move(headroom_families(engine_of(shell)), std::back_inserter(out));
    });
    return out;
  });
  registry.on_scrape([&registry, &host] {
    host.read([&](const service::Shell& shell) {
      const auto& t = engine_of(shell).tables();
      std::map<std::string, double> by_state, by_pool;
      for (int i = 0; i <= static_cast<int>(ClaimState::kFailed); ++i)
        by_state[std::string(name_of(static_cast<ClaimState>(i)))] = 0;
      for (const auto& [name, pool] : t.pools) by_pool[name] = 0;
      for (const auto& [name, c] : t.claims) {
        ++by_state[std::string(name_of(c.state))];
        const auto* type = engine_of(shell).type(c.type);
        if (!c.pool.empty() && type != nullptr && c.state != ClaimState::kGone && c.state != ClaimState::kFailed)
          by_pool[c.pool] += static_cast<double>(type->gpus);
      }
      for (const auto& [state, n] : by_state)
        registry.gauge("qm_autoscaler_claims", "NodeClaims and instances by state", {{"state", state}}).set(n);
      for (const auto& [pool, n] : by_pool)
        registry.gauge("qm_autoscaler_pool_gpus", "GPUs of the instances of a NodePool", {{"nodepool", pool}}).set(n);
      registry.gauge("qm_autoscaler_demand", "Gangs that have quota and no place")
          .set(static_cast<double>(t.demand.size()));
      double open = 0;
      for (const auto& [id, order] : t.orders) open += order.outcome.empty() ? 1 : 0;
      registry.gauge("qm_autoscaler_checkpoint_orders_open", "Checkpoint orders without an outcome").set(open);
    });
  });
}

}  // namespace qm::autoscaler
