#include "node_view.hpp"

#include "qm/catalog/xid.hpp"
#include "qm/model/resources.hpp"
#include "qm/wire/sample.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace qm::agent {
namespace {

constexpr double kMib = 1024.0 * 1024.0;

/// The thousandths of a GPU that a MIG instance has: by its position among all instances, which add up to 1,000 if
/// they fill it.
std::int32_t mig_milli(const DeviceReading::Holder& holder, const std::vector<Slice>& slices, std::int32_t of) {
  if (holder.milli > 0) return holder.milli;
  std::vector<std::string> profiles;
  for (const Slice& slice : slices) profiles.push_back(slice.profile);
  const auto at = std::ranges::find(slices, holder.uuid, &Slice::uuid);
  if (at == slices.end()) return mig_shares({holder.mig_profile}, of).front();
  return mig_shares(profiles, of)[static_cast<std::size_t>(at - slices.begin())];
}

void fill(pb::GpuSample& out, const DeviceReading& d, const std::vector<DeviceReading::Holder>& holders) {
  out.set_gpu_index(d.index);
  out.set_gpu_uuid(d.uuid);
  out.set_utilization(d.utilization);
  // A value that is not on the page is listed as missing, because zero would be a value.
  using S = pb::GpuSample;
  const auto known = [&](double value, int field) {
    if (std::isnan(value)) wire::set_missing(out, field);
    return !std::isnan(value);
  };
  if (known(d.fb_used_mib, S::kFbUsedBytesFieldNumber))
    out.set_fb_used_bytes(static_cast<std::int64_t>(d.fb_used_mib * kMib));
  if (known(d.fb_free_mib, S::kFbFreeBytesFieldNumber))
    out.set_fb_free_bytes(static_cast<std::int64_t>(d.fb_free_mib * kMib));
  if (known(d.temperature_c, S::kTemperatureCFieldNumber)) out.set_temperature_c(d.temperature_c);
  if (known(d.power_watts, S::kPowerWattsFieldNumber)) out.set_power_watts(d.power_watts);
  out.set_sm_active(known(d.sm_active, S::kSmActiveFieldNumber) ? d.sm_active : -1);
  if (known(d.energy_mj, S::kEnergyMjFieldNumber)) out.set_energy_mj(static_cast<std::int64_t>(d.energy_mj));
  if (known(d.xid, S::kXidFieldNumber)) out.set_xid(static_cast<std::int32_t>(d.xid));
  if (!std::isnan(d.double_bit_errors)) out.set_double_bit_errors(static_cast<std::int64_t>(d.double_bit_errors));
  if (!std::isnan(d.clocks_event_reasons))
    out.set_clocks_event_reasons(static_cast<std::int64_t>(d.clocks_event_reasons));
  if (!std::isnan(d.fan_percent)) out.set_fan_percent(d.fan_percent);
  out.set_model(d.model);
  // The board's values belong to a pod only if it is the sole holder.
  if (holders.size() == 1) {
    out.set_namespace_(holders[0].ns);
    out.set_pod(holders[0].pod);
    out.set_container(holders[0].container);
  }
}

}  // namespace

void NodeView::Gpu::identify(const std::string& by_uuid) {
  if (by_uuid.empty() || by_uuid == uuid) return;
  if (!uuid.empty()) forget();
  uuid = by_uuid;
}

pb::SampleFrame NodeView::take(const DcgmPage& page, Instant at, bool gpu_pods, const Offer& offer) {
  const bool labels_lost = kubelet_listed_ || (gpu_pods && !page.labelled());
  pb::SampleFrame frame;
  frame.set_node(node_);
  frame.set_at_us(micros(at));
  frame.set_sequence(++sequence_);
  for (const DeviceReading& device : page.devices) {
    Gpu& gpu = gpus_[device.index];
    gpu.identify(device.uuid);
    if (!device.model.empty()) gpu.model = device.model;
    if (!labels_lost) gpu.holders = device.holders;
    if (!std::isnan(device.utilization)) fill(*frame.add_gpus(), device, gpu.holders);
    report_xid(device, gpu, at, offer);
  }
  if (!page.devices.empty() && !labels_lost) publish_devices(at, offer);
  return frame;
}

