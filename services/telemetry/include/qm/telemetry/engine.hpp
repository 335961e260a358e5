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

// ---- inputs: facts from agents, orders from the autoscaler ----

struct Tick {};
struct DevicesUpdated {
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
/// The report of a node's agent about the node.
struct NodeReportUpdated {
  NodeName node;
  Instant at{};
  NodeReport report;
};
struct XidUpdated {
  NodeName node;
  std::int32_t xid = 0, gpu_index = -1;
  DeviceUuid gpu;
  std::string line;
  Instant at{};
  std::optional<std::int32_t> recovery_action = {};  ///< of the GPU, where the agent knows it
  bool standing = false;                             ///< read at an agent's first scrape: it may be old
  bool cleared = false;                              ///< the gauge no longer shows it
  std::string boot = {};                             ///< of the node's kernel; empty = not known
};
struct NoticeUpdated {
  NodeName node;
  InstanceId instance;
  std::string action;     ///< terminate, stop, hibernate
  Instant at{};           ///< when the capacity is reclaimed
  std::string kind = {};  ///< "" = spot capacity is reclaimed; "rebalance", "maintenance", "lifecycle"
};
struct AckUpdated {
  std::string order;
  AttemptId id;
  NodeName node;
  std::int32_t ranks = 0;
  std::int64_t step = 0;
  std::string uri, message;
  bool ok = false;
  Instant at{};
  std::string ns = {};               ///< of the workload that received the order
  std::int64_t number = 0;           ///< as in the order; 0 = the agent does not know it
  std::vector<StepSave> saves = {};  ///< by step
};
/// The mean utilization of one device over a closed interval.
struct UsageUpdated {
  NodeName node;
  std::int32_t gpu_index = 0;
  DeviceUuid gpu;
  Instant from{}, to{};
  Namespace ns;
  std::string pod;
  double utilization = 0;
  std::int64_t samples = 0, energy_mj = 0;
};
/// The autoscaler's checkpoint order, for the agents of the given nodes.
struct OrderUpdated {
  std::string order;
  AttemptId id;
  std::vector<NodeName> nodes;
  std::string reason;
  Instant deadline{};
  bool settled = false;
  std::string ns = {}, kind = {};  ///< of the workload
  std::int64_t number = 0;
};
/// A node was repaired or replaced: its previous state is no longer valid.
struct NodeDeleted {
  NodeName node;
};

using Command = std::variant<Tick, DevicesUpdated, NodeReportUpdated, XidUpdated, NoticeUpdated, AckUpdated,
                             UsageUpdated, OrderUpdated, NodeDeleted>;

/// The most severe verdict on one GPU, and of those the newest.
struct GpuFault {
  std::int32_t gpu_index = -1;
  DeviceUuid gpu;
  Action action = Action::kNone;  ///< kResetGpu or more severe
  std::int32_t xid = 0;
  std::string reason;
  Instant at{};
  friend auto operator<=>(const GpuFault&, const GpuFault&) = default;
};
/// The most severe verdict on a node, and on each GPU that is out of service.
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
  std::string action, kind;
  Instant at{}, seen{};
  friend auto operator<=>(const Notice&, const Notice&) = default;
};
struct OpenOrder {
  AttemptId id;
  std::vector<NodeName> nodes;
  std::string reason;
  Instant deadline{};
  std::string ns = {}, kind = {};  ///< of the workload
  std::int64_t number = 0;         ///< fences its answers
  friend auto operator<=>(const OpenOrder&, const OpenOrder&) = default;
};

/// The last XIDs of each GPU of a node, since it booted.
struct LastXids {
  struct Last {
    Instant at{};
    std::int32_t xid = 0;                         ///< 0 = the GPU was reset since
    std::optional<std::int32_t> recovery_action;  ///< only of a code that depends on it
    /// Whether both report the same code and action, at any time.
    [[nodiscard]] bool same(const Last& o) const { return xid == o.xid && recovery_action == o.recovery_action; }
    friend auto operator<=>(const Last&, const Last&) = default;
  };
  std::string boot, boot_before;
  /// By uuid, or "#index" without one; for each the newest first, at least one.
  std::map<std::string, std::vector<Last>> gpus;
  friend auto operator<=>(const LastXids&, const LastXids&) = default;
};

