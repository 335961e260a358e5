// Indexes derived from the tables, the digest of the tables, and the laws between both.
#include "qm/admission/engine.hpp"
#include "qm/base/assert.hpp"
#include "qm/base/digest.hpp"

#include <algorithm>

namespace qm::admission {

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::kPending:
      return "Pending";
    case Phase::kQuotaReserved:
      return "QuotaReserved";
    case Phase::kAdmitted:
      return "Admitted";
    case Phase::kEvicting:
      return "Evicting";
    case Phase::kFinished:
      return "Finished";
    case Phase::kCancelled:
      return "Cancelled";
    case Phase::kRejected:
      return "Rejected";
  }
  return "Unknown";
}

std::string_view name_of(Event::What what) {
  switch (what) {
    case Event::What::kQueued:
      return "Queued";
    case Event::What::kQuotaReserved:
      return "QuotaReserved";
    case Event::What::kAdmitted:
      return "Admitted";
    case Event::What::kEvicting:
      return "Evicting";
    case Event::What::kRequeued:
      return "Requeued";
    case Event::What::kFinished:
      return "Finished";
    case Event::What::kCancelled:
      return "Cancelled";
    case Event::What::kBound:
      return "Bound";
    case Event::What::kChecked:
      return "Checked";
    case Event::What::kDeactivated:
      return "Deactivated";
    case Event::What::kActivated:
      return "Activated";
    case Event::What::kPodsEnded:
      return "PodsEnded";
    case Event::What::kUpdated:
      return "Updated";
    case Event::What::kRejected:
      return "Rejected";
    case Event::What::kRepeated:
      return "Repeated";
    case Event::What::kForgotten:
      return "Forgotten";
  }
  return "Unknown";
}

std::optional<Instant> Engine::timer_of(const Workload& w) const {
  std::optional<Instant> first;
  const auto take = [&](Instant t) {
    if (t != Instant{} && (!first || t < *first)) first = t;
  };
  switch (w.phase) {
    case Phase::kPending:
      take(w.not_before);
      break;
    case Phase::kQuotaReserved:
      take(w.retry_at);
      take(w.wait_deadline);
      break;
    case Phase::kAdmitted:
      take(w.wait_deadline);
      take(w.min_runtime_until);
      take(run_limit_of(w).value_or(Instant{}));
      take(pods_limit_of(w).value_or(Instant{}));
      break;
    case Phase::kEvicting:
      take(w.retry_at);
      break;
    case Phase::kRejected:
      break;
    case Phase::kFinished:
    case Phase::kCancelled:
      if (w.job_deleted) take(w.finished + options_.retention);
      break;
  }
  return first;
}

Engine::Marks Engine::marks_of(const Workload& w) const {
  Marks out;
  out.known = true;
  out.timer = timer_of(w);
  if (w.ended() && w.job_deleted) out.ended = w.finished;
  if (w.holds_quota()) {
    out.holds = w.cluster_queue;
    out.usage = w.usage;
  }
  const auto answered = [](const auto& check) { return check.second.verdict == Verdict::kReady; };
  if (w.phase == Phase::kAdmitted && w.scale_up_to() > 0) out.grows = QueueOrder::of(w);
  if (w.gated && !w.spec.pods_expected && std::ranges::all_of(w.checks, answered)) out.gated = w.quota_reserved;
  out.starting = options_.wait_for_pods_ready && w.holds_quota() && !w.gated && w.pods_ready == Instant{};
  if (w.phase != Phase::kPending) return out;
  if (tables_.budgets.size() > 0 && (w.ready() || !w.budget.empty())) {
    out.asks.wants = budget_requests_of(w);
    if (!w.budget.empty()) {
      const auto asked = out.asks.wants.find(w.budget);
      out.asks.lacks = {*w.budget, asked == out.asks.wants.end() ? 0 : asked->second};
      out.asks.wants.clear();
    }
  }
  out.waits.emplace(w.cluster_queue, QueueOrder::of(w));
  out.ready = w.ready();
  return out;
}

