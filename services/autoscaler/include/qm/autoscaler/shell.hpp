#pragma once
#include "qm/autoscaler/engine.hpp"
#include "qm/autoscaler/gang_launch/launch.hpp"
#include "qm/autoscaler/node_classes.hpp"
#include "qm/cloud/aws.hpp"
#include "qm/kube/client.hpp"
#include "qm/metrics/metrics.hpp"
#include "qm/service/engine_shell.hpp"
#include "qm/service/host.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace qm::config {
struct NodePool;
}

namespace qm::autoscaler {

/// What launches instances for NodeClaims: the EC2 driver, or a live Karpenter that watches them.
enum class Driver {
  kEc2,
  kKarpenter,
  kNone,  ///< an on-premises cluster: nothing can be launched
};

class GroupWatch;

/// The codec of the autoscaler: topics, observations of the cloud and the cluster, and outcomes to commands; outputs
/// to events and intents. `alone`: there is no placement service, so the autoscaler cordons nodes. With the EC2 driver
/// the launch of a gang is one intent, else one for each NodeClaim.
class Codec {
 public:
  explicit Codec(bool alone = false, Driver driver = Driver::kEc2) : alone_(alone), driver_(driver) {}
  Result<std::vector<Command>> decode(const service::Input& input) const;
  void encode(const Engine& engine, const Output& output, std::span<const std::size_t> origin,
              service::Effects& effects) const;
  Status load(Engine& engine, std::span<const store::StateRow> rows) const;
  void debug_state(const Engine& engine, service::StateDump& out) const;

 private:
  void encode_launches(const Output& output, service::Effects& effects) const;
  bool alone_;
  Driver driver_;
};
using Shell = service::EngineShell<Engine, Codec>;
[[nodiscard]] const Engine& engine_of(const service::Shell& shell);

/// The catalog in the engine's form, with the capacity, allocatable and labels that Karpenter expects of a node.
std::vector<InstanceType> catalog_types();
/// A NodePool in the engine's form. Types that the catalog does not have are omitted with a warning in the log. With a
/// requirement that cannot act the pool is not ready: the reason is in the log and in `not_ready`.
Pool pool_from(const config::NodePool& pool);
/// On a NodePool with an Auto Scaling group: "true" if an operator sets the size of the group.
inline constexpr std::string_view kManuallySized = "quartermaster.dev/manually-sized";
/// On a NodePool: the SLO for which free nodes are kept.
inline constexpr std::string_view kHeadroomWait = "quartermaster.dev/headroom-wait";          ///< such as "60s"
inline constexpr std::string_view kHeadroomQuantile = "quartermaster.dev/headroom-quantile";  ///< such as "0.95"
/// Reads the SLO of the NodePool object. If it cannot be read, the pool is not ready: the reason names the annotation.
void read_headroom(const Json& object, Pool& pool);
/// Whether an operator sets the size of the group of the NodePool object.
[[nodiscard]] bool is_sized_manually(const Json& pool);
/// kInvalid if two pools name the same Auto Scaling group.
Status one_pool_for_each_group(std::span<const Pool> pools);
/// The NodePools of the files at `paths`; kInvalid has file, line, field and remedy.
Result<std::vector<Pool>> pools_from_manifests(std::span<const std::string> paths);
/// The input with all Auto Scaling groups of pools.
service::Input groups_input(const std::map<std::string, ScalingGroup>& groups);
/// The input with all open ProvisioningRequests.
service::Input provisioning_input(const std::vector<ProvisioningRequest>& requests);
/// The input with all CapacityBuffers.
service::Input buffers_input(const std::vector<Buffer>& buffers);
/// The input with all capacity reservations that node classes select.
service::Input reservations_input(const std::vector<ReservationsListed::Item>& reservations);
/// The input with all DaemonSets.
service::Input daemon_sets_input(const std::vector<PodSet>& sets);
/// The input that applies all existing pools; a missing pool is deleted.
service::Input pools_input(const std::vector<Pool>& pools);

/// A tag on each launched instance: its owner, if several clusters share an account. The value is the shard.
inline constexpr std::string_view kOwnerTag = "quartermaster.dev/shard";
/// A tag on each instance of a gang: the launch that it belongs to. Its own claim is tagged when the whole gang came.
inline constexpr std::string_view kLaunchTag = "quartermaster.dev/launch";
/// On a node that the autoscaler cordoned, with the reason.
inline constexpr std::string_view kDrainAnnotation = "quartermaster.dev/drain";

/// The treatment of nodes with pods of kube-system other than those of DaemonSets.
enum class SystemPods {
  kKeepNodes,  ///< they keep their node, as other pods do
  kEvicted,    ///< their node counts as empty; they are evicted before it is terminated
};

class FleetLauncher;
class ReplicaExecutor;
struct Launched;

/// Executes launch, terminate and group intents, each of them idempotent: NodeClaim object, instance and condition by
/// the claim's name; the size of an Auto Scaling group as a number. The launch of a gang is one request, all or none.
class Executor final : public service::Executor {
 public:
  /// `parameters` are those of EC2NodeClasses; without it every launch of the EC2 driver is refused.
  Executor(kube::Client& kube, cloud::Aws& aws, Driver driver, std::string shard, LaunchParameters parameters = {},
           SystemPods system_pods = SystemPods::kKeepNodes);
  Result<service::Outcome> execute(const store::IntentRow& intent) override;
  service::Outcome failed(const store::IntentRow& intent, const Error& error) override;

