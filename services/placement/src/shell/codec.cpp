// Decodes inputs to commands; encodes the engine's output as rows, events and intents.
#include "qm/base/log.hpp"
#include "qm/kube_objects/rules.hpp"
#include "qm/placement/ownership.hpp"
#include "qm/placement/shell.hpp"
#include "qm/wire/encode.hpp"
#include "qm/wire/parse.hpp"
#include "shell/layouts_yaml.hpp"
#include "shell/objects.hpp"
#include "shell/solo.hpp"
#include "shell/wire.hpp"

namespace qm::placement {
namespace {

using service::Input;
using service::Source;
using Commands = std::vector<Command>;

/// WorkloadEvent.reason of a workload that backs off because placement had no nodes for it.
constexpr std::string_view kNoFreeCapacity = "InsufficientCapacity";

template <class Message>
Result<Message> parse_message(const Input& input) {
  return wire::parse<Message>(input.bytes, fmt::format("message of {} with key {}", input.name, input.key));
}

Result<Commands> decode_workload(const Input& input) {
  QM_ASSIGN(const auto event, parse_message<pb::WorkloadEvent>(input));
  const bool of_any_attempt = input.tombstone && event.attempt() == 0;  // the event source no longer knows the attempt
  if (event.spec().uid().empty() || (event.attempt() < 1 && !of_any_attempt)) {
    return fail(Error{Code::kInvalid, fmt::format("workload event {} has no uid or no attempt", input.key),
                      event.spec().uid().empty() ? "spec.uid" : "attempt", "attempts start at 1"});
  }
  WorkloadUpdated update;
  update.spec = from_pb(event.spec());
  update.spec.labels.erase(kUnadmitted);  // set only on the workloads of `Solo`; a Job may carry the label
  for (PodSet& set : update.spec.pod_sets) set.rules = kube_objects::rules_text(update.spec.ns, set.rules);
  update.attempt = event.attempt();
  switch (event.phase()) {
    case pb::PENDING:
    case pb::REJECTED:  // requires no placement, like a workload without quota
      update.phase = WorkloadPhase::kPending;
      break;
    case pb::QUOTA_RESERVED:
      update.phase = WorkloadPhase::kQuotaReserved;
      break;
    case pb::ADMITTED:
      update.phase = WorkloadPhase::kAdmitted;
      break;
    case pb::EVICTING:
      update.phase = WorkloadPhase::kEvicting;
      break;
    case pb::FINISHED:
      update.phase = WorkloadPhase::kFinished;
      break;
    case pb::CANCELLED:
      update.phase = WorkloadPhase::kCancelled;
      break;
    default:
      return fail(Error{Code::kInvalid, fmt::format("workload event {} has no known phase", input.key), "phase",
                        "update placement before admission"});
  }
  update.no_free_capacity = event.phase() == pb::PENDING && event.reason() == kNoFreeCapacity;
  update.quota_reserved = from_micros(event.quota_reserved_us());
  update.order_reason = event.eviction().reason();
  update.order_deadline = from_micros(event.eviction().deadline_us());
  update.quota_facts = {event.cluster_queue(),
                        event.quota_tree(),
                        event.may_preempt().own_queue(),
                        event.may_preempt().quota_tree(),
                        from_micros(event.admitted_us()),
                        from_micros(event.saved_us()),
                        from_micros(event.min_runtime_until_us()),
                        event.ended_pods(),
                        event.quota_position()};
  if (event.has_proposal()) {
    const auto& published_at = event.proposal();
    auto& answer = update.answer.emplace(
        ProposalAnswer{published_at.number(), published_at.accepted(), published_at.reason(), {}});
    for (const auto& uid : published_at.refused()) answer.refused.emplace_back(uid);
  }
  return Commands{std::move(update)};
}

Result<Commands> decode_gpu(const Input& input) {
  QM_ASSIGN(const auto event, parse_message<pb::GpuEvent>(input));
  if (event.has_health()) {
    const auto& verdict = event.health();
    HealthUpdated update{NodeName(verdict.node()), std::nullopt};
    const bool cordon = verdict.action() == pb::HEALTH_CORDON;
    if (!input.tombstone && (cordon || verdict.action() == pb::HEALTH_RESET_GPU)) {
      // An absent index reads as 0, too: only the uuid or the list shows that the verdict is for one GPU.
      const auto named = [&](const auto& gpu) {
        return gpu.gpu_index() == verdict.gpu_index() && gpu.xid() == verdict.xid();
      };
      const bool of_gpu = !verdict.gpu_uuid().empty() || std::ranges::any_of(verdict.gpus(), named);
      const std::int32_t gpu = of_gpu ? verdict.gpu_index() : -1;
      // If the GPU to reset is unknown, the verdict applies to the node.
      auto& mark = update.mark.emplace(HealthVerdict{cordon || gpu < 0, gpu, verdict.xid(), verdict.reason(), {}});
      for (const auto& one : verdict.gpus())
        mark.gpus[one.gpu_index()] = {one.action() == pb::HEALTH_CORDON, one.reason(), from_micros(one.at_us())};
    }
    return Commands{std::move(update)};
  }
  if (event.has_devices()) {
    const auto& seen = event.devices();
    DevicesObserved update{NodeName(seen.node()), {from_micros(seen.at_us()), {}}};
    for (const auto& pod : seen.pods()) {
      for (const auto& device : pod.devices()) {
        update.seen.pods[pod.namespace_() + "/" + pod.pod()].push_back(from_pb(device));
      }
    }
    return Commands{std::move(update)};
  }
  if (event.has_node_report()) {
    NodeReportUpdated update{NodeName(event.node_report().node()), std::nullopt};
    if (!input.tombstone) update.report = from_pb(event.node_report());
    return Commands{std::move(update)};
  }
  return Commands{};
}

Result<Commands> decode_capacity(const Input& input) {
  QM_ASSIGN(const auto event, parse_message<pb::CapacityEvent>(input));
  if (!event.has_drain()) return Commands{};
  DrainUpdated update{NodeName(event.drain().node()), std::nullopt};
  if (!event.drain().lifted() && !input.tombstone) {
    update.mark = DrainRequest{event.drain().reason(), from_micros(event.drain().deadline_us())};
  }
  return Commands{std::move(update)};
}

Result<Commands> decode_watch(const Input& input) {
  if (input.name == "watch.started") return Commands{WatchStarted{}};
  QM_ASSIGN(const auto json, Json::parse(input.bytes));
  const bool deleted = json["deleted"].boolean();
  if (input.name == "node") {
    const NodeName name(kube::name_of(json));
    if (name.empty()) return fail(Error{Code::kInvalid, "a watched node has no name", "metadata.name", {}});
    if (deleted) return Commands{NodeDeleted{name}};
    return Commands{NodeUpdated{name, node_from_json(json)}};
  }
  if (input.name == "pod") {
    const std::string uid = kube::uid_of(json);
    if (uid.empty()) return fail(Error{Code::kInvalid, "a watched pod has no uid", "metadata.uid", {}});
    if (deleted) return Commands{PodDeleted{uid}};
    return Commands{PodUpdated{pod_from_json(json)}};
  }
  if (input.name == "claim" || input.name == "volume" || input.name == "class" || input.name == "limits") {
    const std::string name = kube::name_of(json);
    if (name.empty()) return fail(Error{Code::kInvalid, "watched storage has no name", "metadata.name", {}});
    std::string key = storage_key(input.name, json);
    if (deleted) return Commands{StorageDeleted{std::move(key)}};
    if (input.name == "claim") return Commands{StorageUpdated{std::move(key), claim_from_json(json)}};
    if (input.name == "volume") return Commands{StorageUpdated{std::move(key), volume_from_json(json)}};
    if (input.name == "limits") return Commands{StorageUpdated{std::move(key), attach_limits_from_json(json)}};
    return Commands{StorageUpdated{std::move(key), storage_class_from_json(json)}};
  }
  if (input.name == "claim.synced" || input.name == "volume.synced" || input.name == "class.synced" ||
      input.name == "limits.synced") {
    StorageSynced synced{input.name.substr(0, input.name.find('.')), {}};
    for (const Json& key : json.items()) synced.keys.insert(key.string());
    return Commands{std::move(synced)};
  }
  if (input.name == "solo") {
    WorkloadUpdated update;
    update.phase = deleted || json["ended"].boolean() ? WorkloadPhase::kFinished : WorkloadPhase::kAdmitted;
    if (update.phase == WorkloadPhase::kAdmitted) {
      QM_ASSIGN(update.spec, solo_workload(json));
      for (PodSet& set : update.spec.pod_sets) set.rules = kube_objects::rules_text(update.spec.ns, set.rules);
    }
    update.spec.uid = WorkloadUid(json["uid"].string());
    return Commands{std::move(update)};
  }
  if (input.name == "node.synced") {
    NodesSynced synced;
    for (const Json& name : json.items()) synced.nodes.emplace(name.string());
    return Commands{std::move(synced)};
  }
  if (input.name == "pod.synced") {
    PodsSynced synced;
    for (const Json& uid : json.items()) synced.uids.insert(uid.string());
    return Commands{std::move(synced)};
  }
  return fail(Code::kInvalid, "there is no watch {}", input.name);
}

Result<Commands> decode_outcome(const Input& input) {
  QM_ASSIGN(const auto json, Json::parse(input.bytes));
  std::optional<Error> error;
  if (const auto code = json["code"].integer(); code != 0) {
    error = Error{static_cast<Code>(code), json["message"].string(), {}, {}};
  }
  if (input.name == "pod.bind") {
    return Commands{
        BindFinished{{WorkloadUid(json["uid"].string()), static_cast<std::int32_t>(json["attempt"].integer())},
                     json["pod_uid"].string(),
                     std::move(error)}};
  }
  if (error) return Commands{IntentFailed{input.name, error->message}};
  return Commands{};
}

Result<Commands> decode_request(const Input& input) {
  if (input.name != "OrderLayouts") return fail(Code::kUnimplemented, "placement has no request {}", input.name);
  QM_ASSIGN(const auto request, parse_message<pb::OrderLayoutsRequest>(input));
  ReadLayouts read;
  if (!request.manifest().empty() || request.withdraw().empty()) {
    QM_ASSIGN(read, layouts_from_manifest(request.manifest(), request.source()));
  }
  for (const auto& node : request.withdraw()) read.order.withdraw.emplace(node);
  read.order.warnings = std::move(read.warnings);
  read.order.dry_run = request.dry_run();
  return Commands{std::move(read.order)};
}

struct Encoder {
  service::Effects& effects;
  const Engine& engine;

