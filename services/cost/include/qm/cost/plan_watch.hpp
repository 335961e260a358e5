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

/// PricePlans and Budgets of the API server beside those of files. Of one name the API server's counts; all plans together
/// are the plan.
///
/// The first plan that the ledger hears prices the past too, so nothing is told before the API server was listed, or does
/// not serve the kind, or has not answered for `patience`; then the files alone hold until it does. Budgets wait for it
/// without end: whatever was told before stands, as an API server that does not answer withdraws nothing.
/// Fails    a plan that cannot be read, or that prices the same nodes as another one, gets an Event `NotTaken`.
class PlanWatch {
 public:
  struct Options {
    std::vector<PricePlan> files;  ///< by document
    std::vector<Budget> budgets;   ///< likewise
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
  void tell_budgets();
  void run(const std::stop_token& stop);

  service::Host& host_;
  const Options options_;
  mutable std::mutex mutex_;
  std::map<std::string, PricePlan> seen_;
  std::map<std::string, Budget> seen_budgets_;
  std::optional<std::vector<Budget>> told_budgets_;  ///< of the thread alone
  kube::ConfigFeed feed_;
  std::jthread thread_;
};

}  // namespace qm::cost