/// Updates only entries that differ: most changes of a row concern no index.
void Engine::move(Indexes& in, const Workload& w, const Marks& from, const Marks& to) {
  const auto& uid = w.spec.uid;
  const auto drop = [](auto& map, const auto& key, const auto& value) {
    const auto it = map.find(key);
    if (it == map.end()) return;
    it->second.erase(value);
    if (it->second.empty()) map.erase(it);
  };
  if (to.known && !from.known) in.names.insert(&w);
  if (from.known && !to.known) in.names.erase(&w);
  if (from.timer != to.timer) {
    if (from.timer) in.timers.erase({*from.timer, uid});
    if (to.timer) in.timers.emplace(*to.timer, uid);
  }
  if (from.gated != to.gated) {
    if (from.gated) in.gated.erase({*from.gated, uid});
    if (to.gated) in.gated.emplace(*to.gated, uid);
  }
  if (from.grows != to.grows) {
    if (from.grows) in.scaling_up.erase(*from.grows);
    if (to.grows) in.scaling_up.insert(*to.grows);
  }
  if (from.starting != to.starting) to.starting ? (void)in.starting.insert(uid) : (void)in.starting.erase(uid);
  if (from.ended != to.ended) {
    if (from.ended) in.ended.erase({*from.ended, uid});
    if (to.ended) in.ended.emplace(*to.ended, uid);
  }
  if (from.holds != to.holds || from.usage != to.usage) {
    if (from.holds == to.holds) in.decisions.shrink(w);
    const auto local = in.decisions.local_of(w);
    const auto count = [&](const QueueName& queue, const Usage& usage, std::int64_t sign) {
      if (!in.decisions.by_usage(queue)) return;
      auto& held = in.held_by_local[local];
      for (const auto& [at, amount] : usage) held[at.resource] += sign * amount;
      std::erase_if(held, [](const auto& one) { return one.second == 0; });
      if (held.empty()) in.held_by_local.erase(local);
    };
    if (!from.holds.empty()) count(from.holds, from.usage, -1);
    if (!to.holds.empty()) count(to.holds, to.usage, 1);
    if (!from.holds.empty()) {
      drop(in.holders, *from.holds, uid);
      auto& held = in.held[from.holds];
      for (const auto& [at, amount] : from.usage) held[at] -= amount;
      std::erase_if(held, [](const auto& one) { return one.second == 0; });
      if (held.empty()) in.held.erase(from.holds);
    }
    if (!to.holds.empty()) {
      in.holders[to.holds].insert(uid);
      for (const auto& [at, amount] : to.usage) {
        if (amount != 0) in.held[to.holds][at] += amount;
      }
    }
  }
  if (from.waits != to.waits || from.ready != to.ready) {
    if (from.waits) {
      const auto line = in.waiting.find(*from.waits->first);
      line->second.all.erase(from.waits->second);
      line->second.ready -= from.ready ? 1 : 0;
      if (line->second.all.empty()) in.waiting.erase(line);
    }
    if (to.waits) {
      auto& line = in.waiting[to.waits->first];
      line.all.insert(to.waits->second);
      line.ready += to.ready ? 1 : 0;
    }
  }
  const auto asked = in.asked.find(uid);
  const BudgetRequests before = asked == in.asked.end() ? BudgetRequests{} : asked->second;
  if (before != to.asks) {
    for (const auto& [budget, amount] : before.wants) drop(in.wants, budget, std::pair(amount, uid));
    if (before.lacks) drop(in.lacks, before.lacks->first, std::pair(before.lacks->second, uid));
    for (const auto& [budget, amount] : to.asks.wants) in.wants[budget].emplace(amount, uid);
    if (to.asks.lacks) in.lacks[to.asks.lacks->first].emplace(to.asks.lacks->second, uid);
    to.asks == BudgetRequests{} ? (void)in.asked.erase(uid) : (void)in.asked.insert_or_assign(uid, to.asks);
  }
  if (to.known) in.decisions.put(w);
}

