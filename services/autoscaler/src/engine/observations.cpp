// The observations of a batch.
#include "observations.hpp"

#include "instances/groups.hpp"
#include "qm/base/assert.hpp"

#include <algorithm>

namespace qm::autoscaler {
namespace {

/// Writes the row if it differs; returns whether it did. A batch without changes writes nothing.
template <class Key, class Row>
bool put(Table<Key, Row>& table, const Key& key, const Row& row) {
  if (const Row* known = table.find(key); known != nullptr && *known == row) return false;
  table.insert(key, row);
  return true;
}

/// Writes all rows; others are deleted.
template <class Key, class Row>
void put_all(Table<Key, Row>& table, const std::map<Key, Row>& rows) {
  std::vector<Key> over;
  for (const auto& [key, row] : table) {
    if (!rows.contains(key)) over.push_back(key);
  }
  for (const auto& key : over) table.erase(key);
  for (const auto& [key, row] : rows) put(table, key, row);
}

/// The pods whose arrival and departure restart consolidateAfter.
std::vector<std::string> pod_names(const NodePods& pods) {
  std::vector<std::string> out;
  for (const NodePod& pod : pods.pods) {
    if (!pod.stays) out.push_back(pod.name);
  }
  return out;
}

}  // namespace

void Observations::apply(const PoolsApplied& c) {
  std::set<std::string> names;
  for (const auto& pool : c.pools) names.insert(pool.name);
  std::vector<std::string> over;
  for (const auto& [name, pool] : tables_.pools) {
    if (!names.contains(name)) over.push_back(name);
  }
  for (const auto& name : over) tables_.pools.erase(name);
  for (const auto& pool : c.pools) put(tables_.pools, pool.name, pool);
}

void Observations::apply(const DemandUpdated& c) {
  std::map<WorkloadUid, const DemandUpdated::Item*> wanted;
  for (const auto& item : c.items) wanted[item.id.uid] = &item;
  std::vector<WorkloadUid> over;
  for (const auto& [uid, item] : tables_.demand) {
    if (!wanted.contains(uid) && !tables_.provisioning.contains(uid)) over.push_back(uid);
  }
  // Its instances start anyway; they are empty ones unless another gang needs them.
  for (const auto& uid : over) tables_.demand.erase(uid);
  for (const auto& [uid, item] : wanted) put(tables_.demand, uid, *item);
}

void Observations::apply(const InstancesListed& c) {
  std::map<InstanceId, ClaimName> by_instance;
  for (const auto& [name, claim] : tables_.claims) {
    if (!claim.instance.empty()) by_instance.emplace(claim.instance, name);
  }
  std::set<InstanceId> seen;
  for (const auto& fact : c.instances) {
    seen.insert(fact.id);
    adopt(fact, by_instance);
  }
  std::vector<InstanceId> gone;
  for (const auto& [id, row] : tables_.unclaimed) {
    if (!seen.contains(id)) gone.push_back(id);
  }
  for (const auto& id : gone) tables_.unclaimed.erase(id);
  for (const auto& [id, name] : by_instance) {
    const Claim& claim = *tables_.claims.find(name);
    if (!seen.contains(id) && !claim.missing_since && claim.state != ClaimState::kGone) {
      tables_.claims.edit(name).missing_since = state_.now;
    }
  }
}

void Observations::apply(const SpotPricesUpdated& c) {
  for (const auto& quote : c.quotes) {
    const auto key = std::pair(quote.type, quote.zone);
    const PriceRow* known = tables_.spot_prices.find(key);
    if (known != nullptr && known->from >= quote.from) continue;
    if (known != nullptr && known->rate == quote.rate) continue;  // the price is unchanged
    tables_.spot_prices.insert(key, {quote.rate, quote.from});
    state_.out.prices.push_back({quote.type, quote.zone, {quote.rate, quote.from}});
  }
}

void Observations::apply(const NodeUpdated& c) {
  if (c.gone) return claims_.forget_node(c.node);
  const NodeRow* known = tables_.nodes.find(c.node);
  NodeRow row = known != nullptr ? *known : NodeRow{};
  if (known == nullptr) row.since = state_.now;
  row.known = true;
  row.ready = c.ready;
  row.cordoned = c.cordoned;
  row.drain_confirmed = row.drain_requested && c.cordoned;
  row.pods = c.pods;
  row.empty_since = c.empty_since;
  row.instance = c.instance;
  put(tables_.nodes, c.node, row);
}

void Observations::apply(const AssignmentUpdated& c) {
  if (c.live) {
    const AttemptRow* known = tables_.attempts.find(c.id);
    put(tables_.attempts, c.id, AttemptRow{c.nodes, known == nullptr ? state_.now : known->since});
  } else if (tables_.attempts.contains(c.id)) {
    tables_.attempts.erase(c.id);
  }
}

void Observations::apply(const WorkloadUpdated& c) {
  if (!c.ended) {
    put(tables_.workloads, c.uid,
        WorkloadRow{c.attempt, c.checkpoints, c.ns, c.kind, c.name, c.checkpoint, c.type, c.expected});
  } else if (tables_.workloads.contains(c.uid)) {
    tables_.workloads.erase(c.uid);
    if (tables_.checkpoints.contains(c.uid)) tables_.checkpoints.erase(c.uid);
  }
}

void Observations::apply(const SpotNoticeUpdated& c) {
  if (!c.over) return claims_.note(c.node, c.kind, c.at);
  const NodeRow* known = tables_.nodes.find(c.node);
  if (known == nullptr || (!known->taken_at && !known->risk_since)) return;
  if (!known->known && !known->broken) return claims_.forget_node(c.node);  // only the notice had named it
  NodeRow& node = tables_.nodes.edit(c.node);
  const bool drained = node.taken_at && node.drain_requested && node.drain_reason == reason_of(node.notice);
  node.taken_at.reset();
  node.risk_since.reset();
  if (drained) claims_.end_drain(c.node);
}

void Observations::apply(const InstanceNoticeUpdated& c) {
  const auto key = std::pair(c.instance, c.kind);
  if (!tables_.instance_notices.contains(key)) tables_.instance_notices.insert(key, {c.at, state_.now});
}

void Observations::apply(const AckUpdated& c) { orders_.receive(c); }

void Observations::apply(const HealthUpdated& c) {
  const NodeRow* known = tables_.nodes.find(c.node);
  if (known == nullptr ? c.broken : known->broken != c.broken) claims_.mark(c.node).broken = c.broken;
}

void Observations::apply(const LaunchEnded& c) {
  const Claim* known = tables_.claims.find(c.claim);
  if (known == nullptr || !known->instance.empty()) return;  // found in the cloud before the response arrived
  if (!c.instance.empty()) {
    std::vector<ClaimName> same;
    for (const auto& [name, claim] : tables_.claims) {
      if (claim.instance == c.instance) same.push_back(name);
    }
    if (!same.empty())
      return claims_.enter(c.claim, ClaimState::kFailed, fmt::format("{} belongs to {}", c.instance, same.front()));
    claims_.settle(c.claim, c.type, c.zone);
    // Too late for its gang: the launch is rolled back.
    const bool late = known->state == ClaimState::kFailed && !known->launch.empty();
    if (!late) claims_.enter(c.claim, ClaimState::kLaunched, known->reason);
    tables_.claims.edit(c.claim).instance = c.instance;
    return;
  }
  if (known->state != ClaimState::kRequested) return;
  claims_.give_up(c.claim, c.error, c.refusal);
}

void Observations::apply(const OfferingsRefused& c) {
  for (const auto& item : c.offerings) claims_.hold({item.type, item.zone, item.market, {}}, item.refusal);
}

// Of the instances in use, those of claims are counted by their rows: a list of the cloud is older than these.
void Observations::apply(const ReservationsListed& c) {
  std::map<std::string, std::int64_t> own;
  for (const auto& [name, claim] : tables_.claims) {
    const bool runs = !claim.instance.empty() && claim.state != ClaimState::kGone;
    if (runs && !claim.reservation.empty()) ++own[claim.reservation];
  }
  std::map<std::string, ReservedCapacity> rows;
  for (const auto& item : c.reservations) {
    const std::int64_t others = item.reservation.count - item.available - own[item.reservation.id];
    rows[item.reservation.id] = {item.reservation, std::max<std::int64_t>(others, 0), item.classes};
  }
  put_all(tables_.reservations, rows);
}

void Observations::apply(const TerminateEnded& c) {
  const Claim* known = tables_.claims.find(c.claim);
  if (known == nullptr || known->state != ClaimState::kTerminating || c.error.empty()) return;
  if (c.busy && facts_.node_of(*known) != nullptr) {
    // The node itself will be published when it is seen without its cordon.
    NodeRow& node = tables_.nodes.edit(known->node);
    node.pods = std::max(node.pods, 1);
    node.empty_since.reset();
    return claims_.keep(c.claim, c.error);
  }
  tables_.claims.edit(c.claim).reason = "terminate refused: " + c.error;  // it is retried after a while
  claims_.mark_changed(c.claim);
}

void Observations::apply(const NodePodsUpdated& c) {
  auto& pods = tables_.node_pods;
  ++state_.node_pods_version;
  if (!c.gone) {
    const NodePods* known = pods.find(c.node);
    NodePods row = c.pods;
    row.changed = known != nullptr && pod_names(*known) == pod_names(row) ? known->changed : state_.now;
    put(pods, c.node, row);
  } else if (pods.contains(c.node)) {
    pods.erase(c.node);
  }
}

void Observations::apply(const OwnersUpdated& c) {
  std::map<std::string, OwnerRow> rows;
  for (const auto& item : c.owners) rows[item.ns] = {item.ours, item.owner};
  std::vector<std::string> over;
  for (const auto& [ns, row] : tables_.owners) {
    if (!rows.contains(ns)) over.push_back(ns);
  }
  for (const auto& ns : over) tables_.owners.erase(ns);
  for (const auto& [ns, row] : rows) put(tables_.owners, ns, row);
}

void Observations::apply(const DaemonSetsUpdated& c) {
  std::map<std::string, const PodSet*> rows;
  for (const auto& set : c.sets) rows[set.name] = &set;
  std::vector<std::string> over;
  for (const auto& [name, set] : tables_.daemon_sets) {
    if (!rows.contains(name)) over.push_back(name);
  }
  for (const auto& name : over) tables_.daemon_sets.erase(name);
  for (const auto& [name, set] : rows) put(tables_.daemon_sets, name, *set);
}

void Observations::apply(const BuffersApplied& c) {
  std::map<std::string, Buffer> rows;
  for (const auto& buffer : c.buffers) rows[buffer.name] = buffer;
  put_all(tables_.buffers, rows);
}

void Observations::apply(const OverlaysApplied& c) {
  std::map<std::string, Overlay> rows;
  for (const auto& overlay : c.overlays) rows[overlay.name] = overlay;
  put_all(tables_.overlays, rows);
}

void Observations::apply(const ProvisioningApplied& c) {
  std::set<WorkloadUid> wanted;
  for (const ProvisioningRequest& request : c.requests) {
    wanted.insert(request.uid);
    const ProvisioningRow* known = tables_.provisioning.find(request.uid);
    ProvisioningRow row = known == nullptr ? ProvisioningRow{} : *known;
    if (known == nullptr) row.since = state_.now;
    row.request = request;
    put(tables_.provisioning, request.uid, row);
  }
  std::vector<WorkloadUid> over;
  for (const auto& [uid, row] : tables_.provisioning) {
    if (!wanted.contains(uid)) over.push_back(uid);
  }
  for (const auto& uid : over) {
    tables_.provisioning.erase(uid);
    if (tables_.demand.contains(uid)) tables_.demand.erase(uid);
  }
}

void Observations::apply(const NodeDetailsUpdated& c) {
  if (!c.gone) {
    put(tables_.node_details, c.node, c.details);
  } else if (tables_.node_details.contains(c.node)) {
    tables_.node_details.erase(c.node);
  }
}

void Observations::apply(const GroupsListed& c) {
  std::vector<std::string> over;
  for (const auto& [name, group] : tables_.scaling_groups) {
    if (!c.groups.contains(name)) over.push_back(name);
  }
  for (const auto& name : over) tables_.scaling_groups.erase(name);
  for (const auto& [name, group] : c.groups) put(tables_.scaling_groups, name, group);
}

// An instance fulfills one open launch of its group; if it was matched to a newer request, one that was given up ends.
void Observations::settle_owed(const std::string& group) {
  std::int64_t requested = 0;
  std::vector<ClaimName> owed;
  for (const auto& [name, c] : tables_.claims) {
    if (c.group != group || !c.instance.empty()) continue;
    if (c.owed) owed.push_back(name);
    if (c.state == ClaimState::kRequested) ++requested;
  }
  if (owed.empty() || static_cast<std::int64_t>(owed.size()) <= requested) return;
  const auto age = [&](const ClaimName& name) { return std::tuple(tables_.claims.find(name)->requested, name); };
  const auto oldest = std::ranges::min_element(owed, {}, age);
  tables_.claims.edit(*oldest).owed = false;
}

void Observations::apply(const SaveRequested& c) {
  if (!c.over) {
    put(tables_.saves, c.id, SaveRow{c.node, c.reason, c.until});
  } else if (tables_.saves.contains(c.id)) {
    tables_.saves.erase(c.id);
  }
}

// An instance has its claim's name as a tag, so a launch whose response was lost is found again here. An instance
// without a claim is stored under its own id.
void Observations::adopt(const InstanceFact& fact, std::map<InstanceId, ClaimName>& by_instance) {
  // The members of a launch get their claims when it has ended: until then an instance is matched to none.
  if (!by_instance.contains(fact.id) && launch_is_open(fact)) return keep_unclaimed(fact);
  const ClaimName own_name(fact.id.value());
  ClaimName name = own_name;
  const Pool* grouped = facts_.pool_of_group(fact.group);
  if (const auto it = by_instance.find(fact.id); it != by_instance.end()) {
    name = it->second;
  } else if (const Claim* tagged = tables_.claims.find(fact.claim); tagged != nullptr && tagged->instance.empty()) {
    name = fact.claim;
  } else if (tagged == nullptr && !fact.claim.empty() && !fact.pool.empty()) {
    name = fact.claim;
  } else if (grouped != nullptr) {
    name = facts_.claim_for(fact).value_or(own_name);
  }
  const Claim* known = tables_.claims.find(name);
  if (known == nullptr && fact.stopped && *fact.stopped + options_.gone_memory <= state_.now)
    return;  // already removed
  Claim row;
  if (known != nullptr) {
    row = *known;
  } else {
    row.pool = grouped != nullptr ? grouped->name : fact.pool;
    row.requested = fact.launched;
    row.changed = state_.now;
    if (fact.claim.empty() && !fact.pool.empty()) row.launch = fact.launch;  // what a launch left is terminated
    row.reason = row.pool.empty() ? "found in the cloud" : "found in the cloud: no claim matches it";
  }
  if (row.pool.empty() && grouped != nullptr) row.pool = grouped->name;  // the pool has named its group since then
  row.group = fact.group;
  row.type = fact.type;
  row.zone = fact.zone;
  row.market = fact.market;
  row.zone_open = false;
  row.instance = fact.id;
  row.node = fact.node;
  row.launched = fact.launched;
  if (!fact.image.empty()) row.life.image = fact.image;
  if (!fact.subnet.empty()) row.life.subnet = fact.subnet;
  if (!fact.security_groups.empty()) row.life.security_groups = fact.security_groups;
  row.missing_since.reset();
  ClaimState next = row.state;
  if (fact.stopped) {
    next = ClaimState::kGone;
  } else if (next == ClaimState::kRequested || next == ClaimState::kFailed || next == ClaimState::kGone) {
    // It started, possibly after the claim was given up; for a gang that is too late.
    if (next == ClaimState::kRequested && known != nullptr) claims_.note_launch(row);
    if (next != ClaimState::kFailed || row.launch.empty()) next = ClaimState::kLaunched;
  }
  row.stopped = fact.stopped;
  if (next != row.state) row.changed = state_.now;
  row.state = next;
  if (tables_.unclaimed.contains(fact.id)) tables_.unclaimed.erase(fact.id);
  by_instance[fact.id] = name;
  const bool arrives = grouped != nullptr && !fact.stopped && (known == nullptr || known->instance.empty());
  const bool was_owed = row.owed;
  row.owed = false;
  if (put(tables_.claims, name, row)) claims_.mark_changed(name);
  if (arrives && !was_owed) settle_owed(fact.group);
}

void Observations::keep_unclaimed(const InstanceFact& fact) {
  Claim row;
  row.pool = fact.pool;
  row.type = fact.type;
  row.zone = fact.zone;
  row.market = fact.market;
  row.state = ClaimState::kLaunched;
  row.instance = fact.id;
  row.node = fact.node;
  row.requested = fact.launched;
  row.launched = fact.launched;
  row.launch = fact.launch;
  row.reason = "found in the cloud: its launch has not ended";
  const Claim* known = tables_.unclaimed.find(fact.id);
  row.changed = known == nullptr ? state_.now : known->changed;
  put(tables_.unclaimed, fact.id, row);
}

bool Observations::launch_is_open(const InstanceFact& fact) const {
  if (fact.launch.empty() || fact.stopped) return false;
  return std::ranges::any_of(tables_.claims, [&](const auto& entry) {
    return entry.second.launch == fact.launch && entry.second.state == ClaimState::kRequested;
  });
}

// Gangs lose their claims as a whole, the least urgent first: a part of one would be launched in vain. Replicas of a
// static pool are not a gang: only the surplus ones fail, the newest first.
void Observations::apply(const GroupRefused& c) {
  std::int64_t beyond = -c.granted;
  std::map<WorkloadUid, std::vector<ClaimName>> waiting;
  for (const auto& [name, claim] : tables_.claims) {
    if (claim.group != c.group || !counts_in_group(claim)) continue;
    ++beyond;
    if (claim.state == ClaimState::kRequested) waiting[claim.for_uid].push_back(name);
  }
  std::vector<WorkloadUid> gangs;
  for (const auto& [uid, claims] : waiting) gangs.push_back(uid);
  const auto urgency = [&](const WorkloadUid& uid) {
    const DemandUpdated::Item* item = tables_.demand.find(uid);
    return item == nullptr ? std::tuple(true, 0, false, Instant{}, uid)
                           : std::tuple(false, -item->priority, item->runs, item->since, uid);
  };
  std::sort(gangs.begin(), gangs.end(), [&](const auto& a, const auto& b) { return urgency(b) < urgency(a); });
  for (const auto& uid : gangs) {
    if (beyond <= 0) break;
    auto& names = waiting[uid];
    if (uid.empty()) {
      const auto age = [&](const ClaimName& name) { return std::tuple(tables_.claims.find(name)->requested, name); };
      std::sort(names.begin(), names.end(), [&](const auto& a, const auto& b) { return age(b) < age(a); });
      names.resize(static_cast<std::size_t>(std::min(beyond, static_cast<std::int64_t>(names.size()))));
    }
    for (const auto& name : names) claims_.give_up(name, c.error);
    beyond -= static_cast<std::int64_t>(names.size());
  }
}

}  // namespace qm::autoscaler
