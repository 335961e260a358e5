#pragma once
#include "qm/autoscaler/metrics/karpenter_metrics.hpp"
#include "qm/autoscaler/nodes/node_details.hpp"
#include "qm/autoscaler/nodes/node_pods.hpp"
#include "qm/autoscaler/tables.hpp"
#include "qm/kube/client.hpp"
#include "qm/service/shell.hpp"

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// The details that a Node object shows, without those of its pods.
[[nodiscard]] NodeDetails details_of_node(const Json& node);
/// How long the annotation keeps the node of the pod: "true" for ever, a duration since the start of the pod. none = the
/// pod has none, or its value is neither.
[[nodiscard]] std::optional<Duration> do_not_disrupt_of(const Json& object);

/// Whether the pod stays on its node when the node is drained: it has ended, belongs to a DaemonSet or to the node itself,
/// or tolerates karpenter.sh/disrupted.
[[nodiscard]] bool stays_on_drained_node(const Json& pod);

/// A sign on a Node object that its platform ends the node.
struct PlatformNotice {
  NoticeKind kind = NoticeKind::kSpot;
  Duration left{};  ///< from the first time that the sign is seen
  friend bool operator==(const PlatformNotice&, const PlatformNotice&) = default;
};
/// The notice that other programs of the platform have written on the node, for nodes without an agent.
///
///   cloud.google.com/impending-node-termination   taint of GKE's termination handler: spot, 30 s
///   Ready False, "node is shutting down"          condition of a kubelet with graceful shutdown, as on GKE: spot, 30 s
///   aws-node-termination-handler/spot-itn         taint of the AWS handler: spot, 2 min
///   aws-node-termination-handler/asg-lifecycle-termination    lifecycle, 2 min
///   aws-node-termination-handler/rebalance-recommendation     rebalance
[[nodiscard]] std::optional<PlatformNotice> platform_notice_of(const Json& node);

/// Nodes with their pods and PodDisruptionBudgets, for what decides about initialization and disruption.
///
/// Threads  informers of its own; the rest one.
class NodeWatch {
 public:
  /// `lists_pods`: the pods of each node are published too.
  explicit NodeWatch(kube::Client& client, bool lists_pods = false);
  void start();
  void stop();
  [[nodiscard]] bool synced() const;
  /// Restores which nodes were published before a restart: one that no longer exists is published as gone.
  void restore(const Tables& tables);
  /// Inputs for the nodes whose details changed since the last call, and the notices of their platform. A notice whose
  /// sign is gone is withdrawn.
  [[nodiscard]] std::vector<service::Input> changes(Instant now);
  /// The metrics of the nodes and pods.
  [[nodiscard]] const ObjectMetrics& metrics() const { return metrics_; }

 private:
  struct Pod {
    std::string ns, node;
    Labels labels;
    std::optional<Duration> do_not_disrupt;
    NodePod pod;  ///< without its PodDisruptionBudget
  };
  struct Node {
    bool exists = false;
    NodeDetails details;  ///< without those of pods
    std::set<std::string> pods;
    NodePods view;  ///< likewise, without the pods
    std::optional<std::string> published, published_pods;
    std::optional<PlatformNotice> sign, noticed;  ///< on the object now; published
  };
  struct PodBudget {
    LabelSelector pods;
    bool blocks = false;
    std::int64_t allows = 0;
  };
  using PodBudgets = std::map<std::pair<std::string, std::string>, PodBudget>;  ///< by (namespace, name)
  void on_pod(const Json& pod, bool deleted);
  void on_node(const Json& node, bool deleted);
  void on_budget(const Json& budget, bool deleted);
  [[nodiscard]] std::vector<PodBudgets::const_iterator> budgets_of(const Pod& pod) const;
  [[nodiscard]] std::string blocked_by(const Pod& pod) const;
  void publish_pods(const std::string& name, Node& node, std::vector<service::Input>& out) const;
  [[nodiscard]] NodeDetails details_of(const Node& node) const;
  [[nodiscard]] NodePods pods_of(const Node& node) const;

  const bool lists_pods_;
  ObjectMetrics metrics_;
  mutable std::mutex mutex_;
  std::map<std::string, Pod> pods_;  ///< by uid
  std::map<std::string, Node> nodes_;
  PodBudgets budgets_;
  std::set<std::string> changed_;  ///< nodes
  kube::Informer pod_informer_, node_informer_, budget_informer_;
};

}  // namespace qm::autoscaler
