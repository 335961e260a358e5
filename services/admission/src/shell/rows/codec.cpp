#include "qm/admission/codec.hpp"

#include "qm/admission/queries/queues.hpp"
#include "qm/admission/queries/workloads.hpp"
#include "qm/admission/report.hpp"
#include "qm/admission/translate/translate.hpp"
#include "qm/admission/translate/workload_objects.hpp"
#include "qm/base/log.hpp"
#include "qm/kube/client.hpp"
#include "qm/wire/encode.hpp"
#include "qm/wire/model.hpp"
#include "qm/wire/parse.hpp"
#include "rows/intent_payload.hpp"
#include "rows/rows.hpp"
#include "translate/pods.hpp"

namespace qm::admission {
namespace {

namespace pb = quartermaster::v1;
namespace state = quartermaster::admission;

template <class Message>
Result<Message> parse(const service::Input& input) {
  return wire::parse<Message>(input.bytes, input.name);
}

Result<std::vector<Command>> from_placement(const service::Input& input) {
  QM_ASSIGN(const auto message, parse<pb::PlacementEvent>(input));
  std::vector<Command> commands;
  if (message.has_assignment()) {
    const auto& a = message.assignment();
    if (a.state() == pb::ASSIGNMENT_STATE_UNSPECIFIED) return commands;
    commands.emplace_back(PlacementUpdated{WorkloadUid(a.uid()), a.attempt(), static_cast<Answer>(a.state()),
                                           a.reservation_id(), a.short_reason(), from_micros(a.expires_us())});
  } else if (message.has_requeue()) {
    auto& updated = std::get<RequeueListUpdated>(commands.emplace_back(RequeueListUpdated{}));
    for (const auto& item : message.requeue().items())
      updated.items.emplace_back(WorkloadUid(item.uid()), item.attempt());
  } else if (message.has_eviction() && !input.tombstone) {
    const auto& e = message.eviction();
    if (e.save_until_us() > 0) return commands;  // the autoscaler orders a checkpoint first
    commands.emplace_back(EvictionRequested{
        WorkloadUid(e.uid()), e.attempt(), e.reason(), e.message(), from_micros(e.deadline_us()), {}, "placement"});
  } else if (message.has_proposal()) {
    const auto& p = message.proposal();
    ProposalUpdated updated{p.number(),
                            WorkloadUid(p.uid()),
                            p.attempt(),
                            p.reason() == "Consolidation",
                            {},
                            p.micro_usd(),
                            p.withdrawn() || input.tombstone};
    for (const auto& victim : p.victims())
      updated.victims.push_back({WorkloadUid(victim.uid()), victim.attempt(), victim.moves()});
    commands.emplace_back(std::move(updated));
  }
  return commands;
}

Result<std::vector<Command>> from_capacity(const service::Input& input) {
  QM_ASSIGN(const auto message, parse<pb::CapacityEvent>(input));
  std::vector<Command> commands;
  if (message.has_promise()) {
    const auto& p = message.promise();
    commands.emplace_back(PromiseUpdated{WorkloadUid(p.uid()), p.attempt(), from_micros(p.ready_by_us()),
                                         p.withdrawn() || input.tombstone});
  } else if (message.has_eviction() && !input.tombstone) {
    const auto& e = message.eviction();
    commands.emplace_back(EvictionRequested{WorkloadUid(e.uid()), e.attempt(), e.reason(),
                                            fmt::format("node {}", e.node()), from_micros(e.deadline_us()),
                                            e.resume_uri(), "autoscaler", e.checkpoint_number()});
  } else if (message.has_checkpoint() && message.checkpoint().outcome() == "Acked") {
    const auto& c = message.checkpoint();
    commands.emplace_back(CheckpointUpdated{WorkloadUid(c.uid()), c.attempt(), c.uri(), c.number()});
  }
  return commands;
}

Result<std::vector<Command>> from_cost(const service::Input& input) {
  std::vector<Command> commands;
  QM_ASSIGN(const auto event, parse<pb::CostEvent>(input));
  if (event.has_grant()) {
    const auto& grant = event.grant();
    const int owners = !grant.cluster_queue().empty() + !grant.namespace_().empty() + !grant.team().empty();
    const bool complete = grant.withdrawn() || (owners == 1 && grant.default_run_us() > 0);
    if (grant.budget().empty() || !complete) {
      return fail({Code::kInvalid,
                   fmt::format("budget \"{}\" names no ClusterQueue, namespace or team", grant.budget()),
                   "grant",
                   {}});
    }
    auto granted = from_event(grant);
    // Grants of one budget are ordered by the version of the key, which grows even where the database of
    // cost lost grants.
    granted.sequence = input.version;
    forecast::Budget account;
    for (const auto& [period, amount, carry] : granted.allotments)
      QM_TRY(account.grant(period, amount, carry, Instant{}));
    commands.emplace_back(std::move(granted));
  } else if (event.has_spent()) {
    const auto& spent = event.spent();
    constexpr std::int64_t kMost = std::int64_t{1} << 60;
    if (spent.nano_usd() > kMost || spent.gpu_micros() > kMost) {
      return fail(
          {Code::kInvalid, fmt::format("{}/{} cannot have spent so much", spent.uid(), spent.attempt()), "spent", {}});
    }
    const bool forgotten = input.tombstone && spent.nano_usd() == 0 && spent.gpu_micros() == 0;
    commands.emplace_back(SpendingUpdated{WorkloadUid(spent.uid()), spent.attempt(), spent.nano_usd(),
                                          spent.gpu_micros(), spent.final(), forgotten});
  }
  return commands;
}

/// An object that is not valid becomes a rejected workload that reports the error. Without a uid the
/// error is returned.
Result<JobUpdated> updated_or_rejected(Result<JobUpdated> seen, const Json& object) {
  if (seen) return seen;
  auto rejected = rejected_job(object, seen.error());
  return rejected ? std::move(rejected) : std::move(seen);
}

Result<std::vector<Command>> from_watch(const service::Input& input) {
  if (input.name == kNodesInput) {
    QM_ASSIGN(const auto nodes, parse<state::NodesInput>(input));
    return std::vector<Command>{from_input(nodes)};
  }
  QM_ASSIGN(const auto json, Json::parse(input.bytes));
  std::vector<Command> commands;
  if (input.name == "job.synced" || input.name == "pods.synced") {
    JobsSynced synced;
    synced.pods = input.name == "pods.synced";
    if (!synced.pods) synced.kind = json["kind"].string();
    if (!json["uids"].is_array()) return fail({Code::kInvalid, "a list without uids", "uids", {}});
    for (const auto& uid : json["uids"].items()) synced.uids.emplace(uid.string());
    commands.emplace_back(std::move(synced));
  } else if (input.name == "job") {
    if (json["deleted"].boolean()) {
      commands.emplace_back(JobDeleted{WorkloadUid(kube::uid_of(json))});
    } else if (is_managed(json)) {
      QM_ASSIGN(auto seen, updated_or_rejected(parse_job(json), json));
      commands.emplace_back(std::move(seen));
    }
  } else if (input.name == "workload") {
    if (!is_mirror(json)) {
      QM_ASSIGN(auto seen, updated_or_rejected(parse_workload_object(json), json));
      commands.emplace_back(std::move(seen));
    }
    for (auto& word : words_of(json)) commands.push_back(std::move(word));
  } else if (input.name == "pods") {
    if (json["deleted"].boolean()) {
      commands.emplace_back(JobDeleted{WorkloadUid(kube::uid_of(json))});
    } else {
      QM_ASSIGN(auto seen, updated_or_rejected(parse_pods(json), json));
      commands.emplace_back(std::move(seen));
    }
  } else if (input.name == "object") {
    if (json["deleted"].boolean()) {
      commands.emplace_back(
          ObjectDeleted{json["kind"].string(), Namespace(kube::namespace_of(json)), kube::name_of(json)});
    } else {
      QM_ASSIGN(auto objects, objects_from_manifest(input.bytes, "cluster"));
      commands.emplace_back(std::move(objects));
    }
  } else if (input.name == "object.synced") {
    if (!json["objects"].is_array()) return fail({Code::kInvalid, "a list without objects", "objects", {}});
    ObjectsSynced synced{json["kind"].string(), {}};
    for (const auto& at : json["objects"].items()) {
      synced.names.emplace(Namespace(at["namespace"].string()), at["name"].string());
    }
    commands.emplace_back(std::move(synced));
  } else {
    return fail(Code::kInvalid, "nothing watches {}", input.name);
  }
  return commands;
}

/// Checks that a request names a workload.
template <class Request>
Status named(const Request& r) {
  if (!r.uid().empty() || !r.name().empty()) return {};
  return fail({Code::kInvalid, "no workload is named", "uid", "give a uid, or namespace and name"});
}
template <class Request>
Namespace namespace_in(const Request& r) {
  return Namespace(r.namespace_().empty() ? "default" : r.namespace_());
}

/// The updates that a check makes to pods. Refused: a pod set that is named twice, and updates for a check that is
/// not Ready.
Result<std::map<std::string, PodSetUpdate>> updates_in(const pb::AnswerCheckRequest& r) {
  std::map<std::string, PodSetUpdate> out;
  for (const auto& from : r.pod_set_updates()) {
    auto [update, fresh] = out.try_emplace(from.name());
    if (!fresh || r.state() != pb::CHECK_READY) {
      return fail({Code::kInvalid,
                   fresh ? "only a check that is READY adds to pods" : fmt::format("{} is named twice", from.name()),
                   "pod_set_updates", fresh ? "leave it out" : "name each pod set once"});
    }
    update->second.labels = {from.labels().begin(), from.labels().end()};
    update->second.annotations = {from.annotations().begin(), from.annotations().end()};
    update->second.node_selector = {from.node_selector().begin(), from.node_selector().end()};
    for (const auto& t : from.tolerations()) update->second.tolerations.push_back(wire::from_pb(t));
  }
  return out;
}

Result<std::vector<Command>> from_request(const service::Input& input, bool external_scheduler) {
  std::vector<Command> commands;
  if (input.name == "Submit") {
    QM_ASSIGN(const auto request, parse<pb::SubmitRequest>(input));
    QM_ASSIGN(auto submit, submit_from(request, input.trace_parent, external_scheduler));
    commands.emplace_back(std::move(submit));
  } else if (input.name == "Cancel") {
    QM_ASSIGN(const auto r, parse<pb::CancelRequest>(input));
    QM_TRY(named(r));
    commands.emplace_back(Cancel{WorkloadUid(r.uid()), namespace_in(r), r.name(), r.reason()});
  } else if (input.name == "AnswerCheck") {
    QM_ASSIGN(const auto r, parse<pb::AnswerCheckRequest>(input));
    if (r.check().empty() || r.state() == pb::CHECK_STATE_UNSPECIFIED || !pb::CheckState_IsValid(r.state())) {
      return fail({Code::kInvalid, r.check().empty() ? "no admission check is named" : "the answer has no state",
                   r.check().empty() ? "check" : "state", "name the check, and READY, RETRY, REJECTED or PENDING"});
    }
    if (r.retry_after_us() < 0)
      return fail({Code::kInvalid, "the time is negative", "retry_after_us", "give 0 or more"});
    QM_TRY(named(r));
    AnswerCheck answer{
        WorkloadUid(r.uid()),        namespace_in(r), r.name(), r.check(), static_cast<Verdict>(r.state()), r.message(),
        Duration(r.retry_after_us())};
    QM_ASSIGN(answer.updates, updates_in(r));
    commands.emplace_back(std::move(answer));
  } else if (input.name == "SetActive") {
    QM_ASSIGN(const auto r, parse<pb::SetActiveRequest>(input));
    QM_TRY(named(r));
    commands.emplace_back(SetActive{WorkloadUid(r.uid()), namespace_in(r), r.name(), r.reason(), r.active()});
  } else if (input.name == "Apply") {
    QM_ASSIGN(const auto request, parse<pb::ApplyRequest>(input));
    QM_ASSIGN(auto objects, objects_from_manifest(request.manifest(), request.source()));
    objects.dry_run = request.dry_run();
    commands.emplace_back(std::move(objects));
  } else if (input.name == kEstimated) {
    QM_ASSIGN(const auto note, parse<state::EstimateNote>(input));
    commands.emplace_back(EstimatePublished{WorkloadUid(note.uid()), from_row(note.estimate())});
  } else {
    return fail(Code::kUnimplemented, "{} is not a request of admission", input.name);
  }
  return commands;
}

std::string reply_bytes(const AnyReply& reply) {
  if (const auto* apply = std::get_if<ApplyReply>(&reply)) {
    pb::ApplyResponse out;
    for (const auto& name : apply->applied) out.add_applied(name);
    for (const auto& warning : apply->warnings) out.add_warnings(warning);
    return wire::encode(out);
  }
  if (const auto* submit = std::get_if<SubmitReply>(&reply)) {
    pb::SubmitResponse out;
    out.set_namespace_(submit->ns.value());
    out.set_name(submit->name);
    out.set_kind("Job");
    return wire::encode(out);
  }
  if (const auto* changed = std::get_if<PhaseReply>(&reply)) {
    pb::ChangeResponse out;
    out.set_phase(static_cast<pb::WorkloadPhase>(changed->phase));
    return wire::encode(out);
  }
  pb::CancelResponse out;
  out.set_phase(static_cast<pb::WorkloadPhase>(std::get<CancelReply>(reply).phase));
  return wire::encode(out);
}

/// Adds what placement needs so that it proposes only preemptions that admission will accept.
void add_for_proposals(const Workload& w, const Engine& engine, pb::WorkloadEvent& out) {
  if (!w.holds_quota()) return;
  out.set_quota_tree(quota_tree_name(engine.tables(), w.cluster_queue));
  out.set_min_runtime_until_us(micros(w.min_runtime_until));
  out.set_saved_us(micros(w.saved));
  out.set_ended_pods(std::max(0, w.ended_pods));
  if (const auto* decision = engine.tables().proposals.find(w.spec.uid);
      decision != nullptr && decision->attempt == w.attempt)
    *out.mutable_proposal() = answer_of(*decision);
  const auto* queue = engine.tables().cluster_queues.find(w.cluster_queue);
  if (w.phase != Phase::kQuotaReserved || queue == nullptr || queue->volcano) return;
  const auto may = [](PreemptPolicy policy) {
    return policy != PreemptPolicy::kNever && policy != PreemptPolicy::kUnset;
  };
  out.mutable_may_preempt()->set_own_queue(may(queue->within_cluster_queue));
  out.mutable_may_preempt()->set_quota_tree(may(queue->reclaim_within_cohort));
}

std::optional<std::string> manifest_bytes(const std::string* json, bool closing) {
  if (json == nullptr) return std::nullopt;
  state::ManifestRow row;
  row.set_json(*json);
  row.set_closing(closing);
  return wire::encode(row);
}

}  // namespace

Result<std::vector<Command>> Codec::decode(const service::Input& input) const {
  switch (input.source) {
    case service::Source::kTimer:
      return std::vector<Command>{Tick{}};
    case service::Source::kBus:
      if (input.name == "qm.placement") return from_placement(input);
      if (input.name == "qm.capacity") return from_capacity(input);
      if (input.name == "qm.cost") return from_cost(input);
      return std::vector<Command>{};
    case service::Source::kWatch:
      return from_watch(input);
    case service::Source::kRequest:
      return from_request(input, external_scheduler_);
    case service::Source::kOutcome: {
      QM_ASSIGN(const auto o, parse<state::JobOutcome>(input));
      return std::vector<Command>{IntentOutcome{input.name, input.id, o.subject(), o.attempt(), o.ok(), o.complete(),
                                                o.failed(), o.error(), o.quiet()}};
    }
  }
  return fail(Code::kInternal, "an input of unknown source");
}

void Codec::encode(const Engine& engine, const Output& output, std::span<const std::size_t> origin,
                   service::Effects& effects) const {
  const auto& t = engine.tables();
  t.workloads.changed([&](const WorkloadUid& uid, const Workload* w) {
    effects.state.push_back(
        {"workload", uid.value(), w == nullptr ? std::nullopt : std::optional(wire::encode(to_row(*w)))});
  });
  t.submissions.changed([&](const auto& key, const Submission* s) {
    effects.state.push_back({"submission", fmt::format("{}/{}", key.first, key.second),
                             s == nullptr ? std::nullopt : std::optional(wire::encode(to_row(*s)))});
  });
  t.local_usage.changed([&](const LocalName& local, const LocalUsage* usage) {
    effects.state.push_back({"local_usage", fmt::format("{}/{}", local.first, local.second),
                             usage == nullptr ? std::nullopt : std::optional(wire::encode(to_row(local, *usage)))});
  });
  t.budgets.changed([&](const std::string& name, const BudgetRow* budget) {
    effects.state.push_back(
        {"budget", name, budget == nullptr ? std::nullopt : std::optional(wire::encode(to_row(name, *budget)))});
  });
  t.holds.changed([&](const HoldKey& key, const Hold* hold) {
    effects.state.push_back({"hold", fmt::format("{}/{}/{}", key.uid, key.attempt, key.budget),
                             hold == nullptr ? std::nullopt : std::optional(wire::encode(to_row(key, *hold)))});
  });
  const auto small_row = [&](const char* kind, std::string key, const auto* row, const auto& made) {
    effects.state.push_back(
        {kind, std::move(key), row == nullptr ? std::nullopt : std::optional(wire::encode(made(*row)))});
  };
  t.run_times.changed([&](const forecast::JobClass& job_class, const auto* row) {
    small_row("run_times", fmt::format("{}|{}|{}", job_class.team, job_class.shape, job_class.stem), row,
              [&](const auto& table) { return to_row(job_class, table); });
  });
  t.estimates.changed([&](const WorkloadUid& uid, const StartEstimate* row) {
    small_row("start_estimate", uid.value(), row, [](const StartEstimate& estimate) { return to_row(estimate); });
  });
  t.corrections.changed([&](const std::string& key, const auto* row) {
    small_row("correction", key, row, [](const auto& correction) { return to_row(correction); });
  });
  t.proposals.changed([&](const WorkloadUid& uid, const auto* row) {
    small_row("proposal", uid.value(), row, [](const ProposalDecision& decision) { return to_row(decision); });
  });
  t.preemption_budget.changed([&](int, const auto* row) {
    small_row("preemption_budget", "preemption_budget", row,
              [](const PreemptionBudget& count) { return to_row(count); });
  });
  const auto manifest = [&](const char* kind, std::string key, const auto* row, bool closing = false) {
    effects.state.push_back({kind, std::move(key), manifest_bytes(row == nullptr ? nullptr : &row->source, closing)});
  };
  t.cluster_queues.changed([&](const auto& key, const auto* row) {
    manifest("cluster_queue", key.value(), row, row != nullptr && row->closing);
  });
  t.local_queues.changed([&](const auto& key, const auto* row) {
    manifest("local_queue", fmt::format("{}/{}", key.first, key.second), row);
  });
  t.cohorts.changed([&](const auto& key, const auto* row) { manifest("cohort", key, row); });
  t.flavors.changed([&](const auto& key, const auto* row) { manifest("flavor", key.value(), row); });
  t.priority_classes.changed([&](const auto& key, const auto* row) {
    manifest("priority_class", fmt::format("{}/{}", key.second ? "workload" : "pod", key.first), row);
  });
  t.admission_checks.changed([&](const auto& key, const auto* row) { manifest("admission_check", key, row); });
  t.topologies.changed([&](const auto& key, const auto* row) { manifest("topology", key, row); });
  t.nodes.changed([&](const NodeName& name, const auto* row) {
    small_row("node", name.value(), row, [](const NodeState& node) { return to_row(node); });
  });
  t.namespaces.changed([&](const auto& key, const auto* row) { manifest("namespace", key.value(), row); });
  for (const auto& event : output.events) {
    if (event.what != Event::What::kBound) {  // placement published it itself
      auto message = to_event(event.workload, engine);
      add_for_proposals(event.workload, engine, message);
      // A gated workload requests no capacity, so other services see it as pending.
      if (event.workload.gated) message.set_phase(pb::PENDING);
      effects.events.push_back(
          {kTopic, event.workload.spec.uid.value(), wire::encode(message), event.what == Event::What::kForgotten});
    }
    if (auto row = transition_row(event)) effects.appends.push_back(std::move(*row));
  }
  for (const auto& intent : output.intents) {
    // An Event that cannot be written must not block the writes that the job needs.
    const std::string key = intent.kind == "event.create" ? "event/" + intent.key : intent.key;
    effects.intents.push_back({intent.id, intent.kind, key, 0, payload_of(intent, engine)});
  }
  for (const auto& reply : output.replies) {
    Result<std::string> bytes =
        reply.result ? Result<std::string>(reply_bytes(*reply.result)) : fail(reply.result.error());
    effects.answers.push_back({origin[reply.command], std::move(bytes)});
  }
  effects.wake_at = output.wake_at;
  effects.pending = output.pending;
}

Status Codec::load(Engine& engine, std::span<const store::StateRow> rows) const {
  auto& t = engine.tables_for_load();
  t.cluster_queues.clear();
  t.local_queues.clear();
  t.local_usage.clear();
  t.cohorts.clear();
  t.flavors.clear();
  t.priority_classes.clear();
  t.namespaces.clear();
  t.admission_checks.clear();
  t.topologies.clear();
  t.nodes.clear();
  t.workloads.clear();
  t.submissions.clear();
  t.budgets.clear();
  t.holds.clear();
  t.run_times.clear();
  t.estimates.clear();
  t.corrections.clear();
  t.proposals.clear();
  t.preemption_budget.clear();
  ApplyObjects objects;
  for (const auto& row : rows) {
    if (!row.value) continue;
    const auto broken = [&] { return fail(Code::kInternal, "state row {} {} cannot be read", row.kind, row.key); };
    if (row.kind == "workload") {
      state::WorkloadRow message;
      if (!message.ParseFromString(*row.value)) return broken();
      t.workloads.restore(WorkloadUid(row.key), from_row(message));
    } else if (row.kind == "budget") {
      state::BudgetRow message;
      if (!message.ParseFromString(*row.value)) return broken();
      auto [name, budget] = from_row(message);
      t.budgets.restore(name, std::move(budget));
    } else if (row.kind == "hold") {
      state::HoldRow message;
      if (!message.ParseFromString(*row.value)) return broken();
      auto [key, hold] = from_row(message);
      t.holds.restore(key, std::move(hold));
    } else if (row.kind == "local_usage") {
      state::LocalUsageRow message;
      if (!message.ParseFromString(*row.value)) return broken();
      auto [local, usage] = from_row(message);
      t.local_usage.restore(local, std::move(usage));
    } else if (row.kind == "submission") {
      state::SubmissionRow message;
      if (!message.ParseFromString(*row.value)) return broken();
      auto submission = from_row(message);
      const std::pair key{submission.ns, submission.name};
      t.submissions.restore(key, std::move(submission));
    } else if (row.kind == "node") {
      state::NodeRow message;
      if (!message.ParseFromString(*row.value)) return broken();
      t.nodes.restore(NodeName(row.key), from_row(message));
    } else if (row.kind == "run_times") {
      state::RunTimesRow message;
      if (!message.ParseFromString(*row.value)) return broken();
      auto [job_class, table] = from_row(message);
      t.run_times.restore(job_class, std::move(table));
    } else if (row.kind == "start_estimate") {
      state::EstimateRow message;
      if (!message.ParseFromString(*row.value)) return broken();
      t.estimates.restore(WorkloadUid(row.key), from_row(message));
    } else if (row.kind == "correction") {
      state::CorrectionRow message;
      if (!message.ParseFromString(*row.value)) return broken();
      t.corrections.restore(row.key, from_row(message));
    } else if (row.kind == "proposal") {
      state::ProposalRow message;
      if (!message.ParseFromString(*row.value)) return broken();
      t.proposals.restore(WorkloadUid(row.key), from_row(message));
    } else if (row.kind == "preemption_budget") {
      state::PreemptionBudgetRow message;
      if (!message.ParseFromString(*row.value)) return broken();
      t.preemption_budget.restore(0, {from_micros(message.since_us()), message.workloads()});
    } else {
      state::ManifestRow message;
      if (!message.ParseFromString(*row.value)) return broken();
      const auto loaded = config::load_stored(message.json(), row.kind + "/" + row.key);
      if (loaded.objects.size() != 1) return broken();
      if (const auto added = add_object(loaded.objects[0], objects); !added) {
        return fail(added.error().with_context(fmt::format("state row {} {}", row.kind, row.key)));
      }
      if (message.closing()) objects.cluster_queues.back().closing = true;
    }
  }
  for (auto& q : objects.cluster_queues) t.cluster_queues.restore(q.name, q);
  for (auto& q : objects.local_queues) t.local_queues.restore({q.ns, q.name}, q);
  for (auto& c : objects.cohorts) t.cohorts.restore(c.name, c);
  for (auto& f : objects.flavors) t.flavors.restore(f.name, f);
  for (auto& c : objects.admission_checks) t.admission_checks.restore(c.name, c);
  for (auto& one : objects.topologies) t.topologies.restore(one.name, one);
  for (auto& n : objects.namespaces) t.namespaces.restore(n.name, n);
  for (auto& p : objects.priority_classes) t.priority_classes.restore({p.name, p.workload_only}, p);
  engine.loaded();
  return {};
}

void Codec::debug_state(const Engine& engine, service::StateDump& out) const {
  const auto& tables = engine.tables();
  out.set("submissions", std::uint64_t{tables.submissions.size()});
  out.set("stale_messages", engine.counters().stale);
  out.set("unknown_messages", engine.counters().unknown);
  out.list("queues", tables.cluster_queues.rows(), [&](const auto& name, const auto& queue) {
    const auto v = queue_view(engine.state(), queue);
    Json used = Json::object();
    for (const auto& [resource, amount] : v.used) {
      used.set(resource,
               fmt::format("{}/{}", show_amount(resource, amount), show_amount(resource, v.nominal.at(resource))));
    }
    out.weigh(static_cast<std::size_t>(v.holding));
    return std::optional(Json::object({{"name", name.value()},
                                       {"cohort", queue.cohort},
                                       {"deleted", queue.closing},
                                       {"ready", v.pending_ready},
                                       {"backed_off", v.pending_backed_off},
                                       {"holding", v.holding},
                                       {"used", used}}));
  });
  out.list("workloads", tables.workloads, [&](const auto& uid, const auto& w) {
    out.tally("phases", name_of(w.phase));
    if (w.ended()) return std::optional<Json>();
    Json awaited = Json::array();
    if (w.claim) {
      for (const auto& victim : w.claim->victims) awaited.push_back(victim.value());
    }
    out.weigh(awaited.size());
    return std::optional(Json::object({{"uid", uid.value()},
                                       {"name", fmt::format("{}/{}", w.spec.ns, w.spec.name)},
                                       {"attempt", w.attempt},
                                       {"phase", name_of(w.phase)},
                                       {"queue", w.cluster_queue.value()},
                                       {"priority", w.spec.priority},
                                       {"claims_room_of", std::move(awaited)},
                                       {"reason", *w.reason}}));
  });
}

bool awaits(service::Host& host, const std::string& ns, const std::string& name, const std::string& intent) {
  bool answer = false;
  host.read([&](const service::Shell& shell) {
    answer = awaits(static_cast<const AdmissionShell&>(shell).engine().tables(), Namespace(ns), name, intent);
  });
  return answer;
}

}  // namespace qm::admission
