#pragma once
#include "qm/autoscaler/replica_scaling.hpp"
#include "qm/autoscaler/shell.hpp"
#include "qm/clock/clock.hpp"
#include "qm/http/http.hpp"

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace qm::autoscaler {

/// A scaler as watched, with what a sample of its target needs to know.
struct WatchedScaler {
  ScalerRow row;
  Json manifest;                      ///< as in the row
  std::vector<std::string> triggers;  ///< names of the triggers, in their order
  Duration period{};                  ///< between samples
  bool pods = false;                  ///< a metric needs the pods of the target
};
/// The row and the needs of an object of the API server.
[[nodiscard]] WatchedScaler watched_scaler(const ScalerId& id, const Json& object);

/// HorizontalPodAutoscalers and ScaledObjects of the cluster. Any thread.
class ScalerWatch {
 public:
  explicit ScalerWatch(kube::Client& client);
  void start();
  void stop();
  /// Both kinds were listed, or are not served.
  [[nodiscard]] bool synced() const;
  /// Inputs for the changes since the last call; a change of the status is none.
  [[nodiscard]] std::vector<service::Input> changes();
  using Scalers = std::map<ScalerId, std::shared_ptr<const WatchedScaler>>;
  /// All scalers but those that KEDA created, by target.
  [[nodiscard]] std::map<TargetId, Scalers> by_target() const;

 private:
  void changed(ScalerKind kind, const Json& object, bool deleted);
  void listed(ScalerKind kind);
  mutable std::mutex mutex_;
  Scalers scalers_;
  std::vector<service::Input> pending_;
  kube::Informer hpas_, objects_;
};

/// The pods of the cluster as replicas are decided by them; watched from the first question on. Any thread.
class ReplicaPods {
 public:
  explicit ReplicaPods(kube::Client& client) : client_(client) {}
  void stop();
  /// nullopt until the pods were listed.
  [[nodiscard]] std::optional<std::vector<replicas::Pod>> matching(const std::string& ns, const std::string& selector);

 private:
  struct Entry {
    Labels labels;
    replicas::Pod pod;
  };
  void changed(const Json& pod, bool deleted);
  kube::Client& client_;
  std::mutex mutex_;
  std::map<std::string, std::map<std::string, Entry>> pods_;  ///< by namespace and name
  std::unique_ptr<kube::Informer> informer_;
};
/// A pod with phase, readiness and requests. Requests that cannot be read are absent.
[[nodiscard]] replicas::Pod replica_pod(const Json& pod);

/// Reads the values of metrics: of Prometheus, SQS and Kafka for triggers; for a HorizontalPodAutoscaler those of the
/// resource metrics API, and of Prometheus or, without it, of the custom and external metrics APIs.
///
/// Fails    a metric without an answer is absent, and a trigger has the reason. A server that did not answer is not
///          asked again for ten seconds, so that it delays no other target.
/// Threads  one.
class MetricSources {
 public:
  struct Options {
    std::string prometheus;                ///< URL; empty = the metrics APIs
    std::optional<cloud::AwsOptions> aws;  ///< empty = there are no credentials
    std::chrono::milliseconds timeout{3000};
  };
  MetricSources(kube::Client& kube, Options options);
  ~MetricSources();
  struct Target {
    std::string ns, resource, name;  ///< resource: "deployments.apps"
    std::string selector;            ///< of its pods
    std::vector<std::string> pods;   ///< their names, if a metric needs them
  };
  [[nodiscard]] ReadingsRow read(const WatchedScaler& scaler, const Target& target);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Finds where kinds are served, and reads and writes their scale subresources.
class ScaleClient {
 public:
  explicit ScaleClient(kube::Client& client) : client_(client) {}
  struct Scale {
    Json object;  ///< the target
    Json scale;   ///< its scale subresource
    kube::Resource resource;
  };
  /// kNotFound: there is no such object, or its kind is not served or has no scale subresource.
  Result<Scale> read(const TargetId& target, const std::string& api_version);
  /// kAborted: the scale changed since it was read.
  Status write(const TargetId& target, const Scale& read, std::int32_t replicas);

 private:
  Result<kube::Resource> resource_of(const TargetId& target, const std::string& api_version);
  kube::Client& client_;
  std::mutex mutex_;
  std::map<std::string, kube::Resource> known_;  ///< by API version and kind
};

/// Samples every target of a scaler at its period of domain time, and submits samples and changed scalers to the
/// host. A sample without a change is submitted in short form.
///
/// Threads  start and stop by one. A few threads sample, so that a slow source delays few targets.
class ReplicaWatch {
 public:
  struct Options {
    MetricSources::Options sources;
    Duration period = std::chrono::seconds(15);
    std::size_t threads = 4;
  };
  ReplicaWatch(kube::Client& client, service::Host& host, const DomainClock& clock, Options options);
  ~ReplicaWatch();
  void start();
  void stop();
  [[nodiscard]] bool synced() const { return scalers_.synced(); }
  /// The number of samples that were read.
  [[nodiscard]] std::uint64_t samples() const { return samples_; }

 private:
  struct Sampled {
    Instant at{};
    std::string bytes;  ///< of the last sample, without its time
  };
  void run(std::size_t worker, const std::stop_token& stop);
  void submit_scalers(const std::stop_token& stop);
  /// kFailedPrecondition: the pods are not listed yet.
  [[nodiscard]] Result<ReplicasObserved> sample(const TargetId& target, const ScalerWatch::Scalers& scalers,
                                                MetricSources& sources);
  void submit(service::Input input, const std::stop_token& stop);

  service::Host& host_;
  const DomainClock& clock_;
  const Options options_;
  kube::Client& client_;
  ScalerWatch scalers_;
  ReplicaPods pods_;
  ScaleClient scales_;
  std::mutex submitting_;  ///< guards the order of changed scalers
  std::atomic<std::uint64_t> samples_ = 0;
  std::vector<std::jthread> threads_;
};

/// Executes the intents about replicas, each idempotent: a number of replicas with the number that it replaces, and the
/// suspension of a scaler or its end.
class ReplicaExecutor {
 public:
  explicit ReplicaExecutor(kube::Client& client) : client_(client), scales_(client) {}
  Result<service::Outcome> execute(const store::IntentRow& intent);
  static service::Outcome failed(const store::IntentRow& intent, const Error& error);

 private:
  Result<service::Outcome> scale(const Json& want);
  Result<service::Outcome> switch_scaler(const Json& want);
  kube::Client& client_;
  ScaleClient scales_;
};

}  // namespace qm::autoscaler
