#pragma once
#include "qm/base/table.hpp"
#include "qm/catalog/xid.hpp"
#include "qm/model/resources.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace qm::telemetry {

using catalog::xid::Action;

// ---- what may happen: facts from agents, orders from the autoscaler ----

struct Tick {};
struct DevicesSeen {
  NodeName node;
  Instant at{};
  struct Pod {
    Namespace ns;
    std::string pod;
    std::vector<DeviceRef> devices;
    friend auto operator<=>(const Pod&, const Pod&) = default;
  };
  std::vector<Pod> pods;  ///< sorted
};
/// What a node's agent has to say of the node.
struct SignsSeen {
  NodeName node;
  Instant at{};
  NodeSigns signs;
};
struct XidSeen {
  NodeName node;
  std::int32_t xid = 0, gpu_index = -1;
  DeviceUuid gpu;
  std::string line;
  Instant at{};
  std::optional<std::int32_t> recovery_action = {};  ///< of the GPU, where the agent knows it
  bool standing = false;                             ///< read at an agent's first look: maybe an old one
  bool cleared = false;                              ///< the gauge shows it no longer
  std::string boot = {};                             ///< of the node's kernel; empty = not known
};
struct NoticeSeen {
  NodeName node;
  InstanceId instance;
  std::string action;  ///< terminate, stop, hibernate
  Instant at{};        ///< when capacity is taken
};
struct AckSeen {
  std::string order;
  AttemptId id;
  NodeName node;
  std::int32_t ranks = 0;
  std::int64_t step = 0;
  std::string uri, message;
  bool ok = false;
  Instant at{};
  std::string ns = {};  ///< of the workload that was asked
};
/// The mean of one device over a closed interval.
struct UsageSeen {
  NodeName node;
  std::int32_t gpu_index = 0;
  DeviceUuid gpu;
  Instant from{}, to{};
  Namespace ns;
  std::string pod;
  double utilization = 0;
  std::int64_t samples = 0, energy_mj = 0;
};
/// The autoscaler's checkpoint order, for the agents of the nodes named.
struct OrderHeard {
  std::string order;
  AttemptId id;
  std::vector<NodeName> nodes;
  std::string reason;
  Instant deadline{};
  bool settled = false;
  std::string ns = {}, kind = {};  ///< of the workload
};
/// A node was repaired or replaced: what was known of it is over.
struct NodeGone {
  NodeName node;
};

using Command =
    std::variant<Tick, DevicesSeen, SignsSeen, XidSeen, NoticeSeen, AckSeen, UsageSeen, OrderHeard, NodeGone>;

/// The heaviest verdict on one GPU, and of those the newest.
struct GpuFault {
  std::int32_t gpu_index = -1;
  DeviceUuid gpu;
  Action action = Action::kNone;  ///< kResetGpu or heavier
  std::int32_t xid = 0;
  std::string reason;
  Instant at{};
  friend auto operator<=>(const GpuFault&, const GpuFault&) = default;
};
/// The heaviest verdict on a node, and of each GPU that takes no work.
struct Health {
  Action action = Action::kNone;
  std::int32_t xid = 0, gpu_index = -1;
  DeviceUuid gpu;
  std::string reason;
  Instant at{};
  std::vector<GpuFault> gpus{};  ///< by index; at most kMostXids
  friend auto operator<=>(const Health&, const Health&) = default;
};
struct Notice {
  InstanceId instance;
  std::string action;
  Instant at{}, seen{};
  friend auto operator<=>(const Notice&, const Notice&) = default;
};
struct OpenOrder {
  AttemptId id;
  std::vector<NodeName> nodes;
  std::string reason;
  Instant deadline{};
  std::string ns = {}, kind = {};  ///< of the workload
  friend auto operator<=>(const OpenOrder&, const OpenOrder&) = default;
};

/// The last XIDs of each GPU of a node, since it booted.
struct LastXids {
  struct Last {
    Instant at{};
    std::int32_t xid = 0;                         ///< 0 = it was reset since
    std::optional<std::int32_t> recovery_action;  ///< only of a code that it decides on
    /// Whether both report the same code and action, at any time.
    [[nodiscard]] bool same(const Last& o) const { return xid == o.xid && recovery_action == o.recovery_action; }
    friend auto operator<=>(const Last&, const Last&) = default;
  };
  std::string boot, boot_before;
  /// By uuid, or "#index" where there is none; of each the newest first, one at least.
  std::map<std::string, std::vector<Last>> gpus;
  friend auto operator<=>(const LastXids&, const LastXids&) = default;
};

