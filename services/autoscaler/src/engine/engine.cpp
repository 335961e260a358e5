// The facts and the frame of a step: apply what was heard, then decide from the tables alone, so that the order in
// which facts of different origin arrive does not matter.
#include "qm/autoscaler/engine.hpp"

#include <algorithm>

#include "qm/base/assert.hpp"
#include "qm/base/digest.hpp"

namespace qm::autoscaler {

std::string_view name_of(ClaimState state) {
  constexpr std::string_view names[] = {"Requested", "Launched", "Ready", "Draining", "Terminating", "Gone", "Failed"};
  return names[static_cast<int>(state)];
}

Engine::Engine(std::vector<InstanceType> catalog, Options options) : options_(options) {
  for (auto& type : catalog) catalog_.emplace(type.name, std::move(type));
}

const InstanceType* Engine::type(const std::string& name) const {
  auto it = catalog_.find(name);
  return it == catalog_.end() ? nullptr : &it->second;
}

Output Engine::step(std::span<const Command> batch, Instant now) {
  QM_ASSERT(now >= now_, "time went back from {} to {}", micros(now_), micros(now));
  now_ = now;
  out_ = {};
  said_.clear();
  for (const auto& command : batch) std::visit([this](const auto& c) { apply(c); }, command);
  time_out_claims();
  answer_notices();
  settle_orders();
  retire_empty();
  cover_demand();
  for (const auto& name : said_) {
    if (const Claim* row = tables_.claims.find(name)) out_.instances.push_back({name, *row});
  }
  check_laws();
  out_.wake_at = next_timer();
  return std::move(out_);
}

namespace {
// Calls fn on every table: one place knows the list.
template <class T, class Fn>
void each(T& t, Fn&& fn) {
  fn(t.pools), fn(t.claims), fn(t.nodes), fn(t.attempts), fn(t.workloads), fn(t.demand), fn(t.plans), fn(t.orders),
      fn(t.spot_prices), fn(t.blocked), fn(t.counters);
}
}  // namespace

void Engine::undo() {
  each(tables_, [](auto& table) { table.rollback(); });
}
void Engine::commit() {
  each(tables_, [](auto& table) { table.commit(); });
}

void Engine::apply(const PoolApplied& c) { tables_.pools.insert(c.pool.name, c.pool); }
void Engine::apply(const PoolRemoved& c) { tables_.pools.erase(c.name); }

void Engine::apply(const DemandHeard& c) {
  std::map<WorkloadUid, const DemandHeard::Item*> wanted;
  for (const auto& item : c.items) wanted[item.id.uid] = &item;
  std::vector<WorkloadUid> over;
  for (const auto& [uid, item] : tables_.demand) {
    if (!wanted.contains(uid)) over.push_back(uid);
  }
  for (const auto& uid : over) {
    tables_.demand.erase(uid);
    if (const Plan* plan = tables_.plans.find(uid)) {
      if (plan->promised_attempt > 0) out_.promises.push_back({{uid, plan->promised_attempt}, plan->ready_by, plan->claims, true});
      tables_.plans.erase(uid);   // its machines come all the same; they are empty ones if nobody else needs them
    }
  }
  for (const auto& [uid, item] : wanted) {
    const auto* known = tables_.demand.find(uid);
    if (known == nullptr || !(*known == *item)) tables_.demand.insert(uid, *item);
  }
}

const ClaimName* Engine::claim_of_node(const NodeName& node) const {
  for (const auto& [name, claim] : tables_.claims) {
    if (claim.node == node && claim.state != ClaimState::kGone && claim.state != ClaimState::kFailed) return &name;
  }
  return nullptr;
}

void Engine::apply(const InstancesSeen& c) {
  for (const auto& fact : c.instances) adopt(fact);
}

// An instance carries its claim's name as a tag, so a launch whose answer was lost is found again here. One that names
// no claim of ours and carries no claim tag is not ours: it is only reported, for cost. One that names a claim which
// already has another instance, or which we have given up, is a stray and goes at once.
void Engine::adopt(const InstanceFact& fact) {
  const ClaimName name = fact.claim.empty() ? ClaimName(fact.id.value()) : fact.claim;
  const Claim* known = tables_.claims.find(name);
  if (known == nullptr && !fact.claim.empty() && !fact.stopped) {
    out_.strays.emplace_back(name, fact.id);
  }
  if (known != nullptr && !known->instance.empty() && known->instance != fact.id) {
    if (!fact.stopped) out_.strays.emplace_back(name, fact.id);
    return;
  }
  Claim row = known != nullptr ? *known : Claim{};
  if (known == nullptr) {
    row.requested = fact.launched;
    row.reason = fact.claim.empty() ? "found in the cloud" : "no claim of ours stands for it";
  }
  row.type = fact.type;
  row.zone = fact.zone;
  row.market = fact.market;
  row.instance = fact.id;
  row.node = fact.node;
  row.launched = fact.launched;
  if (fact.stopped) {
    row.stopped = fact.stopped;
    row.state = ClaimState::kGone;
  } else if (row.state == ClaimState::kFailed) {
    out_.strays.emplace_back(name, fact.id);   // we gave it up and it came after all
  } else if (row.state == ClaimState::kRequested) {
    const NodeRow* node = tables_.nodes.find(fact.node);
    row.state = node != nullptr && node->ready ? ClaimState::kReady : ClaimState::kLaunched;
  }
  if (known != nullptr && *known == row) return;
  row.changed = now_;
  tables_.claims.insert(name, std::move(row));
  say(name);
}

void Engine::apply(const SpotPricesSeen& c) {
  for (const auto& quote : c.quotes) {
    const auto key = std::pair(quote.type, quote.zone);
    const PriceRow* known = tables_.spot_prices.find(key);
    if (known != nullptr && known->from >= quote.from) continue;
    if (known != nullptr && known->rate == quote.rate) continue;
    tables_.spot_prices.insert(key, {quote.rate, quote.from});
    out_.prices.push_back({quote.type, quote.zone, {quote.rate, quote.from}});
  }
}

void Engine::apply(const NodeHeard& c) {
  if (c.gone) {
    tables_.nodes.erase(c.node);
    return;
  }
  NodeRow row;
  if (const NodeRow* known = tables_.nodes.find(c.node)) row = *known;
  row.ready = c.ready;
  row.cordoned = c.cordoned;
  row.pods = c.pods;
  row.empty_since = c.empty_since;
  row.instance = c.instance;
  if (const NodeRow* known = tables_.nodes.find(c.node); known == nullptr || !(*known == row)) {
    tables_.nodes.insert(c.node, row);
  }
  if (const ClaimName* name = claim_of_node(c.node); name != nullptr && c.ready) {
    if (tables_.claims.find(*name)->state == ClaimState::kLaunched) {
      const ClaimName key = *name;
      Claim& claim = tables_.claims.edit(key);
      claim.state = ClaimState::kReady;
      claim.changed = now_;
      say(key);
    }
  }
}

void Engine::apply(const AssignmentHeard& c) {
  if (!c.live) {
    if (tables_.attempts.contains(c.id)) tables_.attempts.erase(c.id);
    return;
  }
  const AttemptRow row{true, c.nodes};
  if (const AttemptRow* known = tables_.attempts.find(c.id); known == nullptr || !(*known == row)) {
    tables_.attempts.insert(c.id, row);
  }
}

void Engine::apply(const WorkloadHeard& c) {
  if (c.ended) {
    if (tables_.workloads.contains(c.uid)) tables_.workloads.erase(c.uid);
    return;
  }
  const WorkloadRow row{c.attempt, c.checkpoints};
  if (const WorkloadRow* known = tables_.workloads.find(c.uid); known == nullptr || !(*known == row)) {
    tables_.workloads.insert(c.uid, row);
  }
}

void Engine::apply(const SpotNoticeHeard& c) {
  if (const NodeRow* known = tables_.nodes.find(c.node); known != nullptr && known->taken_at) return;   // first notice counts
  tables_.nodes.edit(c.node).taken_at = c.at;
}

void Engine::apply(const AckHeard& c) {
  const Order* order = tables_.orders.find(c.order);
  if (order == nullptr || !order->outcome.empty()) return;   // late: the order has been settled
  if (std::none_of(order->nodes.begin(), order->nodes.end(), [&](const NodeName& n) { return n == c.node; })) return;
  auto& acks = tables_.orders.edit(c.order).acks;
  if (std::any_of(acks.begin(), acks.end(), [&](const Order::Ack& a) { return a.node == c.node; })) return;
  acks.push_back({c.node, c.step, c.uri, c.ok});
}

void Engine::apply(const HealthHeard& c) {
  const NodeRow* known = tables_.nodes.find(c.node);
  if (known == nullptr ? c.broken : known->broken != c.broken) tables_.nodes.edit(c.node).broken = c.broken;
}

void Engine::apply(const LaunchEnded& c) {
  const Claim* known = tables_.claims.find(c.claim);
  if (known == nullptr || known->state != ClaimState::kRequested) return;   // found in the cloud before the answer came
  Claim& claim = tables_.claims.edit(c.claim);
  claim.changed = now_;
  if (!c.instance.empty()) {
    claim.instance = c.instance;
    claim.state = ClaimState::kLaunched;
  } else {
    claim.state = ClaimState::kFailed;
    claim.reason = c.error;
    if (c.no_capacity) tables_.blocked.insert({claim.type, claim.market}, now_ + options_.capacity_memory);
  }
  say(c.claim);
}

void Engine::apply(const TerminateEnded& c) {
  const Claim* known = tables_.claims.find(c.claim);
  if (known == nullptr || known->state != ClaimState::kTerminating || c.error.empty()) return;
  // Refused for good: it is up to the next look at the cloud what this machine is.
  Claim& claim = tables_.claims.edit(c.claim);
  claim.state = ClaimState::kReady;
  claim.reason = "terminate refused: " + c.error;
  claim.changed = now_;
  say(c.claim);
}

std::optional<Instant> Engine::next_timer() const {
  std::optional<Instant> next;
  const auto consider = [&](Instant t) {
    if (t > now_ && (!next || t < *next)) next = t;
  };
  for (const auto& [name, c] : tables_.claims) {
    if (c.state == ClaimState::kRequested || c.state == ClaimState::kLaunched) consider(c.requested + options_.registration);
    if (c.state == ClaimState::kFailed) consider(c.changed + options_.failed_memory);
    if (c.state == ClaimState::kReady && !c.for_uid.empty()) consider(c.changed + options_.settle);
    if (c.state != ClaimState::kReady || c.pool.empty()) continue;
    const Pool* pool = tables_.pools.find(c.pool);
    const NodeRow* node = tables_.nodes.find(c.node);
    if (pool != nullptr && node != nullptr && node->empty_since) consider(*node->empty_since + pool->consolidate_after);
  }
  for (const auto& [id, order] : tables_.orders) {
    if (order.outcome.empty()) consider(order.deadline);
  }
  for (const auto& [offer, until] : tables_.blocked) consider(until);
  return next;
}

void Engine::check_laws() const {
  std::map<InstanceId, ClaimName> by_instance;
  for (const auto& [name, c] : tables_.claims) {
    if (c.instance.empty() || c.state == ClaimState::kGone) continue;
    const auto [other, first] = by_instance.emplace(c.instance, name);
    QM_ASSERT(first, "instance {} stands for claims {} and {}", c.instance, other->second, name);
  }
  for (const auto& [name, pool] : tables_.pools) {
    if (pool.limit_gpus < 0) continue;
    for (const auto& intent : out_.launches) {
      if (intent.row.pool != name) continue;
      const InstanceType* t = type(intent.row.type);
      QM_ASSERT(t != nullptr && within_limits(pool, *t, 0), "pool {} exceeds its limit after a launch", name);
    }
  }
}

std::uint64_t Engine::digest() const {
  Digest d;
  for (const auto& [name, c] : tables_.claims) {
    d.add(name.value()).add(c.pool).add(c.type).add(c.zone).add(static_cast<std::int64_t>(c.market))
        .add(static_cast<std::int64_t>(c.state)).add(c.instance.value()).add(c.node.value()).add(micros(c.requested))
        .add(micros(c.changed)).add(c.launched ? micros(*c.launched) : -1).add(c.stopped ? micros(*c.stopped) : -1)
        .add(c.for_uid.value()).add(c.reason);
  }
  for (const auto& [name, n] : tables_.nodes) {
    d.add(name.value()).add(n.ready * 8 + n.cordoned * 4 + n.broken * 2 + n.drain_asked).add(n.pods)
        .add(n.empty_since ? micros(*n.empty_since) : -1).add(n.taken_at ? micros(*n.taken_at) : -1);
  }
  for (const auto& [id, a] : tables_.attempts) {
    d.add(id.to_string());
    for (const auto& n : a.nodes) d.add(n.value());
  }
  for (const auto& [uid, w] : tables_.workloads) d.add(uid.value()).add(w.attempt).add(w.checkpoints);
  for (const auto& [uid, item] : tables_.demand) d.add(uid.value()).add(item.id.attempt).add(item.priority);
  for (const auto& [uid, p] : tables_.plans) {
    d.add(uid.value()).add(micros(p.ready_by)).add(p.promised_attempt);
    for (const auto& c : p.claims) d.add(c.value());
  }
  for (const auto& [id, o] : tables_.orders) {
    d.add(id).add(micros(o.deadline)).add(o.outcome).add(o.step);
    for (const auto& a : o.acks) d.add(a.node.value()).add(a.step).add(a.ok);
  }
  for (const auto& [key, p] : tables_.spot_prices) d.add(key.first).add(key.second).add(p.rate.per_hour.nano());
  for (const auto& [key, until] : tables_.blocked) d.add(key.first).add(static_cast<std::int64_t>(key.second)).add(micros(until));
  for (const auto& [key, n] : tables_.counters) d.add(key).add(n);
  for (const auto& [name, p] : tables_.pools) d.add(name).add(p.weight).add(p.limit_gpus);
  return d.value();
}

}  // namespace qm::autoscaler
