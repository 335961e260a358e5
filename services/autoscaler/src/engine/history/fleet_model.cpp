// The simulated cloud and scheduler of a replayed time.
#include "history/fleet_model.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::autoscaler {
namespace {

std::int64_t gpu_milli_of(const History::Job& job) {
  std::int64_t out = 0;
  for (const PodSet& set : job.item.pod_sets) {
    const auto& gpu = set.shape.gpu;
    out += set.count * (gpu.milli > 0 ? gpu.milli : gpu.whole * 1000);
  }
  return out;
}

std::int64_t whole_seconds(Duration d) { return std::chrono::duration_cast<std::chrono::seconds>(d).count(); }

}  // namespace

void FleetModel::set_catalog(const std::vector<InstanceType>& catalog) {
  for (const auto& type : catalog) state_.catalog.emplace(type.name, type);
}

void FleetModel::observe(const Command& command) {
  if (const auto* pools = std::get_if<PoolsApplied>(&command)) {
    state_.tables.pools.clear();
    for (const auto& pool : pools->pools) state_.tables.pools.restore(pool.name, pool);
  } else if (const auto* daemons = std::get_if<DaemonSetsUpdated>(&command)) {
    state_.tables.daemon_sets.clear();
    for (const auto& set : daemons->sets) state_.tables.daemon_sets.restore(set.name, set);
  } else if (const auto* overlays = std::get_if<OverlaysApplied>(&command)) {
    state_.overlays = ordered(overlays->overlays).accepted;
  }
}

NodeSide FleetModel::side_of(const Instance& instance) const {
  return {instance.pool, instance.labels, state_.catalog.at(instance.fact.type), instance.fact.zone,
          instance.fact.market};
}

void FleetModel::apply(const Output& output, const Tables& tables, Instant now, Duration boot) {
  for (const auto& launch : output.launches) {
    const auto type = state_.catalog.find(launch.row.type);
    if (type == state_.catalog.end()) continue;
    Instance one;
    one.claim = launch.claim;
    one.pool = launch.pool;
    one.labels = launch.row.labels;
    one.fact.id = InstanceId(fmt::format("i-{:08}", ++last_instance_));
    one.fact.claim = launch.claim;
    one.fact.pool = launch.row.pool;
    one.fact.type = launch.row.type;
    one.fact.zone = launch.row.zone;
    one.fact.market = launch.row.market;
    one.fact.node = NodeName("n-" + one.fact.id.value());
    one.fact.launched = now;
    one.fact.launch = launch.row.launch;
    const PriceRow* spot =
        launch.row.market == Market::kSpot ? tables.spot_prices.find({launch.row.type, launch.row.zone}) : nullptr;
    one.rate = spot == nullptr ? type->second.on_demand.per_hour : spot->rate.per_hour;
    one.gpus = type->second.gpus;
    one.ready_at = now + boot;
    answers_.emplace_back(LaunchEnded{launch.claim, one.fact.id, {}});
    by_claim_[launch.claim] = one.fact.id;
    instances_.emplace(one.fact.id, std::move(one));
    ++bill_.launches;
    listed_ = false;
  }
  for (const auto& end : output.terminations) {
    const auto by = by_claim_.find(end.claim);
    if (by == by_claim_.end()) continue;
    Instance& one = instances_.at(by->second);
    if (one.fact.stopped) continue;
    for (const AttemptId& id : std::set<AttemptId>(one.jobs)) evict(id, now);
    one.fact.stopped = now;
    one.ready = false;
    const Duration lived = now - one.fact.launched;
    bill_.cost += HourlyRate{one.rate}.accrued(one.fact.launched, now);
    bill_.gpu_seconds += one.gpus * whole_seconds(lived);
    answers_.emplace_back(NodeUpdated{one.fact.node, false, true, true, 0, {}, one.fact.id});
    listed_ = false;
  }
  for (const auto& drain : output.drains) {
    for (auto& [id, one] : instances_) {
      if (one.fact.node != drain.node || one.fact.stopped) continue;
      one.cordoned = !drain.lifted;
      one.changed = true;
    }
  }
  for (const auto& eviction : output.evictions) {
    if (!eviction.over && running_.contains(eviction.id)) evict(eviction.id, now);
  }
}

