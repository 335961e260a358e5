#include "launch/provisioning_rows.hpp"

#include "qm/wire/encode.hpp"
#include "qm/wire/model.hpp"
#include "qm/wire/parse.hpp"

namespace qm::autoscaler {
namespace {

st::ProvisioningRequest message(const ProvisioningRequest& r) {
  st::ProvisioningRequest row;
  row.set_uid(r.uid.value());
  row.set_ns(r.ns);
  row.set_name(r.name);
  row.set_provisioning_class(static_cast<int>(r.provisioning_class));
  for (const auto& set : r.pod_sets) *row.add_pod_sets() = wire::to_pb(set);
  row.set_created_us(micros(r.created));
  if (r.valid_for) row.set_valid_for_us(r.valid_for->count());
  row.set_invalid(r.invalid);
  for (const auto pods : r.room) row.add_room(pods);
  return row;
}

ProvisioningRequest request_of(const st::ProvisioningRequest& row) {
  ProvisioningRequest r;
  r.uid = WorkloadUid(row.uid());
  r.ns = row.ns();
  r.name = row.name();
  r.provisioning_class = static_cast<ProvisioningClass>(row.provisioning_class());
  for (const auto& set : row.pod_sets()) r.pod_sets.push_back(wire::from_pb(set));
  r.created = from_micros(row.created_us());
  if (row.has_valid_for_us()) r.valid_for = Duration(row.valid_for_us());
  r.invalid = row.invalid();
  r.room.assign(row.room().begin(), row.room().end());
  return r;
}

}  // namespace

std::string bytes(const ProvisioningRow& p) {
  st::ProvisioningRequest row = message(p.request);
  row.set_phase(static_cast<int>(p.phase));
  row.set_since_us(micros(p.since));
  for (const auto& claim : p.claims) row.add_claims(claim.value());
  row.set_why(p.why);
  return wire::encode(row);
}

ProvisioningRow provisioning_row_of(const st::ProvisioningRequest& row) {
  ProvisioningRow p;
  p.request = request_of(row);
  p.phase = static_cast<ProvisioningPhase>(row.phase());
  p.since = from_micros(row.since_us());
  for (const auto& claim : row.claims()) p.claims.emplace_back(claim);
  p.why = row.why();
  return p;
}

std::string provisioning_bytes(const std::vector<ProvisioningRequest>& requests) {
  st::ProvisioningRequests all;
  for (const auto& request : requests) *all.add_requests() = message(request);
  return wire::encode(all);
}

Result<ProvisioningApplied> provisioning_from_bytes(const std::string& bytes) {
  QM_ASSIGN(const auto all, wire::parse<st::ProvisioningRequests>(bytes, "list of ProvisioningRequests"));
  ProvisioningApplied out;
  for (const auto& row : all.requests()) out.requests.push_back(request_of(row));
  return out;
}

}  // namespace qm::autoscaler
