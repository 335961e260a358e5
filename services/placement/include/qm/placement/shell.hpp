#pragma once
#include "qm/clock/clock.hpp"
#include "qm/kube/client.hpp"
#include "qm/kube/ownership.hpp"
#include "qm/metrics/metrics.hpp"
#include "qm/placement/engine.hpp"
#include "qm/service/engine_shell.hpp"
#include "qm/service/host.hpp"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace qm::placement {

/// Metric handles for the statistics of the engine. Absent in tests that do not read them.
struct Meters {
  explicit Meters(metrics::Registry& registry);
  [[nodiscard]] metrics::Counter proposals(const std::string& outcome);
  [[nodiscard]] metrics::Counter moves(const std::string& outcome);
  metrics::Counter foreign(const std::string& reason);
  metrics::Counter preempted_gpu_seconds, migrated_gpu_seconds, nodes_reclaimed;
  metrics::Counter stale, drift, drift_refused, intents_failed, repartition;
  metrics::Histogram decision_seconds, bind_seconds;  ///< domain time

 private:
  metrics::Registry& registry_;
};

/// Codec of the placement service: topics, Kubernetes objects and intent results to commands; events and
/// intents to messages and rows.
///
/// Input    qm.workload; of qm.gpu the verdicts, observations and signs; of qm.capacity the drains; watched
///          nodes and pods.
/// Output   qm.placement: assignments "uid/attempt", the lists "demand" and "requeue", eviction requests
///          "evict/uid/attempt", "propose/number"; qm.node by name.
/// RPC      OrderLayouts.
/// Intents  pod.bind, pod.delete, node.cordon, node.mark, node.layout, with JSON payloads for the executor
///          below.
class Codec {
 public:
  explicit Codec(std::shared_ptr<Meters> meters = nullptr) : meters_(std::move(meters)) {}
  Result<std::vector<Engine::Command>> decode(const service::Input& input);
  void encode(const Engine& engine, const Output& output, std::span<const std::size_t> origin,
              service::Effects& effects);
  Status load(Engine& engine, std::span<const store::StateRow> rows);
  void debug_state(const Engine& engine, service::StateDump& out) const;

 private:
  static void log_foreign(const std::vector<ForeignPod>& pods);
  std::shared_ptr<Meters> meters_;
};

using Shell = service::EngineShell<Engine, Codec>;

/// The engine of a Shell that a Host provides.
[[nodiscard]] const Engine& engine_of(const service::Shell& shell);

/// Saves and restores the changed rows of a step. Fails: kInvalid names the row that cannot be read.
void append_changed_rows(const Tables& tables, std::vector<store::StateRow>& out);
Status restore_rows(std::span<const store::StateRow> rows, Tables& tables);

/// Parsers of watched objects.
[[nodiscard]] NodeFacts node_from_json(const Json& node);
[[nodiscard]] PodFacts pod_from_json(const Json& pod);
[[nodiscard]] Claim claim_from_json(const Json& claim);
[[nodiscard]] Volume volume_from_json(const Json& volume);
[[nodiscard]] StorageClass storage_class_from_json(const Json& storage_class);
[[nodiscard]] AttachLimits attach_limits_from_json(const Json& csi_node);

/// The outcome of a pod.bind whose pod `later` deletes: it is not executed, for its devices may be those of another pod.
[[nodiscard]] std::optional<service::Outcome> superseded_bind(const store::IntentRow& intent,
                                                              const store::IntentRow& later);

/// Executes intents against a Kubernetes API server. Every intent is idempotent.
///
/// pod.bind     binds the pod of that uid; our annotations replace existing ones. Already on that node = done.
///              On another node: kAlreadyExists; another pod of the name: kFailedPrecondition; no pod: kNotFound.
/// pod.delete   deletes the pod of that uid; gone or replaced = done. Until a deadline the pod is evicted,
///              which a PodDisruptionBudget may forbid (retried); after the deadline it is deleted.
/// pod.unschedulable  sets the pod's condition PodScheduled to False, with the reason; bound or gone = done.
/// node.mark    writes labels and annotations from the node agent, and removes absent labels under the
///              agent's own prefixes.
/// node.cordon  sets spec.unschedulable and our annotation. A cordon by another client is left unchanged, for
///              an uncordon, too.
/// node.layout  sets the label nvidia.com/mig.config and removes nvidia.com/mig.config.state; already labeled
///              so = done.
class KubeExecutor final : public service::Executor {
 public:
  /// Without a clock pods are deleted at once.
  explicit KubeExecutor(kube::Client& client, const DomainClock* clock = nullptr) : client_(client), clock_(clock) {}
  Result<service::Outcome> execute(const store::IntentRow& intent) override;
  service::Outcome failed(const store::IntentRow& intent, const Error& error) override;
  /// A gang runs when its last pod is bound. With a backlog gangs are therefore bound one after the other. A large one
  /// yields to smaller ones for about the time that its binds take.
  [[nodiscard]] Turn turn_of(const store::IntentRow& intent) const override;
  [[nodiscard]] std::optional<service::Outcome> superseded(const store::IntentRow& intent,
                                                           const store::IntentRow& later) const override {
    return superseded_bind(intent, later);
  }
  static constexpr SteadyDuration kTimeOfABind = std::chrono::milliseconds(10);

 private:
  Status bind(const Json& order);
  Status remove(const Json& order);
  Status cordon(const Json& order);
  Status name_layout(const Json& order);
  Status mark(const Json& order);
  Status set_unschedulable(const Json& order);
  kube::Client& client_;
  const DomainClock* clock_;
};

/// The outcome of an intent about a pod or a node, as the engine decodes it. No error: it was executed.
[[nodiscard]] Json intent_outcome(const Json& order, const Error* error);

/// Ownership for the watcher. Without `quota` another controller admits every pod; without `binding` pods
/// that name our scheduler are ours.
struct WatchOptions {
  kube::Ownership* quota = nullptr;
  kube::Ownership* binding = nullptr;
};

/// Watches nodes and pods and submits them to the mailbox of a host; waits while the mailbox is full. Where
/// Quartermaster does not own quota, it creates workloads of the pods that name our scheduler, and gangs by
/// their PodGroup.
class Watcher {
 public:
  Watcher(kube::Client& client, service::Host& host, WatchOptions options = {});
  ~Watcher();
  void start();
  void stop();
  [[nodiscard]] bool synced() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};
/// The input that reports a start of the watches. It must be submitted before the host is started.
[[nodiscard]] service::Input watch_started();

/// Inputs that no workload waits for while all have nodes: ends of workloads, and results of writes; of a watch also
/// nodes, and pods that are bound. Any thread; parses an event of a workload.
[[nodiscard]] service::Urgency urgency_of(const service::Input& input);
[[nodiscard]] service::Urgency urgency_of_pod(const Json& pod);
[[nodiscard]] service::HostOptions host_options(const std::string& shard);

/// Sets the qm_placement_* gauges before each scrape. Registry and host must outlive each other's use.
void export_metrics(metrics::Registry& registry, service::Host& host);

}  // namespace qm::placement
