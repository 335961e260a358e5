#pragma once
#include "qm/autoscaler/commands.hpp"
#include "qm/autoscaler/node_class/launch_parameters.hpp"
#include "qm/base/time.hpp"
#include "qm/clock/clock.hpp"
#include "qm/cloud/aws.hpp"
#include "qm/kube/config_feed.hpp"

#include <condition_variable>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace qm::autoscaler {

/// The launch parameters for an instance of a class, by its name.
///
/// Fails    as launch_parameters(), and kInvalid: the class does not exist, or is not ready; kUnavailable: it has not
///          been resolved yet.
using LaunchParameters =
    std::function<Result<cloud::InstanceRequest>(const std::string& node_class, const PlannedInstance& planned)>;

/// The EC2NodeClasses of the files at `paths`; kInvalid has file, line, field and remedy.
Result<std::vector<config::NodeClass>> node_classes_from_manifests(std::span<const std::string> paths);

/// The certificate authority of the API server for user data: base64 of PEM, empty without TLS.
///
/// Fails    kNotFound: its file cannot be read.
Result<std::string> certificate_authority(const kube::ClientOptions& options);

/// The EC2NodeClasses of files and of the API server, which has precedence for equal names, resolved against the
/// account: at each change, and again after `period`. If the account cannot be read, the previous resources remain,
/// and it is read again after `retry`.
///
/// Writes   the status of classes of the API server, when it changes.
/// Fails    a class that cannot be parsed gets an Event `NotAccepted`; its previous version remains.
/// Threads  any; calls of the cloud are made on a thread of its own.
class NodeClassWatch {
 public:
  struct Options {
    std::vector<config::NodeClass> files;
    ClusterIdentity cluster;  ///< without the version of Kubernetes, which the API server answers
    std::string region;
    SteadyDuration period = std::chrono::minutes(5), retry = std::chrono::seconds(10);
  };
  NodeClassWatch(kube::Client& client, cloud::Aws& aws, const DomainClock& clock, Options options);
  ~NodeClassWatch();
  void start();
  void stop();
  /// All classes were listed, and each has been resolved, or the reason why not is known.
  [[nodiscard]] bool settled() const;
  /// Why no instance of the class can be launched, with the remedy; empty if it is ready.
  [[nodiscard]] std::string why_not_ready(const std::string& node_class) const;
  /// The resources that an instance of the class is launched with now: the newest image for each architecture and
  /// accelerator, the subnets and the security groups, each sorted. Empty while the class is not resolved.
  [[nodiscard]] ClassResources resources(const std::string& node_class) const;
  /// The capacity reservations that classes select, by id, with the classes.
  [[nodiscard]] std::vector<ReservationsListed::Item> reservations() const;
  /// The parameters of a launch, which counts against free addresses until the class is resolved again.
  [[nodiscard]] Result<cloud::InstanceRequest> launch_parameters(const std::string& node_class,
                                                                 const PlannedInstance& planned);

 private:
  struct Entry {
    config::NodeClass node_class;
    ResolvedClass resolved;
    std::string failure;  ///< of the last read of the account
    bool known = false;   ///< resolved at least once
    bool tried = false;
    SteadyInstant due{};
    std::uint64_t version = 0;  ///< of the class, so that a change during the calls is not lost
    std::string published;      ///< status, without times
  };
  Status take(const Json& object);
  void drop(const std::string& name);
  void put(const config::NodeClass& node_class);
  void refresh();
  void resolve_one(const std::string& name, const config::NodeClass& node_class, std::uint64_t version);
  void publish(const std::string& name, const ResolvedClass& resolved);
  [[nodiscard]] std::string kubernetes_version();

  kube::Client& client_;
  cloud::Aws& aws_;
  const DomainClock& clock_;
  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, bool> of_server_;  ///< classes of the API server
  std::string version_;                    ///< of Kubernetes
  kube::ConfigFeed feed_;
  std::jthread thread_;
};

}  // namespace qm::autoscaler
