// The answers of ExplainCapacity and SimulateCapacity.
#include "qm/autoscaler/api.hpp"
#include "qm/autoscaler/shell.hpp"
#include "qm/autoscaler/what_if.hpp"
#include "qm/config/manifest.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::autoscaler {
namespace {

namespace pb = quartermaster::v1;

constexpr std::int32_t kMostCandidates = 500;
constexpr std::int64_t kPermille = 1000;
constexpr std::int32_t kMostPods = 100'000;

void write(const PodSet& set, std::int32_t room, pb::CapacityRequest& out) {
  out.set_pod_set(set.name);
  out.set_count(set.count);
  out.set_in_room(room);
  out.set_cpu_milli(set.shape.cpu_milli);
  out.set_memory_bytes(set.shape.memory_bytes);
  out.set_gpu_milli(set.shape.gpu.milli > 0 ? set.shape.gpu.milli : set.shape.gpu.whole * kPermille);
}

void write(const CapacityCandidate& from, pb::CapacityCandidate& out) {
  out.set_node_pool(from.pool);
  out.set_instance_type(from.type);
  out.set_zone(from.zone);
  if (!from.type.empty()) out.set_capacity_type(std::string(name_of(from.market)));
  out.set_nodes(from.nodes);
  out.set_node_nano_usd_hour(from.node_per_hour.nano());
  out.set_nano_usd_hour(from.per_hour.nano());
  out.set_reason(std::string(name_of(from.rejection)));
  out.set_message(from.why);
}

void write(const CapacityDecision& from, const Engine& engine, const rpc::Caller& caller, pb::CapacityDecision& out) {
  out.set_uid(from.item.id.uid.value());
  out.set_attempt(from.item.id.attempt);
  out.set_workload(from.title);
  out.set_priority(from.item.priority);
  out.set_since_us(micros(from.item.since));
  for (std::size_t i = 0; i < from.item.pod_sets.size(); ++i)
    write(from.item.pod_sets[i], i < from.item.room.size() ? from.item.room[i] : 0, *out.add_requests());
  out.set_pods(from.pods);
  out.set_pods_in_room(from.in_room);
  out.set_room_zone(from.item.room_zone);
  out.set_outcome(from.outcome);
  for (const auto& name : from.claims) {
    if (const Claim* claim = engine.tables().claims.find(name))
      *out.add_claims() = claim_for(name, *claim, engine, caller);
  }
  out.set_bound_nano_usd_hour(from.bound.per_hour.nano());
  out.set_bound_by(from.bound.by);
  for (const auto& candidate : from.candidates) write(candidate, *out.add_candidates());
  for (const auto& [rejection, count] : from.counts) (*out.mutable_counts())[std::string(name_of(rejection))] = count;
}

/// The workload of the name: its uid, NAMESPACE/NAME, or a pod by the name of its workload.
struct Found {
  WorkloadUid uid;
  std::string note;
};
std::optional<Found> find_workload(const Engine& engine, const std::string& name, const rpc::Caller& caller) {
  const auto seen = [&](const WorkloadUid& uid) { return caller.sees(engine.namespace_of(uid)); };
  const Tables& t = engine.tables();
  if (const WorkloadUid uid(name); (t.demand.contains(uid) || t.workloads.contains(uid)) && seen(uid))
    return Found{uid, {}};
  const auto slash = name.find('/');
  if (slash == std::string::npos) return std::nullopt;
  const std::string ns = name.substr(0, slash), own = name.substr(slash + 1);
  std::optional<Found> pod_of;
  std::size_t longest = 0;
  for (const auto& [uid, row] : t.workloads) {
    if (row.ns != ns || !seen(uid)) continue;
    if (row.name == own) return Found{uid, {}};
    // Controllers name a pod after their object.
    if (row.name.size() > longest && own.starts_with(row.name + "-")) {
      longest = row.name.size();
      pod_of = Found{uid, fmt::format("pod {} belongs to {}/{}, by its name", name, row.ns, row.name)};
    }
  }
  return pod_of;
}

std::string as_of_launch(const std::string& claim) {
  return fmt::format(
      "its workload is not on the demand list any more; qm-replay --service autoscaler --why {} shows the candidates of "
      "the launch, from the journal",
      claim);
}

Result<std::int32_t> candidates_of(std::int32_t requested) {
  if (requested == 0) return static_cast<std::int32_t>(kCandidatesListed);
  if (requested > 0 && requested <= kMostCandidates) return requested;
  return fail({Code::kInvalid, fmt::format("{} candidates are out of range", requested), "candidates",
               fmt::format("use 1 to {}", kMostCandidates)});
}

std::optional<Market> market_of(const std::string& word) {
  if (word == name_of(Market::kSpot)) return Market::kSpot;
  if (word == name_of(Market::kOnDemand)) return Market::kOnDemand;
  return std::nullopt;
}

Status check_market(const std::string& word) {
  if (word.empty() || market_of(word)) return {};
  return fail({Code::kInvalid, fmt::format("\"{}\" is not a capacity type", word), "capacity_type",
               "use spot or on-demand, or leave it out for both"});
}

/// What the shell learned about a NodePool from other objects stays with its changed form.
void carry_over(const Pool& known, Pool& changed) {
  auto& to = changed.lifecycle;
  to.images = known.lifecycle.images;
  to.subnets = known.lifecycle.subnets;
  to.security_groups = known.lifecycle.security_groups;
  changed.expander_priority = known.expander_priority;
  changed.node_resources = known.node_resources;
  changed.unready_after = known.unready_after;
}

Status read_pools(const pb::SimulateCapacityRequest& request, const Tables& tables, WhatIf& out,
                  std::vector<std::string>& warnings) {
  if (request.manifest().empty()) return {};
  const auto loaded = config::load_text(request.manifest(), request.source());
  QM_TRY(config::accept(loaded, config::UnknownFields::kWarn));
  for (const auto& diagnostic : loaded.diagnostics) warnings.push_back(diagnostic.to_string());
  for (const auto& object : loaded.objects) {
    const auto* pool = std::get_if<config::NodePool>(&object.typed);
    if (pool == nullptr) {
      return fail({Code::kInvalid,
                   fmt::format("{}:{}: a simulation of capacity reads NodePools, not {}", object.document.file,
                               object.document.line, object.document.kind),
                   "manifest", "give NodePools; add demand with --demand"});
    }
    Pool& changed = out.pools.emplace_back(pool_from(*pool));
    changed.manual = is_sized_manually(object.document.content);
    if (const Pool* known = tables.pools.find(changed.name)) carry_over(*known, changed);
  }
  return {};
}

Status read_prices(const pb::SimulateCapacityRequest& request, WhatIf& out) {
  for (const auto& from : request.prices()) {
    QM_TRY(check_market(from.capacity_type()));
    if ((from.has_nano_usd_hour() && from.nano_usd_hour() < 0) || from.permille() < 0) {
      return fail({Code::kInvalid, fmt::format("the price of {} is negative", from.instance_type()), "prices",
                   "use a price in USD per hour, or a change such as +20%"});
    }
    WhatIf::Price& price = out.prices.emplace_back();
    price.type = from.instance_type();
    price.market = market_of(from.capacity_type());
    price.zone = from.zone();
    if (from.has_nano_usd_hour()) price.per_hour = Money::nano(from.nano_usd_hour());
    price.permille = from.permille();
  }
  for (const auto& from : request.availability()) {
    QM_TRY(check_market(from.capacity_type()));
    out.availability.push_back({from.instance_type(), market_of(from.capacity_type()), from.zone(), from.available()});
  }
  return {};
}

Status read_demand(const pb::SimulateCapacityRequest& request, const Engine& engine, Instant now,
                   const rpc::Caller& caller, WhatIf& out) {
  for (const auto& from : request.demand()) {
    if (from.pods() <= 0 || from.pods() > kMostPods || from.gpus() < 0 || from.cpu_milli() < 0 ||
        from.memory_bytes() < 0) {
      return fail({Code::kInvalid, fmt::format("a demand of {} pods with {} GPUs", from.pods(), from.gpus()), "demand",
                   fmt::format("use 1 to {} pods, and requests that are not negative", kMostPods)});
    }
    DemandUpdated::Item& item = out.demand.emplace_back();
    item.id = {WorkloadUid(fmt::format("simulated/{}", out.demand.size())), 1};
    item.priority = from.priority();
    item.since = now;
    PodSet& set = item.pod_sets.emplace_back();
    set.name = "main";
    set.count = from.pods();
    set.shape.gpu.whole = from.gpus();
    if (!from.gpu_model().empty()) set.shape.gpu.models = {from.gpu_model()};
    set.shape.cpu_milli = from.cpu_milli();
    set.shape.memory_bytes = from.memory_bytes();
    for (const auto& [key, value] : from.node_selector()) set.shape.node_selector[key] = value;
    // As a submitted Job with GPUs has it.
    if (from.gpus() > 0) set.shape.tolerations = {{std::string(words::kGpuResource), "Exists", {}, {}}};
  }
  for (const auto& name : request.removed()) {
    const auto found = find_workload(engine, name, caller);
    if (!found || !engine.tables().demand.contains(found->uid)) {
      return fail({Code::kNotFound, fmt::format("no pending workload has the name {}", name), "removed",
                   "qmctl capacity plan lists the pending workloads"});
    }
    out.removed.push_back(found->uid);
  }
  return {};
}

void write(const SimulatedPlan& from, const Engine& engine, const rpc::Caller& caller, pb::SimulatedPlan& out) {
  for (const auto& launch : from.launches) {
    const auto& uid = launch.row.for_uid;
    const bool simulated = uid.value().starts_with("simulated/");
    if (!caller.everything && !simulated && !caller.sees(engine.namespace_of(uid))) {
      out.set_hidden(out.hidden() + 1);
      continue;
    }
    auto& one = *out.add_launches();
    one.set_claim(launch.claim.value());
    one.set_node_pool(launch.row.pool);
    one.set_instance_type(launch.row.type);
    one.set_capacity_type(std::string(name_of(launch.row.market)));
    one.set_zone(launch.row.zone);
    one.set_nano_usd_hour(launch.per_hour.nano());
    one.set_workload(launch.title);
    one.set_other_owner(launch.other_owner);
    one.set_reason(launch.row.reason);
  }
  for (const auto& decision : from.unmet) {
    const bool simulated = decision.item.id.uid.value().starts_with("simulated/");
    if (simulated || caller.sees(engine.namespace_of(decision.item.id.uid)))
      write(decision, engine, caller, *out.add_unmet());
  }
  out.set_nano_usd_hour(from.per_hour.nano());
  out.set_bound_nano_usd_hour(from.bound.per_hour.nano());
  out.set_bound_by(from.bound.by);
  out.set_gpus(from.gpus);
  out.set_pods(from.pods);
  out.set_pods_in_room(from.in_room);
  out.set_starting(from.starting);
  out.set_starting_nano_usd_hour(from.starting_per_hour.nano());
}

bool is_change(const pb::SimulateCapacityRequest& request) {
  return !request.manifest().empty() || request.deleted_size() + request.prices_size() + request.demand_size() +
                                                request.removed_size() + request.availability_size() >
                                            0;
}

}  // namespace

