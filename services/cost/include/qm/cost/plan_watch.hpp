#pragma once
#include "qm/cost/engine.hpp"
#include "qm/kube/config_feed.hpp"
#include "qm/service/host.hpp"

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace qm::cost {

/// PricePlans and Budgets of the API server in addition to those of files. For equal names that of the API server has
/// precedence; all plans together are the plan.
///
/// The first plan of the ledger also prices the past. So no plan is submitted before the API server was listed, or
/// does not serve the kind, or has not responded for `patience`. In the last two cases the files alone apply until it
/// does. Budgets wait for it without a limit: the previous budgets remain, because an API server that does not respond
/// withdraws nothing.
/// Fails    a plan that cannot be parsed, or that prices the same nodes as another one, gets an Event `NotAccepted`.
class PlanWatch {
 public:
  struct Options {
    std::vector<PricePlan> files;  ///< by document
    std::vector<Budget> budgets;   ///< by document
    std::chrono::milliseconds patience{30'000};
  };
  PlanWatch(kube::Client& client, service::Host& host, Options options);
  ~PlanWatch();
  void start();
  void stop();

 private:
  Status take(const kube::ConfigFeed::Kind& kind, const Json& object);
  Status take_plan(PricePlan plan);
  [[nodiscard]] std::map<std::string, PricePlan> merged() const;
  void submit_budgets();
  void run(const std::stop_token& stop);

  service::Host& host_;
  const Options options_;
  mutable std::mutex mutex_;
  std::map<std::string, PricePlan> seen_;
  std::map<std::string, Budget> seen_budgets_;
  std::optional<std::vector<Budget>> published_budgets_;  ///< used by the thread only
  kube::ConfigFeed feed_;
  std::jthread thread_;
};

}  // namespace qm::cost
