#pragma once
#include "qm/autoscaler/engine.hpp"
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

/// The words of the autoscaler: topics, looks at the cloud and the cluster, and outcomes to commands; outputs to events
/// and intents. `alone`: there is no placement, so nodes are cordoned by us.
class Codec {
 public:
  explicit Codec(bool alone = false) : alone_(alone) {}
  Result<std::vector<Command>> decode(const service::Input& input) const;
  void encode(const Engine& engine, const Output& output, std::span<const std::size_t> origin,
              service::Effects& effects) const;
  Status load(Engine& engine, std::span<const store::StateRow> rows) const;
  void debug_state(const Engine& engine, service::StateDump& out) const;

 private:
  bool alone_;
};
using Shell = service::EngineShell<Engine, Codec>;
[[nodiscard]] const Engine& engine_of(const service::Shell& shell);

/// What the catalog knows as the engine takes it: allocatable after what a kubelet and the system keep.
std::vector<InstanceType> catalog_types();
/// A NodePool as the engine takes it. Types that the catalog does not know are left out with a warning in the log.
Pool pool_from(const config::NodePool& pool);
/// kInvalid where two of them name one Auto Scaling group.
Status one_pool_for_each_group(std::span<const Pool> pools);
/// NodePools of the files at `paths`; kInvalid names file, line, field and remedy.
Result<std::vector<Pool>> pools_from_manifests(std::span<const std::string> paths);
/// The input that applies all pools there are; a pool that is missing goes.
service::Input pools_input(const std::vector<Pool>& pools);
inline service::Input pool_input(const Pool& pool) { return pools_input({pool}); }

/// On each instance that we launch: whose it is, where several clusters share an account. Its value is the shard.
inline constexpr std::string_view kOwnerTag = "quartermaster.dev/shard";
/// On a node that we cordoned, with the reason.
inline constexpr std::string_view kDrainAnnotation = "quartermaster.dev/drain";

/// Who makes machines of NodeClaims: our EC2 driver, or a live Karpenter that watches them.
enum class Driver { kEc2, kKarpenter };

/// Does launch, terminate and group intents, each harmless when done twice: NodeClaim object, instance and condition by
/// the claim's name; the size of an Auto Scaling group as a number.
class Executor final : public service::Executor {
 public:
  Executor(kube::Client& kube, cloud::Aws& aws, Driver driver, std::string shard)
      : kube_(kube), aws_(aws), driver_(driver), shard_(std::move(shard)) {}
  Result<service::Outcome> execute(const store::IntentRow& intent) override;
  service::Outcome failed(const store::IntentRow& intent, const Error& error) override;

 private:
  Result<service::Outcome> launch(const store::IntentRow& intent);
  Result<service::Outcome> terminate(const store::IntentRow& intent);
  Status terminate_in_group(const std::string& group, const std::string& instance);
  Result<service::Outcome> size_group(const store::IntentRow& intent);
  Result<service::Outcome> cordon(const store::IntentRow& intent);
  kube::Client& kube_;
  cloud::Aws& aws_;
  Driver driver_;
  std::string shard_;
};

struct CloudWatchOptions {
  std::string shard;
  Duration period = std::chrono::seconds(10);
  bool ask = true;           ///< false: there is no cloud to ask, `also` is all there is
  bool groups_only = false;  ///< of the cloud's instances only those of Auto Scaling groups
  /// More instances, as the look tells them; nullopt = they are not known yet, and nothing is told.
  std::function<std::optional<std::vector<Json>>()> also = {};
};

/// Looks at the cloud every `period` of domain time and tells the host what it sees: all instances, and at every tenth
/// look spot prices. What looks the same as before is not told again: the journal keeps changes, not polls.
class CloudWatch {
 public:
  CloudWatch(service::Host& host, cloud::Aws& aws, const DomainClock& clock, CloudWatchOptions options);
  ~CloudWatch();
  void look();  ///< once, by the caller's thread, for single-stepped use
  void poke();  ///< the next look comes at once
  void start();
  void stop();
  /// Looks at instances that were answered, and whose changes the host has. Any thread.
  [[nodiscard]] std::uint64_t looks() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

service::HostOptions host_options(const std::string& shard);
void export_metrics(metrics::Registry& registry, service::Host& host);

}  // namespace qm::autoscaler
