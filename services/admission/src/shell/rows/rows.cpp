#include "rows/rows.hpp"

#include "qm/admission/translate/translate.hpp"
#include "qm/wire/model.hpp"

namespace qm::admission {

namespace state = quartermaster::admission;

namespace {

/// The assigned flavors and usage of a workload or of its claim.
template <class Row>
void add_held(const Flavors& chosen, const Usage& usage, const Counts& counts, Row& row) {
  for (const auto count : counts) row.add_counts(count);
  for (const auto& [set, flavors] : chosen) {
    for (const auto& [resource, flavor] : flavors) {
      auto& f = *row.add_flavors();
      f.set_pod_set(set);
      f.set_resource(resource);
      f.set_flavor(flavor.value());
    }
  }
  for (const auto& [at, amount] : usage) {
    auto& f = *row.add_used();
    f.set_flavor(at.flavor.value());
    f.set_resource(at.resource);
    f.set_amount(amount);
  }
}

template <class Row>
void read_held(const Row& row, Shared<Flavors>& chosen, Shared<Usage>& usage, Shared<Counts>& counts) {
  if (row.counts_size() > 0) counts.edit().assign(row.counts().begin(), row.counts().end());
  for (const auto& f : row.flavors()) chosen.edit()[f.pod_set()][f.resource()] = FlavorName(f.flavor());
  for (const auto& f : row.used()) usage.edit()[{FlavorName(f.flavor()), f.resource()}] = f.amount();
}

}  // namespace

state::WorkloadRow to_row(const Workload& w) {
  state::WorkloadRow row;
  // The event form, without the effects of flavors on pods and with all pods: the spec is stored as it was submitted.
  static const Engine kNoFlavors;
  *row.mutable_event() = to_event(w, kNoFlavors);
  *row.mutable_event()->mutable_spec() = wire::to_pb(w.spec);
  add_held(w.flavors, w.usage, w.counts, row);
  add_nodes(w.nodes(), *row.mutable_nodes());
  if (w.claim) {
    auto& claim = *row.mutable_claim();
    add_held(w.claim->flavors, w.claim->usage, w.claim->counts, claim);
    add_nodes(w.claim->nodes, *claim.mutable_nodes());
    for (const auto& victim : w.claim->victims) claim.add_victims(victim.value());
  }
  for (const auto& [by, how] : w.preemptors) {
    auto& preemptor = *row.add_preemptors();
    preemptor.set_uid(by.value());
    preemptor.set_at_us(micros(how.at));
    preemptor.set_settled(how.settled);
  }
  row.set_version(w.version);
  row.set_answer(static_cast<int>(w.answer));
  row.set_reservation(w.reservation);
  row.set_short_reason(w.short_reason);
  row.set_short_streak(w.short_streak);
  row.set_promised_attempt(w.promised_attempt);
  row.set_promised_until_us(micros(w.promised_until));
  row.set_resume_attempt(w.resume_attempt);
  row.set_resume_number(w.resume_number);
  row.set_not_before_us(micros(w.not_before));
  row.set_ask_at_us(micros(w.retry_at));
  row.set_wait_deadline_us(micros(w.wait_deadline));
  row.set_reserved_until_us(micros(w.reserved_until));
  row.set_cancelled(w.cancelled);
  row.set_cancel_reason(w.cancel_reason());
  row.set_job_deleted(w.job_deleted);
  row.set_queue_is_direct(w.queue_is_direct);
  row.set_priority_unknown(w.priority_unknown);
  row.set_intents(w.intents);
  row.set_open_intents(w.open_intents);
  row.set_external_scheduler(w.external_scheduler);
  row.set_saved_us(micros(w.saved));
  row.set_min_runtime_until_us(micros(w.min_runtime_until));
  row.set_budget(w.budget);
  row.set_ended_pods(w.ended_pods);
  for (const auto& [name, answer] : w.checks) {
    auto& check = *row.add_checks();
    check.set_name(name);
    check.set_verdict(static_cast<int>(answer.verdict));
    check.set_message(answer.message);
    check.set_at_us(micros(answer.at));
    for (const auto& [set, update] : answer.updates) {
      auto& out = *check.add_updates();
      out.set_name(set);
      out.mutable_labels()->insert(update.labels.begin(), update.labels.end());
      out.mutable_annotations()->insert(update.annotations.begin(), update.annotations.end());
      out.mutable_node_selector()->insert(update.node_selector.begin(), update.node_selector.end());
      for (const auto& t : update.tolerations) *out.add_tolerations() = wire::to_pb(t);
    }
  }
  row.set_ran_us(w.ran.count());
  row.set_pods_ready_us(micros(w.pods_ready));
  row.set_pods_lost_us(micros(w.pods_lost));
  row.set_requeues(w.requeues);
  row.set_requeued_us(micros(w.requeued));
  if (w.eviction) row.set_requeue_at_us(micros(w.eviction->requeue_at));
  row.set_patient(w.patient);
  row.set_refused(w.refused());
  row.set_rejected(w.rejected());
  if (w.next() != nullptr) *row.mutable_next() = wire::to_pb(*w.next());
  row.set_spec_print(w.spec_print);
  if (w.exceptions) row.set_next_print(w.exceptions->next_print);
  if (w.exceptions) row.set_scale_up_to(w.exceptions->scale_up_to), row.set_scaled_from(w.exceptions->scaled_from);
  row.set_gated(w.gated);
  row.set_pods_expected(w.spec.pods_expected);
  row.set_waiting_s(w.waiting_time.count());
  row.set_inactive(w.inactive);
  row.set_max_execution_us(w.max_execution.count());
  row.set_planned_us(w.planned.count());
  if (w.spec_active) row.set_spec_active(*w.spec_active);
  return row;
}

Workload from_row(const state::WorkloadRow& row) {
  Workload w;
  const auto& e = row.event();
  w.spec = wire::from_pb(e.spec());
  w.attempt = e.attempt();
  w.phase = static_cast<Phase>(e.phase());
  w.cluster_queue = QueueName(e.cluster_queue());
  read_held(row, w.flavors, w.usage, w.counts);
  if (row.has_claim()) {
    Claim claim;
    read_held(row.claim(), claim.flavors, claim.usage, claim.counts);
    claim.nodes = nodes_from(row.claim().nodes());
    for (const auto& victim : row.claim().victims()) claim.victims.emplace_back(victim);
    w.claim = std::move(claim);
  }
  for (const auto& d : row.preemptors())
    w.preemptors.edit()[WorkloadUid(d.uid())] = {from_micros(d.at_us()), d.settled()};
  w.queued = from_micros(e.queued_us());
  w.quota_reserved = from_micros(e.quota_reserved_us());
  w.quota_position = static_cast<std::uint16_t>(e.quota_position());
  w.admitted = from_micros(e.admitted_us());
  w.finished = from_micros(e.finished_us());
  w.succeeded = e.succeeded();
  if (e.has_eviction()) {
    const auto& o = e.eviction();
    w.eviction = Eviction{o.reason(),
                          o.message(),
                          from_micros(o.deadline_us()),
                          from_micros(o.ordered_us()),
                          o.checkpoint(),
                          from_micros(row.requeue_at_us())};
  }
  w.resume_uri = e.resume_uri();
  w.reason = e.reason();
  w.version = row.version();
  w.answer = static_cast<Answer>(row.answer());
  w.reservation = row.reservation();
  w.short_reason = row.short_reason();
  w.short_streak = static_cast<std::uint16_t>(row.short_streak());
  w.promised_attempt = row.promised_attempt();
  w.promised_until = from_micros(row.promised_until_us());
  w.resume_attempt = row.resume_attempt();
  w.resume_number = row.resume_number();
  w.not_before = from_micros(row.not_before_us());
  w.retry_at = from_micros(row.ask_at_us());
  w.wait_deadline = from_micros(row.wait_deadline_us());
  w.reserved_until = from_micros(row.reserved_until_us());
  w.cancelled = row.cancelled();
  w.job_deleted = row.job_deleted();
  w.queue_is_direct = row.queue_is_direct();
  w.priority_unknown = row.priority_unknown();
  w.intents = row.intents();
  w.open_intents = row.open_intents();
  w.external_scheduler = row.external_scheduler();
  w.saved = from_micros(row.saved_us());
  w.min_runtime_until = from_micros(row.min_runtime_until_us());
  w.ended_pods = row.ended_pods();
  w.gated = row.gated();
  w.spec.pods_expected = row.pods_expected();
  w.waiting_time = WholeSeconds(row.waiting_s());
  w.inactive = row.inactive();
  w.max_execution = Duration(row.max_execution_us());
  for (const auto& c : row.checks()) {
    auto& check = w.checks.edit()[c.name()];
    check = {static_cast<Verdict>(c.verdict()), c.message(), from_micros(c.at_us())};
    for (const auto& from : c.updates()) {
      auto& update = check.updates[from.name()];
      update.labels = {from.labels().begin(), from.labels().end()};
      update.annotations = {from.annotations().begin(), from.annotations().end()};
      update.node_selector = {from.node_selector().begin(), from.node_selector().end()};
      for (const auto& t : from.tolerations()) update.tolerations.push_back(wire::from_pb(t));
    }
  }
  w.ran = Duration(row.ran_us());
  w.pods_ready = from_micros(row.pods_ready_us());
  w.pods_lost = from_micros(row.pods_lost_us());
  w.requeues = row.requeues();
  w.spec_print = row.spec_print();
  w.requeued = from_micros(row.requeued_us());
  w.patient = row.patient();
  w.budget = row.budget();
  w.except([&](Exceptions& rare) {
    rare.refused = row.refused();
    rare.rejected = row.rejected();
    rare.cancel_reason = row.cancel_reason();
    if (row.has_next()) rare.next = Spec(wire::from_pb(row.next()));
    rare.next_print = row.next_print();
    rare.scale_up_to = row.scale_up_to();
    rare.scaled_from = row.scaled_from();
    rare.nodes = nodes_from(row.nodes());
  });
  w.planned = Duration(row.planned_us());
  if (row.has_spec_active()) w.spec_active = row.spec_active();
  return w;
}

state::LocalUsageRow to_row(const LocalName& local, const LocalUsage& usage) {
  state::LocalUsageRow row;
  row.set_namespace_(local.first.value());
  row.set_name(local.second);
  row.mutable_consumed()->insert(usage.consumed.begin(), usage.consumed.end());
  row.mutable_entered()->insert(usage.entered.begin(), usage.entered.end());
  row.set_sampled_us(micros(usage.sampled));
  return row;
}

std::pair<LocalName, LocalUsage> from_row(const state::LocalUsageRow& row) {
  return {{Namespace(row.namespace_()), row.name()},
          {{row.consumed().begin(), row.consumed().end()},
           {row.entered().begin(), row.entered().end()},
           from_micros(row.sampled_us())}};
}

state::SubmissionRow to_row(const Submission& s) {
  state::SubmissionRow row;
  row.set_namespace_(s.ns.value());
  row.set_name(s.name);
  row.set_intent(s.intent);
  row.set_at_us(micros(s.at));
  row.set_failed(s.failed);
  row.set_error(s.error);
  row.set_queue(s.queue);
  row.set_team(s.team.value());
  return row;
}

Submission from_row(const state::SubmissionRow& row) {
  return {Namespace(row.namespace_()), row.name(),   row.queue(), Team(row.team()), row.intent(),
          from_micros(row.at_us()),    row.failed(), row.error()};
}

}  // namespace qm::admission