std::vector<Command> FleetModel::inputs(Instant now) {
  std::vector<Command> out = std::exchange(answers_, {});
  for (auto& [id, one] : instances_) {
    if (one.fact.stopped || one.ready || one.ready_at > now) continue;
    one.ready = one.changed = true;
    one.empty_since = now;
    rebuild(one);
  }
  if (!listed_) {
    InstancesListed list;
    for (const auto& [id, one] : instances_) list.instances.push_back(one.fact);
    out.emplace_back(std::move(list));
    // A stopped instance is listed once.
    for (auto at = instances_.begin(); at != instances_.end();) {
      if (!at->second.fact.stopped) {
        ++at;
        continue;
      }
      by_claim_.erase(at->second.claim);
      at = instances_.erase(at);
    }
    listed_ = true;
  }
  return out;
}

void FleetModel::rebuild(Instance& instance) { instance.free = nodes_.empty(side_of(instance)); }

void FleetModel::add(History::Job job) {
  if (job.item.id.attempt == 1) ++bill_.jobs;
  demand_changed_ = true;
  const auto order = [](const History::Job& j) { return std::tuple(-j.item.priority, j.item.since, j.item.id); };
  pending_.insert(std::ranges::upper_bound(pending_, order(job), {}, order), std::move(job));
}

bool FleetModel::start(const History::Job& job, Instant now, std::vector<Command>& out) {
  std::set<std::string> zones;
  for (const auto& [id, one] : instances_) {
    if (one.ready && !one.cordoned) zones.insert(one.fact.zone);
  }
  for (const auto& zone : zones) {
    Running running{job, now, now + job.runs, {}};
    std::map<InstanceId, FreeCapacity> used;
    bool whole = true;
    for (std::size_t set = 0; set < job.item.pod_sets.size() && whole; ++set) {
      const PodSet& pods = job.item.pod_sets[set];
      std::int64_t open = pods.count;
      for (const auto& [id, one] : instances_) {
        if (open == 0) break;
        if (!one.ready || one.cordoned || one.fact.zone != zone) continue;
        if (one.free->gpus < pods.shape.gpu.whole || !nodes_.accepts(pods, side_of(one))) continue;
        auto& capacity = used.try_emplace(id, *one.free).first->second;
        const auto n = capacity.take(pods.shape, nodes_.needs(pods), open);
        if (n > 0) running.places.push_back({id, {set, static_cast<std::int32_t>(n)}});
        open -= n;
      }
      whole = open == 0;
    }
    if (!whole) continue;
    AssignmentUpdated assignment{job.item.id, true, {}};
    for (const auto& [id, place] : running.places) {
      Instance& one = instances_.at(id);
      one.free = used.at(id);
      one.pods += place.second;
      one.empty_since.reset();
      one.changed = true;
      if (one.jobs.insert(job.item.id).second) assignment.nodes.push_back(one.fact.node);
    }
    std::ranges::sort(assignment.nodes);
    out.emplace_back(std::move(assignment));
    const Duration waited = now - job.item.since;
    bill_.started += job.item.id.attempt == 1 ? 1 : 0;
    bill_.waited += waited;
    bill_.longest_wait = std::max(bill_.longest_wait, waited);
    running_.emplace(job.item.id, std::move(running));
    return true;
  }
  return false;
}

