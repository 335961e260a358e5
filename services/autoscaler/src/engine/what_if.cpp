// What-if: the engine itself, on a copy of its rows.
#include "qm/autoscaler/what_if.hpp"

#include "offers/offer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace qm::autoscaler {
namespace {

constexpr std::int64_t kPermille = 1000;
constexpr std::chrono::hours kOut{24 * 365};  // an offering that a change makes unavailable

Error unknown_type(const std::string& type) {
  return {Code::kInvalid, fmt::format("instance type {} is not in the price catalog", type), "type",
          "use a type of a NodePool; qmctl prices lists those with a price"};
}

Money scaled(Money price, std::int64_t permille) {
  return Money::nano(static_cast<std::int64_t>(static_cast<double>(price.nano()) * static_cast<double>(permille) /
                                               static_cast<double>(kPermille)));
}

Status apply_price(const WhatIf::Price& change, std::vector<InstanceType>& catalog, Tables& tables, Instant now) {
  const auto type = std::ranges::find(catalog, change.type, &InstanceType::name);
  if (type == catalog.end()) return fail(unknown_type(change.type));
  const auto changed = [&](Money price) { return change.per_hour ? *change.per_hour : scaled(price, change.permille); };
  if (change.market != Market::kSpot) type->on_demand.per_hour = changed(type->on_demand.per_hour);
  if (change.market == Market::kOnDemand) return {};
  std::vector<std::pair<std::string, std::string>> keys;
  for (const auto& [key, row] : tables.spot_prices) {
    if (key.first == change.type && (change.zone.empty() || key.second == change.zone)) keys.push_back(key);
  }
  if (keys.empty() && !change.zone.empty() && change.per_hour) keys.emplace_back(change.type, change.zone);
  if (keys.empty() && change.market == Market::kSpot) {
    return fail({Code::kInvalid,
                 fmt::format("no spot price of {}{} is known", change.type,
                             change.zone.empty() ? "" : " in zone " + change.zone),
                 "price", "give a zone and a price in USD per hour"});
  }
  for (const auto& key : keys) {
    const PriceRow* known = tables.spot_prices.find(key);
    tables.spot_prices.restore(key, {HourlyRate{changed(known == nullptr ? Money{} : known->rate.per_hour)}, now});
  }
  return {};
}

Status apply_availability(const WhatIf::Availability& change, const std::vector<InstanceType>& catalog, Tables& tables,
                          Instant now) {
  if (std::ranges::find(catalog, change.type, &InstanceType::name) == catalog.end())
    return fail(unknown_type(change.type));
  for (const Market market : {Market::kOnDemand, Market::kSpot}) {
    if (change.market && *change.market != market) continue;
    if (!change.available) {
      Outage outage;
      outage.last = now;
      outage.until = now + kOut;
      std::vector<std::string> groups{""};
      for (const auto& [name, pool] : tables.pools) {
        if (!pool.group.empty()) groups.push_back(pool.group);
      }
      for (const auto& group : groups)
        tables.blocked.restore({change.type, change.zone.empty() ? "*" : change.zone, market, group}, outage);
      continue;
    }
    std::vector<Offering> open;
    for (const auto& [offering, outage] : tables.blocked) {
      const bool zone = change.zone.empty() || offering.zone == change.zone || offering.zone == "*";
      const bool type = offering.type == change.type || offering.type == "*";
      if (type && zone && offering.market == market) open.push_back(offering);
    }
    for (const auto& offering : open) tables.blocked.restore(offering, Outage{});
  }
  return {};
}

Status apply_pools(const WhatIf& change, Tables& tables) {
  for (const Pool& pool : change.pools) tables.pools.restore(pool.name, pool);
  for (const auto& name : change.deleted_pools) {
    if (!tables.pools.contains(name)) {
      return fail({Code::kInvalid, fmt::format("NodePool {} does not exist", name), "deleted",
                   "use a name that qmctl pool show lists"});
    }
    tables.pools.erase(name);
  }
  tables.pools.commit();
  return {};
}

std::unique_ptr<Engine> made(std::vector<InstanceType> catalog, const Options& options, Tables tables) {
  auto out = std::make_unique<Engine>(std::move(catalog), options);
  out->mutable_tables() = std::move(tables);
  return out;
}

std::vector<InstanceType> types_of(const Engine& engine) {
  std::vector<InstanceType> out;
  for (const auto& [name, type] : engine.catalog()) out.push_back(type);
  return out;
}

/// The controller that launches nodes for the namespace, if it is another one.
std::string other_owner(const Table<std::string, OwnerRow>& owners, const std::string& ns) {
  const OwnerRow* row = owners.find(ns);
  if (row == nullptr) row = owners.find("");
  return row == nullptr || row->ours ? std::string() : row->owner;
}

std::string title_of(const Tables& tables, const DemandUpdated::Item& item) {
  const WorkloadRow* row = tables.workloads.find(item.id.uid);
  return row == nullptr || row->name.empty() ? item.id.to_string() : row->ns + "/" + row->name;
}

/// The price that was assumed for the instance.
Money price_of(const Engine& engine, const Claim& claim) {
  const auto type = engine.catalog().find(claim.type);
  const PriceRow* spot =
      claim.market == Market::kSpot ? engine.tables().spot_prices.find({claim.type, claim.zone}) : nullptr;
  if (spot != nullptr) return spot->rate.per_hour;
  return type == engine.catalog().end() ? Money{} : type->second.on_demand.per_hour;
}

}  // namespace

