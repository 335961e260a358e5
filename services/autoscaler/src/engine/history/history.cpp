// The engine through a recorded time: the same decisions, with a simulated cloud.
#include "qm/autoscaler/history/history.hpp"

#include "history/fleet_model.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::autoscaler {
namespace {

constexpr std::int64_t kPermille = 1000;
constexpr std::int64_t kMostDemand = 100 * kPermille;

/// The NodePools of the recorded time with the change, without what the simulated cloud does not have.
PoolsApplied changed_pools(const PoolsApplied& recorded, const WhatIf& change) {
  std::map<std::string, Pool> pools;
  for (const Pool& pool : recorded.pools) pools.emplace(pool.name, pool);
  for (const Pool& pool : change.pools) pools.insert_or_assign(pool.name, pool);
  for (const auto& name : change.deleted_pools) pools.erase(name);
  PoolsApplied out;
  for (auto& [name, pool] : pools) {
    pool.group.clear();
    auto& life = pool.lifecycle;
    life.expire_after.reset();
    life.template_hash.clear();
    life.images.clear(), life.subnets.clear(), life.security_groups.clear();
    out.pools.push_back(std::move(pool));
  }
  return out;
}

Money changed_price(const WhatIf& change, const SpotPricesUpdated::Quote& quote) {
  Money out = quote.rate.per_hour;
  for (const auto& price : change.prices) {
    const bool same = price.type == quote.type && (price.zone.empty() || price.zone == quote.zone);
    if (!same || price.market == Market::kOnDemand) continue;
    out = price.per_hour ? *price.per_hour : Money::nano(out.nano() / kPermille * price.permille);
  }
  return out;
}

Command changed(const Command& command, const WhatIf& change) {
  if (const auto* pools = std::get_if<PoolsApplied>(&command)) return changed_pools(*pools, change);
  const auto* prices = std::get_if<SpotPricesUpdated>(&command);
  if (prices == nullptr) return command;
  SpotPricesUpdated out = *prices;
  for (auto& quote : out.quotes) quote.rate.per_hour = changed_price(change, quote);
  return out;
}

/// The jobs, each as often as the change wants it.
std::vector<History::Job> changed_jobs(const std::vector<History::Job>& jobs, std::int64_t permille) {
  std::vector<History::Job> out;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const auto n = static_cast<std::int64_t>(i);
    const std::int64_t copies = (n + 1) * permille / kPermille - n * permille / kPermille;
    for (std::int64_t copy = 0; copy < copies; ++copy) {
      History::Job& job = out.emplace_back(jobs[i]);
      job.item.id.attempt = 1;
      job.item.room.clear(), job.item.room_zone.clear();
      // Each recorded attempt is a job of its own.
      job.item.id.uid = WorkloadUid(fmt::format("{}/{}/{}", jobs[i].item.id.uid, jobs[i].item.id.attempt, copy));
      job.workload.uid = job.item.id.uid;
      job.workload.attempt = 1;
      job.workload.ended = false;
    }
  }
  return out;
}

Instant on_grid(Instant at, Instant from) {
  const auto steps = (at - from + kHistoryStep - Duration(1)) / Duration(kHistoryStep);
  return from + steps * Duration(kHistoryStep);
}

/// An engine before the first input, with the changes that hold from the start.
Result<std::unique_ptr<Engine>> first_engine(const History& history, std::vector<InstanceType> catalog,
                                             const Options& options, const WhatIf& change) {
  Options own = options;
  own.provider = true;
  own.node_details = false;
  own.checkpoint_interval = Duration{0};
  const Engine empty(std::move(catalog), own);
  WhatIf from_start;
  from_start.availability = change.availability;
  for (const auto& price : change.prices) {
    from_start.prices.push_back(price);
    if (!price.market) from_start.prices.back().market = Market::kOnDemand;
    if (price.market == Market::kSpot) from_start.prices.pop_back();  // with each recorded price
  }
  return copy_with(empty, from_start, history.from);
}

}  // namespace

Result<Bill> replay_bill(const History& history, std::vector<InstanceType> catalog, const Options& options,
                         const HistoryChange& change) {
  if (history.jobs.empty()) {
    return fail({Code::kInvalid, "the recorded time has no workload with a place", "journal",
                 "use the journal of an autoscaler next to placement, from a time with workloads"});
  }
  if (change.demand_permille < 0 || change.demand_permille > kMostDemand) {
    return fail({Code::kInvalid, fmt::format("a demand of {} thousandths", change.demand_permille), "demand",
                 "use 0 to 10000 percent"});
  }
  QM_ASSIGN(const auto engine, first_engine(history, std::move(catalog), options, change.what_if));
  std::vector<InstanceType> types;
  for (const auto& [name, type] : engine->catalog()) types.push_back(type);
  FleetModel fleet(engine->options());
  fleet.set_catalog(types);
  const auto jobs = changed_jobs(history.jobs, change.demand_permille);
  auto job = jobs.begin();
  auto fact = history.changes.begin();
  for (Instant now = history.from; now <= history.to;) {
    std::vector<Command> batch;
    for (; fact != history.changes.end() && fact->at <= now; ++fact) {
      batch.push_back(changed(fact->command, change.what_if));
      fleet.observe(batch.back());
    }
    for (; job != jobs.end() && job->item.since <= now; ++job) {
      batch.emplace_back(job->workload);
      fleet.add(*job);
    }
    auto answers = fleet.inputs(now);
    std::ranges::move(answers, std::back_inserter(batch));
    auto scheduled = fleet.schedule(now);
    std::ranges::move(scheduled, std::back_inserter(batch));
    batch.emplace_back(Tick{});
    const auto output = engine->step(batch, now);
    engine->commit();
    fleet.apply(output, engine->tables(), now, options.boot);
    Instant next = history.to + Duration(1);
    const auto consider = [&](std::optional<Instant> at) {
      if (at) next = std::min(next, *at);
    };
    if (fact != history.changes.end()) consider(fact->at);
    if (job != jobs.end()) consider(job->item.since);
    consider(output.wake_at);
    consider(fleet.next());
    now = std::max(now + Duration(kHistoryStep), on_grid(next, history.from));
  }
  return fleet.bill(history.to);
}

}  // namespace qm::autoscaler
