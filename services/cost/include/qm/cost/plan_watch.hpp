#pragma once
#include "qm/cost/engine.hpp"
#include "qm/kube/config_feed.hpp"
#include "qm/service/host.hpp"

#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace qm::cost {

/// PricePlans of the API server beside those of files: all together are the plan. Of one name the API server's counts.
///
/// The first plan that the ledger hears prices the past too, so nothing is told before the API server was listed, or does
/// not serve the kind, or has not answered for `patience`; then the files alone hold until it does.
/// Fails    a plan that cannot be read, or that prices the same nodes as another one, gets an Event `NotTaken`.
class PlanWatch {
 public:
  struct Options {
    std::vector<PricePlan> files;  ///< by document
    std::chrono::milliseconds patience{30'000};
  };
  PlanWatch(kube::Client& client, service::Host& host, Options options);
  ~PlanWatch();
  void start();
  void stop();

 private:
  Status take(const Json& object);
  [[nodiscard]] std::map<std::string, PricePlan> merged() const;
  void run(const std::stop_token& stop);

  service::Host& host_;
  const Options options_;
  mutable std::mutex mutex_;
  std::map<std::string, PricePlan> seen_;
  kube::ConfigFeed feed_;
  std::jthread thread_;
};

}  // namespace qm::cost
