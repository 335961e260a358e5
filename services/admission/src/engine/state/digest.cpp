#include "qm/base/digest.hpp"

#include "qm/admission/tables.hpp"

#include <bit>
#include <iterator>

namespace qm::admission {
namespace {

void add_node(Digest& d, const NodeName& name, const NodeState& node) {
  d.add(name.value()).add(std::int64_t{node.ready}).add(std::int64_t{node.schedulable}).add(std::int64_t{node.failed});
  for (const auto& [key, value] : node.labels) d.add(key).add(value);
  for (const auto& taint : node.taints) d.add(taint.key).add(taint.value).add(taint.effect);
  for (const auto* amounts : {&node.allocatable, &node.used}) {
    for (const auto& [resource, amount] : *amounts) d.add(resource).add(amount);
  }
}

/// Queues, cohorts, flavors, classes, namespaces, checks, topologies, nodes and submissions.
void add_objects(Digest& d, const Tables& tables) {
  const auto at = [&](Instant t) { d.add(micros(t)); };
  for (const auto& [name, q] : tables.cluster_queues) {
    d.add(name.value()).add(q.cohort).add(q.source).add(static_cast<std::int64_t>(q.stop)).add(std::int64_t{q.closing});
    for (const auto& group : q.groups) {
      for (const auto& flavor : group.flavors) {
        d.add(flavor.flavor.value());
        for (const auto& [resource, quota] : flavor.resources) d.add(resource).add(quota.nominal);
      }
    }
  }
  for (const auto& [key, q] : tables.local_queues) d.add(key.first.value()).add(key.second).add(q.source);
  for (const auto& [key, usage] : tables.local_usage) {
    d.add(key.first.value()).add(key.second);
    at(usage.sampled);
    for (const auto* amounts : {&usage.consumed, &usage.entered}) {
      for (const auto& [resource, amount] : *amounts) d.add(resource).add(amount);
    }
  }
  for (const auto& [name, c] : tables.cohorts) d.add(name).add(c.parent).add(c.source);
  for (const auto& [name, f] : tables.flavors) d.add(name.value()).add(f.source);
  for (const auto& [key, c] : tables.priority_classes) d.add(key.first).add(std::int64_t{c.value}).add(c.source);
  for (const auto& [name, n] : tables.namespaces) d.add(name.value()).add(n.source);
  for (const auto& [name, c] : tables.admission_checks) d.add(name).add(c.source).add(std::int64_t{c.active});
  for (const auto& [name, t] : tables.topologies) d.add(name).add(t.source);
  for (const auto& [name, node] : tables.nodes) add_node(d, name, node);
  for (const auto& [key, s] : tables.submissions) {
    d.add(key.first.value()).add(key.second).add(s.queue).add(s.team.value());
    d.add(s.intent).add(s.error).add(std::int64_t{s.failed});
    at(s.at);
  }
}

void add_budgets(Digest& d, const Tables& tables) {
  const auto at = [&](Instant t) { d.add(micros(t)); };
  for (const auto& [name, row] : tables.budgets) {
    d.add(name).add(static_cast<std::int64_t>(row.sequence)).add(std::int64_t{row.terms.soft});
    d.add(row.terms.default_run.count()).add(row.account.owed()).add(row.account.spent_before());
    for (const auto& price : row.terms.prices) d.add(price.instance_type).add(price.nano_usd_gpu_hour);
    for (const auto& [from, one] : row.account.allotments()) {
      at(from);
      for (const auto part :
           {one.granted_total, one.granted, one.carried_in, one.spent, one.held, one.carried_out, one.lapsed}) {
        d.add(part);
      }
    }
  }
  for (const auto& [key, hold] : tables.holds) {
    d.add(key.uid.value()).add(std::int64_t{key.attempt}).add(key.budget).add(hold.seen).add(hold.amount());
    at(hold.until);
  }
}

void add_assignments(Digest& d, const TopologyAssignments& nodes) {
  for (const auto& [set, assignment] : nodes) {
    d.add(set);
    for (const auto& domain : assignment.domains) {
      for (const auto& value : domain.values) d.add(value);
      d.add(domain.count);
    }
  }
}

void add_workload(Digest& d, const WorkloadUid& uid, const Workload& w) {
  const auto at = [&](Instant t) { d.add(micros(t)); };
  d.add(uid.value())
      .add(static_cast<std::int64_t>(w.version))
      .add(std::int64_t{w.attempt})
      .add(static_cast<std::int64_t>(w.phase));
  d.add(w.cluster_queue.value())
      .add(std::int64_t{w.spec.priority})
      .add(w.reason)
      .add(w.resume_uri)
      .add(w.resume_number);
  d.add(w.reservation).add(w.short_reason).add(static_cast<std::int64_t>(w.answer));
  d.add(std::int64_t{w.short_streak}).add(std::int64_t{w.intents}).add(std::int64_t{w.open_intents});
  d.add(std::int64_t{w.cancelled}).add(std::int64_t{w.job_deleted}).add(std::int64_t{w.succeeded});
  d.add(std::int64_t{w.external_scheduler}).add(std::int64_t{w.claim.has_value()});
  for (const auto& [check, answer] : w.checks) {
    d.add(check).add(static_cast<std::int64_t>(answer.verdict)).add(answer.message);
    at(answer.at);
    for (const auto& [set, update] : answer.updates) {
      d.add(set);
      for (const auto* added : {&update.labels, &update.annotations, &update.node_selector}) {
        for (const auto& [key, value] : *added) d.add(key).add(value);
      }
      for (const auto& t : update.tolerations) d.add(t.key).add(t.op).add(t.value).add(t.effect);
    }
  }
  d.add(std::int64_t{w.spec.pods_expected}).add(std::int64_t{w.waiting_time.count()});
  d.add(std::int64_t{w.gated})
      .add(w.inactive)
      .add(w.refused())
      .add(w.rejected())
      .add(w.spec.queue)
      .add(std::int64_t{w.spec.total_pods()})
      .add(w.next() != nullptr ? *w.next()->queue : *w.spec.queue)
      .add(std::int64_t{w.next() != nullptr ? w.next()->total_pods() : -1})
      .add(std::int64_t{w.spec_print})
      .add(std::int64_t{w.exceptions ? w.exceptions->next_print : 0})
      .add(std::int64_t{w.scale_up_to()})
      .add(std::int64_t{w.exceptions ? w.exceptions->scaled_from : 0})
      .add(w.ran.count())
      .add(w.max_execution.count())
      .add(std::int64_t{w.requeues})
      .add(w.planned.count());
  d.add(w.budget).add(std::int64_t{w.patient}).add(w.spec_active ? std::int64_t{*w.spec_active} : std::int64_t{-1});
  if (w.claim) {
    for (const auto& victim : w.claim->victims) d.add(victim.value());
    add_assignments(d, w.claim->nodes);
    for (const auto& [at_cell, amount] : w.claim->usage) d.add(at_cell.resource).add(amount);
  }
  for (const auto& [by, how] : w.preemptors) {
    d.add(by.value()).add(std::int64_t{how.settled});
    at(how.at);
  }
  for (const auto count : w.counts) d.add(std::int64_t{count});
  add_assignments(d, w.nodes());
  d.add(std::int64_t{w.ended_pods}).add(std::int64_t{w.quota_position});
  for (const auto& [flavor_resource, amount] : w.usage) {
    d.add(flavor_resource.flavor.value()).add(flavor_resource.resource).add(amount);
  }
  for (const Instant t :
       {w.queued, w.quota_reserved, w.admitted, w.finished, w.not_before, w.retry_at, w.wait_deadline, w.reserved_until,
        w.promised_until, w.saved, w.min_runtime_until, w.pods_ready, w.pods_lost, w.requeued}) {
    at(t);
  }
  if (w.eviction) {
    d.add(w.eviction->reason).add(w.eviction->message);
    at(w.eviction->deadline);
    at(w.eviction->requeue_at);
  }
}

void add_forecasts(Digest& d, const Tables& tables) {
  const auto number = [&](double x) { d.add(std::bit_cast<std::int64_t>(x)); };
  for (const auto& [job_class, table] : tables.run_times) {
    d.add(job_class.team).add(job_class.shape).add(job_class.stem).add(micros(table.at()));
    for (const auto& span : table.spans()) {
      d.add(static_cast<std::int64_t>(span.number));
      number(span.entered);
      number(span.ended);
    }
  }
  for (const auto& [uid, estimate] : tables.estimates) {
    d.add(uid.value()).add(std::int64_t{estimate.attempt}).add(micros(estimate.at));
    for (const auto& end : {estimate.raw, estimate.corrected})
      d.add(end.low.count()).add(end.middle.count()).add(end.high.count());
    d.add(std::int64_t{estimate.low_known}).add(std::int64_t{estimate.high_known});
  }
  for (const auto& one : start_correction(tables).kept()) {
    d.add(static_cast<std::int64_t>(one.number));
    number(one.value);
    number(one.steps);
  }
}

void add_proposals(Digest& d, const Tables& tables) {
  for (const auto& [uid, row] : tables.proposals) {
    d.add(uid.value()).add(std::int64_t{row.attempt}).add(row.number);
    d.add(std::int64_t{row.accepted}).add(std::int64_t{row.move});
    d.add(row.reason).add(row.micro_usd).add(micros(row.until));
    for (const auto* names : {&row.kept, &row.victims}) {
      d.add(std::ssize(*names));
      for (const auto& name : *names) d.add(name.value());
    }
  }
  for (const auto& [key, row] : tables.preemption_budget) d.add(micros(row.since)).add(row.workloads);
}

}  // namespace

std::uint64_t digest_of(const Tables& tables) {
  Digest d;
  add_objects(d, tables);
  add_budgets(d, tables);
  for (const auto& [uid, w] : tables.workloads) add_workload(d, uid, w);
  add_forecasts(d, tables);
  add_proposals(d, tables);
  return d.value();
}

}  // namespace qm::admission
