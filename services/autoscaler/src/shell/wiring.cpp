#include <algorithm>
#include <cmath>

#include "qm/autoscaler/shell.hpp"
#include "qm/base/log.hpp"
#include "qm/catalog/catalog.hpp"
#include "qm/config/manifest.hpp"
#include "rows.hpp"

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
    // What an EKS node keeps: 110 m and 0.25 % of the cores beyond four, a tenth of the memory up to 8 GiB at most.
    const std::int64_t cpu = t.vcpu * 1000LL, memory = t.memory_mib << 20;
    out.push_back({std::string(t.name), t.gpus, std::string(t.gpu_product), cpu - 110 - cpu / 400,
                   memory - std::min<std::int64_t>(memory / 10, 8LL << 30), HourlyRate{*Money::parse_usd(t.usd_hour)}});
  }
  return out;
}

namespace {

bool allows(const config::NodePoolRequirement& r, const std::string& value) {
  const bool in = std::find(r.values.begin(), r.values.end(), value) != r.values.end();
  return r.op == "In" ? in : r.op == "NotIn" ? !in : r.op != "DoesNotExist";
}

Pool pool_of(const config::NodePool& from) {
  Pool p;
  p.name = from.name;
  p.weight = from.weight;
  p.labels = from.labels;
  p.taints = from.taints;
  p.consolidate_empty = from.consolidate_after != Duration::max();
  p.consolidate_after = p.consolidate_empty ? from.consolidate_after : Duration{0};
  for (const auto& [resource, limit] : from.limits) {
    if (resource == words::kGpuResource) p.limit_gpus = limit.units();
    if (resource == "cpu") p.limit_cpu_milli = limit.milli();
    if (resource == "memory") p.limit_memory_bytes = limit.units();
  }
  const auto all = [&](std::string_view key, const std::string& value) {
    return std::all_of(from.requirements.begin(), from.requirements.end(),
                       [&](const auto& r) { return r.key != key || allows(r, value); });
  };
  for (const auto& t : catalog::types()) {
    const std::string name(t.name);
    if (!t.usd_hour.empty() && all(words::kInstanceType, name) &&
        all("karpenter.k8s.aws/instance-family", name.substr(0, name.find('.')))) {
      p.instance_types.push_back(name);
    }
  }
  for (const Market m : {Market::kSpot, Market::kOnDemand}) {
    if (all(words::kCapacityType, std::string(name_of(m)))) p.markets.push_back(m);
  }
  for (const auto& r : from.requirements) {
    if (r.key == words::kZone && r.op == "In") p.zones = r.values;
    if (r.key != words::kInstanceType || r.op != "In") continue;
    for (const auto& value : r.values) {
      if (catalog::find(value) == nullptr) {
        log::warn("the catalog does not know this instance type; the pool is used without it", {{"pool", p.name}, {"type", value}});
      }
    }
  }
  return p;
}

}  // namespace

Result<std::vector<Pool>> pools_from_manifests(std::span<const std::string> paths) {
  std::vector<Pool> pools;
  for (const auto& path : paths) {
    const auto loaded = config::load_path(path);
    for (const auto& d : loaded.diagnostics) {
      if (d.severity == config::Diagnostic::Severity::kError) return fail(Error{Code::kInvalid, d.to_string(), d.field, d.remedy});
    }
    for (const auto& object : loaded.objects) {
      if (const auto* pool = std::get_if<config::NodePool>(&object.typed)) pools.push_back(pool_of(*pool));
    }
  }
  return pools;
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
      for (int s = 0; s <= static_cast<int>(ClaimState::kFailed); ++s) by_state[std::string(name_of(static_cast<ClaimState>(s)))] = 0;
      for (const auto& [name, pool] : t.pools) by_pool[name] = 0;
      for (const auto& [name, c] : t.claims) {
        ++by_state[std::string(name_of(c.state))];
        const auto* type = engine_of(shell).type(c.type);
        if (!c.pool.empty() && type != nullptr && c.state != ClaimState::kGone && c.state != ClaimState::kFailed) {
          by_pool[c.pool] += static_cast<double>(type->gpus);
        }
      }
      for (const auto& [state, n] : by_state) registry.gauge("qm_autoscaler_claims", "NodeClaims and instances by state", {{"state", state}}).set(n);
      for (const auto& [pool, n] : by_pool) registry.gauge("qm_autoscaler_pool_gpus", "GPUs of a pool's machines", {{"nodepool", pool}}).set(n);
      registry.gauge("qm_autoscaler_demand", "Gangs that have quota and no room").set(static_cast<double>(t.demand.size()));
      double open = 0;
      for (const auto& [id, order] : t.orders) open += order.outcome.empty() ? 1 : 0;
      registry.gauge("qm_autoscaler_checkpoint_orders_open", "Checkpoint orders that are not settled").set(open);
    });
  });
}

}  // namespace qm::autoscaler