/// Restores preemptions first: they determine which workloads share a class.
void Engine::build(Indexes& into) const {
  into = Indexes(options_.rules);
  for (const auto& [name, queue] : tables_.cluster_queues) {
    const auto next = quota_changes_after(queue, now_);
    if (next && (!into.quota_changes || *next < *into.quota_changes)) into.quota_changes = next;
    if (queue.drains && !queue.windows.empty() && !queue.volcano) into.draining.push_back(name);
  }
  into.decisions.build(tables_.cluster_queues.rows(), tables_.cohorts.rows(), tables_.flavors.rows(),
                       tables_.local_queues.rows(), idle_queues(), now_);
  for (const auto& [uid, w] : tables_.workloads) into.decisions.recall(w);
  for (const auto& [uid, w] : tables_.workloads) move(into, w, {}, marks_of(w));
  for (const auto& [key, hold] : tables_.holds) {
    if (hold.until != Instant{}) into.holds_due.emplace(hold.until, key);
  }
}

/// After a change of objects, claims and preemptions that follow from the old ones no longer bind.
void Engine::rebuild() {
  std::vector<WorkloadUid> bound;
  for (const auto& [uid, w] : tables_.workloads) {
    if (w.claim || !w.preemptors.empty()) bound.push_back(uid);
  }
  for (const auto& uid : bound) {
    Workload& w = tables_.workloads.edit(uid);
    w.claim.reset();
    w.preemptors.clear();
  }
  build(indexes_);
}

void Engine::loaded(Instant now) {
  now_ = std::max(now_, now);
  submissions_end_ = Instant{};
  build(indexes_);
}

/// Row by row if only workloads changed: removes the current rows from the indexes, and adds the earlier ones.
void Engine::undo() {
  const bool by_row = !std::exchange(windows_changed_, false) && indexes_.decisions.reversible() &&
                      !tables_.cluster_queues.dirty() && !tables_.local_queues.dirty() &&
                      !tables_.local_usage.dirty() && !tables_.cohorts.dirty() && !tables_.flavors.dirty() &&
                      !tables_.priority_classes.dirty() && !tables_.namespaces.dirty() &&
                      !tables_.admission_checks.dirty() && !tables_.budgets.dirty() && !tables_.holds.dirty();
  std::vector<WorkloadUid> changed;
  std::set<int> trees;
  if (by_row) {
    tables_.workloads.changed([&](const WorkloadUid& uid, const Workload* now) {
      changed.push_back(uid);
      if (now == nullptr) return;
      trees.insert(indexes_.decisions.tree_of(now->cluster_queue));
      move(indexes_, *now, marks_of(*now), {});
      indexes_.decisions.take_out(*now);
    });
  }
  tables_.cluster_queues.rollback();
  tables_.local_queues.rollback();
  tables_.local_usage.rollback();
  tables_.cohorts.rollback();
  tables_.flavors.rollback();
  tables_.priority_classes.rollback();
  tables_.namespaces.rollback();
  tables_.admission_checks.rollback();
  tables_.workloads.rollback();
  tables_.submissions.rollback();
  tables_.budgets.rollback();
  tables_.holds.rollback();
  tables_.run_times.rollback();
  tables_.estimates.rollback();
  tables_.corrections.rollback();
  tables_.proposals.rollback();
  tables_.preemption_budget.rollback();
  submissions_end_ = Instant{};
  if (!by_row) {
    now_ = decided_;  // windows and ages as of that step
    return build(indexes_);
  }
  for (const auto& uid : changed) {
    const Workload* w = find(uid);
    w == nullptr ? indexes_.decisions.drop(uid) : indexes_.decisions.recall(*w);
  }
  for (const auto& uid : changed) {
    const Workload* w = find(uid);
    if (w == nullptr) continue;
    trees.insert(indexes_.decisions.tree_of(w->cluster_queue));
    move(indexes_, *w, {}, marks_of(*w));
  }
  for (const int tree : trees) indexes_.decisions.look_again(tree);
}