void NodeView::held(const Holders& holders, const std::vector<Device>& devices, Instant at, bool gpu_pods,
                    const Offer& offer) {
  if (holders.empty() && gpu_pods) return;
  kubelet_listed_ = true;
  for (auto& [index, gpu] : gpus_) gpu.holders.clear();
  for (const Device& device : devices) {
    gpus_[device.index].identify(device.uuid);
    gpus_[device.index].slices = device.slices;
  }
  for (const auto& [index, pods] : holders) gpus_[index].holders = pods;
  publish_devices(at, offer);
}

std::set<std::int32_t> NodeView::broken() const {
  std::set<std::int32_t> out;
  for (const auto& [index, gpu] : gpus_) {
    if (catalog::xid::breaks_gpu(gpu.xid, {{}, gpu.recovery_action})) out.insert(index);
  }
  return out;
}

void NodeView::publish_devices(Instant at, const Offer& offer) {
  pb::AgentFact fact;
  *fact.mutable_devices() = observation(at);
  auto timeless = fact.devices();
  timeless.clear_at_us();
  std::string bytes = timeless.SerializeAsString();
  if (bytes != published_ && offer(std::move(fact))) published_ = std::move(bytes);
}

pb::DeviceObservation NodeView::observation(Instant at) const {
  std::map<std::pair<std::string, std::string>, std::vector<pb::DeviceRef>> pods;
  for (const auto& [index, gpu] : gpus_) {
    const auto whole = std::ranges::count_if(gpu.holders, [](const auto& h) { return h.mig_profile.empty(); });
    for (const auto& holder : gpu.holders) {
      auto& device = pods[{holder.ns, holder.pod}].emplace_back();
      device.set_node(node_);
      device.set_index(holder.number >= 0 ? holder.number : index);
      device.set_uuid(holder.uuid.empty() ? gpu.uuid : holder.uuid);
      device.set_mig_profile(holder.mig_profile);
      // A page does not contain the sizes of time slices, so they are assumed to be equal.
      const auto shares = static_cast<std::int32_t>(holder.shares > 0            ? holder.shares
                                                    : holder.mig_profile.empty() ? whole
                                                                                 : 1);
      const bool all = holder.mig_profile.empty() || holder.number >= 0;
      device.set_milli((all ? 1000 : mig_milli(holder, gpu.slices, compute_slices_of_model(gpu.model))) / shares);
    }
  }
  pb::DeviceObservation out;
  out.set_node(node_);
  out.set_at_us(micros(at));
  for (auto& [name, devices] : pods) {
    auto& pod = *out.add_pods();
    pod.set_namespace_(name.first);
    pod.set_pod(name.second);
    for (auto& device : devices) *pod.add_devices() = std::move(device);
  }
  return out;
}

void NodeView::report_xid(const DeviceReading& device, Gpu& gpu, Instant at, const Offer& offer) const {
  gpu.recovery_action.reset();
  if (!std::isnan(device.recovery_action)) gpu.recovery_action = static_cast<std::int32_t>(device.recovery_action);
  if (std::isnan(device.xid)) return;
  const auto xid = std::max(static_cast<std::int32_t>(device.xid), 0);
  const bool other_action = gpu.recovery_action && gpu.recovery_action != gpu.reported_action;
  if (xid == gpu.xid && gpu.looked && !(other_action && catalog::xid::recovery_decides(xid))) return;
  if (xid > 0 || gpu.looked) {
    pb::AgentFact fact;
    auto& report = *fact.mutable_xid();
    report.set_node(node_);
    report.set_xid(xid > 0 ? xid : gpu.xid);
    report.set_cleared(xid == 0);
    report.set_at_first_poll(!gpu.looked);
    report.set_boot_id(boot_);
    report.set_gpu_index(device.index);
    report.set_gpu_uuid(device.uuid);
    report.set_line(
        fmt::format("dcgm-exporter shows {} on GPU {}", xid > 0 ? fmt::format("XID {}", xid) : "no XID", device.index));
    report.set_at_us(micros(at));
    if (gpu.recovery_action) report.set_recovery_action(*gpu.recovery_action);
    if (!offer(std::move(fact))) return;
  }
  gpu.xid = xid;
  gpu.looked = true;
  gpu.reported_action = gpu.recovery_action;
}

void NodeView::booted(const std::string& boot) {
  if (boot == boot_) return;
  boot_ = boot;
  for (auto& [index, gpu] : gpus_) gpu.forget();
}

}  // namespace qm::agent
