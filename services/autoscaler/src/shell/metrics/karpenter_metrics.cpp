// NodeClaims, NodePools and disruptions under the names of Karpenter.
#include "qm/autoscaler/metrics/karpenter_metrics.hpp"

#include "qm/autoscaler/disrupt/disrupt.hpp"

#include <algorithm>
#include <cctype>

namespace qm::autoscaler {
namespace {

constexpr double kMilliPerCore = 1000;

/// "SpotInterruption" -> "spot_interruption".
std::string snake(const std::string& word) {
  std::string out;
  for (const char c : word) {
    if (std::isupper(static_cast<unsigned char>(c)) != 0 && !out.empty()) out += '_';
    out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

bool is_word(const std::string& text) {
  return !text.empty() && std::isupper(static_cast<unsigned char>(text[0])) != 0 &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) != 0; });
}

/// Why the claim ended, in one word.
std::string end_of(const Claim& c) {
  if (c.state == ClaimState::kFailed || c.instance.empty()) return "ProvisioningFailed";
  if (c.interrupted) return "SpotInterruption";
  if (c.rolled_back) return "GangRolledBack";
  if (!c.life.disruption.empty()) return c.life.disruption;
  return is_word(c.reason) ? c.reason : "Terminated";
}

void append(std::vector<metrics::Family>& out, metrics::Family::Kind kind, const std::string& name,
            const std::string& help, const std::map<metrics::Labels, double>& values) {
  metrics::Family& family = out.emplace_back(metrics::Family{name, help, kind, {}});
  for (const auto& [labels, value] : values) family.series.push_back({labels, value});
}

/// Limits and usage of a pool by resource, in Karpenter's units.
std::map<std::string, double> limits_of(const Pool& pool) {
  std::map<std::string, double> out;
  const auto limit = [&](const std::string& resource, std::int64_t amount, double unit) {
    if (amount >= 0) out[resource] = static_cast<double>(amount) / unit;
  };
  limit(std::string(words::kGpuResource), pool.limit_gpus, 1);
  limit("cpu", pool.limit_cpu_milli, kMilliPerCore);
  limit("memory", pool.limit_memory_bytes, 1);
  limit("nodes", pool.limit_nodes, 1);
  for (const auto& [resource, amount] : pool.other_limits) limit(resource, amount, 1);
  return out;
}

void add_usage(const InstanceType& type, const Pool* pool, std::map<std::string, double>& out) {
  out[std::string(words::kGpuResource)] += static_cast<double>(type.gpus);
  out["cpu"] += static_cast<double>(type.cpu_milli + type.reserved_cpu_milli) / kMilliPerCore;
  out["memory"] += static_cast<double>(type.memory_bytes + type.reserved_memory_bytes);
  out["nodes"] += 1;
  for (const auto& [resource, amount] : type.extended) {
    if (pool != nullptr && pool->other_limits.contains(resource)) out[resource] += static_cast<double>(amount);
  }
}

void append_pools(const Engine& engine, std::vector<metrics::Family>& out) {
  std::map<metrics::Labels, double> limits, usage;
  std::map<std::string, std::map<std::string, double>> used;
  const auto& t = engine.tables();
  for (const auto& [name, pool] : t.pools) {
    auto& own = used[name];
    for (const auto* resource : {"cpu", "memory", "nodes", words::kGpuResource.data()}) own[resource] = 0;
    for (const auto& [resource, value] : limits_of(pool)) {
      own[resource] = 0;
      limits[{{"nodepool", name}, {"resource_type", resource}}] = value;
    }
  }
  for (const auto& [name, c] : t.claims) {
    const InstanceType* type = engine.type(c.type);
    if (c.pool.empty() || type == nullptr || c.state == ClaimState::kGone || c.state == ClaimState::kFailed) continue;
    add_usage(*type, t.pools.find(c.pool), used[c.pool]);
  }
  for (const auto& [name, resources] : used) {
    for (const auto& [resource, value] : resources) usage[{{"nodepool", name}, {"resource_type", resource}}] = value;
  }
  for (const auto* name : {"karpenter_nodepools_limit", "karpenter_nodepool_limit"})
    append(out, metrics::Family::Kind::kGauge, name, "Limit of a NodePool (spec.limits), by resource", limits);
  for (const auto* name : {"karpenter_nodepools_usage", "karpenter_nodepool_usage"})
    append(out, metrics::Family::Kind::kGauge, name, "Resources of the instances of a NodePool", usage);
}

}  // namespace

KarpenterMetrics::Seen KarpenterMetrics::seen_of(const Claim& c) {
  Seen out{c.pool, std::string(name_of(c.market)), c.zone, false, false, false, false, {}};
  const bool served = c.state == ClaimState::kReady || c.state == ClaimState::kDraining;
  out.launched = !c.instance.empty();
  out.initialized = c.life.initialized;
  out.registered = served || out.initialized;
  out.terminated = c.state == ClaimState::kGone || c.state == ClaimState::kFailed;
  out.disruption = c.life.disruption;
  // An instance that is drained because nothing needs it.
  if (out.disruption.empty() && c.state == ClaimState::kDraining && c.reason == name_of(DisruptionCause::kEmpty))
    out.disruption = c.reason;
  return out;
}