  /// Pods without admission exist in the cluster while there is no free capacity. Their condition
  /// reports it, as that of any scheduler does, so that a node autoscaler may act on it.
  void set_unschedulable(const AssignmentChanged& event) const {
    const auto* workload = engine.tables().workloads.find(event.id.uid);
    if (workload == nullptr || !workload->spec.labels.contains(kUnadmitted)) return;
    for (const auto& [uid, pod] : engine.tables().pods) {
      if (!pod.facts.node.empty() || pod.facts.terminal()) continue;
      if (ownership_of(engine.tables(), pod.facts, event.id.uid) != PodOwnership::kOwned) continue;
      effects.intents.push_back({fmt::format("unschedulable/{}/{}", uid, event.state.revision), "pod.unschedulable",
                                 fmt::format("pod/{}/{}", pod.facts.ns, pod.facts.name), 0,
                                 Json::object({{"namespace", pod.facts.ns},
                                               {"pod", pod.facts.name},
                                               {"pod_uid", uid},
                                               {"message", event.state.short_reason}})
                                     .dump()});
    }
  }

  void publish(const char* topic, std::string key, std::string payload, bool tombstone) const {
    effects.events.push_back({topic, std::move(key), std::move(payload), tombstone});
  }
  void operator()(const AssignmentChanged& event) const {
    if (event.state.state == AssignmentState::kShort && !event.forgotten) set_unschedulable(event);
    pb::PlacementEvent out;
    *out.mutable_assignment() = to_pb(event.id, event.state);
    publish("qm.placement", event.id.to_string(), wire::encode(out), event.forgotten);
  }
  void operator()(const DemandChanged& event) const {
    pb::PlacementEvent out;
    *out.mutable_demand() = to_pb(event.items);
    publish("qm.placement", "demand", wire::encode(out), false);
  }
  void operator()(const RequeueChanged& event) const {
    pb::PlacementEvent out;
    *out.mutable_requeue() = to_pb(event.items);
    publish("qm.placement", "requeue", wire::encode(out), false);
  }
  void operator()(const EvictionRequested& event) const {
    pb::PlacementEvent out;
    *out.mutable_eviction() = to_pb(event.id, event.ask);
    publish("qm.placement", "evict/" + event.id.to_string(), wire::encode(out), event.forgotten);
  }
  void operator()(const ProposalChanged& event) const {
    pb::PlacementEvent out;
    *out.mutable_proposal() = to_pb(event.uid, event.state, event.withdrawn);
    publish("qm.placement", fmt::format("propose/{}", event.state.number), wire::encode(out), event.withdrawn);
  }
  void operator()(const NodeChanged& event) const {
    publish("qm.node", event.name.value(), wire::encode(to_pb(event.name, event.node)), event.gone);
  }

