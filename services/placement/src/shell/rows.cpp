// Encodes state as rows and decodes it. A row's value carries its whole key, so the key text is never parsed.
#include "qm/placement/shell.hpp"
#include "qm/wire/encode.hpp"
#include "shell/pod_rows.hpp"
#include "shell/proposal_rows.hpp"
#include "shell/wire.hpp"
#include "state/placement_state.pb.h"

namespace qm::placement {
namespace {

namespace row = quartermaster::placement::v1;

template <class Map>
auto plain_map(const Map& from) {
  return std::map<typename Map::key_type, typename Map::mapped_type>(from.begin(), from.end());
}

// ---- each table: its kind, its key as text, its row as a message and back ----

struct Nodes {
  using Message = row::Node;
  static constexpr const char* kind = "node";
  static std::string key(const NodeName& name) { return name.value(); }
  static Message encode(const NodeName& name, const Node& node) {
    const NodeFacts& f = node.facts;
    Message m;
    m.set_name(name.value());
    m.set_provider_id(f.provider_id);
    m.set_instance_type(f.instance_type);
    m.set_zone(f.zone);
    m.set_capacity_type(f.capacity_type);
    m.set_model(f.model);
    for (const auto& [k, v] : f.labels) (*m.mutable_labels())[k] = v;
    for (const auto& taint : f.taints) *m.add_taints() = to_pb(taint);
    m.set_cpu_milli(f.cpu_milli);
    m.set_memory_bytes(f.memory_bytes);
    m.set_gpus(f.gpus);
    m.set_gpus_installed(f.gpus_installed);
    for (const auto& [k, v] : f.extended) (*m.mutable_extended())[k] = v;
    if (f.pods) m.set_pods_allowed(*f.pods);
    m.set_ready(f.ready);
    m.set_unschedulable(f.unschedulable);
    m.set_cordoned_by(f.cordoned_by);
    m.set_topology_policy(static_cast<int>(f.numa.policy));
    for (const auto pcie : f.switches) m.add_pcie_switches(pcie);
    for (const WorkloadUid& uid : f.launched_for) m.add_launched_for(uid.value());
    for (const NumaZone& zone : f.numa.zones) {
      auto* row = m.add_numa_zones();
      row->set_cpu_milli(zone.cpu_milli);
      row->set_memory_bytes(zone.memory_bytes);
      for (const auto gpu : zone.gpus) row->add_gpus(gpu);
    }
    m.set_state(static_cast<int>(node.state));
    m.set_since_us(micros(node.since));
    m.set_reason(node.reason);
    m.set_pods(node.pods);
    m.set_empty_since_us(micros(node.empty_since));
    m.set_not_ready_since_us(micros(node.not_ready_since));
    m.set_cordon_sent(node.cordon_sent);
    m.set_kept_since_us(micros(node.kept_since));
    m.set_kept(node.kept);
    return m;
  }
  static void restore(const Message& m, Tables& tables) {
    Node node;
    NodeFacts& f = node.facts;
    f.provider_id = m.provider_id();
    f.instance_type = m.instance_type();
    f.zone = m.zone();
    f.capacity_type = m.capacity_type();
    f.model = m.model();
    f.labels = plain_map(m.labels());
    for (const auto& taint : m.taints()) f.taints.push_back(from_pb(taint));
    f.cpu_milli = m.cpu_milli();
    f.memory_bytes = m.memory_bytes();
    f.gpus = m.gpus();
    f.gpus_installed = m.gpus_installed();
    f.extended = plain_map(m.extended());
    if (m.has_pods_allowed()) f.pods = m.pods_allowed();
    f.ready = m.ready();
    f.unschedulable = m.unschedulable();
    f.cordoned_by = m.cordoned_by();
    f.numa.policy = static_cast<TopologyPolicy>(m.topology_policy());
    f.switches.assign(m.pcie_switches().begin(), m.pcie_switches().end());
    for (const auto& uid : m.launched_for()) f.launched_for.emplace_back(uid);
    for (const auto& zone : m.numa_zones()) {
      f.numa.zones.push_back({zone.cpu_milli(), zone.memory_bytes(), {zone.gpus().begin(), zone.gpus().end()}});
    }
    node.state = static_cast<NodeState>(m.state());
    node.since = from_micros(m.since_us());
    node.reason = m.reason();
    node.pods = m.pods();
    node.empty_since = from_micros(m.empty_since_us());
    node.not_ready_since = from_micros(m.not_ready_since_us());
    node.cordon_sent = m.cordon_sent();
    node.kept_since = from_micros(m.kept_since_us());
    node.kept = m.kept();
    tables.nodes.restore(NodeName(m.name()), std::move(node));
  }
};

struct Marks {
  using Message = row::Mark;
  static constexpr const char* kind = "mark";
  static std::string key(const NodeName& name) { return name.value(); }
  static Message::Health row_of(const HealthVerdict& mark) {
    Message::Health m;
    m.set_cordon(mark.cordon);
    m.set_gpu(mark.gpu);
    m.set_xid(mark.xid);
    m.set_reason(mark.reason);
    for (const auto& [index, gpu] : mark.gpus) {
      auto* g = m.add_gpus();
      g->set_index(index);
      g->set_cordon(gpu.cordon);
      g->set_reason(gpu.reason);
      g->set_at_us(micros(gpu.at));
    }
    return m;
  }
  static HealthVerdict from_row(const Message::Health& m) {
    HealthVerdict mark{m.cordon(), m.gpu(), m.xid(), m.reason(), {}};
    for (const auto& gpu : m.gpus()) mark.gpus[gpu.index()] = {gpu.cordon(), gpu.reason(), from_micros(gpu.at_us())};
    return mark;
  }
  static Message encode(const NodeName& name, const NodeCordonCauses& mark) {
    Message m;
    m.set_node(name.value());
    if (mark.health) *m.mutable_health() = row_of(*mark.health);
    if (mark.overridden) *m.mutable_overridden() = row_of(*mark.overridden);
    if (mark.drain) {
      m.mutable_drain()->set_reason(mark.drain->reason);
      m.mutable_drain()->set_deadline_us(micros(mark.drain->deadline));
    }
    return m;
  }
  static void restore(const Message& m, Tables& tables) {
    NodeCordonCauses mark;
    if (m.has_health()) mark.health = from_row(m.health());
    if (m.has_overridden()) mark.overridden = from_row(m.overridden());
    if (m.has_drain()) mark.drain = DrainRequest{m.drain().reason(), from_micros(m.drain().deadline_us())};
    tables.cordon_causes.restore(NodeName(m.node()), std::move(mark));
  }
};

struct Observations {
  using Message = row::Observation;
  static constexpr const char* kind = "observation";
  static std::string key(const NodeName& name) { return name.value(); }
  static Message encode(const NodeName& name, const Observation& seen) {
    Message m;
    m.set_node(name.value());
    m.set_at_us(micros(seen.at));
    for (const auto& [pod, devices] : seen.pods) {
      auto* p = m.add_pods();
      p->set_pod(pod);
      for (const auto& device : devices) *p->add_devices() = to_pb(device);
    }
    return m;
  }
  static void restore(const Message& m, Tables& tables) {
    Observation seen;
    seen.at = from_micros(m.at_us());
    for (const auto& p : m.pods()) {
      for (const auto& device : p.devices()) seen.pods[p.pod()].push_back(from_pb(device));
    }
    tables.observations.restore(NodeName(m.node()), std::move(seen));
  }
};

struct StorageRows {
  using Message = row::Storage;
  static constexpr const char* kind = "storage";
  static std::string key(const std::string& key) { return key; }
  static Message encode(const std::string& key, const Storage& storage) {
    Message m;
    m.set_key(key);
    if (const auto* claim = std::get_if<Claim>(&storage)) {
      auto* c = m.mutable_claim();
      c->set_volume(claim->volume);
      c->set_storage_class(claim->storage_class);
      c->set_selected_node(claim->selected_node);
      c->set_one_node(claim->one_node);
      c->set_made_for(claim->made_for);
    } else if (const auto* volume = std::get_if<Volume>(&storage)) {
      auto* v = m.mutable_volume();
      v->set_reach(volume->reach);
      v->set_driver(volume->driver);
      v->set_handle(volume->handle);
      v->set_claim(volume->claim);
    } else if (const auto* limits = std::get_if<AttachLimits>(&storage)) {
      m.mutable_limits()->mutable_volumes()->insert(limits->volumes.begin(), limits->volumes.end());
    } else {
      const auto& made_by = std::get<StorageClass>(storage);
      auto* c = m.mutable_class_();
      c->set_waits(made_by.waits);
      c->set_makes(made_by.makes);
      c->set_reach(made_by.reach);
      c->set_driver(made_by.driver);
      c->set_by_default(made_by.by_default);
      c->set_made_us(micros(made_by.made));
    }
    return m;
  }
  static void restore(const Message& m, Tables& tables) {
    Storage out;
    if (m.has_claim()) {
      const auto& c = m.claim();
      out = Claim{c.volume(), c.storage_class(), c.selected_node(), c.one_node(), c.made_for()};
    } else if (m.has_volume()) {
      const auto& v = m.volume();
      out = Volume{v.reach(), v.driver(), v.handle(), v.claim()};
    } else if (m.has_limits()) {
      out = AttachLimits{{m.limits().volumes().begin(), m.limits().volumes().end()}};
    } else {
      const auto& c = m.class_();
      out = StorageClass{c.waits(), c.makes(), c.reach(), c.driver(), c.by_default(), from_micros(c.made_us())};
    }
    tables.storage.restore(m.key(), std::move(out));
  }
};

struct NodeReports {
  using Message = pb::NodeReport;
  static constexpr const char* kind = "node_report";
  static std::string key(const NodeName& name) { return name.value(); }
  static Message encode(const NodeName& name, const NodeReport& report) { return wire::to_pb(name, report, {}); }
  static void restore(const Message& m, Tables& tables) { tables.report.restore(NodeName(m.node()), wire::from_pb(m)); }
};

struct Workloads {
  using Message = row::Workload;
  static constexpr const char* kind = "workload";
  static std::string key(const WorkloadUid& uid) { return uid.value(); }
  static Message encode(const WorkloadUid&, const Workload& workload) {
    Message m;
    *m.mutable_spec() = to_pb(workload.spec);
    m.set_attempt(workload.attempt);
    m.set_phase(static_cast<int>(workload.phase));
    m.set_quota_reserved_us(micros(workload.quota_reserved));
    m.set_order_reason(workload.order_reason);
    m.set_order_deadline_us(micros(workload.order_deadline));
    m.set_short_since_us(micros(workload.short_since));
    for (const auto& [set, index] : workload.done) {
      auto* rank = m.add_done();
      rank->set_set(set);
      rank->set_index(index);
    }
    const QuotaFacts& quota = workload.quota_facts;
    m.set_queue(quota.queue);
    m.set_quota_tree(quota.quota_tree);
    m.set_preempts_own_queue(quota.own_queue);
    m.set_preempts_in_tree(quota.in_tree);
    m.set_admitted_us(micros(quota.admitted));
    m.set_saved_us(micros(quota.saved));
    m.set_min_runtime_until_us(micros(quota.min_runtime_until));
    m.set_ended_pods(quota.ended_pods);
    m.set_quota_position(quota.queue_position);
    m.set_fits_since_us(micros(workload.fits_since));
    for (const auto pods : workload.unplaced.by_set) m.add_unplaced_pods(pods);
    m.set_unplaced_since_us(micros(workload.unplaced.since));
    return m;
  }
  static void restore(const Message& m, Tables& tables) {
    Workload row{from_pb(m.spec()),
                 m.attempt(),
                 static_cast<WorkloadPhase>(m.phase()),
                 from_micros(m.quota_reserved_us()),
                 m.order_reason(),
                 from_micros(m.order_deadline_us()),
                 from_micros(m.short_since_us()),
                 {},
                 {m.queue(), m.quota_tree(), m.preempts_own_queue(), m.preempts_in_tree(), from_micros(m.admitted_us()),
                  from_micros(m.saved_us()), from_micros(m.min_runtime_until_us()), m.ended_pods(), m.quota_position()},
                 from_micros(m.fits_since_us()),
                 {{m.unplaced_pods().begin(), m.unplaced_pods().end()}, from_micros(m.unplaced_since_us())}};
    for (const auto& rank : m.done()) row.done.emplace(rank.set(), rank.index());
    tables.workloads.restore(WorkloadUid(m.spec().uid()), std::move(row));
  }
};

struct Assignments {
  using Message = row::Assignment;
  static constexpr const char* kind = "assignment";
  static std::string key(const AttemptId& id) { return id.to_string(); }
  static Message encode(const AttemptId& id, const Assignment& a) {
    Message m;
    m.set_uid(id.uid.value());
    m.set_attempt(id.attempt);
    m.set_namespace_(a.ns.value());
    m.set_workload(a.workload);
    m.set_team(a.team.value());
    for (const auto& [key, value] : a.labels) (*m.mutable_labels())[key] = value;
    for (const auto& set : a.pod_sets) *m.add_pod_sets() = to_pb(set);
    m.set_state(static_cast<int>(a.state));
    for (const auto& member : a.members) {
      auto* p = m.add_members();
      p->set_set(member.set);
      p->set_index(member.index);
      p->set_node(member.node.value());
      for (const auto& device : member.devices) *p->add_devices() = to_pb(device);
      p->set_pod(member.pod);
      p->set_pod_uid(member.pod_uid);
      p->set_bind_sent(member.bind_sent);
      p->set_bound_us(micros(member.bound));
      p->set_released_us(micros(member.released));
      p->set_lost(member.lost);
    }
    m.set_short_reason(a.short_reason);
    m.set_decided_us(micros(a.decided));
    m.set_expires_us(micros(a.expires));
    m.set_ended_us(micros(a.ended));
    m.set_confirmed(a.confirmed);
    if (a.eviction) {
      auto* e = m.mutable_eviction();
      e->set_reason(a.eviction->reason);
      e->set_message(a.eviction->message);
      e->set_deadline_us(micros(a.eviction->deadline));
      e->set_node(a.eviction->node.value());
      e->set_pods_lost(a.eviction->pods_lost);
      e->set_save_until_us(micros(a.eviction->save_until));
    }
    m.set_revision(a.revision);
    for (const auto& text : a.rules) m.add_rules(text);
    return m;
  }
  static void restore(const Message& m, Tables& tables) {
    Assignment a;
    a.ns = Namespace(m.namespace_());
    a.workload = m.workload();
    a.team = Team(m.team());
    a.labels = {m.labels().begin(), m.labels().end()};
    for (const auto& set : m.pod_sets()) a.pod_sets.push_back(from_pb(set));
    a.rules.assign(m.rules().begin(), m.rules().end());
    a.state = static_cast<AssignmentState>(m.state());
    for (const auto& p : m.members()) {
      Member member;
      member.set = p.set();
      member.index = p.index();
      member.node = NodeName(p.node());
      for (const auto& device : p.devices()) member.devices.push_back(from_pb(device));
      member.pod = p.pod();
      member.pod_uid = p.pod_uid();
      member.bind_sent = p.bind_sent();
      member.bound = from_micros(p.bound_us());
      member.released = from_micros(p.released_us());
      member.lost = p.lost();
      a.members.push_back(std::move(member));
    }
    a.short_reason = m.short_reason();
    a.decided = from_micros(m.decided_us());
    a.expires = from_micros(m.expires_us());
    a.ended = from_micros(m.ended_us());
    a.confirmed = m.confirmed();
    if (m.has_eviction()) {
      const auto& e = m.eviction();
      a.eviction = EvictionRequest{e.reason(),         e.message(),   from_micros(e.deadline_us()),
                                   NodeName(e.node()), e.pods_lost(), from_micros(e.save_until_us())};
    }
    a.revision = m.revision();
    tables.assignments.restore({WorkloadUid(m.uid()), m.attempt()}, std::move(a));
  }
};

struct Repartitions {
  using Message = row::Repartition;
  static constexpr const char* kind = "mig_repartition";
  static std::string key(const NodeName& name) { return name.value(); }
  static Message encode(const NodeName& name, const Repartition& repartition) {
    Message m;
    m.set_node(name.value());
    if (repartition.order) {
      auto* o = m.mutable_order();
      const relayout::Order& order = repartition.order->order;
      o->set_layout(order.layout);
      o->mutable_capacity()->insert(order.capacity.begin(), order.capacity.end());
      o->set_from_us(micros(order.from));
      o->set_until_us(micros(order.until));
      o->set_phase(static_cast<int>(repartition.order->phase));
      o->set_since_us(micros(repartition.order->since));
      o->set_previous(repartition.order->previous);
      o->mutable_before()->insert(repartition.order->before.begin(), repartition.order->before.end());
      o->set_reason(repartition.order->reason);
      o->set_withdrawn(repartition.order->withdrawn);
    }
    m.set_by_default(repartition.by_default);
    m.set_written_label(repartition.written_label);
    for (const auto& [occupant, at] : repartition.asked) (*m.mutable_asked_us())[occupant] = micros(at);
    m.set_wake_us(micros(repartition.wake));
    m.set_differs_since_us(micros(repartition.differs_since));
    m.set_mismatch(repartition.mismatch);
    if (repartition.reserved_for) {
      auto* reserved = m.mutable_reserved_for();
      reserved->set_uid(repartition.reserved_for->uid.value());
      write_places(repartition.reserved_for->places, *reserved->mutable_places());
      reserved->set_over(!repartition.reserved_for->waits);
    }
    return m;
  }
  static void restore(const Message& m, Tables& tables) {
    Repartition repartition;
    if (m.has_order()) {
      const auto& o = m.order();
      relayout::Row row;
      row.order = {NodeName(m.node()), o.layout(), plain_map(o.capacity()), from_micros(o.from_us()),
                   from_micros(o.until_us())};
      row.phase = static_cast<relayout::Phase>(o.phase());
      row.since = from_micros(o.since_us());
      row.previous = o.previous();
      row.before = plain_map(o.before());
      row.reason = o.reason();
      row.withdrawn = o.withdrawn();
      repartition.order = std::move(row);
    }
    repartition.by_default = m.by_default();
    repartition.written_label = m.written_label();
    for (const auto& [occupant, at] : m.asked_us()) repartition.asked[occupant] = from_micros(at);
    repartition.wake = from_micros(m.wake_us());
    repartition.differs_since = from_micros(m.differs_since_us());
    repartition.mismatch = m.mismatch();
    if (m.has_reserved_for()) {
      repartition.reserved_for = RepartitionHold{WorkloadUid(m.reserved_for().uid()),
                                                 read_places(m.reserved_for().places()), !m.reserved_for().over()};
    }
    tables.repartitions.restore(NodeName(m.node()), std::move(repartition));
  }
};

struct Layouts {
  using Message = row::Layout;
  static constexpr const char* kind = "layout";
  static std::string key(const std::string& name) { return name; }
  static Message encode(const std::string& name, const mig::Definition& definition) {
    Message m;
    m.set_name(name);
    for (const mig::Part& part : definition) {
      auto* p = m.add_parts();
      for (const auto device : part.devices) p->add_devices(device);
      p->set_enabled(part.enabled);
      p->mutable_instances()->insert(part.instances.begin(), part.instances.end());
    }
    return m;
  }
  static void restore(const Message& m, Tables& tables) {
    mig::Definition definition;
    for (const auto& p : m.parts()) {
      definition.push_back({{p.devices().begin(), p.devices().end()}, p.enabled(), plain_map(p.instances())});
    }
    tables.layouts.restore(m.name(), std::move(definition));
  }
};

struct Mixes {
  using Message = row::DemandMix;
  static constexpr const char* kind = "mix";
  static std::string key(int) { return "mix"; }
  static Message encode(int, const DemandMix& mix) {
    Message m;
    for (const auto& [size, count] : mix.pods) {
      auto* pods = m.add_pods();
      pods->set_cpu_milli(size.cpu_milli);
      pods->set_devices(size.devices);
      pods->set_device_milli(size.device_milli);
      for (const auto& model : size.models) pods->add_models(model);
      pods->set_count(count);
    }
    for (const auto& [machine, count] : mix.machines) {
      auto* machines = m.add_machines();
      machines->set_model(machine.model);
      machines->set_cpu_milli(machine.cpu_milli);
      machines->set_memory_bytes(machine.memory_bytes);
      machines->set_gpus(machine.gpus);
      machines->set_count(count);
    }
    return m;
  }
  static void restore(const Message& m, Tables& tables) {
    DemandMix mix;
    for (const auto& p : m.pods())
      mix.pods[{p.cpu_milli(), p.devices(), p.device_milli(), {p.models().begin(), p.models().end()}}] = p.count();
    for (const auto& n : m.machines()) mix.machines[{n.model(), n.cpu_milli(), n.memory_bytes(), n.gpus()}] = n.count();
    tables.mix.restore(0, std::move(mix));
  }
};

struct Metas {
  using Message = row::Meta;
  static constexpr const char* kind = "meta";
  static std::string key(int) { return "meta"; }
  static Message encode(int, const Meta& meta) {
    Message m;
    m.set_nodes_synced(meta.nodes_synced);
    m.set_pods_synced(meta.pods_synced);
    m.set_next_intent(meta.next_intent);
    for (const auto& kind : meta.storage_listed) m.add_storage_listed(kind);
    m.set_default_layout(meta.layout.layout);
    m.set_default_for_labelled(meta.layout.override_label);
    m.set_next_proposal(meta.next_proposal);
    m.set_searched_us(micros(meta.searched));
    m.set_repartition_searched_us(micros(meta.repartition_searched));
    for (const Instant at : meta.repartition) m.add_repartition_us(micros(at));
    m.set_requeue_at_us(micros(meta.requeue_at));
    m.set_requeue_round(meta.requeue_round);
    return m;
  }
  static void restore(const Message& m, Tables& tables) {
    std::vector<Instant> repartition;
    for (const auto at : m.repartition_us()) repartition.push_back(from_micros(at));
    tables.meta.restore(0, Meta{m.nodes_synced(),
                                m.pods_synced(),
                                {m.storage_listed().begin(), m.storage_listed().end()},
                                m.next_intent(),
                                std::max<std::int64_t>(m.next_proposal(), 1),
                                from_micros(m.searched_us()),
                                {m.default_layout(), m.default_for_labelled()},
                                from_micros(m.repartition_searched_us()),
                                std::move(repartition),
                                from_micros(m.requeue_at_us()),
                                m.requeue_round()});
  }
};

template <class Kind, class Table>
void append(const Table& table, std::vector<store::StateRow>& out) {
  table.changed([&out](const auto& key, const auto* value) {
    store::StateRow state{Kind::kind, Kind::key(key), std::nullopt};
    if (value != nullptr) state.value = wire::encode(Kind::encode(key, *value));
    out.push_back(std::move(state));
  });
}

template <class Kind>
bool restored(const store::StateRow& state, Tables& tables, bool& good) {
  if (state.kind != Kind::kind) return false;
  typename Kind::Message message;
  good = state.value && message.ParseFromString(*state.value);
  if (good) Kind::restore(message, tables);
  return true;
}

}  // namespace

void append_changed_rows(const Tables& tables, std::vector<store::StateRow>& out) {
  append<Nodes>(tables.nodes, out);
  append<Marks>(tables.cordon_causes, out);
  append<Observations>(tables.observations, out);
  append<Pods>(tables.pods, out);
  append<StorageRows>(tables.storage, out);
  append<NodeReports>(tables.report, out);
  append<Workloads>(tables.workloads, out);
  append<Assignments>(tables.assignments, out);
  append<Repartitions>(tables.repartitions, out);
  append<Layouts>(tables.layouts, out);
  append<Metas>(tables.meta, out);
  append<Mixes>(tables.mix, out);
  append<Proposals>(tables.proposals, out);
  append<DefragRuns>(tables.defrag_run, out);
}

Status restore_rows(std::span<const store::StateRow> rows, Tables& tables) {
  for (const store::StateRow& state : rows) {
    bool good = false;
    const bool known = restored<Nodes>(state, tables, good) || restored<Marks>(state, tables, good) ||
                       restored<Observations>(state, tables, good) || restored<Pods>(state, tables, good) ||
                       restored<StorageRows>(state, tables, good) || restored<NodeReports>(state, tables, good) ||
                       restored<Workloads>(state, tables, good) || restored<Assignments>(state, tables, good) ||
                       restored<Repartitions>(state, tables, good) || restored<Layouts>(state, tables, good) ||
                       restored<Metas>(state, tables, good) || restored<Mixes>(state, tables, good) ||
                       restored<Proposals>(state, tables, good) || restored<DefragRuns>(state, tables, good);
    if (!known || !good) {
      return fail(Error{Code::kInvalid, fmt::format("state row {} {} cannot be read", state.kind, state.key),
                        state.kind, "restore the schema from a backup, or run the release that wrote it"});
    }
  }
  return {};
}

}  // namespace qm::placement
