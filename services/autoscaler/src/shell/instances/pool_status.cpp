#include "qm/autoscaler/pool_status.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::autoscaler {
namespace {

constexpr std::int32_t kUnhealthyLaunches = 2;

Condition verdict(const std::string& type, const std::string& fault, const char* reason) {
  return fault.empty() ? Condition{type, "True", type, ""} : Condition{type, "False", reason, fault};
}

Condition registration_of(const Tables& t, const Pool& pool) {
  const std::string type = "NodeRegistrationHealthy";
  for (const auto& [key, fault] : t.launch_faults) {
    const bool of_pool = std::ranges::find(pool.instance_types, key.first) != pool.instance_types.end();
    if (of_pool && fault.count >= kUnhealthyLaunches)
      return {type, "False", "RegistrationFailed", fmt::format("{}: {}", key.first, fault.reason)};
  }
  const bool registered = std::ranges::any_of(t.claims.rows(), [&](const auto& entry) {
    return entry.second.pool == pool.name && entry.second.life.initialized;
  });
  return registered ? Condition{type, "True", type, ""}
                    : Condition{type, "Unknown", "AwaitingReconciliation", "object is awaiting reconciliation"};
}

Json resources_of(const Engine& engine, const Pool& pool) {
  std::int64_t nodes = 0, cpu_milli = 0, memory = 0, gpus = 0;
  for (const auto& [name, c] : engine.tables().claims) {
    const InstanceType* type = engine.type(c.type);
    const bool counts = c.pool == pool.name && c.state != ClaimState::kGone && c.state != ClaimState::kFailed;
    if (!counts || type == nullptr) continue;
    ++nodes;
    cpu_milli += type->cpu_milli + type->reserved_cpu_milli;
    memory += type->memory_bytes + type->reserved_memory_bytes;
    gpus += type->gpus;
  }
  Json out = Json::object({{"nodes", fmt::format("{}", nodes)},
                           {"cpu", fmt::format("{}m", cpu_milli)},
                           {"memory", fmt::format("{}", memory)}});
  if (gpus > 0) out.set(words::kGpuResource, fmt::format("{}", gpus));
  return out;
}

}  // namespace

std::vector<Condition> pool_conditions(const Tables& tables, const Pool& pool, const PoolFaults& faults) {
  std::vector<Condition> out{verdict("ValidationSucceeded", faults.validation, "NodePoolValidationFailed"),
                             verdict("NodeClassReady", faults.node_class, "NodeClassNotReady")};
  std::string missing;
  for (const Condition& one : out) {
    if (one.status != "True") missing += fmt::format("{}{}={}", missing.empty() ? "" : ", ", one.type, one.status);
  }
  out.push_back(verdict("Ready", missing, "UnhealthyDependents"));
  out.push_back(registration_of(tables, pool));
  return out;
}

PoolStatus::PoolStatus(kube::Client& client, const DomainClock& clock)
    : status_(
          client,
          [&client] {
            return client.locate("karpenter.sh", "nodepools", {"v1", "v1beta1"});
          },
          clock) {}

std::map<std::string, PoolStatus::Status> PoolStatus::status_of(const Engine& engine,
                                                                const std::map<std::string, PoolFaults>& faults) {
  std::map<std::string, Status> out;
  for (const auto& [name, fault] : faults) {
    const Pool* pool = engine.tables().pools.find(name);
    if (pool != nullptr) out[name] = {pool_conditions(engine.tables(), *pool, fault), resources_of(engine, *pool)};
  }
  return out;
}

void PoolStatus::write(const std::map<std::string, Status>& status) {
  std::set<ConditionWriter::Key> keys;
  for (const auto& [name, one] : status) {
    keys.insert({"", name});
    status_.write({"", name}, one.conditions, Json::object({{"resources", one.resources}}));
  }
  status_.forget_others(keys);
}

}  // namespace qm::autoscaler
