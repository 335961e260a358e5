#include "quota/objects.hpp"

#include "state/cause.hpp"
#include "state/queue_lookup.hpp"

#include <algorithm>

namespace qm::admission {

void Objects::on(const ApplyObjects& c) {
  ApplyReply answer{c.applied, c.warnings};
  const auto known_queue = [&](const QueueName& name) {
    return state_.tables.cluster_queues.contains(name) ||
           std::any_of(c.cluster_queues.begin(), c.cluster_queues.end(), [&](const auto& q) { return q.name == name; });
  };
  const auto known_flavor = [&](const FlavorName& name) {
    return state_.tables.flavors.contains(name) ||
           std::any_of(c.flavors.begin(), c.flavors.end(), [&](const auto& f) { return f.name == name; });
  };
  for (const auto& queue : c.cluster_queues) {
    for (const auto& group : queue.groups) {
      for (const auto& flavor : group.flavors) {
        if (known_flavor(flavor.flavor)) continue;
        answer.warnings.push_back(
            fmt::format("ClusterQueue/{}: flavor {} does not exist; nothing is admitted under it "
                        "until a ResourceFlavor of that name is applied",
                        queue.name, flavor.flavor));
      }
    }
  }
  for (const auto& queue : c.local_queues) {
    if (known_queue(queue.cluster_queue)) continue;
    answer.warnings.push_back(
        fmt::format("LocalQueue/{}/{}: ClusterQueue {} does not exist; its workloads are pending until "
                    "it is applied",
                    queue.ns, queue.name, queue.cluster_queue));
  }
  // A name resolves to one queue: a ClusterQueue takes precedence over a Queue of Volcano.
  const auto left_aside = [&](const ClusterQueue& queue) {
    const auto has = [&](const ClusterQueue& other) { return other.name == queue.name && !other.volcano; };
    const auto* known = state_.tables.cluster_queues.find(queue.name);
    return queue.volcano && ((known != nullptr && has(*known)) || std::ranges::any_of(c.cluster_queues, has));
  };
  for (const auto& queue : c.cluster_queues) {
    if (!left_aside(queue)) continue;
    answer.warnings.push_back(
        fmt::format("Queue/{0}: a ClusterQueue {0} exists, so this Queue is ignored; use another name", queue.name));
  }
  if (!c.dry_run) {
    // An update without a new spec, such as a status update, changes no decision.
    const auto take = [&](auto& table, const auto& key, const auto& object) {
      const auto* known = table.find(key);
      auto like = object;
      if (known != nullptr) like.source = known->source;
      if (known == nullptr || !(*known == like)) state_.step.resolve_needed = true;
      table.insert(key, object);
    };
    for (const auto& queue : c.cluster_queues) {
      if (!left_aside(queue)) take(state_.tables.cluster_queues, queue.name, queue);
    }
    for (const auto& queue : c.local_queues) take(state_.tables.local_queues, std::pair(queue.ns, queue.name), queue);
    for (const auto& cohort : c.cohorts) take(state_.tables.cohorts, cohort.name, cohort);
    for (const auto& flavor : c.flavors) take(state_.tables.flavors, flavor.name, flavor);
    for (const auto& priority : c.priority_classes) {
      take(state_.tables.priority_classes, std::pair(priority.name, priority.workload_only), priority);
    }
    for (const auto& ns : c.namespaces) {
      const auto* known = state_.tables.namespaces.find(ns.name);
      if (known == nullptr || known->labels != ns.labels) state_.step.relabelled.insert(ns.name);
      state_.tables.namespaces.insert(ns.name, ns);
    }
    for (const auto& check : c.admission_checks) take(state_.tables.admission_checks, check.name, check);
    for (const auto& topology : c.topologies) take(state_.tables.topologies, topology.name, topology);
  }
  state_.step.reply(std::move(answer));
}

void Objects::remove_queue(const QueueName& name) {
  const auto* queue = state_.tables.cluster_queues.find(name);
  if (queue == nullptr || !queue->from_cluster || queue->closing) return;
  state_.tables.cluster_queues.edit(name).closing = true;
  state_.step.touched.insert(name);
  state_.step.resolve_needed = true;
}

void Objects::on(const ObjectDeleted& c) {
  const auto drop = [&](auto& table, const auto& key) {
    const auto* row = table.find(key);
    if (row == nullptr || !row->from_cluster) return;
    table.erase(key);
    state_.step.resolve_needed = true;
  };
  if (c.kind == "ClusterQueue" || c.kind == "Queue") {
    const auto* queue = state_.tables.cluster_queues.find(QueueName(c.name));
    if (queue != nullptr && queue->volcano.has_value() == (c.kind == "Queue")) remove_queue(queue->name);
    return;
  }
  if (c.kind == "LocalQueue") return drop(state_.tables.local_queues, std::pair(c.ns, c.name));
  if (c.kind == "Cohort") return drop(state_.tables.cohorts, c.name);
  if (c.kind == "ResourceFlavor") return drop(state_.tables.flavors, FlavorName(c.name));
  if (c.kind == "Namespace") {
    const auto* known = state_.tables.namespaces.find(Namespace(c.name));
    if (known == nullptr || !known->from_cluster) return;
    state_.step.relabelled.insert(known->name);
    return state_.tables.namespaces.erase(Namespace(c.name));
  }
  if (c.kind == "AdmissionCheck") return drop(state_.tables.admission_checks, c.name);
  if (c.kind == "Topology") return drop(state_.tables.topologies, c.name);
  if (c.kind == "WorkloadPriorityClass") return drop(state_.tables.priority_classes, std::pair(c.name, true));
  if (c.kind == "PriorityClass") return drop(state_.tables.priority_classes, std::pair(c.name, false));
}

void Objects::on(const ObjectsSynced& c) {
  std::vector<ObjectDeleted> gone;
  const auto look = [&](const auto& row, const Namespace& ns, const std::string& name) {
    if (row.from_cluster && !c.names.contains({ns, name})) gone.push_back({c.kind, ns, name});
  };
  if (c.kind == "ClusterQueue" || c.kind == "Queue") {
    for (const auto& [name, row] : state_.tables.cluster_queues) {
      if (row.volcano.has_value() == (c.kind == "Queue")) look(row, {}, name.value());
    }
  } else if (c.kind == "LocalQueue") {
    for (const auto& [key, row] : state_.tables.local_queues) look(row, key.first, key.second);
  } else if (c.kind == "Cohort") {
    for (const auto& [name, row] : state_.tables.cohorts) look(row, {}, name);
  } else if (c.kind == "ResourceFlavor") {
    for (const auto& [name, row] : state_.tables.flavors) look(row, {}, name.value());
  } else if (c.kind == "AdmissionCheck") {
    for (const auto& [name, row] : state_.tables.admission_checks) look(row, {}, name);
  } else if (c.kind == "Topology") {
    for (const auto& [name, row] : state_.tables.topologies) look(row, {}, name);
  } else if (c.kind == "Namespace") {
    for (const auto& [name, row] : state_.tables.namespaces) look(row, {}, name.value());
  } else {
    for (const auto& [key, row] : state_.tables.priority_classes) {
      if (key.second == (c.kind == "WorkloadPriorityClass")) look(row, {}, key.first);
    }
  }
  for (const auto& object : gone) on(object);
}

// ---- what workloads resolve to ----

void Objects::resolve_changed() {
  const auto relabelled = std::exchange(state_.step.relabelled, {});
  state_.step.resolve_needed ? resolve_all() : resolve_of(relabelled);
}

void Objects::resolve_all() {
  state_.step.resolve_needed = false;
  rebuild_indexes(state_);
  usage_.keep_rows();
  state_.step.dirty.clear();
  state_.reschedule_all();
  std::vector<WorkloadUid> all;
  for (const auto& [uid, w] : state_.tables.workloads) all.push_back(uid);
  resolve(all);
}

void Objects::resolve_of(const std::set<Namespace>& namespaces) {
  std::vector<WorkloadUid> all;
  if (namespaces.empty()) return;
  for (const auto& [uid, w] : state_.tables.workloads) {
    if (!namespaces.contains(w.spec.ns)) continue;
    all.push_back(uid);
    state_.reschedule(w.cluster_queue);
  }
  resolve(all);
}

void Objects::resolve(const std::vector<WorkloadUid>& uids) {
  for (const auto& uid : uids) {
    const Workload& w = state_.workload(uid);
    if (w.ended()) continue;
    const auto where = resolve_queue(state_, w.spec);
    if (w.phase == Phase::kPending) {
      // A priority in the spec itself is kept; one from a class follows the class.
      const auto priority =
          w.spec.priority_class.empty() ? std::optional(w.spec.priority) : priority_of(state_.tables, w.spec);
      if (where.queue == w.cluster_queue && priority.has_value() == !w.priority_unknown &&
          priority.value_or(0) == w.spec.priority) {
        continue;
      }
      rows_.update(uid, [&](Workload& row) {
        row.cluster_queue = where.queue;
        row.queue_is_direct = where.direct;
        row.priority_unknown = !priority;
        row.spec.priority = priority.value_or(0);
        row.reason = waiting_reason(row, where.obstacle);
      });
      rows_.publish(Event::What::kQueued, uid);
      continue;
    }
    checks_.refresh(uid);
    const auto* queue = state_.tables.cluster_queues.find(w.cluster_queue);
    const bool local_stop = where.obstacle && where.obstacle->code == "QueueStopped";
    const bool closing = queue != nullptr && queue->closing;
    const bool stop = local_stop || closing || (queue != nullptr && queue->stop != StopPolicy::kNone);
    const bool drain = where.drain || (queue != nullptr && queue->stop == StopPolicy::kHoldAndDrain);
    if (!stop) continue;
    const char* reason = closing ? "ClusterQueueDeleted" : local_stop ? "LocalQueueStopped" : "ClusterQueueStopped";
    if (w.phase == Phase::kQuotaReserved) {
      transitions_.release(uid, reason, Duration{0});
    } else if (w.phase == Phase::kAdmitted && drain) {
      transitions_.evict(uid, reason, "its queue is drained", state_.now + state_.options.eviction_grace);
    }
  }
}

// Removes deleted queues without holders of quota. Only a queue with changed usage can have reached that state.
void Objects::close_queues() {
  bool gone = false;
  for (const auto& name : state_.step.touched) {
    const auto* queue = state_.tables.cluster_queues.find(name);
    if (queue == nullptr || !queue->closing || state_.indexes.holders.contains(name)) continue;
    state_.tables.cluster_queues.erase(name);
    gone = true;
  }
  if (!gone) return;
  rebuild_indexes(state_);
  // Workloads that were pending for the terminating queue are now pending for a queue that does not exist.
  std::vector<WorkloadUid> waiting;
  for (const auto& [uid, w] : state_.tables.workloads) {
    if (w.phase == Phase::kPending && *w.reason == "QueueTerminating") waiting.push_back(uid);
  }
  for (const auto& uid : waiting) {
    const auto where = resolve_queue(state_, state_.tables.workloads.find(uid)->spec);
    if (!where.obstacle || where.obstacle->code == "QueueTerminating") continue;
    rows_.update(uid, [&](Workload& row) { row.reason = where.obstacle->code; });
    rows_.publish(Event::What::kQueued, uid);
  }
}

}  // namespace qm::admission
