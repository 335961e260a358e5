#pragma once
#include "dcgm_page.hpp"
#include "devices.hpp"
#include "pods.hpp"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace qm::agent {

/// Devices of one resource that a container holds, as its kubelet says.
struct Held {
  std::string ns, pod, container, resource;
  std::vector<std::string> ids;
};
struct HeldDevices {
  std::vector<Held> held;
  std::map<std::string, int> shares;  ///< of each device that is shared: how many there are of it, in all
};

/// Who holds what, from the kubelet.
class HoldingSource {
 public:
  virtual ~HoldingSource() = default;
  /// kUnavailable while the kubelet starts; at most two seconds. One thread at a time.
  virtual Result<HeldDevices> held() = 0;
};
/// By the kubelet's pod-resources socket, over one connection.
std::unique_ptr<HoldingSource> pod_resources(const std::string& socket);

/// The pods on each GPU, by its index.
///
/// Once      a device has one holder. A kubelet lists finished pods for a while although their devices are free: a finished pod
///           holds nothing. Of several pods, the one that was created last holds the device, then the last by name; a pod
///           that is unknown to the API server ranks lowest.
/// Whole     a GPU's id: one pod alone has it.
/// Shares    "<id>::<n>", by time or by MPS: each holder has an even share.
/// MIG       the id of an instance, or the older "MIG-<GPU's id>/<instance>/<compute instance>". Where instances are asked for as
///           nvidia.com/gpu, each counts as a GPU by its running number on the machine.
/// Left out  devices of other vendors, and ids that the driver does not know.
[[nodiscard]] std::map<std::int32_t, std::vector<DeviceReading::Holder>> holders_of(const HeldDevices& held,
                                                                                    const std::vector<Device>& devices,
                                                                                    const KnownPods& pods = {});
/// Takes the labels of pods that have ended from a page: its exporter has them from the same kubelet.
void leave_out_ended(DcgmPage& page, const KnownPods& pods);
/// The ids of each pod, by "namespace/name".
[[nodiscard]] std::map<std::string, std::set<std::string>> ids_by_pod(const HeldDevices& held);

}  // namespace qm::agent
