#pragma once
#include "dcgm_page.hpp"
#include "devices.hpp"
#include "facts.hpp"

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace qm::agent {

/// The state of one node from its pages so far. Turns the next page into a frame and the facts that changed.
///
/// Frame    one for each page. `sequence` increases with every scrape, including failed ones, so a gap is visible. A
///          GPU whose utilization is not on the page is omitted: a missing value is not zero.
/// Devices  a fact when the mapping of pods to GPUs changed. A GPU that is not on the page keeps its pods. So does
///          the whole node if the page lost all labels while Kubernetes has GPU pods there: the exporter then could
///          not query the kubelet, and the node is not idle. After the kubelet's first report its mapping is used and
///          the page's labels are ignored.
/// XIDs     a fact when a GPU's gauge changed, to another code or to none, and when the driver's recovery action
/// changed
///          under a code whose verdict depends on it: XID 154 reports only that the action changed. A code that is
///          present at the first scrape, and at the first one after the node booted, is reported too: the gauge keeps
///          the last code for ever, and the telemetry service knows whether it was reported before.
/// Threads  one at a time.
class NodeView {
 public:
  /// Accepts a fact, or refuses it (false); a refused fact is offered again with the next page.
  using Offer = std::function<bool(pb::AgentFact)>;

  explicit NodeView(std::string node) : node_(std::move(node)) {}
  /// `gpu_pods`: Kubernetes has running pods with GPUs on this node.
  pb::SampleFrame take(const DcgmPage& page, Instant at, bool gpu_pods, const Offer& offer);
  /// Sets the boot id of the node's kernel, if known; before take().
  void booted(const std::string& boot);
  /// Records a scrape without a page.
  void miss() { ++sequence_; }
  using Holders = std::map<std::int32_t, std::vector<DeviceReading::Holder>>;
  /// Applies the kubelet's mapping for the existing devices. An empty mapping is ignored while Kubernetes has running
  /// pods with GPUs on the node: a kubelet that has just started lists none.
  void held(const Holders& holders, const std::vector<Device>& devices, Instant at, bool gpu_pods, const Offer& offer);
  /// GPUs whose last XID requires a reset according to the XID catalog, by index; they do not work until then.
  [[nodiscard]] std::set<std::int32_t> broken() const;

 private:
  struct Gpu {
    std::string uuid, model;
    std::vector<Slice> slices;
    std::vector<DeviceReading::Holder> holders;
    std::int32_t xid = 0;
    bool looked = false;                          // its gauge was read since the node booted
    std::optional<std::int32_t> recovery_action;  // requested by the driver; none if the last page does not contain it
    std::optional<std::int32_t> reported_action;  // in the last report; a page without one does not change it
    /// Another GPU has its index, or its node booted: the state of the gauge is unknown.
    void forget() { xid = 0, looked = false, recovery_action.reset(), reported_action.reset(); }
    void identify(const std::string& by_uuid);
  };
  [[nodiscard]] pb::DeviceObservation observation(Instant at) const;
  void report_xid(const DeviceReading& device, Gpu& gpu, Instant at, const Offer& offer) const;
  void publish_devices(Instant at, const Offer& offer);

  std::string node_, boot_;
  std::uint64_t sequence_ = 0;
  std::map<std::int32_t, Gpu> gpus_;
  bool kubelet_listed_ = false;
  std::string published_;  // pods of the last devices fact, serialized
};

}  // namespace qm::agent
