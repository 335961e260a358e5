// Rows and inputs about replicas: one writer and one reader for each message.
#include "replicas/replica_rows.hpp"

#include "qm/wire/encode.hpp"
#include "qm/wire/parse.hpp"
#include "state/replicas_state.pb.h"

#include <algorithm>

namespace qm::autoscaler {
namespace st = quartermaster::autoscaler::state;

namespace {

template <class Message>
Result<Message> stored(const std::string& text, const char* what) {
  return wire::parse<Message>(text, fmt::format("the stored {}", what));
}

// ---- ids and keys ----
void fill(st::ScalerId& out, const ScalerId& id) {
  out.set_kind(static_cast<int>(id.kind));
  out.set_ns(id.ns);
  out.set_name(id.name);
}
ScalerId id_of(const st::ScalerId& m) { return {static_cast<ScalerKind>(m.kind()), m.ns(), m.name()}; }
void fill(st::ScaleTargetId& out, const TargetId& id) {
  out.set_ns(id.ns);
  out.set_group(id.group);
  out.set_kind(id.kind);
  out.set_name(id.name);
}
TargetId id_of(const st::ScaleTargetId& m) { return {m.ns(), m.group(), m.kind(), m.name()}; }

std::string key_of(const ScalerId& id) { return fmt::format("{}|{}|{}", static_cast<int>(id.kind), id.ns, id.name); }
std::string key_of(const TargetId& id) { return fmt::format("{}|{}|{}|{}", id.ns, id.group, id.kind, id.name); }

std::vector<std::string> parts_of(const std::string& key) {
  std::vector<std::string> out(1);
  for (const char c : key) {
    if (c == '|') {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}
Result<ScalerId> scaler_of(const std::string& key) {
  const auto parts = parts_of(key);
  if (parts.size() != 3) return fail(Code::kInternal, "the stored key \"{}\" names no scaler", key);
  return ScalerId{parts[0] == "0" ? ScalerKind::kHpa : ScalerKind::kScaledObject, parts[1], parts[2]};
}
Result<TargetId> target_of(const std::string& key) {
  const auto parts = parts_of(key);
  if (parts.size() != 4) return fail(Code::kInternal, "the stored key \"{}\" names no target", key);
  return TargetId{parts[0], parts[1], parts[2], parts[3]};
}

// ---- pods and readings ----
void fill(st::Amounts& out, const replicas::Amounts& amounts) {
  for (const auto& [name, milli] : amounts) (*out.mutable_milli())[name] = milli;
}
replicas::Amounts amounts_of(const st::Amounts& m) { return {m.milli().begin(), m.milli().end()}; }

template <class Map>
void fill_containers(Map& out, const std::map<std::string, replicas::Amounts>& containers) {
  for (const auto& [name, amounts] : containers) fill(out[name], amounts);
}
template <class Map>
std::map<std::string, replicas::Amounts> containers_of(const Map& map) {
  std::map<std::string, replicas::Amounts> out;
  for (const auto& [name, amounts] : map) out[name] = amounts_of(amounts);
  return out;
}

void fill(st::ScalePod& out, const replicas::Pod& pod) {
  out.set_name(pod.name);
  out.set_phase(static_cast<int>(pod.phase));
  if (pod.ready) out.set_ready(*pod.ready);
  out.set_ready_since_us(micros(pod.ready_since));
  if (pod.start) out.set_start_us(micros(*pod.start));
  out.set_deleted(pod.deleted);
  fill_containers(*out.mutable_containers(), pod.containers);
  fill_containers(*out.mutable_sidecars(), pod.sidecars);
  fill(*out.mutable_pod_requests(), pod.pod_requests);
}
replicas::Pod pod_of(const st::ScalePod& m) {
  replicas::Pod out;
  out.name = m.name();
  out.phase = static_cast<replicas::Pod::Phase>(m.phase());
  out.ready = m.has_ready() ? std::optional(m.ready()) : std::nullopt;
  out.ready_since = from_micros(m.ready_since_us());
  if (m.has_start_us()) out.start = from_micros(m.start_us());
  out.deleted = m.deleted();
  out.containers = containers_of(m.containers());
  out.sidecars = containers_of(m.sidecars());
  out.pod_requests = amounts_of(m.pod_requests());
  return out;
}

void fill(st::TriggerReading& out, const replicas::Reading& reading) {
  if (const auto* failed = std::get_if<replicas::FailedReading>(&reading)) out.set_failed(failed->message);
  if (const auto* queue = std::get_if<replicas::QueueReading>(&reading)) {
    out.mutable_queue()->set_visible(queue->visible);
    out.mutable_queue()->set_in_flight(queue->in_flight);
    out.mutable_queue()->set_delayed(queue->delayed);
  }
  if (const auto* topic = std::get_if<replicas::TopicReading>(&reading)) {
    auto& partitions = *out.mutable_topic()->mutable_partitions();
    for (const auto& [partition, offsets] : *topic) {
      partitions[partition].set_latest(offsets.latest);
      partitions[partition].set_committed(offsets.committed);
    }
  }
  if (const auto* query = std::get_if<replicas::QueryReading>(&reading)) {
    out.mutable_query()->set_elements(static_cast<std::int64_t>(query->elements));
    out.mutable_query()->set_value(query->value);
  }
}
replicas::Reading reading_of(const st::TriggerReading& m) {
  if (m.has_queue()) {
    return replicas::QueueReading{m.queue().visible(), m.queue().in_flight(), m.queue().delayed()};
  }
  if (m.has_query()) return replicas::QueryReading{static_cast<std::size_t>(m.query().elements()), m.query().value()};
  if (m.has_topic()) {
    replicas::TopicReading out;
    for (const auto& [partition, offsets] : m.topic().partitions()) {
      out[partition] = {offsets.latest(), offsets.committed()};
    }
    return out;
  }
  return replicas::FailedReading{m.failed()};
}

void fill(st::ScalerReadings& out, const ReadingsRow& row) {
  if (row.metrics.resource) {
    auto& samples = *out.mutable_resource();
    for (const auto& one : *row.metrics.resource) {
      auto& sample = *samples.add_samples();
      sample.set_pod(one.pod);
      sample.set_at_us(micros(one.at));
      sample.set_window_us(one.window.count());
      fill_containers(*sample.mutable_usage(), one.usage);
    }
  }
  for (const auto& [metric, values] : row.metrics.pods) {
    auto& list = *(*out.mutable_pods())[metric].mutable_milli();
    for (const auto& value : values) list[value.pod] = value.milli;
  }
  for (const auto& [metric, milli] : row.metrics.object) (*out.mutable_object())[metric] = milli;
  for (const auto& [metric, values] : row.metrics.external) {
    auto& list = (*out.mutable_external())[metric];
    for (const auto milli : values) list.add_milli(milli);
  }
  for (const auto& [trigger, reading] : row.triggers) fill((*out.mutable_triggers())[trigger], reading);
}
ReadingsRow readings_of(const st::ScalerReadings& m) {
  ReadingsRow out;
  if (m.has_resource()) {
    auto& samples = out.metrics.resource.emplace();
    for (const auto& one : m.resource().samples()) {
      samples.push_back({one.pod(), from_micros(one.at_us()), Duration(one.window_us()), containers_of(one.usage())});
    }
  }
  for (const auto& [metric, values] : m.pods()) {
    auto& list = out.metrics.pods[metric];
    for (const auto& [pod, milli] : values.milli()) list.push_back({pod, milli});
    std::ranges::sort(list, {}, &replicas::PodValue::pod);  // a message has no order
  }
  for (const auto& [metric, milli] : m.object()) out.metrics.object[metric] = milli;
  for (const auto& [metric, values] : m.external()) {
    out.metrics.external[metric].assign(values.milli().begin(), values.milli().end());
  }
  for (const auto& [trigger, reading] : m.triggers()) out.triggers[trigger] = reading_of(reading);
  return out;
}

// ---- rows ----
st::Scaler message(const ScalerRow& row) {
  st::Scaler out;
  fill(*out.mutable_target(), row.target);
  out.set_api_version(row.api_version);
  out.set_manifest(row.manifest);
  out.set_uid(row.uid);
  out.set_created_us(micros(row.created));
  out.set_suspended(row.suspended);
  out.set_generated(row.generated);
  out.set_refused(row.refused);
  return out;
}
ScalerRow row_of(const st::Scaler& m) {
  return {id_of(m.target()),           m.api_version(), m.manifest(),  m.uid(),
          from_micros(m.created_us()), m.suspended(),   m.generated(), m.refused()};
}

st::ScaleTarget message(const TargetRow& row) {
  st::ScaleTarget out;
  out.set_api_version(row.api_version);
  out.set_uid(row.uid);
  out.set_mode(static_cast<int>(row.mode));
  out.set_found(row.found);
  out.set_problem(row.problem);
  out.set_replicas(row.replicas);
  out.set_status_replicas(row.status_replicas);
  for (const auto& pod : row.pods) fill(*out.add_pods(), pod);
  out.set_observed_us(micros(row.observed));
  out.set_evaluated_us(micros(row.evaluated));
  out.set_changed_us(micros(row.changed));
  out.set_number(row.number);
  if (row.pending) out.set_pending(*row.pending);
  out.set_wanted(row.wanted);
  if (row.decided_by) fill(*out.mutable_decided_by(), *row.decided_by);
  out.set_bound(row.bound);
  out.set_conflict(row.conflict);
  out.set_error(row.error);
  return out;
}
TargetRow row_of(const st::ScaleTarget& m) {
  TargetRow out;
  out.api_version = m.api_version();
  out.uid = m.uid();
  out.mode = static_cast<ReplicaMode>(m.mode());
  out.found = m.found();
  out.problem = m.problem();
  out.replicas = m.replicas();
  out.status_replicas = m.status_replicas();
  for (const auto& pod : m.pods()) out.pods.push_back(pod_of(pod));
  out.observed = from_micros(m.observed_us());
  out.evaluated = from_micros(m.evaluated_us());
  out.changed = from_micros(m.changed_us());
  out.number = m.number();
  if (m.has_pending()) out.pending = m.pending();
  out.wanted = m.wanted();
  if (m.has_decided_by()) out.decided_by = id_of(m.decided_by());
  out.bound = m.bound();
  out.conflict = m.conflict();
  out.error = m.error();
  return out;
}

st::ScalerReadings message(const ReadingsRow& row) {
  st::ScalerReadings out;
  fill(out, row);
  return out;
}

void fill_events(google::protobuf::RepeatedPtrField<st::ScaleEvent>& out,
                 const std::vector<replicas::ScaleEvent>& events) {
  for (const auto& event : events) {
    auto& one = *out.Add();
    one.set_at_us(micros(event.at));
    one.set_change(event.change);
    one.set_outdated(event.outdated);
  }
}
std::vector<replicas::ScaleEvent> events_of(const google::protobuf::RepeatedPtrField<st::ScaleEvent>& events) {
  std::vector<replicas::ScaleEvent> out;
  for (const auto& event : events) out.push_back({from_micros(event.at_us()), event.change(), event.outdated()});
  return out;
}

st::ScaleHistory message(const HistoryRow& row) {
  st::ScaleHistory out;
  const auto& state = row.state;
  out.set_created_us(micros(state.created));
  if (state.last_active) out.set_last_active_us(micros(*state.last_active));
  if (state.hpa.recommendations) {
    auto& slots = *out.mutable_recommendations();
    for (const auto& slot : *state.hpa.recommendations) {
      auto& one = *slots.add_slots();
      one.set_at_us(micros(slot.at));
      one.set_replicas(slot.replicas);
    }
  }
  fill_events(*out.mutable_ups(), state.hpa.ups);
  fill_events(*out.mutable_downs(), state.hpa.downs);
  for (const auto& [type, condition] : state.hpa.conditions) {
    auto& one = (*out.mutable_conditions())[type];
    one.set_status(condition.status);
    one.set_reason(condition.reason);
    one.set_message(condition.message);
  }
  for (const auto& [trigger, count] : state.failures) (*out.mutable_failures())[trigger] = count;
  for (const auto& [trigger, offsets] : state.offsets) {
    auto& latest = *(*out.mutable_offsets())[trigger].mutable_latest();
    for (const auto& [partition, offset] : offsets) latest[partition] = offset;
  }
  if (row.synced) out.set_synced_us(micros(*row.synced));
  if (row.polled) out.set_polled_us(micros(*row.polled));
  if (row.switched) out.set_switched_us(micros(*row.switched));
  return out;
}
HistoryRow row_of(const st::ScaleHistory& m) {
  HistoryRow out;
  auto& state = out.state;
  state.created = from_micros(m.created_us());
  if (m.has_last_active_us()) state.last_active = from_micros(m.last_active_us());
  if (m.has_recommendations()) {
    auto& slots = state.hpa.recommendations.emplace();
    for (const auto& slot : m.recommendations().slots()) slots.push_back({from_micros(slot.at_us()), slot.replicas()});
  }
  state.hpa.ups = events_of(m.ups());
  state.hpa.downs = events_of(m.downs());
  for (const auto& [type, condition] : m.conditions()) {
    state.hpa.conditions[type] = {condition.status(), condition.reason(), condition.message()};
  }
  for (const auto& [trigger, count] : m.failures()) state.failures[trigger] = count;
  for (const auto& [trigger, offsets] : m.offsets()) {
    auto& latest = state.offsets[trigger];
    for (const auto& [partition, offset] : offsets.latest()) latest[partition] = offset;
  }
  if (m.has_synced_us()) out.synced = from_micros(m.synced_us());
  if (m.has_polled_us()) out.polled = from_micros(m.polled_us());
  if (m.has_switched_us()) out.switched = from_micros(m.switched_us());
  return out;
}

st::ScaleDecision message(const DecisionRow& row) {
  st::ScaleDecision out;
  out.set_at_us(micros(row.at));
  out.set_current(row.current);
  out.set_wanted(row.wanted);
  out.set_lower(row.lower);
  out.set_upper(row.upper);
  out.set_abstains(row.abstains);
  out.set_rule(row.rule);
  out.set_active(row.active);
  for (const auto& metric : row.metrics) {
    auto& one = *out.add_metrics();
    one.set_name(metric.name);
    if (metric.replicas) one.set_replicas(*metric.replicas);
    one.set_ratio(metric.ratio);
    one.set_rule(metric.rule);
    one.set_error(metric.error);
  }
  out.set_fault(row.fault);
  return out;
}
DecisionRow row_of(const st::ScaleDecision& m) {
  DecisionRow out;
  out.at = from_micros(m.at_us());
  out.current = m.current();
  out.wanted = m.wanted();
  out.lower = m.lower();
  out.upper = m.upper();
  out.abstains = m.abstains();
  out.rule = m.rule();
  out.active = m.active();
  for (const auto& metric : m.metrics()) {
    out.metrics.push_back({metric.name(), metric.has_replicas() ? std::optional(metric.replicas()) : std::nullopt,
                           metric.ratio(), metric.rule(), metric.error()});
  }
  out.fault = m.fault();
  return out;
}

template <class Key, class Row>
void append(const Table<Key, Row>& table, const char* kind, std::vector<store::StateRow>& out) {
  table.changed([&](const Key& key, const Row* row) {
    store::StateRow one{kind, key_of(key), std::nullopt};
    if (row != nullptr) one.value = wire::encode(message(*row));
    out.push_back(std::move(one));
  });
}

}  // namespace

void append_changes(const ReplicaTables& t, std::vector<store::StateRow>& out) {
  append(t.scalers, "scaler", out);
  append(t.targets, "scaletarget", out);
  append(t.readings, "scalereadings", out);
  append(t.histories, "scalehistory", out);
  append(t.decisions, "scaledecision", out);
}

Result<bool> restore(ReplicaTables& t, const store::StateRow& row) {
  const std::string& value = *row.value;
  if (row.kind == "scaletarget") {
    QM_ASSIGN(const auto id, target_of(row.key));
    QM_ASSIGN(const auto m, stored<st::ScaleTarget>(value, "target"));
    t.targets.restore(id, row_of(m));
    return true;
  }
  if (!row.kind.starts_with("scale")) return false;
  QM_ASSIGN(const auto id, scaler_of(row.key));
  if (row.kind == "scaler") {
    QM_ASSIGN(const auto m, stored<st::Scaler>(value, "scaler"));
    t.scalers.restore(id, row_of(m));
  } else if (row.kind == "scalereadings") {
    QM_ASSIGN(const auto m, stored<st::ScalerReadings>(value, "readings"));
    t.readings.restore(id, readings_of(m));
  } else if (row.kind == "scalehistory") {
    QM_ASSIGN(const auto m, stored<st::ScaleHistory>(value, "history"));
    t.histories.restore(id, row_of(m));
  } else if (row.kind == "scaledecision") {
    QM_ASSIGN(const auto m, stored<st::ScaleDecision>(value, "decision"));
    t.decisions.restore(id, row_of(m));
  } else {
    return false;
  }
  return true;
}

std::string scaler_bytes(const ScalerUpdated& update) {
  st::Scaler out = message(update.row);
  fill(*out.mutable_id(), update.id);
  out.set_gone(update.gone);
  return wire::encode(out);
}
Result<ScalerUpdated> scaler_from_bytes(const std::string& bytes) {
  QM_ASSIGN(const auto m, stored<st::Scaler>(bytes, "scaler"));
  return ScalerUpdated{id_of(m.id()), row_of(m), m.gone()};
}

std::string scalers_bytes(const ScalersListed& list) {
  st::ScalerList out;
  out.set_kind(static_cast<int>(list.kind));
  for (const auto& id : list.ids) fill(*out.add_ids(), id);
  return wire::encode(out);
}
Result<ScalersListed> scalers_from_bytes(const std::string& bytes) {
  QM_ASSIGN(const auto m, stored<st::ScalerList>(bytes, "list of scalers"));
  ScalersListed out;
  out.kind = static_cast<ScalerKind>(m.kind());
  for (const auto& id : m.ids()) out.ids.push_back(id_of(id));
  return out;
}

std::string sample_bytes(const ReplicasObserved& sample) {
  st::ReplicasSample out;
  fill(*out.mutable_id(), sample.target);
  TargetRow row;
  row.api_version = sample.api_version;
  row.uid = sample.uid;
  row.mode = sample.mode;
  row.found = sample.found;
  row.problem = sample.problem;
  row.replicas = sample.replicas;
  row.status_replicas = sample.status_replicas;
  row.pods = sample.pods;
  row.observed = sample.at;
  *out.mutable_target() = message(row);
  for (const auto& [id, readings] : sample.readings) {
    auto& one = *out.add_readings();
    fill(one, readings);
    fill(*one.mutable_id(), id);
  }
  out.set_unchanged(sample.unchanged);
  return wire::encode(out);
}
Result<ReplicasObserved> sample_from_bytes(const std::string& bytes) {
  QM_ASSIGN(const auto m, stored<st::ReplicasSample>(bytes, "sample of a target"));
  TargetRow row = row_of(m.target());
  ReplicasObserved out{
      id_of(m.id()),       row.api_version,     row.uid, row.mode,     row.found,    row.problem, row.replicas,
      row.status_replicas, std::move(row.pods), {},      row.observed, m.unchanged()};
  for (const auto& one : m.readings()) out.readings[id_of(one.id())] = readings_of(one);
  return out;
}

}  // namespace qm::autoscaler