void Engine::commit() {
  decided_ = now_;
  windows_changed_ = false;
  tables_.cluster_queues.commit();
  tables_.local_queues.commit();
  tables_.local_usage.commit();
  tables_.cohorts.commit();
  tables_.flavors.commit();
  tables_.priority_classes.commit();
  tables_.namespaces.commit();
  tables_.admission_checks.commit();
  tables_.workloads.commit();
  tables_.submissions.commit();
  tables_.budgets.commit();
  tables_.holds.commit();
  tables_.run_times.commit();
  tables_.estimates.commit();
  tables_.corrections.commit();
  tables_.proposals.commit();
  tables_.preemption_budget.commit();
}

std::uint64_t Engine::digest() const {
  Digest d;
  const auto at = [&](Instant t) { d.add(micros(t)); };
  for (const auto& [name, q] : tables_.cluster_queues) {
    d.add(name.value()).add(q.cohort).add(q.source).add(static_cast<std::int64_t>(q.stop)).add(std::int64_t{q.closing});
    for (const auto& group : q.groups) {
      for (const auto& flavor : group.flavors) {
        d.add(flavor.flavor.value());
        for (const auto& [resource, quota] : flavor.resources) d.add(resource).add(quota.nominal);
      }
    }
  }
  for (const auto& [key, q] : tables_.local_queues) d.add(key.first.value()).add(key.second).add(q.source);
  for (const auto& [key, usage] : tables_.local_usage) {
    d.add(key.first.value()).add(key.second);
    at(usage.sampled);
    for (const auto* amounts : {&usage.consumed, &usage.entered}) {
      for (const auto& [resource, amount] : *amounts) d.add(resource).add(amount);
    }
  }
  for (const auto& [name, c] : tables_.cohorts) d.add(name).add(c.parent).add(c.source);
  for (const auto& [name, f] : tables_.flavors) d.add(name.value()).add(f.source);
  for (const auto& [key, c] : tables_.priority_classes) d.add(key.first).add(std::int64_t{c.value}).add(c.source);
  for (const auto& [name, n] : tables_.namespaces) d.add(name.value()).add(n.source);
  for (const auto& [name, c] : tables_.admission_checks) d.add(name).add(c.source).add(std::int64_t{c.active});
  for (const auto& [key, s] : tables_.submissions) {
    d.add(key.first.value()).add(key.second).add(s.queue).add(s.team.value());
    d.add(s.intent).add(s.error).add(std::int64_t{s.failed});
    at(s.at);
  }
  for (const auto& [name, row] : tables_.budgets) {
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
  for (const auto& [key, hold] : tables_.holds) {
    d.add(key.uid.value()).add(std::int64_t{key.attempt}).add(key.budget).add(hold.seen).add(hold.amount());
    at(hold.until);
  }
  for (const auto& [uid, w] : tables_.workloads) {
    d.add(uid.value())
        .add(static_cast<std::int64_t>(w.version))
        .add(std::int64_t{w.attempt})
        .add(static_cast<std::int64_t>(w.phase));
    d.add(w.cluster_queue.value()).add(std::int64_t{w.spec.priority}).add(w.reason).add(w.resume_uri);
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
      for (const auto& [at_cell, amount] : w.claim->usage) d.add(at_cell.resource).add(amount);
    }
    for (const auto& [by, how] : w.preemptors) {
      d.add(by.value()).add(std::int64_t{how.settled});
      at(how.at);
    }
    for (const auto count : w.counts) d.add(std::int64_t{count});
    d.add(std::int64_t{w.ended_pods}).add(std::int64_t{w.quota_position});
    for (const auto& [flavor_resource, amount] : w.usage) {
      d.add(flavor_resource.flavor.value()).add(flavor_resource.resource).add(amount);
    }
    for (const Instant t :
         {w.queued, w.quota_reserved, w.admitted, w.finished, w.not_before, w.retry_at, w.wait_deadline,
          w.promised_until, w.saved, w.min_runtime_until, w.pods_ready, w.pods_lost, w.requeued}) {
      at(t);
    }
    if (w.eviction) {
      d.add(w.eviction->reason).add(w.eviction->message);
      at(w.eviction->deadline);
      at(w.eviction->requeue_at);
    }
  }
  digest_forecasts(d);
  digest_proposals(d);
  return d.value();
}

