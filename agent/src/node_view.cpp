#include "node_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace qm::agent {
namespace {

constexpr double kMib = 1024.0 * 1024.0;

/// XIDs after which a GPU does nothing until it is reset or its machine starts anew. What programs bring upon themselves is not
/// among them, nor what the GPU has survived.
constexpr std::int32_t kBreaking[] = {46, 48, 54, 62, 64, 74, 79, 95, 119, 120, 140, 143};

double or_zero(double value) { return std::isnan(value) ? 0 : value; }

std::int32_t mig_milli(const std::string& profile) {
  const int slices = std::clamp(std::atoi(profile.c_str()), 1, 7);
  return slices * 1000 / 7;
}

void fill(pb::GpuSample& out, const DeviceReading& d, const std::vector<DeviceReading::Holder>& holders) {
  out.set_gpu_index(d.index);
  out.set_gpu_uuid(d.uuid);
  out.set_utilization(d.utilization);
  out.set_fb_used_bytes(static_cast<std::int64_t>(or_zero(d.fb_used_mib) * kMib));
  out.set_fb_free_bytes(static_cast<std::int64_t>(or_zero(d.fb_free_mib) * kMib));
  out.set_temperature_c(or_zero(d.temperature_c));
  out.set_power_watts(or_zero(d.power_watts));
  out.set_sm_active(std::isnan(d.sm_active) ? -1 : d.sm_active);
  out.set_energy_mj(static_cast<std::int64_t>(or_zero(d.energy_mj)));
  out.set_xid(static_cast<std::int32_t>(or_zero(d.xid)));
  out.set_model(d.model);
  // The board's values are nobody's alone where several pods share it.
  if (holders.size() == 1) {
    out.set_namespace_(holders[0].ns);
    out.set_pod(holders[0].pod);
    out.set_container(holders[0].container);
  }
}

}  // namespace

pb::SampleFrame NodeView::take(const DcgmPage& page, Instant at, bool gpu_pods, const Offer& offer) {
  const bool labels_lost = kubelet_said_ || (gpu_pods && !page.labelled());
  pb::SampleFrame frame;
  frame.set_node(node_);
  frame.set_at_us(micros(at));
  frame.set_sequence(++sequence_);
  for (const DeviceReading& device : page.devices) {
    Gpu& gpu = gpus_[device.index];
    if (!device.uuid.empty()) gpu.uuid = device.uuid;
    if (!labels_lost) gpu.holders = device.holders;
    if (!std::isnan(device.utilization)) fill(*frame.add_gpus(), device, gpu.holders);
    report_xid(device, gpu, at, offer);
  }
  if (!page.devices.empty() && !labels_lost) tell_devices(at, offer);
  return frame;
}

void NodeView::held(const Holders& holders, const std::vector<Device>& devices, Instant at, bool gpu_pods,
                    const Offer& offer) {
  if (holders.empty() && gpu_pods) return;
  kubelet_said_ = true;
  for (auto& [index, gpu] : gpus_) gpu.holders.clear();
  for (const Device& device : devices) gpus_[device.index].uuid = device.uuid;
  for (const auto& [index, pods] : holders) gpus_[index].holders = pods;
  tell_devices(at, offer);
}

std::set<std::int32_t> NodeView::broken() const {
  std::set<std::int32_t> out;
  for (const auto& [index, gpu] : gpus_) {
    if (std::ranges::find(kBreaking, gpu.xid) != std::end(kBreaking)) out.insert(index);
  }
  return out;
}

void NodeView::tell_devices(Instant at, const Offer& offer) {
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
      // A page does not say how time slices are shared: evenly, then.
      const auto shares = static_cast<std::int32_t>(holder.shares > 0            ? holder.shares
                                                    : holder.mig_profile.empty() ? whole
                                                                                 : 1);
      const bool all = holder.mig_profile.empty() || holder.number >= 0;
      device.set_milli((all ? 1000 : mig_milli(holder.mig_profile)) / shares);
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
  if (std::isnan(device.xid)) return;
  const auto xid = static_cast<std::int32_t>(device.xid);
  if (xid == gpu.xid) return;
  if (xid > 0) {
    pb::AgentFact fact;
    auto& report = *fact.mutable_xid();
    report.set_node(node_);
    report.set_xid(xid);
    report.set_gpu_index(device.index);
    report.set_gpu_uuid(device.uuid);
    report.set_line(fmt::format("dcgm-exporter shows XID {} on GPU {}", xid, device.index));
    report.set_at_us(micros(at));
    if (!offer(std::move(fact))) return;
  }
  gpu.xid = xid;
}

}  // namespace qm::agent
