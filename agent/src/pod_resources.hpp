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

/// Devices of one resource that a container holds, as reported by the kubelet.
struct Held {
  std::string ns, pod, container, resource;
  std::vector<std::string> ids;
};
struct HeldDevices {
  std::vector<Held> held;
  std::map<std::string, int> shares;  ///< for each shared device, the total number of its shares
};

/// The source of the mapping of pods to devices: the kubelet.
class HoldingSource {
 public:
  virtual ~HoldingSource() = default;
  /// kUnavailable while the kubelet starts; takes at most two seconds. One thread at a time.
  virtual Result<HeldDevices> held() = 0;
};
/// Reads the kubelet's pod-resources socket over one connection.
std::unique_ptr<HoldingSource> pod_resources(const std::string& socket);

/// The pods on each GPU, by its index.
///
/// Once      a device has one holder. A kubelet lists finished pods for a while although their devices are free: a
///           finished pod holds nothing. Of several pods, the one created last holds the device, then the last by
///           name; a pod that the API server does not know ranks lowest.
/// Whole     a GPU's id: one pod holds the whole GPU.
/// Shares    "<id>::<n>", time slices or MPS: all holders have equal shares.
/// MIG       the id of an instance, or the older "MIG-<GPU's id>/<instance>/<compute instance>". If instances are
/// requested as
///           nvidia.com/gpu, each counts as a GPU with its running number on the node.
/// Left out  devices of other vendors, and ids that the driver does not know.
[[nodiscard]] std::map<std::int32_t, std::vector<DeviceReading::Holder>> holders_of(const HeldDevices& held,
                                                                                    const std::vector<Device>& devices,
                                                                                    const KnownPods& pods = {});
/// Removes the labels of finished pods from a page: its exporter has them from the same kubelet.
void leave_out_ended(DcgmPage& page, const KnownPods& pods);
/// The ids of the devices of each pod, by "namespace/name".
[[nodiscard]] std::map<std::string, std::set<std::string>> ids_by_pod(const HeldDevices& held);

}  // namespace qm::agent
