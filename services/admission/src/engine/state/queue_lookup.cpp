#include "state/queue_lookup.hpp"

#include "state/cause.hpp"
#include "state/engine_state.hpp"

#include <algorithm>

namespace qm::admission {
namespace {

/// "x -> y -> x": the first cycle on the way up from a cohort.
std::string cycle_above(const Table<std::string, Cohort>& cohorts, const std::string& from) {
  std::vector<std::string> path{from};
  for (;;) {
    const auto* cohort = cohorts.find(path.back());
    if (cohort == nullptr || cohort->parent.empty()) return {};
    const auto begin = std::ranges::find(path, cohort->parent);
    if (begin == path.end()) {
      path.push_back(cohort->parent);
      continue;
    }
    std::string out;
    for (auto at = begin; at != path.end(); ++at) out += *at + " -> ";
    return out + cohort->parent;
  }
}

}  // namespace

bool selects_namespace(const Tables& tables, const ClusterQueue& queue, const Namespace& ns) {
  if (!queue.namespaces || queue.namespaces->empty()) return queue.namespaces.has_value();
  const auto* known = tables.namespaces.find(ns);
  Labels labels = known == nullptr ? Labels() : known->labels;
  labels["kubernetes.io/metadata.name"] = ns.value();
  const auto selector = LabelSelector::parse(*queue.namespaces);
  return selector && selector->matches(labels);
}
ResolvedQueue resolve_queue(const EngineState& state, const Spec& spec) {
  ResolvedQueue found;
  const LocalQueue* local = nullptr;
  if (spec.queue.empty()) {
    int count = 0;
    for (auto it = state.tables.local_queues.rows().lower_bound({spec.ns, ""});
         it != state.tables.local_queues.end() && it->first.first == spec.ns; ++it) {
      local = &it->second;
      ++count;
    }
    if (count != 1) {
      found.obstacle = cause_of(
          "QueueMissing",
          fmt::format("the job names no queue and namespace {} has {}", spec.ns, count == 0 ? "none" : "several"),
          fmt::format("set the label {} to a LocalQueue of the namespace", words::kQueueLabel));
      return found;
    }
  } else {
    local = state.tables.local_queues.find({spec.ns, spec.queue});
  }
  const auto known = [&](const QueueName& name) { return state.tables.cluster_queues.contains(name); };
  const auto lead_to = [&](const QueueName& name) {
    const auto& queue = *state.tables.cluster_queues.find(name);
    if (queue.closing) {
      found.obstacle = inactive_reason(state, queue);
    } else if (selects_namespace(state.tables, queue, spec.ns)) {
      found.queue = name;
    } else {
      found.obstacle = cause_of(
          "NamespaceNotSelected",
          queue.namespaces ? fmt::format("ClusterQueue {} does not select namespace {}", name, spec.ns)
                           : fmt::format("ClusterQueue {} has no namespaceSelector, so it selects no namespace", name),
          "change spec.namespaceSelector of the queue, {} for all, or the labels of the namespace");
    }
    return found;
  };
  if (local == nullptr) {
    const QueueName direct(*spec.queue);
    if (known(direct)) {
      const auto& queue = *state.tables.cluster_queues.find(direct);
      found.direct = !queue.volcano && !queue.closing;  // Volcano has no namespaced queues
      return lead_to(direct);
    }
    found.obstacle =
        cause_of("QueueUnknown", fmt::format("queue {} does not exist in namespace {}", spec.queue, spec.ns),
                 "apply a LocalQueue of that name, or correct the label");
    return found;
  }
  if (local->stop != StopPolicy::kNone) {
    found.drain = local->stop == StopPolicy::kHoldAndDrain;
    found.obstacle = cause_of("QueueStopped", fmt::format("LocalQueue {}/{} is stopped", local->ns, local->name),
                              "set its stopPolicy to None");
    return found;
  }
  if (!known(local->cluster_queue)) {
    found.obstacle = cause_of("QueueUnknown",
                              fmt::format("LocalQueue {}/{} points to ClusterQueue {}, which does not exist", local->ns,
                                          local->name, local->cluster_queue),
                              "apply that ClusterQueue");
    return found;
  }
  return lead_to(local->cluster_queue);
}
std::optional<Cause> check_obstacle(const Tables& tables, const ClusterQueue& queue) {
  for (const auto& [name, flavors] : queue.checks) {
    const auto* check = tables.admission_checks.find(name);
    if (check != nullptr && check->active) continue;
    Cause c;
    c.code = check == nullptr ? "AdmissionCheckNotFound" : "AdmissionCheckInactive";
    c.message = check == nullptr
                    ? fmt::format("ClusterQueue {} requires admission check {}, which does not exist", queue.name, name)
                    : fmt::format("ClusterQueue {} requires admission check {}, which {} does not answer", queue.name,
                                  name, check->controller);
    c.remedy = check == nullptr ? "apply an AdmissionCheck of that name, or remove it from the queue"
                                : "start its controller, or remove it from the queue";
    return c;
  }
  return std::nullopt;
}
std::optional<Cause> topology_obstacle(const EngineState& state, const ClusterQueue& queue) {
  if (state.options.places) return std::nullopt;
  for (const auto& group : queue.groups) {
    for (const auto& one : group.flavors) {
      const auto* flavor = state.tables.flavors.find(one.flavor);
      if (flavor == nullptr || flavor->topology.empty() || state.tables.topologies.contains(flavor->topology)) continue;
      return cause_of(
          "TopologyNotFound",
          fmt::format("ClusterQueue {} admits nothing: its flavor {} names Topology {}, which does not exist",
                      queue.name, flavor->name, flavor->topology),
          "apply a Topology of that name, or remove spec.topologyName from the ResourceFlavor");
    }
  }
  return std::nullopt;
}
std::optional<Cause> inactive_reason(const EngineState& state, const ClusterQueue& queue) {
  if (queue.closing) {
    const auto holders = state.indexes.holders.find(queue.name);
    const auto held = holders == state.indexes.holders.end() ? 0 : holders->second.size();
    return cause_of("QueueTerminating",
                    fmt::format("ClusterQueue {} is terminating: it was deleted while {} {} its quota, and admits no "
                                "more workloads",
                                queue.name, held, held == 1 ? "workload holds" : "workloads hold"),
                    "apply the ClusterQueue again, or use another queue");
  }
  if (queue.stop != StopPolicy::kNone) {
    return cause_of("QueueStopped", fmt::format("ClusterQueue {} is stopped", queue.name),
                    "set its stopPolicy to None");
  }
  if (auto obstacle = check_obstacle(state.tables, queue)) return obstacle;
  if (auto obstacle = topology_obstacle(state, queue)) return obstacle;
  if (const auto why = state.indexes.decisions.pool_error(queue.name); !why.empty()) {
    return cause_of("NoPool", fmt::format("queue {} admits nothing: {}", queue.name, why),
                    "give one Cohort the quota of the pool and the annotation quartermaster.dev/queue-rules");
  }
  if (queue.volcano && queue.volcano->rules.state != volcano::QueueState::kOpen) {
    return cause_of("QueueStopped", fmt::format("Queue {} is not open", queue.name), "open it: its state is Closed");
  }
  if (queue.volcano && std::ranges::any_of(state.tables.cluster_queues, [&](const auto& row) {
        return row.second.volcano && row.second.volcano->rules.parent == queue.name.value();
      })) {
    return cause_of("QueueHasChildren", fmt::format("Queue {} has child queues", queue.name),
                    "name one of these in the job");
  }
  if (state.indexes.decisions.in_cohort_cycle(queue.name)) {
    return cause_of("CohortCycle",
                    fmt::format("the Cohorts above ClusterQueue {} form a cycle: {}", queue.name,
                                cycle_above(state.tables.cohorts, queue.cohort)),
                    "remove spec.parentName from one of these Cohorts");
  }
  return std::nullopt;
}
std::optional<std::int32_t> priority_of(const Tables& tables, const Spec& spec) {
  if (!spec.priority_class.empty()) {
    for (const bool workload_only : {true, false}) {
      if (const auto* c = tables.priority_classes.find({spec.priority_class, workload_only})) return c->value;
    }
    return std::nullopt;
  }
  if (spec.priority != 0) return spec.priority;
  for (const auto& [key, c] : tables.priority_classes) {
    if (c.global_default) return c.value;
  }
  return 0;
}

Duration minimum_run_of(const Tables& tables, const Workload& w) {
  Duration out{0};
  if (const auto* queue = tables.cluster_queues.find(w.cluster_queue)) out = queue->minimum_run;
  for (const bool workload_only : {true, false}) {
    const auto* c = tables.priority_classes.find({w.spec.priority_class, workload_only});
    if (c == nullptr) continue;
    return std::max(out, c->minimum_run);
  }
  return out;
}
Usage held_in(const EngineState& state, const QueueName& queue) {
  const auto held = state.indexes.held.find(queue);
  return held == state.indexes.held.end() ? Usage{} : held->second;
}

std::map<std::string, CheckAnswer> required_checks(const EngineState& state, const Workload& w,
                                                   const Flavors& flavors) {
  std::map<std::string, CheckAnswer> out;
  const auto* queue = state.tables.cluster_queues.find(w.cluster_queue);
  if (queue == nullptr) return out;
  const auto has = [&](const std::set<FlavorName>& any) {
    for (const auto& [set, chosen] : flavors) {
      for (const auto& [resource, flavor] : chosen) {
        if (any.contains(flavor)) return true;
      }
    }
    return false;
  };
  for (const auto& [name, only] : queue->checks) {
    if (only.empty() || has(only)) out[name].at = state.now;
  }
  return out;
}
std::set<QueueName> idle_queues(const EngineState& state) {
  std::set<QueueName> out;
  for (const auto& [name, queue] : state.tables.cluster_queues) {
    if (queue.stop != StopPolicy::kNone || queue.closing || check_obstacle(state.tables, queue) ||
        topology_obstacle(state, queue)) {
      out.insert(name);
    }
  }
  return out;
}

std::string quota_tree_name(const Tables& tables, const QueueName& queue) {
  const auto* row = tables.cluster_queues.find(queue);
  if (row == nullptr || row->cohort.empty()) return "queue/" + queue.value();
  std::string name = row->cohort;
  std::set<std::string> seen;  // a cycle may end anywhere: its queues are not scheduled
  while (seen.insert(name).second) {
    const auto* cohort = tables.cohorts.find(name);
    if (cohort == nullptr || cohort->parent.empty()) break;
    name = cohort->parent;
  }
  return "cohort/" + name;
}

}  // namespace qm::admission
