#include "instances/lifecycle_rows.hpp"

#include "qm/wire/encode.hpp"
#include "qm/wire/model.hpp"

namespace qm::autoscaler {
namespace st = quartermaster::autoscaler::state;
namespace {

constexpr std::int64_t kForEver = -1;

std::optional<Instant> instant_of(std::int64_t us) { return us == 0 ? std::nullopt : std::optional(from_micros(us)); }
std::int64_t us_of(const std::optional<Instant>& t) { return t ? micros(*t) : 0; }
std::vector<std::string> strings_in(const auto& list) { return {list.begin(), list.end()}; }

}  // namespace

st::PoolLifecycle message(const PoolLifecycle& from) {
  st::PoolLifecycle row;
  for (const auto& taint : from.startup_taints) *row.add_startup_taints() = wire::to_pb(taint);
  row.mutable_annotations()->insert(from.annotations.begin(), from.annotations.end());
  if (from.expire_after) row.set_expire_after_us(from.expire_after->count());
  if (from.termination_grace) row.set_termination_grace_us(from.termination_grace->count());
  row.set_template_hash(from.template_hash);
  for (const auto& id : from.images) row.add_images(id);
  for (const auto& id : from.subnets) row.add_subnets(id);
  for (const auto& id : from.security_groups) row.add_security_groups(id);
  return row;
}

PoolLifecycle lifecycle_of(const st::PoolLifecycle& row) {
  PoolLifecycle out;
  for (const auto& taint : row.startup_taints()) out.startup_taints.push_back(wire::from_pb(taint));
  out.annotations.insert(row.annotations().begin(), row.annotations().end());
  if (row.has_expire_after_us()) out.expire_after = Duration(row.expire_after_us());
  if (row.has_termination_grace_us()) out.termination_grace = Duration(row.termination_grace_us());
  out.template_hash = row.template_hash();
  out.images = strings_in(row.images());
  out.subnets = strings_in(row.subnets());
  out.security_groups = strings_in(row.security_groups());
  return out;
}

st::ClaimLifecycle message(const ClaimLifecycle& from) {
  st::ClaimLifecycle row;
  row.set_template_hash(from.template_hash);
  if (from.expire_after) row.set_expire_after_us(from.expire_after->count());
  if (from.termination_grace) row.set_termination_grace_us(from.termination_grace->count());
  for (const auto& name : from.resources) row.add_resources(name);
  row.set_image(from.image);
  row.set_subnet(from.subnet);
  for (const auto& id : from.security_groups) row.add_security_groups(id);
  row.set_initialized(from.initialized);
  row.set_drift(from.drift);
  row.set_drift_message(from.drift_message);
  row.set_drifted_since_us(us_of(from.drifted_since));
  row.set_disruption(from.disruption);
  row.set_deadline_us(us_of(from.deadline));
  row.set_replaces(from.replaces.value());
  row.set_replaced_by(from.replaced_by.value());
  row.set_consolidated_us(us_of(from.consolidated));
  row.set_not_consolidated_before_us(us_of(from.not_consolidated_before));
  return row;
}

ClaimLifecycle lifecycle_of(const st::ClaimLifecycle& row) {
  ClaimLifecycle out;
  out.template_hash = row.template_hash();
  if (row.has_expire_after_us()) out.expire_after = Duration(row.expire_after_us());
  if (row.has_termination_grace_us()) out.termination_grace = Duration(row.termination_grace_us());
  out.resources = strings_in(row.resources());
  out.image = row.image();
  out.subnet = row.subnet();
  out.security_groups = strings_in(row.security_groups());
  out.initialized = row.initialized();
  out.drift = row.drift();
  out.drift_message = row.drift_message();
  out.drifted_since = instant_of(row.drifted_since_us());
  out.disruption = row.disruption();
  out.deadline = instant_of(row.deadline_us());
  out.replaces = ClaimName(row.replaces());
  out.replaced_by = ClaimName(row.replaced_by());
  out.consolidated = instant_of(row.consolidated_us());
  out.not_consolidated_before = instant_of(row.not_consolidated_before_us());
  return out;
}

st::NodeDetails message(const NodeDetails& from) {
  st::NodeDetails row;
  row.set_instance(from.instance.value());
  for (const auto& taint : from.taints) *row.add_taints() = wire::to_pb(taint);
  row.mutable_capacity()->insert(from.capacity.begin(), from.capacity.end());
  row.mutable_allocatable()->insert(from.allocatable.begin(), from.allocatable.end());
  row.set_do_not_disrupt(from.do_not_disrupt);
  row.set_serves(from.serves);
  row.set_unhealthy(from.unhealthy);
  row.set_repair_at_us(micros(from.repair_at));
  for (const auto& pod : from.holding) {
    auto* to = row.add_holding();
    to->set_name(pod.name);
    if (pod.do_not_disrupt)
      to->set_do_not_disrupt_us(*pod.do_not_disrupt == Duration::max() ? kForEver : pod.do_not_disrupt->count());
    to->set_started_us(micros(pod.started));
    to->set_blocked_by(pod.blocked_by);
  }
  return row;
}

NodeDetails details_of(const st::NodeDetails& row) {
  NodeDetails out;
  out.instance = InstanceId(row.instance());
  for (const auto& taint : row.taints()) out.taints.push_back(wire::from_pb(taint));
  out.capacity.insert(row.capacity().begin(), row.capacity().end());
  out.allocatable.insert(row.allocatable().begin(), row.allocatable().end());
  out.do_not_disrupt = row.do_not_disrupt();
  out.serves = row.serves();
  out.unhealthy = row.unhealthy();
  out.repair_at = from_micros(row.repair_at_us());
  for (const auto& pod : row.holding()) {
    HoldingPod to{pod.name(), std::nullopt, from_micros(pod.started_us()), pod.blocked_by()};
    if (pod.has_do_not_disrupt_us())
      to.do_not_disrupt = pod.do_not_disrupt_us() == kForEver ? Duration::max() : Duration(pod.do_not_disrupt_us());
    out.holding.push_back(std::move(to));
  }
  return out;
}

st::LabelRule message(const Requirement& from) {
  st::LabelRule row;
  row.set_key(from.key);
  row.set_listed(from.op() == Operator::kIn);
  for (const auto& value : from.values) row.add_values(value);
  if (from.gte) row.set_at_least(*from.gte);
  if (from.lte) row.set_at_most(*from.lte);
  row.set_required(!from.allows_absence());
  row.set_absent(from.op() == Operator::kDoesNotExist);
  return row;
}

Requirement requirement_of(const st::LabelRule& row) {
  Requirement out;
  out.key = row.key();
  out.complement = !row.listed() && !row.absent();
  if (!row.absent()) out.values.assign(row.values().begin(), row.values().end());
  if (row.has_at_least() && out.complement) out.gte = row.at_least();
  if (row.has_at_most() && out.complement) out.lte = row.at_most();
  return out;
}

st::Buffer message(const Buffer& from) {
  st::Buffer row;
  row.set_name(from.name);
  *row.mutable_pods() = wire::to_pb(from.pods);
  row.set_explanation(from.explanation);
  return row;
}

Buffer buffer_of(const st::Buffer& row) { return {row.name(), wire::from_pb(row.pods()), row.explanation()}; }

st::Overlay message(const Overlay& from) {
  st::Overlay row;
  row.set_name(from.name);
  row.set_weight(from.weight);
  for (const auto& [key, requirement] : from.requirements.by_key()) *row.add_requirements() = message(requirement);
  if (from.price) row.set_price_nano(from.price->nano());
  if (from.adjustment) {
    row.set_adjustment(from.adjustment->amount);
    row.set_adjustment_percent(from.adjustment->percent);
  }
  row.mutable_capacity()->insert(from.capacity.begin(), from.capacity.end());
  return row;
}

Overlay overlay_of(const st::Overlay& row) {
  Overlay out;
  out.name = row.name();
  out.weight = row.weight();
  for (const auto& rule : row.requirements()) out.requirements.add(requirement_of(rule));
  if (row.has_price_nano()) out.price = Money::nano(row.price_nano());
  if (row.has_adjustment()) out.adjustment = PriceAdjustment{row.adjustment_percent(), row.adjustment()};
  out.capacity.insert(row.capacity().begin(), row.capacity().end());
  return out;
}

std::string bytes(const NodeDetails& details) { return wire::encode(message(details)); }
std::string bytes(const Buffer& buffer) { return wire::encode(message(buffer)); }
std::string bytes(const Overlay& overlay) { return wire::encode(message(overlay)); }
std::string bytes(const LaunchFault& f) {
  st::LaunchFault row;
  row.set_count(f.count);
  row.set_reason(f.reason);
  row.set_until_us(micros(f.until));
  return wire::encode(row);
}
std::string bytes(const DriftBackOff& b) {
  st::DriftBackOff row;
  row.set_failures(b.failures);
  row.set_until_us(micros(b.until));
  row.set_reason(b.reason);
  return wire::encode(row);
}

}  // namespace qm::autoscaler