  void intend(std::int64_t number, const char* kind, std::string key, const Json& payload) const {
    effects.intents.push_back({fmt::format("placement/{}", number), kind, std::move(key), 0, payload.dump()});
  }
  /// Pods of the attempt that are not bound yet.
  [[nodiscard]] std::int64_t unbound_pods(const AttemptId& id) const {
    const Assignment* row = engine.tables().assignments.find(id);
    const auto unbound = [](const Member& member) { return member.live() && member.bound == Instant{}; };
    return row == nullptr ? 1 : std::ranges::count_if(row->members, unbound);
  }
  void operator()(std::int64_t number, const BindPod& bind) const {
    std::string devices;
    for (const auto index : bind.devices) devices += fmt::format("{}{}", devices.empty() ? "" : ",", index);
    Json claims = Json::array();
    for (const auto& claim : bind.claims) claims.push_back(claim);
    intend(number, "pod.bind", fmt::format("pod/{}/{}", bind.ns, bind.pod),
           Json::object({{"claims", std::move(claims)},
                         {"ring", bind.ring},
                         {"uid", bind.attempt.uid.value()},
                         {"attempt", bind.attempt.attempt},
                         {"index", bind.index},
                         {"unbound", unbound_pods(bind.attempt)},
                         {"namespace", bind.ns},
                         {"pod", bind.pod},
                         {"pod_uid", bind.pod_uid},
                         {"node", bind.node.value()},
                         {"devices", devices}}));
  }
  void operator()(std::int64_t number, const DeletePod& order) const {
    intend(number, "pod.delete", fmt::format("pod/{}/{}", order.ns, order.pod),
           Json::object({{"namespace", order.ns},
                         {"pod", order.pod},
                         {"pod_uid", order.pod_uid},
                         {"grace_s", order.grace_s},
                         {"evict_until_us", micros(order.evict_until)}}));
  }
  void operator()(std::int64_t number, const RefusePod& order) const {
    intend(number, "pod.unschedulable", fmt::format("pod/{}/{}", order.ns, order.pod),
           Json::object(
               {{"namespace", order.ns}, {"pod", order.pod}, {"pod_uid", order.pod_uid}, {"message", order.message}}));
  }
  void operator()(std::int64_t number, const MarkNode& order) const {
    const auto words = [](const Labels& labels) {
      Json out = Json::object();
      for (const auto& [key, value] : labels) out.set(key, value);
      return out;
    };
    Json owned = Json::array();
    for (const auto& prefix : order.report.owned_prefixes) owned.push_back(prefix);
    intend(number, "node.mark", "node/" + order.node.value(),
           Json::object({{"node", order.node.value()},
                         {"labels", words(order.report.labels)},
                         {"annotations", words(order.report.annotations)},
                         {"owned", std::move(owned)}}));
  }
  void operator()(std::int64_t number, const CordonNode& order) const {
    intend(number, "node.cordon", "node/" + order.node.value(),
           Json::object({{"node", order.node.value()}, {"causes", order.causes}}));
  }
  void operator()(std::int64_t number, const LabelNode& order) const {
    intend(number, "node.layout", "node/" + order.node.value(),
           Json::object({{"node", order.node.value()}, {"layout", order.layout}}));
  }
};

Result<std::string> answer_of(const Reply& reply) {
  if (!reply.answer) return fail(reply.answer.error());
  pb::OrderLayoutsResponse out;
  for (const auto& order : reply.answer->orders) *out.add_orders() = to_pb(order);
  for (const auto& layout : reply.answer->layouts) out.add_layouts(layout);
  for (const auto& warning : reply.answer->warnings) out.add_warnings(warning);
  return wire::encode(out);
}

}  // namespace

metrics::Counter Meters::proposals(const std::string& outcome) {
  return registry_.counter("qm_placement_proposals_total", "Preemption proposals, by outcome", {{"outcome", outcome}});
}

metrics::Counter Meters::moves(const std::string& outcome) {
  return registry_.counter("qm_placement_migrations_total", "Migrations proposed for defragmentation, by outcome",
                           {{"outcome", outcome}});
}

metrics::Counter Meters::foreign(const std::string& reason) {
  return registry_.counter("qm_placement_foreign_pods_total",
                           "Pods that name a workload that is not their controller, by reason", {{"reason", reason}});
}

Meters::Meters(metrics::Registry& registry)
    : preempted_gpu_seconds(registry.counter("qm_placement_preempted_gpu_seconds_total",
                                             "GPU-seconds of work that preempted workloads lost")),
      migrated_gpu_seconds(registry.counter("qm_placement_migrated_gpu_seconds_total",
                                            "GPU-seconds of work that migrated workloads lost")),
      nodes_reclaimed(
          registry.counter("qm_placement_nodes_reclaimed_total", "Whole nodes that defragmentation reclaimed")),
      stale(registry.counter("qm_placement_stale_total", "Dropped messages and pods of older attempts")),
      drift(registry.counter("qm_placement_device_drift_total",
                             "Members with other devices from the kubelet than planned")),
      drift_refused(registry.counter("qm_placement_observations_refused_total",
                                     "Device observations with a duplicate or an unknown device")),
      intents_failed(registry.counter("qm_placement_intents_failed_total", "Intents that failed permanently")),
      repartition(
          registry.counter("qm_placement_mig_repartitions_total", "MIG repartitions ordered for pending workloads")),
      decision_seconds(registry.histogram("qm_placement_decision_seconds",
                                          "From quota reserved to the reservation, in domain time",
                                          {0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000, 10000})),
      bind_seconds(registry.histogram("qm_placement_bind_seconds",
                                      "From the reservation to the last bind of the gang, in domain time",
                                      {0.1, 0.3, 1, 3, 10, 30, 100, 300})),
      registry_(registry) {
  // Initialized to zero: the increase of a counter that does not exist yet would not be visible.
  for (const auto why : {PodOwnership::kOtherNamespace, PodOwnership::kOtherController})
    foreign(std::string(name_of(why)));
}

Result<std::vector<Command>> Codec::decode(const Input& input) {
  switch (input.source) {
    case Source::kTimer:
      return Commands{Tick{}};
    case Source::kWatch:
      return decode_watch(input);
    case Source::kOutcome:
      return decode_outcome(input);
    case Source::kRequest:
      return decode_request(input);
    case Source::kBus:
      break;
  }
  if (input.name == "qm.workload") return decode_workload(input);
  if (input.name == "qm.gpu") return decode_gpu(input);
  if (input.name == "qm.capacity") return decode_capacity(input);
  return fail(Code::kInvalid, "placement does not consume topic {}", input.name);
}

void Codec::encode(const Engine& engine, const Output& output, std::span<const std::size_t> origin,
                   service::Effects& effects) {
  append_changed_rows(engine.tables(), effects.state);
  const Encoder encoder{effects, engine};
  for (const Event& event : output.events) std::visit(encoder, event);
  for (const Intent& intent : output.intents) {
    std::visit([&](const auto& what) { encoder(intent.number, what); }, intent.what);
  }
  for (const Reply& reply : output.replies) effects.answers.push_back({origin[reply.command], answer_of(reply)});
  effects.wake_at = output.wake_at;
  effects.pending = output.pending;
  log_foreign(output.notes.foreign);
  if (!meters_) return;
  const StepStats& notes = output.notes;
  meters_->stale.add(static_cast<double>(notes.stale));
  for (const ForeignPod& pod : notes.foreign) meters_->foreign(std::string(name_of(pod.why))).add();
  meters_->drift.add(static_cast<double>(notes.drift));
  meters_->drift_refused.add(static_cast<double>(notes.drift_refused));
  for (const auto& [outcome, count] : notes.proposals) meters_->proposals(outcome).add(static_cast<double>(count));
  meters_->preempted_gpu_seconds.add(static_cast<double>(notes.preempted_gpu_ms) / 1000);
  for (const auto& [outcome, count] : notes.moves) meters_->moves(outcome).add(static_cast<double>(count));
  meters_->migrated_gpu_seconds.add(static_cast<double>(notes.moved_gpu_ms) / 1000);
  meters_->nodes_reclaimed.add(static_cast<double>(notes.nodes_reclaimed));
  meters_->intents_failed.add(static_cast<double>(notes.intents_failed));
  meters_->repartition.add(static_cast<double>(notes.repartition));
  for (const Duration wait : notes.decided_after) meters_->decision_seconds.observe(seconds(wait));
  for (const Duration wait : notes.bound_after) meters_->bind_seconds.observe(seconds(wait));
}

/// Logs one line for each batch, with the first pod and the count, since a user can create any number of such pods.
void Codec::log_foreign(const std::vector<ForeignPod>& pods) {
  if (pods.empty()) return;
  const ForeignPod& first = pods.front();
  log::warn("pods name a workload that is not their controller; they do not count for it",
            {{"pods", pods.size()},
             {"pod", first.pod},
             {"workload", first.named.value()},
             {"reason", name_of(first.why)},
             {"remedy",
              "remove the annotation quartermaster.dev/workload, or let the workload's controller create the pod"}});
}

Status Codec::load(Engine& engine, std::span<const store::StateRow> rows) {
  engine.mutable_tables().each([](auto& table) { table.clear(); });
  QM_TRY(restore_rows(rows, engine.mutable_tables()));
  engine.rebuild();
  return {};
}

void Codec::debug_state(const Engine& engine, service::StateDump& out) const {
  const Tables& tables = engine.tables();
  out.set("synced", engine.synced());
  out.set("pods", tables.pods.size());
  out.set("workloads", tables.workloads.size());
  out.map("nodes", tables.nodes.rows(), [&](const auto& name, const auto& node) {
    Json devices = Json::array();
    for (const auto& use : engine.devices_of(name)) devices.push_back(use.used_milli);
    out.weigh(devices.size());
    return std::pair(name.value(), Json::object({{"state", name_of(node.state)},
                                                 {"reason", node.reason},
                                                 {"pods", node.pods},
                                                 {"used_milli", std::move(devices)}}));
  });
  out.map("cuts", tables.repartitions.rows(), [&](const auto& name, const auto& repartition) {
    Json row = Json::object({{"finding", tables.nodes.contains(name) ? engine.layout_finding(name) : std::string()}});
    if (repartition.order) {
      row.set("layout", repartition.order->order.layout)
          .set("phase", relayout::name_of(repartition.order->phase))
          .set("reason", repartition.order->reason);
    }
    if (repartition.reserved_for && repartition.reserved_for->waits)
      row.set("kept_for", repartition.reserved_for->uid.value());
    return std::pair(name.value(), std::move(row));
  });
  out.set("default_layout", tables.meta.contains(0) ? tables.meta.find(0)->layout.layout : std::string());
  out.map("assignments", tables.assignments.rows(), [&](const auto& id, const auto& row) {
    Json members = Json::array();
    for (const Member& member : row.members) {
      members.push_back(Json::object({{"node", member.node.value()},
                                      {"pod", member.pod},
                                      {"bound", member.bound != Instant{}},
                                      {"released", !member.live()}}));
    }
    out.weigh(row.members.size());
    return std::pair(id.to_string(), Json::object({{"state", name_of(row.state)},
                                                   {"workload", row.ns.value() + "/" + row.workload},
                                                   {"reason", row.short_reason},
                                                   {"members", std::move(members)}}));
  });
  out.map("proposals", tables.proposals.rows(), [&](const auto& uid, const auto& row) {
    Json victims = Json::array();
    for (const auto& victim : row.victims) victims.push_back(victim.id.to_string());
    Json layouts = Json::object();
    for (const auto& [node, layout] : row.repartitions) layouts.set(node.value(), layout);
    out.weigh(row.victims.size());
    return std::pair(uid.value(), Json::object({{"state", name_of(row.state)},
                                                {"number", row.number},
                                                {"move", row.move},
                                                {"victims", std::move(victims)},
                                                {"cuts", std::move(layouts)},
                                                {"micro_usd", row.micro_usd},
                                                {"last", row.last}}));
  });
  out.list("unschedulable", tables.workloads.rows(), [](const auto& uid, const auto& workload) {
    if (workload.short_since == Instant{}) return std::optional<Json>();
    return std::optional<Json>(AttemptId{uid, workload.attempt}.to_string());
  });
  out.list("foreign_pods", tables.pods.rows(), [&](const auto&, const auto& pod) {
    if (!pod.foreign) return std::optional<Json>();
    return std::optional(Json::object({{"pod", pod.facts.key()},
                                       {"workload", pod.facts.owner.value()},
                                       {"reason", name_of(refusal_of(tables, pod.facts))}}));
  });
}

const Engine& engine_of(const service::Shell& shell) { return static_cast<const Shell&>(shell).engine(); }

}  // namespace qm::placement
