#include "instances/scale_down_rows.hpp"

#include "qm/wire/encode.hpp"
#include "qm/wire/model.hpp"
#include "state/autoscaler_state.pb.h"
#include "stored.hpp"

namespace qm::autoscaler {
namespace st = quartermaster::autoscaler::state;
namespace {

std::string bytes(Instant at) {
  st::Number row;
  row.set_value(micros(at));
  return wire::encode(row);
}

std::string text(const std::string& key) { return key; }
template <class Tag>
std::string text(const Named<Tag>& key) {
  return key.value();
}

template <class Key, class Row>
void append(const Table<Key, Row>& table, const char* kind, std::vector<store::StateRow>& out) {
  table.changed([&](const Key& key, const Row* row) {
    out.push_back({kind, text(key), row == nullptr ? std::nullopt : std::optional(bytes(*row))});
  });
}

}  // namespace

void append_changes(const ScaleDownTables& tables, std::vector<store::StateRow>& out) {
  append(tables.unneeded, "unneeded", out);
  append(tables.last, "scale_down", out);
  append(tables.protected_by_us, "protected", out);
}

Result<bool> restore(ScaleDownTables& tables, const store::StateRow& row) {
  if (row.kind != "unneeded" && row.kind != "scale_down" && row.kind != "protected") return false;
  QM_ASSIGN(const auto m, parsed<st::Number>(*row.value, "instant of the scale-down"));
  const Instant at = from_micros(m.value());
  if (row.kind == "unneeded") tables.unneeded.restore(NodeName(row.key), at);
  if (row.kind == "scale_down") tables.last.restore(row.key, at);
  if (row.kind == "protected") tables.protected_by_us.restore(InstanceId(row.key), at);
  return true;
}

st::GroupScaleDown message(const GroupScaleDown& from) {
  st::GroupScaleDown row;
  if (from.utilization_milli) row.set_utilization_milli(*from.utilization_milli);
  if (from.gpu_utilization_milli) row.set_gpu_utilization_milli(*from.gpu_utilization_milli);
  if (from.ignore_daemon_sets) row.set_ignore_daemon_sets(*from.ignore_daemon_sets);
  return row;
}

GroupScaleDown group_scale_down_of(const st::GroupScaleDown& row) {
  GroupScaleDown out;
  if (row.has_utilization_milli()) out.utilization_milli = row.utilization_milli();
  if (row.has_gpu_utilization_milli()) out.gpu_utilization_milli = row.gpu_utilization_milli();
  if (row.has_ignore_daemon_sets()) out.ignore_daemon_sets = row.ignore_daemon_sets();
  return out;
}

void encode_protections(const std::vector<ProtectIntent>& protections, service::Effects& effects) {
  for (const ProtectIntent& one : protections) {
    Json instances = Json::array();
    for (const InstanceId& instance : one.instances) instances.push_back(instance.value());
    const Json payload =
        Json::object({{"group", one.group}, {"instances", std::move(instances)}, {"protect", one.protect}});
    effects.intents.push_back({fmt::format("protect/{}/{}", one.group, one.number), "group.protect",
                               "protect/" + one.group, 0, payload.dump()});
  }
}

}  // namespace qm::autoscaler