 private:
  Result<service::Outcome> launch(const store::IntentRow& intent);
  Result<service::Outcome> launch_gang(const store::IntentRow& intent);
  Result<Launched> launch_instances(const Json& want);
  Result<Launched> launch_one_offering(const Json& want);
  /// The parameters of the launch at each offering that can be requested, the best first.
  Result<std::vector<cloud::InstanceRequest>> alternatives_of(const Json& want) const;
  Result<cloud::InstanceRequest> request_for(const Json& want, const Json& offering) const;
  Result<std::vector<cloud::Instance>> launched_before(const std::string& client_token);
  Status create_node_claim(const Json& want, const std::string& claim);
  service::Outcome launch_failed(const Json& want, const std::string& error, Refusal refusal, Json refused = {});
  service::Outcome none_launched(const Json& want, const Launched& launched);
  Result<service::Outcome> name_members(const Json& want, const std::vector<std::string>& claims,
                                        const LaunchAnswer& answer, const Launched& launched);
  void show_launched(const std::string& claim, const cloud::Instance& instance);
  Status terminate_all(const std::vector<std::string>& instances);
  Result<service::Outcome> terminate(const store::IntentRow& intent);
  Status terminate_by_id(const std::string& instance);
  Status terminate_in_group(const std::string& group, const std::string& instance);
  Result<service::Outcome> size_group(const store::IntentRow& intent);
  Result<service::Outcome> answer_hook(const store::IntentRow& intent);  // group_hooks.cpp
  Result<service::Outcome> protect(const store::IntentRow& intent);      // group_hooks.cpp
  Result<service::Outcome> cordon(const store::IntentRow& intent);
  kube::Client& kube_;
  cloud::Aws& aws_;
  Driver driver_;
  std::string shard_;
  LaunchParameters parameters_;
  SystemPods system_pods_;
  std::shared_ptr<ReplicaExecutor> replicas_;
  std::shared_ptr<FleetLauncher> fleets_;
};

struct CloudWatchOptions {
  std::string shard;
  Duration period = std::chrono::seconds(10);
  bool ask = true;               ///< false: there is no cloud to poll, only `also`
  GroupWatch* groups = nullptr;  ///< if set, of the Auto Scaling groups
  bool groups_only = false;      ///< of the cloud's instances only those of Auto Scaling groups
  /// Further instances, in the format of the poll; nullopt = they are not known yet, and nothing is submitted.
  std::function<std::optional<std::vector<Json>>()> also = {};
};

/// Polls the cloud every `period` of domain time and submits the result to the host: all instances, and at every tenth
/// poll spot prices. An unchanged result is not submitted again: the journal has changes, not polls.
class CloudWatch {
 public:
  CloudWatch(service::Host& host, cloud::Aws& aws, const DomainClock& clock, CloudWatchOptions options);
  ~CloudWatch();
  void look();  ///< one poll, in the caller's thread, for single-stepped use
  void poke();  ///< the next poll starts at once
  void start();
  void stop();
  /// The number of polls that succeeded, and whose changes the host has. Any thread.
  [[nodiscard]] std::uint64_t looks() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

service::HostOptions host_options(const std::string& shard);
void export_metrics(metrics::Registry& registry, service::Host& host);

}  // namespace qm::autoscaler
