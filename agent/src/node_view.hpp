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

/// What one node's pages said so far, and what is news in the next one.
///
/// Frame    one for each page. `sequence` grows with every look, failed ones included, so a gap shows. A GPU whose
///          utilisation is not on the page is left out: no value is not zero.
/// Devices  a fact when the mapping of pods to GPUs changed. A GPU that is not on the page keeps its pods, and so does the
///          whole node where the page lost all labels while Kubernetes has GPU pods there: the exporter then could not
///          ask the kubelet, which is not the same as idle. Once the kubelet itself has said who holds what, its word
///          counts and the page's labels do not.
/// XIDs     a fact when a GPU's gauge changed, to another code or to none, and when the driver's recovery action changed under a
///          code that it decides on: XID 154 reports only that it did. A code that is present at the first scrape, and at the first one
///          after the node booted, is reported too: the gauge keeps the last code for ever, and the telemetry service knows
///          whether it was reported before.
/// Threads  one at a time.
class NodeView {
 public:
  /// Takes a fact, or refuses it: then it is offered again with the next page.
  using Offer = std::function<bool(pb::AgentFact)>;

  explicit NodeView(std::string node) : node_(std::move(node)) {}
  /// `gpu_pods`: Kubernetes has running pods with GPUs on this node.
  pb::SampleFrame take(const DcgmPage& page, Instant at, bool gpu_pods, const Offer& offer);
  /// The boot id of the node's kernel, where it is known; before take().
  void booted(const std::string& boot);
  /// A look that gave no page.
  void miss() { ++sequence_; }
  using Holders = std::map<std::int32_t, std::vector<DeviceReading::Holder>>;
  /// What the kubelet says, for the devices that there are. Nobody on any of them while Kubernetes has running pods with
  /// GPUs here is not believed: a kubelet that has just started knows of none.
  void held(const Holders& holders, const std::vector<Device>& devices, Instant at, bool gpu_pods, const Offer& offer);
  /// GPUs whose last XID means that they do not work until they are reset, by index: as the catalog of XIDs has it.
  [[nodiscard]] std::set<std::int32_t> broken() const;

 private:
  struct Gpu {
    std::string uuid, model;
    std::vector<Slice> slices;
    std::vector<DeviceReading::Holder> holders;
    std::int32_t xid = 0;
    bool looked = false;                          // at its gauge, since the node booted
    std::optional<std::int32_t> recovery_action;  // what the driver asks for; none where the last page does not give it
    std::optional<std::int32_t> reported_action;  // with the last report; a page without one changes nothing in it
    /// Another GPU has its index, or its node booted: nothing is known of its gauge.
    void forget() { xid = 0, looked = false, recovery_action.reset(), reported_action.reset(); }
    void identify(const std::string& by_uuid);
  };
  [[nodiscard]] pb::DeviceObservation observation(Instant at) const;
  void report_xid(const DeviceReading& device, Gpu& gpu, Instant at, const Offer& offer) const;
  void tell_devices(Instant at, const Offer& offer);

  std::string node_, boot_;
  std::uint64_t sequence_ = 0;
  std::map<std::int32_t, Gpu> gpus_;
  bool kubelet_said_ = false;
  std::string published_;  // pods of the last devices fact, as bytes
};

}  // namespace qm::agent