KarpenterMetrics::KarpenterMetrics(const Engine& engine) {
  for (const auto& [name, claim] : engine.tables().claims) seen_.emplace(name, seen_of(claim));
}

void KarpenterMetrics::count_disruption(const Claim& c, const Seen& now) {
  const std::string decision = c.life.replaced_by.empty() ? "delete" : "replace";
  const std::string reason = snake(now.disruption);
  disrupted_[{{"nodepool", now.pool}, {"capacity_type", now.market}, {"reason", reason}}] += 1;
  for (const DisruptionCause cause : {DisruptionCause::kExpired, DisruptionCause::kUnhealthy}) {
    if (now.disruption == name_of(cause)) return;  // it is not voluntary
  }
  decisions_[{{"decision", decision}, {"reason", reason}, {"consolidation_type", ""}}] += 1;
  actions_[{{"action", decision}, {"method", reason}, {"consolidation_type", ""}}] += 1;
}

void KarpenterMetrics::count(const Engine& engine) {
  const auto pool_only = [](const Seen& seen) { return metrics::Labels{{"nodepool", seen.pool}}; };
  const auto& claims = engine.tables().claims;
  for (const auto& [name, pool] : engine.tables().pools) {  // so that a rate exists before the first event
    const metrics::Labels labels{{"nodepool", name}};
    for (auto* counts : {&launched_, &registered_, &initialized_}) counts->try_emplace(labels, 0);
  }
  for (const auto& [name, c] : claims) {
    if (c.pool.empty()) continue;
    const auto [at, fresh] = seen_.try_emplace(name);
    Seen now = seen_of(c);
    const Seen& before = at->second;
    // A claim that went on stays launched, registered and initialized.
    now.launched |= before.launched, now.registered |= before.registered, now.initialized |= before.initialized;
    now.terminated |= before.terminated;
    if (fresh) {
      const auto replaced = claims.find(c.life.replaces);
      const std::string reason = replaced == nullptr ? "provisioned" : snake(replaced->life.disruption);
      created_[{{"reason", reason}, {"nodepool", now.pool}, {"min_values_relaxed", "false"}}] += 1;
    }
    if (now.launched && !before.launched) launched_[pool_only(now)] += 1;
    if (now.registered && !before.registered) registered_[pool_only(now)] += 1;
    if (now.initialized && !before.initialized) initialized_[pool_only(now)] += 1;
    if (!now.disruption.empty() && now.disruption != before.disruption) count_disruption(c, now);
    if (now.terminated && !before.terminated) {
      terminated_[{{"nodepool", now.pool}, {"capacity_type", now.market}, {"zone", now.zone}, {"reason", end_of(c)}}] +=
          1;
    }
    at->second = std::move(now);
  }
  std::erase_if(seen_, [&](const auto& entry) { return !claims.contains(entry.first); });
}

std::vector<metrics::Family> KarpenterMetrics::families(const Engine& engine) {
  std::vector<metrics::Family> out;
  const std::scoped_lock lock(mutex_);
  count(engine);
  const auto counter = [&](const char* name, const char* help, const Counts& counts) {
    append(out, metrics::Family::Kind::kCounter, name, help, counts);
  };
  counter("karpenter_nodeclaims_created_total", "NodeClaims that were created", created_);
  counter("karpenter_nodeclaims_launched_total", "NodeClaims whose launch the cloud accepted", launched_);
  counter("karpenter_nodeclaims_registered_total", "NodeClaims whose node joined", registered_);
  counter("karpenter_nodeclaims_initialized_total", "NodeClaims whose node became usable", initialized_);
  counter("karpenter_nodeclaims_terminated_total", "NodeClaims that ended, also those that did not start", terminated_);
  counter("karpenter_nodeclaims_disrupted_total", "NodeClaims that were disrupted, by reason", disrupted_);
  counter("karpenter_voluntary_disruption_decisions_total", "Voluntary disruptions that were started", decisions_);
  counter("karpenter_disruption_actions_performed_total", "Voluntary disruptions that were started", actions_);
  std::map<metrics::Labels, double> eligible;
  for (const auto& [reason, nodes] : engine.eligible_nodes(engine.now()))
    eligible[{{"reason", reason}}] = static_cast<double>(nodes);
  append(out, metrics::Family::Kind::kGauge, "karpenter_voluntary_disruption_eligible_nodes",
         "Nodes that have a reason for a voluntary disruption, held or not", eligible);
  append_pools(engine, out);
  return out;
}

}  // namespace qm::autoscaler
