#pragma once
#include "qm/autoscaler/condition_writer.hpp"
#include "qm/autoscaler/provisioning.hpp"
#include "qm/base/result.hpp"
#include "qm/kube/config_feed.hpp"

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// The annotation of a pod that uses the capacity of a ProvisioningRequest: nothing is launched for it.
inline constexpr std::string_view kConsumes = "autoscaling.x-k8s.io/consume-provisioning-request";
inline constexpr std::string_view kConsumesBeta = "cluster-autoscaler.kubernetes.io/consume-provisioning-request";

/// A ProvisioningRequest object (autoscaling.x-k8s.io) with the PodTemplates that it names, by name.
///
/// Fails    kInvalid with the field: no pod set, a count below 1, or a PodTemplate that does not exist. Also: requests or
///          constraints that cannot be read, and a validity that is not a number of seconds.
[[nodiscard]] Result<ProvisioningRequest> provisioning_request_from(const Json& object,
                                                                    const std::map<std::string, Json>& templates);

/// Whether the object has a class that is served and no condition that is final.
[[nodiscard]] bool is_open_request(const Json& object);

/// The ProvisioningRequests of the API server with their PodTemplates, and their status. Those of other classes are not
/// touched.
///
/// Cost     one read for each PodTemplate of a new request.
/// Threads  informers of its own; the rest one.
class ProvisioningWatch {
 public:
  ProvisioningWatch(kube::Client& client, const DomainClock& clock);
  void start() { feed_.start(); }
  void stop() { feed_.stop(); }
  [[nodiscard]] bool synced() const { return feed_.synced(); }
  /// The open ones; nullopt until they were listed. One whose templates cannot be read now comes later.
  [[nodiscard]] std::optional<std::vector<ProvisioningRequest>> requests();
  void write_status(const std::map<WorkloadUid, std::vector<Condition>>& conditions);

 private:
  kube::Client& client_;
  std::mutex mutex_;
  std::map<std::string, Json> objects_;              ///< by uid
  std::map<std::string, ProvisioningRequest> read_;  ///< by uid; pod sets are immutable
  kube::ConfigFeed feed_;
  ConditionWriter status_;
};

}  // namespace qm::autoscaler