void Engine::check_laws() const {
  Indexes fresh(options_.rules);
  build(fresh);
  QM_ASSERT(fresh.decisions == indexes_.decisions, "the trees differ from the rows");
  QM_ASSERT(fresh.holders == indexes_.holders);
  QM_ASSERT(fresh.waiting == indexes_.waiting);
  QM_ASSERT(fresh.quota_changes == indexes_.quota_changes && fresh.draining == indexes_.draining);
  QM_ASSERT(fresh.timers == indexes_.timers);
  QM_ASSERT(fresh.ended == indexes_.ended);
  QM_ASSERT(fresh.gated == indexes_.gated);
  QM_ASSERT(fresh.scaling_up == indexes_.scaling_up);
  QM_ASSERT(fresh.starting == indexes_.starting);
  QM_ASSERT(fresh.names == indexes_.names, "the index of names differs from the rows");
  QM_ASSERT(fresh.held == indexes_.held);
  QM_ASSERT(fresh.held_by_local == indexes_.held_by_local);
  QM_ASSERT(fresh.asked == indexes_.asked);
  QM_ASSERT(fresh.wants == indexes_.wants && fresh.lacks == indexes_.lacks);
  QM_ASSERT(fresh.holds_due == indexes_.holds_due);
  check_budgets();
  for (const auto& [uid, w] : tables_.workloads) {
    QM_ASSERT(w.spec.uid == uid);
    QM_ASSERT(w.attempt >= 1, "workload {} attempt {}", uid, w.attempt);
    QM_ASSERT(w.holds_quota() || w.usage.empty(), "workload {} is {} and holds quota", uid, name_of(w.phase));
    QM_ASSERT(!w.gated || (w.phase == Phase::kQuotaReserved && w.retry_at == Instant{}), "workload {} is {} and gated",
              uid, name_of(w.phase));
    QM_ASSERT(w.holds_quota() || w.checks.empty() || w.ended(), "workload {} is {} and has checks", uid,
              name_of(w.phase));
    QM_ASSERT((w.phase != Phase::kRejected) || !w.rejected().empty(), "workload {} is Rejected without a reason", uid);
    QM_ASSERT(w.next() == nullptr || w.holds_quota() || w.ended(), "workload {} is {} and does not use its newest spec",
              uid, name_of(w.phase));
    QM_ASSERT(!w.claim || w.ready(), "workload {} is {} and has a claim", uid, name_of(w.phase));
    QM_ASSERT((w.phase == Phase::kEvicting) == w.eviction.has_value() || w.ended(), "workload {}", uid);
    if (!w.holds_quota()) continue;
    // Gang: quota is held for each pod set in full, or for at least its minimum count.
    QM_ASSERT(tables_.cluster_queues.contains(w.cluster_queue), "workload {} holds quota of the unknown queue {}", uid,
              w.cluster_queue);
    std::map<std::string, std::int64_t> held;
    for (const auto& [flavor_resource, amount] : w.usage) {
      if (flavor_resource.resource != "pods") held[flavor_resource.resource] += amount;
    }
    auto counted = w.running();
    if (w.ended_pods != 0) counted.pod_sets.at(0).count -= w.ended_pods;
    QM_ASSERT(held == requests_of(counted), "workload {} holds quota for pods other than its own", uid);
    QM_ASSERT(w.counts.empty() || w.counts.size() == w.spec.pod_sets.size(), "workload {}", uid);
    for (std::size_t i = 0; i < w.counts.size(); ++i) {
      const auto& set = w.spec.pod_sets[i];
      QM_ASSERT(w.counts[i] <= set.count && w.counts[i] >= (set.min_count > 0 ? set.min_count : set.count),
                "workload {} runs with {} pods of {}", uid, w.counts[i], set.name);
    }
  }
}

}  // namespace qm::admission