struct Tables {
  Table<NodeName, Health> health;
  Table<NodeName, Notice> notices;
  Table<std::string, OpenOrder> orders;                         ///< by order id
  Table<std::pair<std::string, NodeName>, std::int64_t> acked;  ///< (order, node) -> step
  Table<NodeName, std::vector<DevicesUpdated::Pod>> devices;    ///< as last published
  Table<NodeName, NodeReport> report;                           ///< as last published
  Table<NodeName, LastXids> xids;
  Table<NodeName, Instant> xids_until;  ///< of nodes that are gone: their XIDs are removed then
};

struct HealthEvent {
  NodeName node;
  Health row;
  bool gone = false;  ///< the node is gone, and its key is deleted
};
struct DevicesEvent {
  DevicesUpdated seen;
  bool gone = false;
};
struct NodeReportEvent {
  NodeReportUpdated seen;
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
  std::vector<NodeReportEvent> report;
  std::vector<NodeName> gone;
  std::vector<NoticeEvent> notices;
  std::vector<AckUpdated> acks;
  std::vector<std::pair<std::string, NodeName>> ended_acks;  ///< (order, node); their orders are over
  std::vector<AckUpdated> foreign_acks;                      ///< dropped: of another workload than that of their order
  std::vector<UsageUpdated> usage;
  std::optional<Instant> wake_at;
};

/// Evaluates the reports of agents: which node must not accept further work, and which facts are new.
///
/// Sticky   a gauge shows the last XID permanently, and each agent reads it when it starts. A code that is present at
///          an agent's first scrape is old if the same GPU has reported it last since its node booted. New are a
///          changed code, a changed recovery action and a code that appeared while the agent ran. A code after a
///          reset (the gauge was cleared) and one after a reboot are new too. A repeated report is recognized by its
///          time, also after a newer one; a report from the previous boot is old. Times are only compared for
///          equality, since a node's clock may be set back. The last kMostReports of at most kMostXids GPUs of a node
///          are stored, and for kXidMemory after its deletion: the node may reappear with the same name without a
///          reboot.
/// Verdict  an XID maps to an action by the catalog (qm/catalog/xid.hpp); the most severe action of a node, and of
///          each of its GPUs, is valid until the node is deleted. A reset concerns only its GPU, a more severe action
///          the node. XIDs that end one application only, and codes that the catalog does not know, map to kWatch.
///          The driver's recovery action decides on XID 154, and fatal or nonfatal on 144 to 150.
/// Changes  a devices list, signs of a node, a notice or an acknowledgement is published once, however often an agent
///          repeats it. The first acknowledgement of a node counts, and only from a node of the order.
/// Orders   open orders are stored until their deadline, for agents that reconnect; acknowledgements are stored for
///          ten more minutes, then the order is removed.
/// Gone     for a deleted node its verdict, its devices list, its signs and its notice are each ended with an event.
///          So a later node with the same name starts without state in every consumer.
/// Threads  one. Time: `now` does not go back.
class Engine {
 public:
  using Command = telemetry::Command;
  using Output = telemetry::Output;
  static constexpr std::size_t kMostXids = 256;
  static constexpr std::size_t kMostReports = 4;  ///< per GPU
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
  void apply(const DevicesUpdated& c);
  void apply(const NodeReportUpdated& c);
  void apply(const XidUpdated& c);
  bool remember(const XidUpdated& c);
  void forget_xids();
  void apply(const NoticeUpdated& c);
  void apply(const AckUpdated& c);
  void apply(const UsageUpdated& c) { out_.usage.push_back(c); }
  void apply(const OrderUpdated& c);
  void apply(const NodeDeleted& c);
  void drop_old_orders();

  Tables tables_;
  Instant now_{};
  Output out_;
};

}  // namespace qm::telemetry