struct Tables {
  Table<NodeName, Health> health;
  Table<NodeName, Notice> notices;
  Table<std::string, OpenOrder> orders;                         ///< by order id
  Table<std::pair<std::string, NodeName>, std::int64_t> acked;  ///< (order, node) -> step
  Table<NodeName, std::vector<DevicesSeen::Pod>> devices;       ///< as last published
  Table<NodeName, NodeSigns> signs;                             ///< as last published
  Table<NodeName, LastXids> xids;
  Table<NodeName, Instant> xids_until;  ///< of nodes that are gone: their XIDs are forgotten then
};

struct HealthEvent {
  NodeName node;
  Health row;
  bool gone = false;  ///< the node is, and its key ends
};
struct DevicesEvent {
  DevicesSeen seen;
  bool gone = false;
};
struct SignsEvent {
  SignsSeen seen;
  bool gone = false;
};
struct NoticeEvent {
  NodeName node;
  Notice row;
  bool gone = false;
};
struct Output {
  std::vector<HealthEvent> health;  ///< events of one node in the order of its facts
  std::vector<DevicesEvent> devices;
  std::vector<SignsEvent> signs;
  std::vector<NodeName> gone;
  std::vector<NoticeEvent> notices;
  std::vector<AckSeen> acks;
  std::vector<AckSeen> foreign_acks;  ///< dropped: of another workload than their order
  std::vector<UsageSeen> usage;
  std::optional<Instant> wake_at;
};

/// Judges what agents report: which node must take no more work, and which facts are news.
///
/// Sticky   a gauge shows the last XID for ever, and each agent reads it when it starts. A code that is present at an agent's first scrape is
///          old where the same GPU has reported it last since its node booted; a changed code, a changed recovery action, one that an
///          agent saw appear, one after a reset (the gauge was cleared) and one after a reboot are new. A report that is repeated,
///          also after a newer one, is known by its time; one of the boot before is old. Times are only held for equal, since a
///          node's clock may be set back. The last kMostReports of at most kMostXids GPUs of a node are remembered, and for kXidMemory
///          past its end: the node may come back under its name without a reboot.
/// Verdict  an XID maps to an action by the catalog (qm/catalog/xid.hpp); the heaviest action of a node, and of each of its GPUs, is
///          valid until the node goes. A reset concerns its GPU alone, what is heavier the node; XIDs that end one application only, and codes that the catalog does
///          not know, are watched. The driver's recovery action decides on XID 154, and fatal or nonfatal on 144 to 150.
/// News     a devices list, signs of a node, a notice or an acknowledgement is published once, however often an agent repeats it. The
///          first acknowledgement of a node counts, and only from a node that the order names.
/// Orders   open ones are kept for agents that connect again, until their deadline; acknowledgements stay known for
///          ten minutes more, then the order is dropped.
/// Gone     a node that is gone ends its verdict, its devices list, its signs and its notice with an event each, so that a later
///          node of the same name starts anew with every consumer.
/// Threads  one. Time: `now` does not go back.
class Engine {
 public:
  using Command = telemetry::Command;
  using Output = telemetry::Output;
  static constexpr std::size_t kMostXids = 256;
  static constexpr std::size_t kMostReports = 4;  ///< of a GPU
  static constexpr Duration kXidMemory = std::chrono::hours(24);

  Output step(std::span<const Command> batch, Instant now);
  void undo();
  void commit();
  [[nodiscard]] std::uint64_t digest() const;
  [[nodiscard]] const Tables& tables() const { return tables_; }
  [[nodiscard]] Tables& mutable_tables() { return tables_; }
  /// Orders that a node has not acknowledged.
  [[nodiscard]] std::vector<std::pair<std::string, OpenOrder>> open_orders(const NodeName& node) const;

 private:
  void apply(const Tick&) {}
  void apply(const DevicesSeen& c);
  void apply(const SignsSeen& c);
  void apply(const XidSeen& c);
  bool remember(const XidSeen& c);
  void forget_xids();
  void apply(const NoticeSeen& c);
  void apply(const AckSeen& c);
  void apply(const UsageSeen& c) { out_.usage.push_back(c); }
  void apply(const OrderHeard& c);
  void apply(const NodeGone& c);
  void drop_old_orders();

  Tables tables_;
  Instant now_{};
  Output out_;
};

}  // namespace qm::telemetry
