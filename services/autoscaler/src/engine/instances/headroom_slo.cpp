// Headroom for the SLO of a NodePool.
//
//   claims in use, compared with those in use before  ->  history, by day
//   history, every 6 h                                ->  levels by type and band of bursts (library headroom)
//   the largest burst of the last 4 h                 ->  the level, as a virtual buffer of whole nodes
#include "instances/headroom_slo.hpp"

#include "launch/fit.hpp"
#include "qm/base/assert.hpp"

#include <algorithm>

namespace qm::autoscaler {
namespace {

using std::chrono::hours;

constexpr Duration kDay = hours(24);
constexpr std::size_t kMostChanges = 4096;  // of a day
constexpr std::size_t kMostBoots = 32;
constexpr std::size_t kMostPendingGangs = 20;
constexpr std::int64_t kMostNodes = 10'000;

std::string day_of(Instant at) { return fmt::format("{:06}", micros(at) / kDay.count()); }

bool is_covered(const Pool& pool) { return pool.headroom && !pool.is_static() && !pool.manual; }

}  // namespace

// A node that became ready a moment ago is still used by the gang for which it was launched: demand and pods are published
// one after the other.
bool HeadroomSlos::is_used(const ClaimName& name, const Claim& c, const std::set<ClaimName>& planned) const {
  if (c.state == ClaimState::kTerminating || c.state == ClaimState::kGone || c.state == ClaimState::kFailed)
    return false;
  if (planned.contains(name)) return true;
  const NodeRow* node = facts_.node_of(c);
  if (node != nullptr && node->pods > 0) return true;
  return c.counted && (is_launching(c) || c.changed + state_.options.settle > state_.now);
}

void HeadroomSlos::append(const std::string& pool, const std::string& type, std::int64_t nodes) {
  auto& changes = tables_.headroom.days.edit({pool, day_of(state_.now)}).changes;
  const bool full = changes.size() >= kMostChanges;
  const auto same = std::find_if(changes.rbegin(), changes.rend(), [&](const HeadroomChange& c) {
    return c.type == type && (c.nodes > 0) == (nodes > 0);
  });
  if (full && same != changes.rend()) {
    same->nodes += nodes;
  } else {
    changes.push_back({state_.now, type, nodes});
  }
}

void HeadroomSlos::record(const Pool& pool, const std::set<ClaimName>& planned) {
  const bool first = !tables_.headroom.pools.contains(pool.name);
  std::map<std::string, Taken> by_type;
  std::vector<Duration> boots;
  std::vector<ClaimName> counted, booted;
  const HeadroomRow* known = tables_.headroom.pools.find(pool.name);
  const Duration boot = known == nullptr ? state_.options.boot : boot_of(*known);
  for (const auto& [name, c] : tables_.claims) {
    if (c.pool != pool.name) continue;
    if (c.state == ClaimState::kReady && !c.booted) {
      booted.push_back(name);
      if (c.changed > c.requested) boots.push_back(c.changed - c.requested);
    }
    const bool used = is_used(name, c, planned);
    if (used == c.counted) continue;
    counted.push_back(name);
    Taken& one = by_type[c.type];
    ++(used ? one.taken : one.freed);
    one.late |= used && is_launching(c) && c.requested + boot > state_.now + pool.headroom->wait;
  }
  for (const ClaimName& name : counted) {
    bool& flag = tables_.claims.edit(name).counted;
    flag = !flag;
  }
  for (const ClaimName& name : booted) tables_.claims.edit(name).booted = true;
  if (first) {  // what was in use before is no arrival
    HeadroomRow row;
    row.since = row.planned = state_.now;
    row.slo = *pool.headroom;
    row.target_ppm = row.slo.quantile_ppm;
    tables_.headroom.pools.insert(pool.name, row);
    return;
  }
  if (by_type.empty() && boots.empty()) return;
  HeadroomRow& row = tables_.headroom.pools.edit(pool.name);
  row.boots.insert(row.boots.end(), boots.begin(), boots.end());
  if (row.boots.size() > kMostBoots) row.boots.erase(row.boots.begin(), row.boots.end() - kMostBoots);
  for (const auto& [type, one] : by_type) {
    if (one.freed > 0) append(pool.name, type, -one.freed);
    if (one.taken == 0) continue;
    append(pool.name, type, one.taken);
    for (headroom::Attained* attained : {&row.recent, &row.total}) {
      ++attained->arrivals;
      attained->covered += one.late ? 0 : 1;
    }
  }
}

HeadroomSlos::History HeadroomSlos::history(const std::string& pool, Instant from, Instant until) const {
  History out;
  const auto& days = tables_.headroom.days.rows();
  for (auto day = days.lower_bound({pool, day_of(std::max(from, Instant{}))}); day != days.end(); ++day) {
    if (day->first.first != pool) break;
    for (const HeadroomChange& c : day->second.changes) {
      if (c.at >= from && c.at < until) out[c.type].push_back({c.at, c.nodes});
    }
  }
  return out;
}

// A high quantile of the measured ones: a level for a shorter time would be too low for slow starts.
Duration HeadroomSlos::boot_of(const HeadroomRow& row) const {
  if (row.boots.empty()) return state_.options.boot;
  auto boots = row.boots;
  std::ranges::sort(boots);
  return boots[(boots.size() * 9 + 9) / 10 - 1];
}

std::int64_t HeadroomSlos::most_of(const Pool& pool, const InstanceType& type) const {
  std::int64_t most = kMostNodes;
  if (pool.limit_nodes >= 0) most = std::min(most, pool.limit_nodes);
  if (pool.limit_gpus >= 0 && type.gpus > 0) most = std::min(most, pool.limit_gpus / type.gpus);
  return most;
}

void HeadroomSlos::plan(const Pool& pool) {
  HeadroomRow& row = tables_.headroom.pools.edit(pool.name);
  headroom::Problem problem;
  problem.wait = pool.headroom->wait;
  problem.from = std::max(row.since, state_.now - headroom::kMemory);
  problem.until = state_.now;
  std::int64_t known = 0;
  for (auto& [type_name, changes] : history(pool.name, problem.from, problem.until)) {
    const InstanceType* type = facts_.type(type_name);
    if (type == nullptr || type->on_demand.per_hour <= Money()) continue;
    known += std::ranges::count_if(changes, [](const headroom::Change& c) { return c.nodes > 0; });
    problem.shapes.push_back(
        {type_name, type->on_demand.per_hour.nano(), boot_of(row), most_of(pool, *type), std::move(changes)});
  }
  const std::int64_t before = row.slo == *pool.headroom ? row.target_ppm : pool.headroom->quantile_ppm;
  row.slo = *pool.headroom;
  row.target_ppm = headroom::next_target_ppm(before, row.slo.quantile_ppm, row.recent, known);
  row.recent = {};
  row.planned = state_.now;
  row.levels.clear();
  problem.quantile_ppm = row.target_ppm;
  if (problem.until <= problem.from) return;
  const auto result = headroom::plan(problem);
  QM_ASSERT(result && headroom::still_holds(problem, *result), "the headroom of NodePool {} cannot be planned",
            pool.name);
  for (std::size_t i = 0; i < problem.shapes.size(); ++i) row.levels[problem.shapes[i].name] = result->levels[i];
  std::vector<std::pair<std::string, std::string>> old;
  const auto& days = tables_.headroom.days.rows();
  for (auto day = days.lower_bound({pool.name, ""}); day != days.end() && day->first.first == pool.name; ++day) {
    if (day->first.second < day_of(std::max(state_.now - headroom::kMemory, Instant{}))) old.push_back(day->first);
  }
  for (const auto& key : old) tables_.headroom.days.erase(key);
}

void HeadroomSlos::forget_pools_without_slo() {
  std::vector<std::string> gone;
  for (const auto& [name, row] : tables_.headroom.pools) {
    const Pool* pool = tables_.pools.find(name);
    if (pool == nullptr || !is_covered(*pool)) gone.push_back(name);
  }
  for (const auto& name : gone) {
    tables_.headroom.pools.erase(name);
    std::vector<std::pair<std::string, std::string>> days;
    for (const auto& [key, day] : tables_.headroom.days) {
      if (key.first == name) days.push_back(key);
    }
    for (const auto& key : days) tables_.headroom.days.erase(key);
    std::vector<ClaimName> counted;
    for (const auto& [claim, c] : tables_.claims) {
      if (c.pool == name && c.counted) counted.push_back(claim);
    }
    for (const auto& claim : counted) tables_.claims.edit(claim).counted = false;
  }
}

void HeadroomSlos::record() {
  forget_pools_without_slo();
  std::optional<std::set<ClaimName>> planned;
  for (const auto& [name, pool] : tables_.pools) {
    if (!is_covered(pool)) continue;
    if (!planned) planned = facts_.planned();
    record(pool, *planned);
    const HeadroomRow& row = *tables_.headroom.pools.find(name);
    if (row.slo != *pool.headroom || row.planned + headroom::kPlanEvery <= state_.now) plan(pool);
  }
}

bool HeadroomSlos::yields(const Pool& pool) const {
  if (pool.limit_nodes < 0 && pool.limit_gpus < 0 && pool.limit_cpu_milli < 0 && pool.limit_memory_bytes < 0 &&
      pool.other_limits.empty())
    return false;
  const auto usage = facts_.usage();
  std::optional<std::map<std::string, Usage>> without;
  std::size_t pending = 0;
  for (const auto& [uid, item] : tables_.demand) {
    const Plan* plan = tables_.plans.find(uid);
    if (plan != nullptr && plan->promised_attempt > 0) continue;
    if (++pending > kMostPendingGangs) return false;
    if (facts_.other_owner(item) != nullptr || offers_.cheapest(item.pod_sets, usage, nullptr)) continue;
    if (!without) {
      without = usage;
      (*without)[pool.name] = {};
      const auto planned = facts_.planned();
      for (const auto& [name, c] : tables_.claims) {
        const bool lives = c.state != ClaimState::kGone && c.state != ClaimState::kFailed;
        const InstanceType* type = facts_.type(c.type);
        if (c.pool == pool.name && lives && type != nullptr && is_used(name, c, planned))
          (*without)[pool.name].add(*type, 1);
      }
    }
    const auto offer = offers_.cheapest(item.pod_sets, *without, nullptr);
    if (offer && offer->pool->name == pool.name) return true;
  }
  return false;
}

std::vector<Buffer> HeadroomSlos::buffers() const {
  std::vector<Buffer> out;
  for (const auto& [name, row] : tables_.headroom.pools) {
    const Pool* pool = tables_.pools.find(name);
    if (pool == nullptr || row.levels.empty() || yields(*pool)) continue;
    const Duration boot = boot_of(row);
    const auto recent = history(name, state_.now - headroom::kRecent - 2 * boot, state_.now + Duration{1});
    for (const auto& [type_name, levels] : row.levels) {
      const InstanceType* type = facts_.type(type_name);
      if (type == nullptr) continue;
      headroom::Shape shape{type_name, 0, boot, 0, {}};
      if (const auto changes = recent.find(type_name); changes != recent.end()) shape.changes = changes->second;
      const auto needs = headroom::needs_of(shape, row.slo.wait);
      const auto burst = headroom::recent_burst(needs, state_.now);
      const std::int64_t level = headroom::level_at(levels, needs, state_.now, headroom::lead_time(boot, row.slo.wait));
      if (level == 0) continue;
      Buffer& buffer = out.emplace_back();
      buffer.name = fmt::format("NodePool {}/{}", name, type_name);
      buffer.pods.name = "headroom";
      buffer.pods.count = static_cast<std::int32_t>(std::min(level, most_of(*pool, *type)));
      // One such pod fits a node of the type, whatever its DaemonSets request.
      buffer.pods.shape.gpu.whole = type->gpus;
      if (type->gpus == 0) buffer.pods.shape.cpu_milli = type->cpu_milli / 2 + 1;
      buffer.pods.shape.node_selector = {{std::string(words::kNodePool), name},
                                         {std::string(words::kInstanceType), type_name}};
      buffer.pods.shape.tolerations.push_back({"", "Exists", "", ""});
      buffer.explanation = fmt::format("a burst of {} nodes was recent", burst);
    }
  }
  return out;
}

void HeadroomSlos::explain(std::vector<std::string>& lines) const {
  for (const auto& [name, row] : tables_.headroom.pools) {
    const Pool* pool = tables_.pools.find(name);
    if (pool == nullptr) continue;
    lines.push_back(fmt::format(
        "NodePool {} has the SLO that {:.2f} % of the workloads that need nodes are pending for at most {:.0f} s: {} of {} "
        "were; nodes start in {:.0f} s, and the free ones are planned for {:.2f} %{}",
        name, static_cast<double>(row.slo.quantile_ppm) / 1e4, seconds(row.slo.wait), row.total.covered,
        row.total.arrivals, seconds(boot_of(row)), static_cast<double>(row.target_ppm) / 1e4,
        yields(*pool) ? "; none are kept, because a pending gang needs their part of the limits" : ""));
  }
}

std::optional<Instant> HeadroomSlos::next() const {
  std::optional<Instant> out;
  const auto consider = [&](Instant at) {
    if (at > state_.now && (!out || at < *out)) out = at;
  };
  for (const auto& [name, row] : tables_.headroom.pools) {
    consider(row.planned + headroom::kPlanEvery);
    for (const auto& [type, changes] : history(name, state_.now - headroom::kRecent, state_.now + Duration{1})) {
      for (const auto& change : changes) {
        if (change.nodes > 0) consider(change.at + headroom::kRecent);
      }
    }
  }
  return out;
}

}  // namespace qm::autoscaler