FleetModel::Running FleetModel::release(const AttemptId& id, Instant now) {
  Running running = std::move(running_.at(id));
  running_.erase(id);
  bill_.used_gpu_seconds += gpu_milli_of(running.job) * whole_seconds(now - running.started) / 1000;
  for (const auto& [instance, place] : running.places) {
    const auto at = instances_.find(instance);
    if (at == instances_.end()) continue;
    Instance& one = at->second;
    one.pods -= place.second;
    one.changed = true;
    one.jobs.erase(id);
    if (one.pods == 0) one.empty_since = now;
    rebuild(one);
  }
  // What the other jobs on these nodes hold.
  for (const auto& [instance, place] : running.places) {
    const auto at = instances_.find(instance);
    if (at == instances_.end()) continue;
    Instance& one = at->second;
    rebuild(one);
    for (const AttemptId& other : one.jobs) {
      const Running& kept = running_.at(other);
      for (const auto& [where, what] : kept.places) {
        const PodSet& pods = kept.job.item.pod_sets[what.first];
        if (where == instance) one.free->take(pods.shape, nodes_.needs(pods), what.second);
      }
    }
  }
  answers_.emplace_back(AssignmentUpdated{id, false, {}});
  return running;
}

void FleetModel::evict(const AttemptId& id, Instant now) {
  Running running = release(id, now);
  ++bill_.evictions;
  History::Job job = std::move(running.job);
  job.runs = std::max(running.ends - now, Duration{0});
  job.item.since = now;
  ++job.item.id.attempt;
  job.workload.attempt = job.item.id.attempt;
  answers_.emplace_back(job.workload);
  add(std::move(job));
}

std::vector<Command> FleetModel::schedule(Instant now) {
  std::vector<Command> out;
  std::vector<AttemptId> over;
  for (const auto& [id, one] : running_) {
    if (one.ends <= now) over.push_back(id);
  }
  for (const auto& id : over) {
    WorkloadUpdated ended = release(id, now).job.workload;
    ended.ended = true;
    answers_.emplace_back(std::move(ended));
    ++bill_.finished;
  }
  std::vector<History::Job> open;
  std::set<std::vector<PodSet>> known_unschedulable;  // free capacity only shrinks here
  for (auto& job : pending_) {
    const bool starts = !known_unschedulable.contains(job.item.pod_sets) && start(job, now, out);
    if (starts) {
      demand_changed_ = true;
      continue;
    }
    known_unschedulable.insert(job.item.pod_sets);
    open.push_back(std::move(job));
  }
  pending_ = std::move(open);
  if (std::exchange(demand_changed_, false)) {
    DemandUpdated demand;
    for (const auto& job : pending_) demand.items.push_back(job.item);
    out.emplace_back(std::move(demand));
  }
  // With the pods that have just started: else a new node would be an empty one.
  for (auto& [id, one] : instances_) {
    if (!std::exchange(one.changed, false) || !one.ready) continue;
    out.emplace_back(NodeUpdated{one.fact.node, true, one.cordoned, false, one.pods, one.empty_since, id});
  }
  return out;
}

std::optional<Instant> FleetModel::next() const {
  std::optional<Instant> out;
  const auto consider = [&](Instant at) { out = std::min(out.value_or(at), at); };
  for (const auto& [id, one] : running_) consider(one.ends);
  for (const auto& [id, one] : instances_) {
    if (!one.ready && !one.fact.stopped) consider(one.ready_at);
    if (one.changed) consider(Instant{});
  }
  if (!answers_.empty() || !listed_ || demand_changed_) consider(Instant{});  // at once
  return out;
}

Bill FleetModel::bill(Instant end) const {
  Bill out = bill_;
  for (const auto& [id, one] : instances_) {
    if (one.fact.stopped) continue;
    out.cost += HourlyRate{one.rate}.accrued(one.fact.launched, end);
    out.gpu_seconds += one.gpus * whole_seconds(end - one.fact.launched);
  }
  for (const auto& [id, one] : running_)
    out.used_gpu_seconds += gpu_milli_of(one.job) * whole_seconds(end - one.started) / 1000;
  return out;
}

}  // namespace qm::autoscaler