std::unique_ptr<Engine> copy_of(const Engine& engine) {
  return made(types_of(engine), engine.options(), engine.tables());
}

Result<std::unique_ptr<Engine>> copy_with(const Engine& engine, const WhatIf& change, Instant now) {
  auto catalog = types_of(engine);
  Tables tables = engine.tables();
  QM_TRY(apply_pools(change, tables));
  for (const auto& price : change.prices) QM_TRY(apply_price(price, catalog, tables, now));
  for (const auto& one : change.availability) QM_TRY(apply_availability(one, catalog, tables, now));
  return made(std::move(catalog), engine.options(), std::move(tables));
}

Result<SimulatedPlan> simulate(const Engine& engine, const WhatIf& change, Instant now) {
  QM_ASSIGN(const auto copy, copy_with(engine, change, now));
  Tables& tables = copy->mutable_tables();
  const auto owners = tables.owners;
  for (const auto& uid : change.removed) {
    if (!tables.demand.contains(uid)) {
      return fail({Code::kInvalid, fmt::format("workload {} is not on the demand list", uid), "removed",
                   "qmctl capacity plan lists the pending workloads"});
    }
    tables.demand.erase(uid);
  }
  for (const auto& item : change.demand) tables.demand.restore(item.id.uid, item);
  tables.demand.commit();
  tables.owners.clear();

  SimulatedPlan out;
  std::vector<PodSet> pending;
  for (const auto& [uid, item] : tables.demand) {
    for (std::size_t i = 0; i < item.pod_sets.size(); ++i) {
      PodSet set = item.pod_sets[i];
      const std::int32_t room = i < item.room.size() ? std::min(item.room[i], set.count) : 0;
      out.pods += set.count;
      out.in_room += room;
      set.count -= room;
      pending.push_back(std::move(set));
    }
  }
  for (const auto& [name, claim] : tables.claims) {
    const bool starts = claim.state == ClaimState::kRequested || claim.state == ClaimState::kLaunched;
    if (!starts || !tables.demand.contains(claim.for_uid)) continue;
    ++out.starting;
    out.starting_per_hour += price_of(*copy, claim);
  }
  std::set<ClaimName> launched;
  const std::vector<Command> tick{Tick{}};
  for (int step = 0; step < kMostSteps; ++step) {
    const auto output = copy->step(tick, now + std::chrono::seconds(step));
    copy->commit();
    const auto before = launched.size();
    for (const auto& event : output.instances) {
      if (event.row.state == ClaimState::kRequested && !engine.tables().claims.contains(event.claim))
        launched.insert(event.claim);
    }
    if (launched.size() == before) break;
  }
  out.bound = copy->bound(pending);
  for (const auto& name : launched) {
    const Claim* claim = tables.claims.find(name);
    if (claim == nullptr || claim->state != ClaimState::kRequested) continue;
    SimulatedPlan::Launch one{name, *claim, price_of(*copy, *claim), {}, {}};
    if (const auto* item = tables.demand.find(claim->for_uid)) {
      one.title = title_of(tables, *item);
      one.other_owner = other_owner(owners, copy->namespace_of(claim->for_uid));
    }
    out.per_hour += one.per_hour;
    if (const auto* type = copy->type(claim->type)) out.gpus += type->gpus;
    out.launches.push_back(std::move(one));
  }
  for (const auto& [uid, item] : tables.demand) {
    const Plan* plan = tables.plans.find(uid);
    if (plan != nullptr && plan->promised_attempt > 0) continue;
    if (auto decision = copy->decision(uid, now)) out.unmet.push_back(std::move(*decision));
  }
  return out;
}

}  // namespace qm::autoscaler
