#pragma once
#include "qm/admission/executor.hpp"
#include "qm/placement/shell.hpp"
#include "qm/service/shell.hpp"
#include "world.hpp"

#include <functional>
#include <optional>
#include <string>

namespace qm::sim {

/// Faults of an executor's calls: the other side is unavailable, or its answer is lost after the work was done.
struct Outages {
  int away_per_mille = 0;
  int answer_lost_per_mille = 0;
  int refused_per_mille = 0;  ///< the API server answers 403, 429 or 503
  bool gives_up = false;      ///< planted bug: and a refused call counts as done
};

/// Executes the intents of one service on the world. The payloads are those that the real executor of the service
/// reads, and a duplicate must be as harmless as there.
class WorldExecutor : public service::Executor {
 public:
  WorldExecutor(World& world, Random& random, const Outages& outages)
      : world_(world), random_(random), outages_(outages) {}
  Result<service::Outcome> execute(const store::IntentRow& intent) final;

 protected:
  virtual Result<service::Outcome> run(const store::IntentRow& intent) = 0;
  /// The outcome of a successful call.
  virtual service::Outcome done(const store::IntentRow& intent) { return failed(intent, {}); }
  World& world_;
  Random& random_;

 private:
  const Outages& outages_;
};

/// job.create, job.unsuspend, job.suspend, job.delete, event.create.
class JobExecutor final : public WorldExecutor {
 public:
  JobExecutor(World& world, Random& random, const Outages& outages, Bug bug)
      : WorldExecutor(world, random, outages), bug_(bug) {}
  Result<service::Outcome> run(const store::IntentRow& intent) override;
  service::Outcome done(const store::IntentRow& intent) override;
  service::Outcome failed(const store::IntentRow& intent, const Error& error) override;
  [[nodiscard]] std::optional<service::Outcome> superseded(const store::IntentRow& intent,
                                                           const store::IntentRow& later) const override {
    return admission::superseded_command(intent, later);
  }
  /// Like the real one: true if the job of a submission has not appeared yet.
  std::function<bool(const std::string& ns, const std::string& name, const std::string& intent)> awaited;

 private:
  Bug bug_;
};

/// pod.bind, pod.delete, node.cordon.
class PodExecutor final : public WorldExecutor {
 public:
  using WorldExecutor::WorldExecutor;
  Result<service::Outcome> run(const store::IntentRow& intent) override;
  service::Outcome failed(const store::IntentRow& intent, const Error& error) override;
  [[nodiscard]] std::optional<service::Outcome> superseded(const store::IntentRow& intent,
                                                           const store::IntentRow& later) const override {
    return placement::superseded_bind(intent, later);
  }
};

/// instance.launch, gang.launch, instance.terminate.
class CloudExecutor final : public WorldExecutor {
 public:
  using WorldExecutor::WorldExecutor;
  Result<service::Outcome> run(const store::IntentRow& intent) override;
  service::Outcome failed(const store::IntentRow& intent, const Error& error) override;

 private:
  Result<service::Outcome> launch_gang(const Json& want);
};

}  // namespace qm::sim