Result<WhatIf> what_if_from(const pb::SimulateCapacityRequest& request, const Tables& tables,
                            std::vector<std::string>& warnings) {
  WhatIf out;
  QM_TRY(read_pools(request, tables, out, warnings));
  QM_TRY(read_prices(request, out));
  for (const auto& name : request.deleted()) out.deleted_pools.push_back(name);
  return out;
}

Result<pb::ExplainCapacityResponse> explanation_for(const Engine& engine, Instant now,
                                                    const pb::ExplainCapacityRequest& request,
                                                    const rpc::Caller& caller) {
  QM_ASSIGN(const auto listed, candidates_of(request.candidates()));
  pb::ExplainCapacityResponse out;
  out.set_as_of_us(micros(now));
  const Tables& t = engine.tables();
  const ClaimName claim_name(request.name());
  const Claim* claim = t.claims.find(claim_name);
  std::optional<Found> found;
  if (claim != nullptr && !claim->for_uid.empty() && caller.sees(engine.namespace_of(claim->for_uid))) {
    found = Found{claim->for_uid, {}};
  } else if (claim == nullptr) {
    found = find_workload(engine, request.name(), caller);
  }
  if (claim == nullptr && !found) {
    return fail({Code::kNotFound, fmt::format("no pending workload, pod or NodeClaim has the name {}", request.name()),
                 "name",
                 "qmctl capacity plan lists the pending workloads, qmctl claims the NodeClaims; a pod without a known "
                 "workload is found by its uid"});
  }
  if (found) {
    out.set_note(found->note);
    if (const auto decision = engine.decision(found->uid, now, static_cast<std::size_t>(listed))) {
      write(*decision, engine, caller, *out.add_decisions());
      return out;
    }
  }
  for (const auto& [name, row] : t.claims) {
    const bool own = claim != nullptr ? name == claim_name : found && row.for_uid == found->uid;
    if (own) *out.add_claims() = claim_for(name, row, engine, caller);
  }
  if (!out.claims().empty() && (claim == nullptr || !claim->for_uid.empty())) {
    out.set_note(as_of_launch(out.claims(0).claim()));
  } else if (out.claims().empty()) {
    out.set_note(fmt::format("{}{}it is not on the demand list: it has a place, or it has no quota yet; see qmctl why",
                             out.note(), out.note().empty() ? "" : "; "));
  }
  return out;
}

Result<pb::SimulateCapacityResponse> simulation_for(const Engine& engine, Instant now,
                                                    const pb::SimulateCapacityRequest& request,
                                                    const rpc::Caller& caller) {
  pb::SimulateCapacityResponse out;
  out.set_as_of_us(micros(now));
  if (is_change(request) && !caller.everything) {
    return fail({Code::kPermissionDenied,
                 "a simulated change shows demand of all tenants",
                 {},
                 "ask an operator or auditor; qmctl capacity plan shows the plan of your own workloads"});
  }
  QM_ASSIGN(const auto present, simulate(engine, {}, now));
  write(present, engine, caller, *out.mutable_present());
  if (!is_change(request)) return out;
  std::vector<std::string> warnings;
  QM_ASSIGN(auto change, what_if_from(request, engine.tables(), warnings));
  for (auto& warning : warnings) out.add_warnings(std::move(warning));
  QM_TRY(read_demand(request, engine, now, caller, change));
  QM_ASSIGN(const auto changed, simulate(engine, change, now));
  write(changed, engine, caller, *out.mutable_changed());
  return out;
}

}  // namespace qm::autoscaler
